// The Worker to compare with over the Model Context Protocol: two of the tools, written with the official SDK for
// TypeScript, with the same validation and the same answers. A server and its transport are created for each request,
// because the SDK's stateless transports serve only one; everything else is shared.

import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";

import { Answers } from "../answers.mjs";
import { type Answer, type Env, Fault, HOME, LARGEST_READ, NAME, readFile, refused, shell } from "./sandboxes";

export class ShellSandbox extends Answers {}

const sandbox = z.string().regex(NAME).default("default");
const SHELL = {
  description: "Runs a command.",
  inputSchema: z.strictObject({
    sandbox,
    command: z.string(),
    timeout_ms: z.int().min(1).max(600_000).default(30_000),
    working_dir: z.string().default(HOME),
  }),
};
const READ_FILE = {
  description: "Reads a file.",
  inputSchema: z.strictObject({
    sandbox,
    path: z.string(),
    offset: z.int().min(0).default(0),
    limit: z.int().min(1).max(LARGEST_READ).default(262_144),
  }),
};

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const why = refused(request, env);
    if (why) return Response.json({ error: why[2] }, { status: why[0] });
    if (new URL(request.url).pathname !== "/mcp") return Response.json({ error: "there is nothing here" }, { status: 404 });
    const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
    await server(env, request.headers.get("koze-session") ?? "default").connect(transport);
    return transport.handleRequest(request);
  },
};

function server(env: Env, session: string): McpServer {
  const server = new McpServer({ name: "by-hand", version: "1.0.0" });
  server.registerTool("shell", SHELL, ({ sandbox, command, timeout_ms, working_dir }) =>
    result(shell(env, { session, sandbox }, { command, workingDir: working_dir, timeoutMs: timeout_ms })),
  );
  server.registerTool("read_file", READ_FILE, ({ sandbox, path, offset, limit }) =>
    result(readFile(env, { session, sandbox }, { path, offset, limit })),
  );
  return server;
}

async function result(answer: Promise<Answer>): Promise<CallToolResult> {
  try {
    const { value, isError } = await answer;
    return { content: [{ type: "text", text: JSON.stringify(value) }], structuredContent: value, isError };
  } catch (error) {
    if (!(error instanceof Fault)) console.error(error);
    const text = error instanceof Fault ? `${error.code}: ${error.message}` : "unavailable: try again later";
    return { content: [{ type: "text", text }], isError: true };
  }
}
