// The stand-in of the Docker engine, with containers whose first process is koze's guest.

import { mkdtempSync, readFileSync, readdirSync, readlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Engine } from "../sdk/engine.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));

export class NativeEngine extends Engine {
  /** The guest's. @override */
  taken = 5693;

  #starts = new Map();
  #programs = new Map();
  #shared = new Map();

  /** @param {string} modules as the engine has it @param {string} guest the program */
  constructor(modules, guest) {
    super(modules);
    this.guest = guest;
  }

  /** @override */
  command(container, { root, door, own }) {
    const id = container.name.slice(-64);
    this.#starts.set(id, this.starts(id) + 1);
    this.#shared.set(id, mkdtempSync(join(this.directory, "shared-")));
    const program = this.#programs.get(id)?.() ?? ["/.koze/guest"];
    const node = join(this.modules, "node/bin/node");
    const dirs = [root, door, this.shared(id), node, this.modules, join(HERE, "../sdk"), HERE, this.guest];
    const unshare = ["unshare", "--mount", "--net", "--ipc", "--uts", ...own];
    return [...unshare, "bash", join(HERE, "container.sh"), ...dirs, ...program];
  }

  /** How many containers of an object were started. @param {string} id */
  starts(id) {
    return this.#starts.get(id) ?? 0;
  }

  /** What the next containers of an object run in place of the guest; none is the guest. @param {string} id @param {() => string[] | undefined} program */
  run(id, program) {
    this.#programs.set(id, program);
  }

  /** A directory that is `/opt/shared` in the container that was started last, and outlives its processes. @param {string} id */
  shared(id) {
    return this.#shared.get(id);
  }

  /** Sends a signal to the first process of the container of an object. @param {string} id @param {NodeJS.Signals} signal */
  signal(id, signal) {
    process.kill(this.#first(id), signal);
  }

  /** What the first process of the container of an object has open. @param {string} id @returns {string[]} */
  open(id) {
    const fds = `/proc/${this.#first(id)}/fd`;
    const path = (fd) => {
      try {
        return readlinkSync(join(fds, fd));
      } catch {
        return "";
      }
    };
    return readdirSync(fds).map(path);
  }

  /** @param {string} id @returns {number} */
  #first(id) {
    const children = (pid) => readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").map(Number);
    const name = (pid) => readFileSync(`/proc/${pid}/comm`, "utf8").trim();
    const first = children(this.pid(id)).filter((pid) => readdirSync(`/proc/${pid}`).length && !/^(node|MainThread)$/.test(name(pid)));
    if (first.length !== 1) throw new Error(`no first process: ${first.map(name)}`);
    return first[0];
  }
}
