// Measures a tool call through the Rust Worker and through a hand-written one, interleaved, both over the same class,
// in one workerd. Prints the times as JSON for `cargo xtask bench`.
//
// Usage: node run.mjs DIRECTORY RUNS; DIRECTORY contains `rust.mjs`, `http.mjs`, `mcp.mjs` and their imports.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";
import { connection, post, read } from "../connection.mjs";

const [directory, runs] = process.argv.slice(2);
const TOKEN = "a token of the benchmark";
const CALLS = [
  { case: "shell", tool: "shell", input: { command: "echo hello" } },
  { case: "read_file of 1 kB", tool: "read_file", input: { path: "small.txt" } },
  { case: "read_file of 64 KiB", tool: "read_file", input: { path: "large.txt" } },
];
/** The protocols: the format of a request, and the hand-written Worker that accepts it. */
const WAYS = [
  {
    peer: "http",
    path: (tool) => `/sessions/bench/tools/${tool}`,
    accept: "application/json",
    body: (_, input) => input,
  },
  {
    peer: "mcp",
    path: () => "/mcp",
    accept: "application/json, text/event-stream",
    body: (name, input) => ({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: input } }),
  },
];

const built = readdirSync(join(directory, "build")).map((name) => `build/${name}`);
const scripts = ["answers.mjs", ...built.filter((name) => name.endsWith(".js"))];
const binaries = built.filter((name) => name.endsWith(".wasm"));

/** Returns a Worker that listens on its own port. */
function worker(name, entry) {
  return {
    name,
    modulesRoot: directory,
    modules: [
      ...[entry, ...scripts].map((file) => ({ type: "ESModule", path: join(directory, file) })),
      ...binaries.map((file) => ({ type: "CompiledWasm", path: join(directory, file) })),
    ],
    compatibilityDate: "2026-04-21",
    compatibilityFlags: ["nodejs_compat"],
    bindings: { KOZE_TOKEN: TOKEN },
    durableObjects: { SHELL_SANDBOX: { className: "ShellSandbox", useSQLite: true } },
    unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }],
  };
}

function request(way, call) {
  const headers = { authorization: `Bearer ${TOKEN}`, accept: way.accept, "mcp-protocol-version": "2025-06-18" };
  return post(way.path(call.tool), headers, way.body(call.tool, call.input));
}

/** Compares the two Workers in their own workerd. Another one in parallel would share the processor's cache. */
async function compare(way, runs) {
  const workers = ["rust", way.peer].map((name) => worker(name, `${name}.mjs`));
  const miniflare = new Miniflare(convertV4MiniflareOptions({ host: "127.0.0.1", port: 0, cf: false, workers }));
  try {
    await miniflare.ready;
    const urls = await Promise.all(workers.map(({ name }) => miniflare.unsafeGetDirectURL(name)));
    const [ours, theirs] = await Promise.all(urls.map(connection));
    const rows = CALLS.map((call) => ({ case: call.case, peer: way.peer, us: [], peer_us: [] }));
    const requests = CALLS.map((call) => request(way, call));
    // Warm-up.
    const warmUp = 2000;
    for (let run = 0; run < runs + warmUp; run += 1) {
      for (const [index, row] of rows.entries()) {
        // Alternate which one is first.
        const first = run % 2 ? ours : theirs;
        const one = await first.send(requests[index]);
        const other = await (first === ours ? theirs : ours).send(requests[index]);
        const [our, their] = first === ours ? [one, other] : [other, one];
        if (!isDeepStrictEqual(read(our.answer), read(their.answer))) {
          const answers = [our, their].map(({ answer }) => answer.slice(0, 1000));
          throw new Error(`the two Workers answer differently:\n${answers.join("\n")}`);
        }
        if (run >= warmUp) {
          row.us.push(our.us);
          row.peer_us.push(their.us);
        }
      }
    }
    ours.end();
    theirs.end();
    return rows;
  } finally {
    await miniflare.dispose();
  }
}

const rows = [];
for (const way of WAYS) rows.push(...(await compare(way, Number(runs))));
console.log(JSON.stringify({ rows, notes: [] }));
