// The Worker to compare with over HTTP: two of the tools, written in TypeScript without a library, with the same
// validation and the same answers to successful calls.

import { Answers } from "../answers.mjs";
import { type Answer, type Env, Fault, HOME, LARGEST_READ, type Place, readFile, refused, shell } from "./sandboxes";

export class ShellSandbox extends Answers {}

const LARGEST_BODY = 32 << 20;

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const why = refused(request, env);
    if (why) return refusal(...why);
    const route = /^\/sessions\/([^/]+)\/tools\/([^/]+)$/.exec(new URL(request.url).pathname);
    if (!route) return refusal(404, "not_found", "there is nothing here");
    if (request.method !== "POST") return refusal(405, "method_not_allowed", "this takes POST");
    if (Number(request.headers.get("content-length") ?? Infinity) > LARGEST_BODY) {
      return refusal(413, "too_large", `a body has ${LARGEST_BODY} bytes at most, and says how many`);
    }
    let session: string, tool: string, input: unknown;
    try {
      [session, tool] = [decodeURIComponent(route[1]!), decodeURIComponent(route[2]!)];
      input = await request.json();
    } catch {
      return refusal(400, "invalid_input", "the path or the body cannot be read");
    }
    return Response.json(await result(env, session, tool, input));
  },
};

async function result(env: Env, session: string, tool: string, input: unknown): Promise<{ content: string; isError: boolean }> {
  try {
    const { value, isError } = await call(env, session, tool, input);
    return { content: JSON.stringify(value), isError };
  } catch (error) {
    if (error instanceof Fault) return { content: `${error.code}: ${error.message}`, isError: true };
    console.error(error);
    return { content: "unavailable: the sandbox cannot be reached now: try again later", isError: true };
  }
}

function call(env: Env, session: string, tool: string, input: unknown): Promise<Answer> {
  if (typeof input !== "object" || input === null || Array.isArray(input)) {
    throw new Fault("invalid_input", "the input of a tool must be a JSON object");
  }
  const place = (fields: Record<string, unknown>): Place => ({ session, sandbox: text(fields, "sandbox", "default") });
  switch (tool) {
    case "shell": {
      const fields = known(input, ["sandbox", "command", "timeout_ms", "working_dir"]);
      const timeoutMs = whole(fields, "timeout_ms", 1, 600_000, 30_000);
      const command = text(fields, "command");
      return shell(env, place(fields), { command, workingDir: text(fields, "working_dir", HOME), timeoutMs });
    }
    case "read_file": {
      const fields = known(input, ["sandbox", "path", "offset", "limit"]);
      const limit = whole(fields, "limit", 1, LARGEST_READ, 262_144);
      const offset = whole(fields, "offset", 0, Number.MAX_SAFE_INTEGER, 0);
      return readFile(env, place(fields), { path: text(fields, "path"), offset, limit });
    }
    default:
      throw new Fault("unknown_tool", `there is no tool \`${tool}\`: the tools are shell, read_file`);
  }
}

function known(input: object, names: string[]): Record<string, unknown> {
  for (const name of Object.keys(input)) {
    if (!names.includes(name)) throw new Fault("invalid_input", `unknown field \`${name}\``);
  }
  return input as Record<string, unknown>;
}

function text(fields: Record<string, unknown>, name: string, otherwise?: string): string {
  const value = fields[name] ?? otherwise;
  if (typeof value !== "string") throw new Fault("invalid_input", `\`${name}\` takes a text`);
  return value;
}

function whole(fields: Record<string, unknown>, name: string, least: number, most: number, otherwise: number): number {
  const value = fields[name] ?? otherwise;
  if (typeof value !== "number" || !Number.isInteger(value) || value < least || value > most) {
    throw new Fault("invalid_input", `\`${name}\` takes ${least} to ${most}`);
  }
  return value;
}

function refusal(status: number, code: string, message: string): Response {
  return Response.json({ error: { code, message } }, { status });
}
