// The stand-in for the Docker engine, with containers that run koze's guest as their first process.

import { mkdtempSync, readFileSync, readdirSync, readlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Engine } from "../sdk/engine.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));

export class NativeEngine extends Engine {
  /** The guest's port. @override */
  taken = 5693;

  #starts = new Map();
  #programs = new Map();
  #shared = new Map();

  /** @param {string} modules as for the engine @param {string} guest the program */
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

  /** Returns how many containers of an object were started. @param {string} id */
  starts(id) {
    return this.#starts.get(id) ?? 0;
  }

  /** Sets what the next containers of an object run in place of the guest; `undefined` is the guest. @param {string} id @param {() => string[] | undefined} program */
  run(id, program) {
    this.#programs.set(id, program);
  }

  /** Returns the directory that is `/opt/shared` in the last started container, and outlives it. @param {string} id */
  shared(id) {
    return this.#shared.get(id);
  }

  /** Sends a signal to the first process of an object's container. @param {string} id @param {NodeJS.Signals} signal */
  signal(id, signal) {
    process.kill(this.#first(id), signal);
  }

  /** Returns the open files of the first process of an object's container. @param {string} id @returns {string[]} */
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
