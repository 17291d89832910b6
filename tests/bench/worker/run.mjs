// How long a tool call takes through the Rust Worker and through one written by hand, one after the other, both over the
// same class, in one workerd. Prints the times as JSON for `cargo xtask bench`.
// Usage: node run.mjs DIRECTORY RUNS; in DIRECTORY lie `rust.mjs`, `by-hand.mjs` and what they import.

import { readdirSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";

const [directory, runs] = process.argv.slice(2);
const TOKEN = "a token of the benchmark";
const CALLS = [
  { case: "shell", input: { command: "echo hello" } },
  { case: "read_file of 1 kB", input: { path: "file.txt" } },
];

const built = readdirSync(join(directory, "build")).map((name) => `build/${name}`);
const scripts = ["answers.mjs", ...built.filter((name) => name.endsWith(".js"))];
const binaries = built.filter((name) => name.endsWith(".wasm"));

/** A Worker that is reached on a port of its own. */
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

/** One connection, over which one request is sent after the other. */
async function connection(url) {
  const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
  let [read, answered] = ["", undefined];
  socket.setEncoding("latin1");
  socket.on("data", (chunk) => {
    read += chunk;
    const end = read.indexOf("\r\n\r\n");
    const length = Number(/\r\ncontent-length: (\d+)\r\n/i.exec(read.slice(0, end + 2))?.[1]);
    if (end >= 0 && !(read.length < end + 4 + length)) answered?.resolve(read);
  });
  socket.on("error", (error) => answered?.reject(error));
  return {
    /** Sends a request: the whole answer, and the microseconds until it was there. */
    async send(request) {
      answered = Promise.withResolvers();
      read = "";
      const start = performance.now();
      socket.write(request);
      const answer = await answered.promise;
      return { answer, us: (performance.now() - start) * 1000 };
    },
    end: () => socket.destroy(),
  };
}

function request(call) {
  const [tool] = call.case.split(" ");
  const body = JSON.stringify(call.input);
  return [
    `POST /sessions/bench/tools/${tool} HTTP/1.1`,
    "host: localhost",
    `authorization: Bearer ${TOKEN}`,
    "content-type: application/json",
    `content-length: ${body.length}`,
    "",
    body,
  ].join("\r\n");
}

const workers = [worker("rust", "rust.mjs"), worker("by-hand", "by-hand.mjs")];
const miniflare = new Miniflare(convertV4MiniflareOptions({ host: "127.0.0.1", port: 0, cf: false, workers }));
try {
  await miniflare.ready;
  const [ours, theirs] = await Promise.all(
    workers.map(async ({ name }) => connection(await miniflare.unsafeGetDirectURL(name))),
  );
  const rows = CALLS.map((call) => ({ ...call, peer: "by hand", us: [], peer_us: [] }));
  const requests = CALLS.map(request);
  // The first ones warm the two up.
  const warmUp = 2000;
  for (let run = 0; run < Number(runs) + warmUp; run += 1) {
    for (const [index, row] of rows.entries()) {
      // Neither always comes first.
      const first = run % 2 ? ours : theirs;
      const one = await first.send(requests[index]);
      const other = await (first === ours ? theirs : ours).send(requests[index]);
      const [our, their] = first === ours ? [one, other] : [other, one];
      const [a, b] = [our, their].map(({ answer }) => answer.slice(answer.indexOf("\r\n\r\n")));
      if (a !== b || !our.answer.startsWith("HTTP/1.1 200 ")) {
        throw new Error(`the two Workers answer differently:\n${our.answer}\n${their.answer}`);
      }
      if (run >= warmUp) {
        row.us.push(our.us);
        row.peer_us.push(their.us);
      }
    }
  }
  ours.end();
  theirs.end();
  console.log(JSON.stringify({ rows: rows.map(({ input, ...row }) => row), notes: [] }));
} finally {
  await miniflare.dispose();
}
