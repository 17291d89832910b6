// The sandboxes of the two hand-written Workers, called with the guarantees of the tools: calls time out whatever the
// object does, and a command ends with its caller.

/// <reference lib="es2024.promise" />
/// <reference lib="esnext.typedarrays" />

import type { Contract, Exec, Failure, Read, Reply } from "../contract.d.ts";

export interface Env {
  KOZE_TOKEN?: string;
  SHELL_SANDBOX: { getByName(name: string): Contract };
}

export const HOME = "/home/user";
export const LARGEST_READ = 16 << 20;
export const NAME = /^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$/;

const TENANT = "default";
const LARGEST_OUTPUT = 1 << 20;
/** The timeout of a call, in addition to that of its program, in milliseconds. */
const WITHIN = 60_000;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The error of a call. */
export class Fault extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

/** The sandbox to call. */
export type Place = { session: string; sandbox: string };

/** The result of a tool. */
export type Answer = { value: Record<string, unknown>; isError: boolean };

/** Returns why a request is not authorized, if it is not. */
export function refused(request: Request, env: Env): [status: number, code: string, message: string] | undefined {
  const token = env.KOZE_TOKEN;
  if (token === undefined || token.length < 16) return [503, "unavailable", "no token is set"];
  const given = /^\s*bearer +(.*?)\s*$/i.exec(request.headers.get("authorization") ?? "")?.[1];
  if (given !== undefined && isSame(given, token)) return undefined;
  return [401, "unauthorized", "the token is not one of this Worker's"];
}

export async function shell(
  env: Env,
  place: Place,
  input: { command: string; workingDir: string; timeoutMs: number },
): Promise<Answer> {
  if (input.command.includes("\0")) throw new Fault("invalid_input", "a command holds no NUL");
  const exec: Exec = {
    argv: ["/bin/bash", "--noprofile", "--norc", "-c", "--", input.command, "bash"],
    workingDir: absolute(input.workingDir),
    env: [],
    timeoutMs: input.timeoutMs,
    maxOutput: LARGEST_OUTPUT,
    call: null,
  };
  const { promise: over, resolve: leave } = Promise.withResolvers<void>();
  try {
    const output = await ask(env, place, input.timeoutMs, (object) => object.koze({ exec }, () => over));
    const [stdout, binaryOut] = shown(output.stdout);
    const [stderr, binaryErr] = shown(output.stderr);
    const value = {
      stdout,
      stderr,
      exit_code: output.exitCode,
      ...(output.timedOut ? { timed_out: true } : {}),
      ...(binaryOut ? { stdout_encoding: "base64" } : {}),
      ...(binaryErr ? { stderr_encoding: "base64" } : {}),
    };
    return { value, isError: output.exitCode !== 0 };
  } finally {
    leave();
  }
}

export async function readFile(
  env: Env,
  place: Place,
  { path, offset, limit }: { path: string; offset: number; limit: number },
): Promise<Answer> {
  const read: Read = { root: "/", path: absolute(path), offset, limit };
  const piece = await ask(env, place, 0, (object) => object.koze({ read }));
  const [content, binary] = shown(piece.bytes);
  const next = offset + piece.bytes.length;
  const value = {
    content,
    size: piece.size,
    ...(binary ? { encoding: "base64" } : {}),
    ...(next < piece.size ? { truncated: true, next_offset: next } : {}),
  };
  return { value, isError: false };
}

/** Calls the object of a sandbox. If it was never opened, opens it and calls again. */
async function ask<T>(env: Env, place: Place, time: number, call: (object: Contract) => Promise<Reply<T>>): Promise<T> {
  if (encoder.encode(place.session).length > 256 || /\p{Cc}/u.test(place.session)) {
    throw new Fault("invalid_input", "a session is named by 1 to 256 bytes without control characters");
  }
  if (!NAME.test(place.sandbox)) {
    throw new Fault("invalid_input", "a sandbox's name has 1 to 20 letters, digits and inner hyphens");
  }
  // A unique name for each tenant, session and sandbox.
  const object = env.SHELL_SANDBOX.getByName(JSON.stringify([TENANT, place.session, place.sandbox]));
  let reply = await within(time + WITHIN, call(object));
  if (!reply.ok && reply.error.code === "unopened") {
    const opened = await within(WITHIN, object.koze({ open: { sleepAfterMs: 600_000 } }));
    reply = opened.ok ? await within(time + WITHIN, call(object)) : opened;
  }
  if (reply.ok) return reply.value;
  const { code, message }: Failure = reply.error;
  throw new Fault(code, message);
}

/** Waits for a promise with a timeout. */
async function within<T>(milliseconds: number, promise: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const message = `the sandbox has not answered for ${milliseconds / 1000} s`;
  const timer = setTimeout(() => reject(new Fault("timeout", message)), milliseconds);
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

function absolute(path: string): string {
  if (path === "" || path.includes("\0") || encoder.encode(path).length > 4096) {
    throw new Fault("invalid_input", "a path has 1 to 4096 bytes, and no NUL");
  }
  return path.startsWith("/") ? path : `${HOME}/${path}`;
}

/** Returns UTF-8 bytes as text and other bytes as base64, and whether they are base64. */
function shown(bytes: Uint8Array): [string, boolean] {
  try {
    return [decoder.decode(bytes), false];
  } catch {
    return [bytes.toBase64(), true];
  }
}

/** Compares two texts in constant time. */
function isSame(given: string, wanted: string): boolean {
  const [a, b] = [encoder.encode(given), encoder.encode(wanted)];
  const equal = crypto.subtle.timingSafeEqual(a.length === b.length ? a : b, b);
  return equal && a.length === b.length;
}
