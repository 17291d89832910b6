// A stand-in for an agent. It reads its configuration as the agent of its name does, starts the server `koze` in it as that
// agent would, and prints the tools and the result of a command.

const fs = require("node:fs");
const path = require("node:path");
const { spawn } = require("node:child_process");
const readline = require("node:readline");

const agent = path.basename(process.argv[1]);
const args = process.argv.slice(2);
if (agent === "opencode" && args[0] === "--version") {
  console.log(process.env.OPENCODE_VERSION);
  process.exit();
}

/** Removes the options before the user's arguments, and returns the server. */
const read = {
  claude() {
    return JSON.parse(args.shift().replace(/^--mcp-config=/, "")).mcpServers.koze;
  },
  codex() {
    const server = {};
    while (args[0] === "-c") {
      const [, key, value] = args.splice(0, 2)[1].match(/^mcp_servers\.koze\.(\w+)=(.*)$/);
      server[key] = JSON.parse(value);
    }
    const passed = ["HOME", "PATH", ...server.env_vars];
    return { ...server, env: Object.fromEntries(passed.map((name) => [name, process.env[name]])) };
  },
  gemini() {
    return JSON.parse(fs.readFileSync(process.env.GEMINI_CLI_SYSTEM_DEFAULTS_PATH, "utf8")).mcpServers.koze;
  },
  opencode() {
    const [command, ...rest] = JSON.parse(process.env.OPENCODE_CONFIG_CONTENT).mcp.koze.command;
    return { command, args: rest };
  },
  // Starts the server that the test took out of a file.
  reader() {
    return JSON.parse(args.shift());
  },
};

const server = read[agent]();
const child = spawn(server.command, server.args, {
  env: server.env ?? process.env,
  stdio: ["pipe", "pipe", "inherit"],
});
const lines = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();

async function request(id, method, params) {
  child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
  for (;;) {
    const { value, done } = await lines.next();
    if (done) throw new Error(`the server ended before it answered ${method}`);
    const message = JSON.parse(value);
    if (message.id === id && message.error) throw new Error(value);
    if (message.id === id) return message.result;
  }
}

(async () => {
  const clientInfo = { name: agent, version: "1" };
  await request(1, "initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
  child.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
  const { tools } = await request(2, "tools/list", {});
  const call = { name: "shell", arguments: { command: "echo $((6 * 7))" } };
  const { structuredContent } = await request(3, "tools/call", call);
  console.log(JSON.stringify({ args, tools: tools.length, stdout: structuredContent.stdout }));
  child.stdin.end();
})();
