// Measures scripts through the Worker of a project in workerd: in its own isolate, and in a dynamic Worker. The peer is a tool
// call that runs no script, interleaved. Prints the times as JSON for `cargo xtask bench`.
//
// Usage: node worker.mjs PROJECT RUNS; PROJECT contains `dist`, the bundle that wrangler would upload.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";
import { connection, post, read } from "../connection.mjs";

const [project, runs] = process.argv.slice(2);
const TOKEN = "a token of the benchmark";
const AT_ONCE = 1000;
/** The binding of dynamic Workers that the project has. */
const LOADER = "LOADER";

const dist = join(project, "dist");
const uploaded = readdirSync(dist).filter((name) => /\.(js|wasm|bin)$/.test(name));
// The entry point must be first.
uploaded.sort((a, b) => Number(b === "worker.js") - Number(a === "worker.js"));
const object = (className) => ({ className, useSQLite: true });

const headers = { authorization: `Bearer ${TOKEN}`, accept: "application/json" };
const call = (session, tool, input) => post(`/sessions/${session}/tools/${tool}?tools=script`, headers, input);
const SCRIPT = call("bench", "run_sandbox_code", { code: "1+1" });
const STATE = call("bench", "get_state", { key: "none" });

/** Returns the result of a tool. */
function result(answer) {
  const { content, isError } = read(answer);
  if (isError) throw new Error(content);
  return JSON.parse(content);
}

/** Measures a Worker with these options. */
async function measure(what, options) {
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      host: "127.0.0.1",
      port: 0,
      cf: false,
      handleStructuredLogs: ({ message }) => process.env.KOZE_TEST_LOGS && console.error(message),
      workers: [
        {
          name: "koze",
          modulesRoot: dist,
          modules: uploaded.map((file) => ({ type: file.endsWith(".js") ? "ESModule" : "CompiledWasm", path: join(dist, file) })),
          compatibilityDate: "2026-04-21",
          compatibilityFlags: ["nodejs_compat"],
          bindings: { KOZE_TOKEN: TOKEN },
          durableObjects: {
            SHELL_SANDBOX: object("ShellSandbox"),
            KOZE_SESSIONS: object("KozeSessions"),
            KOZE_SCRIPTS: object("KozeScripts"),
          },
          unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }],
          ...options,
        },
      ],
    }),
  );
  try {
    await miniflare.ready;
    const url = await miniflare.unsafeGetDirectURL("koze");
    const worker = await connection(url);
    const row = { case: `run_sandbox_code \`1+1\` ${what}`, peer: "get_state there", us: [], peer_us: [] };
    const warmUp = 200;
    for (let run = 0; run < Number(runs) + warmUp; run += 1) {
      const ours = await worker.send(SCRIPT);
      const theirs = await worker.send(STATE);
      if (result(ours.answer).result !== 2) throw new Error(ours.answer);
      result(theirs.answer);
      if (run < warmUp) continue;
      row.us.push(ours.us);
      row.peer_us.push(theirs.us);
    }
    worker.end();
    return { row, note: await atOnce(what, url) };
  } finally {
    await miniflare.dispose();
  }
}

/** Runs many scripts of ten agents at once. */
async function atOnce(what, url) {
  const start = performance.now();
  const run = async (number) => {
    const worker = await connection(url);
    const { answer } = await worker.send(call(`at-once-${number % 10}`, "run_sandbox_code", { code: "await null; 1" }));
    worker.end();
    if (result(answer).result !== 1) throw new Error(answer);
  };
  const ended = await Promise.allSettled(Array.from({ length: AT_ONCE }, (_, number) => run(number)));
  const errors = ended.filter(({ status }) => status === "rejected");
  const first = errors.length > 0 ? `, the first of which is ${JSON.stringify(String(errors[0].reason).slice(0, 300))}` : "";
  return `${AT_ONCE} scripts of 10 agents at once ${what}: ${errors.length} errors${first}, ${Math.round(performance.now() - start)} ms`;
}

const measured = [
  await measure("in workerd", {}),
  await measure("in a dynamic Worker", { workerLoaders: { [LOADER]: {} } }),
];
console.log(JSON.stringify({ rows: measured.map(({ row }) => row), notes: measured.map(({ note }) => note) }));
