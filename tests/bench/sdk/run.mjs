// Measures tool calls with the backend `sdk`, through the Worker of a new project and through a hand-written one over
// the same class of `@cloudflare/sandbox`, interleaved, in one workerd. Prints the times as JSON for `cargo xtask
// bench`.
//
// Usage: node run.mjs PROJECT RUNS [IMAGE SIDECAR]; PROJECT contains `dist`, the bundle that wrangler would upload, and
// `by-hand.mjs`. With IMAGE, containers run in the engine at DOCKER_HOST; otherwise in the tests' stand-in.

import { readdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";
import { Engine } from "../../tests/worker/sdk/engine.mjs";
import { differences, sizes } from "./memory.mjs";

const [project, runs, imageName = "stand-in", sidecar = "sidecar"] = process.argv.slice(2);
const TOKEN = "a token of the benchmark";
const FILES = 2000;

/** The directory of the files: in memory, because a shared disk would be slower than either Worker. */
const DIR = "/dev/shm/bench";

/** Creates the tree: files of 1 kB, a hundred per directory. */
const PLANT = `for d in $(seq ${FILES / 100}); do mkdir -p ${DIR}/tree/$d; for f in $(seq 100); do
  printf '%1024s' "$d/$f" >${DIR}/tree/$d/$f; done; done`;
const COUNT = `find ${DIR}/copy -type f | wc -l`;

/** The stand-in for the Docker engine, unless an image is given. */
const engine = imageName === "stand-in" ? new Engine(realpathSync(join(project, "node_modules"))) : undefined;
await engine?.listen();
// Never query a real Docker.
process.env.WRANGLER_DOCKER_BIN = "/bin/false";

/** Returns a Worker that listens on its own port. */
function worker(name, directory, files, objects) {
  const modules = files.map((file) => ({ type: file.endsWith(".wasm") ? "CompiledWasm" : "ESModule", path: join(directory, file) }));
  return {
    name,
    modulesRoot: directory,
    modules,
    compatibilityDate: "2026-04-21",
    compatibilityFlags: ["nodejs_compat"],
    // koze's class selects this transport itself. It is the faster one, and the only one that the stand-in supports.
    bindings: { KOZE_TOKEN: TOKEN, TOKEN, SANDBOX_TRANSPORT: "rpc", SANDBOX_LOG_LEVEL: "error" },
    durableObjects: {
      SHELL_SANDBOX: { className: "ShellSandbox", useSQLite: true, container: { imageName } },
      ...objects,
    },
    unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }],
  };
}

const dist = join(project, "dist");
const uploaded = readdirSync(dist).filter((name) => /\.(js|wasm|bin)$/.test(name));
// The entry point must be first.
uploaded.sort((a, b) => Number(b === "worker.js") - Number(a === "worker.js"));
const miniflare = new Miniflare(
  convertV4MiniflareOptions({
    host: "127.0.0.1",
    port: 0,
    // Otherwise workerd asks Cloudflare for this machine's location.
    cf: false,
    handleStructuredLogs: ({ message }) => process.env.KOZE_TEST_LOGS && console.error(message),
    containerEngine: {
      localDocker: {
        socketPath: engine ? `unix://${engine.socket}` : process.env.DOCKER_HOST,
        containerEgressInterceptorImage: sidecar,
      },
    },
    workers: [
      worker("koze", dist, uploaded, { KOZE_SESSIONS: { className: "KozeSessions", useSQLite: true } }),
      worker("by-hand", project, ["by-hand.mjs"], {}),
    ],
  }),
);

/** The two Workers: how to call a tool of each and decode its answer. */
const [koze, byHand] = await (async () => {
  await miniflare.ready;
  const [ours, theirs] = await Promise.all(["koze", "by-hand"].map((name) => miniflare.unsafeGetDirectURL(name)));
  return [
    async (tool, input) => {
      // Agents cannot destroy sandboxes, so this is a request and not a tool call.
      if (tool === "sandbox_destroy") return send("DELETE", new URL(`/sessions/bench/sandboxes/${input.sandbox}`, ours));
      const { content, isError } = JSON.parse(await send("POST", new URL(`/sessions/bench/tools/${tool}`, ours), input));
      if (isError) throw new Error(`koze, ${tool}: ${content}`);
      return JSON.parse(content);
    },
    async (tool, input) => JSON.parse(await send("POST", new URL(`/${tool}`, theirs), input)),
  ];
})();

async function send(method, url, input) {
  const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
  const response = await fetch(url, { method, headers, body: JSON.stringify(input) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url.pathname}: ${response.status}: ${text}`);
  return text;
}

/** Returns the duration of an operation in microseconds. */
async function time(work) {
  const start = performance.now();
  await work();
  return (performance.now() - start) * 1000;
}

const rows = [];

/**
 * Runs the same operation through both Workers, alternating which one is first.
 *
 * @param {string} name
 * @param {string} peer
 * @param {number} count
 * @param {(call: typeof koze, which: { by: "koze" | "by-hand", run: number }) => Promise<unknown>} work
 * @param {(call: typeof koze, run: number) => Promise<unknown>} [after] not measured
 */
async function compare(name, peer, count, work, after) {
  const row = { case: name, us: [], peer, peer_us: [] };
  const ways = [
    [koze, "koze", row.us],
    [byHand, "by-hand", row.peer_us],
  ];
  for (let run = 0; run < count; run++) {
    for (const [call, by, times] of run % 2 ? ways : ways.toReversed()) {
      times.push(await time(() => work(call, { by, run })));
      await after?.(call, run);
    }
  }
  rows.push(row);
}

/** Returns the output of a command, which must succeed. */
async function shell(call, command, sandbox = "default") {
  const { stdout, stderr, exit_code } = await call("shell", { sandbox, command });
  if (exit_code !== 0) throw new Error(`${command}: ${stderr}`);
  return stdout;
}

const write = (bytes) => {
  const content = "x".repeat(bytes - 1) + "\n";
  return (call) => call("write_file", { path: `${DIR}/written`, content });
};
const between = (from, to) => ({ from_sandbox: "default", from_path: `${DIR}/${from}`, to_sandbox: "other", to_path: `${DIR}/${to}` });

try {
  const count = Number(runs);
  const few = Math.max(3, Math.ceil(count / 10));
  // Each name is used once: the SDK interrupts the call that restarts a container.
  const cold = (run) => `cold-${run}`;
  const first = (call, { run }) => shell(call, "true", cold(run));
  await compare("first call, cold container", "exec", few, first, (call, run) => call("sandbox_destroy", { sandbox: cold(run) }));
  await koze("sandbox_create", { sandbox: "other" });
  for (const call of [koze, byHand]) {
    for (const sandbox of ["default", "other"]) await shell(call, `mkdir -p ${DIR}`, sandbox);
    await shell(call, PLANT);
    // Warm-up.
    for (let run = 0; run < 20; run++) await write(1000)(call).then(() => shell(call, "true"));
  }
  const before = await Promise.all([koze, byHand].map((call) => sizes((command) => shell(call, command))));
  await compare("true, warm", "exec", count, (call) => shell(call, "true"));
  await compare("write of 1 kB", "writeFile", count, write(1000));
  await compare("write of 1 MB", "writeFile", count, write(1_000_000));
  await compare("transfer of 1 MB", "readFile and writeFile", count, (call) =>
    call("transfer", between("written", "copied")),
  );
  const cleared = async (call) => {
    const copied = await shell(call, COUNT, "other");
    if (Number(copied) !== FILES) throw new Error(`${copied} files were copied`);
    await shell(call, `rm -r ${DIR}/copy`, "other");
  };
  const tree = (tool) => (call, { by }) =>
    by === "koze"
      ? call("transfer", { ...between("tree", "copy"), recursive: true })
      : call(tool, between("tree", "copy"));
  await compare(`tree of ${FILES} files`, "tar, by exec", few, tree("transfer_tar"), cleared);
  await compare(`tree of ${FILES} files`, "a file at a time", 1, tree("transfer_files"), cleared);
  const after = await Promise.all([koze, byHand].map((call) => sizes((command) => shell(call, command))));
  const notes = ["koze", "by hand"].map((by, index) => `${by}: ${differences(before[index], after[index])}`);
  console.log(JSON.stringify({ rows, notes }));
} finally {
  await miniflare.dispose();
  await engine?.close();
}
