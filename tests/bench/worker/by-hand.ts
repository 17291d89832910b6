// What the Rust Worker is set beside: two of its tools as a person would write them in TypeScript, with the same checks
// and the same answers.

/// <reference lib="esnext.typedarrays" />

import { Answers } from "./answers.mjs";
import type { Contract, Exec, Failure, Read, Reply } from "./contract.d.ts";

export class ShellSandbox extends Answers {}

interface Env {
  KOZE_TOKEN?: string;
  SHELL_SANDBOX: { getByName(name: string): Contract };
}

const TENANT = "default";
const HOME = "/home/user";
const LARGEST_BODY = 32 << 20;
const LARGEST_OUTPUT = 1 << 20;
const LARGEST_READ = 16 << 20;
const NAME = /^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$/;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Why a call fails. */
class Fault extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const token = env.KOZE_TOKEN;
    if (token === undefined || token.length < 16) return refusal(503, "unavailable", "no token is set");
    const given = /^\s*bearer +(.*?)\s*$/i.exec(request.headers.get("authorization") ?? "")?.[1];
    if (given === undefined || !isSame(given, token)) return refusal(401, "unauthorized", "the token is none of this Worker's");
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
    if (encoder.encode(session).length > 256 || /\p{Cc}/u.test(session)) {
      return refusal(400, "invalid_input", "a session is named by 1 to 256 bytes without control characters");
    }
    return Response.json(await call(env, session, tool, input));
  },
};

async function call(env: Env, session: string, tool: string, input: unknown): Promise<{ content: string; isError: boolean }> {
  try {
    if (typeof input !== "object" || input === null || Array.isArray(input)) {
      throw new Fault("invalid_input", "the input of a tool is a JSON object");
    }
    switch (tool) {
      case "shell":
        return await shell(env, session, input);
      case "read_file":
        return await readFile(env, session, input);
      default:
        throw new Fault("unknown_tool", `there is no tool \`${tool}\`: the tools are shell, read_file`);
    }
  } catch (error) {
    if (error instanceof Fault) return { content: `${error.code}: ${error.message}`, isError: true };
    console.error(error);
    return { content: "unavailable: the sandbox cannot be reached now: try again later", isError: true };
  }
}

async function shell(env: Env, session: string, input: object) {
  const fields = known(input, ["sandbox", "command", "timeout_ms", "working_dir"]);
  const command = text(fields, "command");
  if (command.includes("\0")) throw new Fault("invalid_input", "a command holds no NUL");
  const exec: Exec = {
    argv: ["bash", "--noprofile", "--norc", "-c", "--", command],
    workingDir: absolute(text(fields, "working_dir", HOME)),
    env: [],
    timeoutMs: whole(fields, "timeout_ms", 1, 600_000, 30_000),
    maxOutput: LARGEST_OUTPUT,
    call: null,
  };
  const output = await ask(sandbox(env, session, fields), (object) => object.kozeExec(exec));
  const [stdout, binaryOut] = shown(output.stdout);
  const [stderr, binaryErr] = shown(output.stderr);
  const content = {
    stdout,
    stderr,
    exit_code: output.exitCode,
    ...(output.timedOut ? { timed_out: true } : {}),
    ...(binaryOut ? { stdout_encoding: "base64" } : {}),
    ...(binaryErr ? { stderr_encoding: "base64" } : {}),
  };
  return { content: JSON.stringify(content), isError: output.exitCode !== 0 };
}

async function readFile(env: Env, session: string, input: object) {
  const fields = known(input, ["sandbox", "path", "offset", "limit"]);
  const limit = whole(fields, "limit", 1, LARGEST_READ, 262_144);
  const offset = whole(fields, "offset", 0, Number.MAX_SAFE_INTEGER, 0);
  const read: Read = { root: "/", path: absolute(text(fields, "path")), offset, limit };
  const piece = await ask(sandbox(env, session, fields), (object) => object.kozeRead(read));
  const [content, binary] = shown(piece.bytes);
  const next = offset + piece.bytes.length;
  const result = {
    content,
    size: piece.size,
    ...(binary ? { encoding: "base64" } : {}),
    ...(next < piece.size ? { truncated: true, next_offset: next } : {}),
  };
  return { content: JSON.stringify(result), isError: false };
}

/** The object of a sandbox: one name for each tenant, session and sandbox. */
function sandbox(env: Env, session: string, fields: Record<string, unknown>): Contract {
  const name = text(fields, "sandbox", "default");
  if (!NAME.test(name)) throw new Fault("invalid_input", "a sandbox's name has 1 to 20 letters, digits and inner hyphens");
  return env.SHELL_SANDBOX.getByName(JSON.stringify([TENANT, session, name]));
}

/** Calls an object; one that was never opened is opened, and called once more. */
async function ask<T>(object: Contract, call: (object: Contract) => Promise<Reply<T>>): Promise<T> {
  let reply = await call(object);
  if (!reply.ok && reply.error.code === "unopened") {
    const opened = await object.kozeOpen({ sleepAfterMs: 600_000 });
    reply = opened.ok ? await call(object) : opened;
  }
  if (reply.ok) return reply.value;
  const { code, message }: Failure = reply.error;
  throw new Fault(code, message);
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

function absolute(path: string): string {
  if (path === "" || path.includes("\0") || encoder.encode(path).length > 4096) {
    throw new Fault("invalid_input", "a path has 1 to 4096 bytes, and no NUL");
  }
  return path.startsWith("/") ? path : `${HOME}/${path}`;
}

/** Text where bytes are UTF-8, else base64, and whether they are that. */
function shown(bytes: Uint8Array): [string, boolean] {
  try {
    return [decoder.decode(bytes), false];
  } catch {
    return [bytes.toBase64(), true];
  }
}

/** Whether two texts are the same, in a time that says nothing of where they differ. */
function isSame(given: string, wanted: string): boolean {
  const [a, b] = [encoder.encode(given), encoder.encode(wanted)];
  const equal = crypto.subtle.timingSafeEqual(a.length === b.length ? a : b, b);
  return equal && a.length === b.length;
}

function refusal(status: number, code: string, message: string): Response {
  return Response.json({ error: { code, message } }, { status });
}
