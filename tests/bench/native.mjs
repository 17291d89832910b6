// Measures a sandbox in a real container through koze's guest, and through the platform's own `exec` in the same
// container, interleaved; and sandboxes whose objects start the container, next to them. Prints the times as JSON for
// `cargo xtask bench`.
//
// Usage: node native.mjs PROJECT IMAGE MANAGED-IMAGE SIDECAR RUNS, with DOCKER_HOST in the environment

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";

const [project, imageName, managedImage, sidecar, runs] = process.argv.slice(2);

/** The amount of data to read and write, in pieces of the maximum size. */
const SIZE = 64 << 20;
const PIECE = 8 << 20;

const ENTRY = `
import { ManagedSandbox as Managed, ShellSandbox as Native } from "./src/generated/worker.mjs";
const measured = (Base) => class extends Base {
  #container;
  constructor(ctx, env) {
    super(ctx, env);
    this.#container = ctx.container;
  }
  // Run a command with the platform's API. The guest is the first process in this container, too, and exits without a
  // token.
  async start() {
    this.#container.start({ enableInternet: false, env: { KOZE_GUEST_TOKEN: "00".repeat(32) } });
  }
  async exec(argv) {
    const { stdout } = await (await this.#container.exec(argv)).output();
    return stdout.byteLength;
  }
  async end() {
    await this.#container.destroy();
  }
  // What the alarm does after the idle time, which is over.
  async sleep() {
    await this.alarm();
    if (this.#container.running) throw new Error("it does not sleep");
  }
};
export class ShellSandbox extends measured(Native) {}
export class ManagedSandbox extends measured(Managed) {}
const value = (reply) => {
  if (!reply.ok) throw new Error(JSON.stringify(reply));
  return reply.value;
};
const TRUE = ["bash", "-c", "true"];
const work = {
  guest: (box) => box.koze({ exec: { argv: TRUE, workingDir: "/", env: [], timeoutMs: 60_000, maxOutput: 1000 } }).then(value),
  exec: (box) => box.exec(TRUE),
  coldGuest: (box) => box.koze({ open: { sleepAfterMs: null } }).then(() => work.guest(box)),
  coldExec: (box) => box.start().then(() => box.exec(TRUE)),
  // It may sleep at once.
  begin: (box) => box.koze({ open: { sleepAfterMs: 1 } }).then(() => work.guest(box)),
  sleep: (box) => new Promise((done) => setTimeout(done, 20)).then(() => box.sleep()),
  small: (box) => box.koze({ read: { root: "/", path: "/tmp/small", offset: 0, limit: 1000 } }).then(value),
  writeSmall: (box) =>
    box.koze({ write: { root: "/", path: "/tmp/small", bytes: new Uint8Array(1000), append: false } }).then(value),
  destroy: (box) => box.koze({ destroy: {} }).then(value),
  end: (box) => box.end(),
  async write(box) {
    const bytes = new Uint8Array(${PIECE}).fill(120);
    for (let at = 0; at < ${SIZE}; at += bytes.length) {
      value(await box.koze({ write: { root: "/", path: "/tmp/large", bytes, append: at > 0 } }));
    }
  },
  async read(box) {
    let size = 0;
    for (let offset = 0; offset < ${SIZE}; offset += ${PIECE}) {
      size += value(await box.koze({ read: { root: "/", path: "/tmp/large", offset, limit: ${PIECE} } })).bytes.length;
    }
    if (size !== ${SIZE}) throw new Error("read " + size);
  },
  async cat(box) {
    const size = await box.exec(["cat", "/tmp/large"]);
    if (size !== ${SIZE}) throw new Error("cat " + size);
  },
};
export default {
  async fetch(request, env) {
    const [name, what, times] = await request.json();
    const box = (name.startsWith("managed") ? env.MANAGED_SANDBOX : env.SHELL_SANDBOX).getByName(name);
    try {
      for (let time = 0; time < times; time++) await work[what](box);
    } catch (error) {
      return new Response(String(error.stack ?? error), { status: 500 });
    }
    return new Response("done");
  },
};`;

const generated = join(project, "src/generated");
const texts = readdirSync(generated, { recursive: true }).filter((name) => name.endsWith(".mjs"));
const miniflare = new Miniflare(
  convertV4MiniflareOptions({
    host: "127.0.0.1",
    port: 0,
    // Otherwise workerd asks Cloudflare for this machine's location.
    cf: false,
    containerEngine: {
      localDocker: { socketPath: process.env.DOCKER_HOST, containerEgressInterceptorImage: sidecar },
    },
    workers: [
      {
        name: "bench",
        modulesRoot: "/",
        modules: [
          { type: "ESModule", path: "/entry.mjs", contents: ENTRY },
          { type: "ESModule", path: "/build/index.js", contents: "export default {};" },
          ...texts.map((name) => ({
            type: "ESModule",
            path: `/src/generated/${name}`,
            contents: readFileSync(join(generated, name), "utf8"),
          })),
        ],
        compatibilityDate: "2026-04-21",
        compatibilityFlags: ["nodejs_compat"],
        durableObjects: {
          SHELL_SANDBOX: { className: "ShellSandbox", useSQLite: true, container: { imageName } },
          MANAGED_SANDBOX: {
            className: "ManagedSandbox",
            useSQLite: true,
            container: { images: [{ name: "managed", image: managedImage }] },
          },
        },
      },
    ],
  }),
);

const url = await miniflare.ready;

/** Repeats an operation within one request, and returns the microseconds that one took. */
async function time(name, what, times = 1) {
  const start = performance.now();
  const response = await fetch(url, { method: "POST", body: JSON.stringify([name, what, times]) });
  const text = await response.text();
  if (text !== "done") throw new Error(`${what}: ${text}`);
  return ((performance.now() - start) * 1000) / times;
}

const rows = [];
async function compare(name, count, [ours, [what, times]], [theirs, [peer, peerTimes]], after = []) {
  const row = { case: ours, us: [], peer: theirs ?? "-", peer_us: [] };
  for (let run = 0; run < count; run++) {
    const at = name === "" ? `cold-${run}` : name;
    row.us.push(await time(at, what, times));
    if (after.length) await time(at, after[0]);
    if (!theirs) continue;
    const peerAt = name === "" ? `peer-${run}` : name;
    row.peer_us.push(await time(peerAt, peer, peerTimes));
    if (after.length) await time(peerAt, after[1]);
  }
  rows.push(row);
}

try {
  const count = Number(runs);
  const cold = Math.max(3, Math.ceil(count / 5));
  await compare("", cold, ["first call, cold container", ["coldGuest", 1]], ["start and exec", ["coldExec", 1]], ["destroy", "end"]);
  await time("warm", "coldGuest");
  // Warm-up.
  await time("warm", "guest", 20);
  await time("warm", "exec", 2);
  await compare("warm", count, ["bash -c true, warm", ["guest", 20]], ["exec", ["exec", 2]]);
  await compare("warm", cold, ["64 MiB written", ["write", 1]], [undefined, []]);
  await compare("warm", cold, ["64 MiB read", ["read", 1]], ["exec cat", ["cat", 1]]);

  /** Compares a managed sandbox with a native one. */
  async function compareManaged(what, count, [operation, times], before, after) {
    const row = { case: `managed: ${what}`, us: [], peer: "native", peer_us: [] };
    for (let run = 0; run < count; run++) {
      for (const [kind, list] of [["managed", row.us], ["native", row.peer_us]]) {
        const at = before ? `${kind}-${run}` : `${kind}-warm`;
        for (const step of before ?? []) await time(at, step);
        list.push(await time(at, operation, times));
        for (const step of after ?? []) await time(at, step);
      }
    }
    rows.push(row);
  }
  const speeds = rows.slice(2);
  await compareManaged("first call, cold container", cold, ["coldGuest", 1], [], ["destroy"]);
  for (const kind of ["managed", "native"]) {
    for (const step of ["coldGuest", "writeSmall"]) await time(`${kind}-warm`, step);
    await time(`${kind}-warm`, "guest", 20);
  }
  await compareManaged("bash -c true, warm", count, ["guest", 20]);
  await compareManaged("1 kB read, warm", count, ["small", 50]);
  // The native one begins with an empty disk.
  await compareManaged("first call after sleep, with files", cold, ["guest", 1], ["begin", "writeSmall", "sleep"], ["destroy"]);
  const median = (times) => times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)];
  const speed = ({ case: what, us }) => `${what}: ${Math.round(SIZE / median(us))} MB/s`;
  const notes = [...speeds.map(speed), "what exec is to read from its input never arrives with this engine, so nothing is written by it"];
  console.log(JSON.stringify({ rows, notes }));
} finally {
  await miniflare.dispose();
}
