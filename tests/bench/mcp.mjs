// Measures a `read_file` of 1 kB over MCP on standard input and output: koze, and the protocol's own file server, with
// the same client, interleaved. Prints the times as JSON for `cargo xtask bench`.
//
// Usage: node mcp.mjs KOZE PROJECT STATE RUNS

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [koze, project, state, runs] = process.argv.slice(2);
const text = "x".repeat(1023) + "\n";
const server = fileURLToPath(import.meta.resolve("@modelcontextprotocol/server-filesystem/dist/index.js"));

async function connect(command, args) {
  const client = new Client({ name: "bench", version: "1.0.0" });
  await client.connect(new StdioClientTransport({ command, args, stderr: "ignore" }));
  return client;
}

async function time(client, name, path) {
  const start = performance.now();
  const result = await client.callTool({ name, arguments: { path } });
  const took = (performance.now() - start) * 1000;
  if (result.isError) throw new Error(result.content[0].text);
  return took;
}

const dir = await mkdtemp(join(tmpdir(), "koze-bench-mcp-"));
try {
  const file = join(dir, "file.txt");
  await writeFile(file, text);
  const ours = await connect(koze, ["mcp", "--project", project, "--state", state]);
  const theirs = await connect(process.execPath, [server, dir]);
  await ours.callTool({ name: "write_file", arguments: { path: "file.txt", content: text } });

  const us = [];
  const peerUs = [];
  for (let run = 0; run < Number(runs) + 20; run += 1) {
    const pair = [await time(ours, "read_file", "file.txt"), await time(theirs, "read_text_file", file)];
    // Warm-up.
    if (run >= 20) {
      us.push(pair[0]);
      peerUs.push(pair[1]);
    }
  }
  await Promise.all([ours.close(), theirs.close()]);
  const rows = [{ case: "read_file of 1 kB over MCP stdio", us, peer: "server-filesystem", peer_us: peerUs }];
  console.log(JSON.stringify({ rows, notes: [] }));
} finally {
  await rm(dir, { recursive: true });
}
