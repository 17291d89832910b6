// Runs a scene as a client of `koze mcp`: `node scenes.mjs SCENE CLIENT SERVER`. CLIENT is 1 for the SDK of the
// protocol that starts with `initialize`, and 2 for the SDK of the protocol without sessions. SERVER is JSON:
// `command`, `args`, `cwd` and `env` of a server on standard input and output, or `url` and `token` of an HTTP server.
// The last line of output is the result as JSON.

import { readFileSync, readdirSync } from "node:fs";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as Stdio1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as Http1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as Stdio2 } from "@modelcontextprotocol/client/stdio";

const [scene, sdk, server] = process.argv.slice(2);
const { url, token, ...stdio } = JSON.parse(server);
const info = { name: "scenes", version: "1" };

/** Connects a client, and returns it with its transport. */
async function connect() {
  const [Stdio, Http] = sdk === "1" ? [Stdio1, Http1] : [Stdio2, Http2];
  const client =
    sdk === "1" ? new Client1(info) : new Client2(info, { versionNegotiation: { mode: "auto" } });
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  const transport = url ? new Http(new URL(url), { requestInit }) : new Stdio(stdio);
  // A server writes only the protocol to standard output, so everything else is an error.
  client.onerror = (error) => errors.push(String(error));
  await client.connect(transport);
  const call = (name, args, options) =>
    sdk === "1"
      ? client.callTool({ name, arguments: args }, undefined, options)
      : client.callTool({ name, arguments: args }, options);
  const shell = async (command) => (await call("shell", { command })).structuredContent.stdout;
  return { client, transport, call, shell };
}
const errors = [];

/** Returns the error of the protocol that a call ends with. */
async function refused(call) {
  try {
    return { result: await call };
  } catch (error) {
    return { code: error.code, message: error.message };
  }
}

/** Returns whether a `sleep` with this argument runs on this machine. */
function sleeps(seconds) {
  return readdirSync("/proc").some((id) => {
    try {
      return readFileSync(`/proc/${Number(id)}/cmdline`, "utf8").startsWith(`sleep\0${seconds}\0`);
    } catch {
      return false;
    }
  });
}

/** Waits for a condition. */
async function eventually(what, come) {
  for (let tries = 0; !(await come()); tries++) {
    if (tries === 3000) throw new Error(`it did not come: ${what}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

const SCENES = {
  /** Makes calls one after the other, as a model does. */
  async task(calls) {
    const { client, call } = await connect();
    const { tools } = await client.listTools();
    const results = [];
    for (const [name, args] of JSON.parse(calls)) results.push(await call(name, args));
    await client.close();
    return { instructions: client.getInstructions(), tools, results };
  },

  async tools() {
    const { client, call } = await connect();
    const seen = {
      version: client.getNegotiatedProtocolVersion?.() ?? null,
      server: client.getServerVersion(),
      capabilities: client.getServerCapabilities(),
      instructions: client.getInstructions(),
      tools: (await client.listTools()).tools,
      good: await call("shell", { command: "echo out; echo err >&2" }),
      failed: await call("shell", { command: "exit 3" }),
      created: await call("sandbox_create", { sandbox: "py", image: "python" }),
      written: await call("write_file", { sandbox: "py", path: "a", content: "\u0000ä\n" }),
      read: await call("read_file", { sandbox: "py", path: "a" }),
      missing: await call("read_file", { path: "none" }),
      unknown: await refused(call("bash", {})),
      wrong: await call("shell", { command: 1 }),
    };
    await client.close();
    return seen;
  },

  async progress() {
    const { client, call } = await connect();
    const seen = [];
    const onprogress = (progress) => seen.push(progress);
    const command = "until test -e told; do sleep 0.1; done; echo done";
    const running = call("shell", { command }, { onprogress });
    await eventually("progress", () => seen.length >= 2);
    const silent = await call("shell", { command: "touch told" });
    const result = await running;
    await client.close();
    return { seen: seen.slice(0, 2), result, silent };
  },

  async output(tool = "workspace__box__run") {
    const { client, call } = await connect();
    const seen = [];
    const onprogress = (progress) => seen.push(progress);
    // The command waits until the client has its output. Some clients drop a notification that arrives with the result.
    const wait = (file) => `until test -e ${file}; do sleep 0.01; done`;
    const command = `printf 'ä'; printf e >&2; ${wait("told")}; printf done; ${wait("over")}`;
    const running = call(tool, { command }, { onprogress });
    const write = (path) => call(tool.replace(/run$|shell$/, "write_file"), { path, content: "" });
    const texts = () => seen.map(({ message }) => message ?? "").filter((text) => !text.startsWith("running"));
    await eventually("output", () => texts().join("").length >= 2);
    await write("told");
    await eventually("more output", () => texts().join("").endsWith("done"));
    await write("over");
    const result = await running;
    await client.close();
    return { seen, result };
  },

  async cancel(seconds) {
    const { client, call, shell } = await connect();
    const abort = new AbortController();
    const command = `trap '' INT TERM HUP; sleep ${seconds}; touch survived`;
    const running = call("shell", { command, timeout_ms: 600_000 }, { signal: abort.signal });
    await eventually("the command runs", () => sleeps(seconds));
    abort.abort("the user has changed their mind");
    const error = await running.then(() => "none", (error) => String(error));
    await eventually("the command is gone", () => !sleeps(seconds));
    const files = await shell("ls");
    await client.close();
    return { error, files };
  },

  // The two calls wait for each other.
  async overlap() {
    const { client, shell } = await connect();
    const meet = (mine, other) => shell(`touch ${mine}; until test -e ${other}; do sleep 0.05; done; echo ${mine}`);
    const seen = await Promise.all([meet("a", "b"), meet("b", "a")]);
    await client.close();
    return seen;
  },

  async killed() {
    const { client, transport, shell } = await connect();
    await shell("echo kept > file");
    const running = shell("sleep 600").then(() => "none", () => "gone");
    process.kill(transport.pid, "SIGKILL");
    const lost = await running;
    await client.close();
    const second = await connect();
    const file = await second.shell("cat file");
    await second.client.close();
    return { lost, file };
  },

  async two() {
    const [a, b] = await Promise.all([connect(), connect()]);
    await a.shell("echo shared > file; sleep 600 > /dev/null 2>&1 & echo $! > pid");
    const seen = await b.shell("cat file; kill -0 $(cat pid) && echo alive");
    await a.client.close();
    const after = await b.shell("kill -0 $(cat pid) && echo alive");
    await b.client.close();
    return { seen, after };
  },

  async large() {
    const { client, call, shell } = await connect();
    const content = "ü".repeat(1 << 20);
    const written = await call("write_file", { path: "large", content });
    const read = await call("read_file", { path: "large", limit: 8 << 20 });
    // JSON escapes each of these bytes with six characters, and with seven inside another JSON text.
    const zeros = await call("shell", { command: "head -c 1048576 /dev/zero; head -c 1048576 /dev/zero >&2", max_output_chars: 1048576 });
    const after = await shell("echo after");
    await client.close();
    const same = JSON.parse(read.content[0].text).content === content;
    return { written: written.structuredContent, same, zeros, after };
  },
};

const seen = await SCENES[scene](...process.argv.slice(5));
console.log(JSON.stringify({ seen, errors }));
