// Replaces the Rust Worker: forwards the requests of a test to objects of the class `ShellSandbox`, or of another one.
//
// - `POST /call/<object>/<operation>`: the operation's input as JSON. In input and answer, `{ "base64": … }` stands for bytes.
// - `/id/<object>`: its ID, which is part of its container's name.
// - `POST /pieces/<object>`: writes and reads the largest piece of a file, and returns whether they are equal.
// - `POST /copy/<object>/<to>`: streams from one to the other: `{ pack, unpack, pace }`, the inputs of both methods, and
//   the milliseconds between two parts.
// - `/fetch/<object>/<path>`: a request to the object itself.
// - `/port/<object>/<port>.<nonce>/<path>`: the same, with the headers for a port and its nonce.

import { Buffer } from "node:buffer";
import { DurableObject } from "cloudflare:workers";

/** In place of the Rust Worker's registry. */
export class KozeSessions extends DurableObject {}

const LARGEST = 8 << 20;

/** @param {unknown} value @returns {any} */
function decoded(value) {
  if (Array.isArray(value)) return value.map(decoded);
  if (typeof value !== "object" || value === null) return value;
  if ("base64" in value) return new Uint8Array(Buffer.from(value.base64, "base64"));
  return Object.fromEntries(Object.entries(value).map(([name, value]) => [name, decoded(value)]));
}

/** @param {unknown} value @returns {any} */
function encoded(value) {
  if (value instanceof Uint8Array) return { base64: Buffer.from(value).toString("base64") };
  if (Array.isArray(value)) return value.map(encoded);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, value]) => [name, encoded(value)]));
}

/** Does an operation. Those that take a stream get none. */
function operate(object, operation, input) {
  if (operation === "unpack") return object.kozeUnpack(input);
  if (operation === "extract") return object.kozeExtract(input);
  return object.koze({ [operation]: input });
}

async function pieces(object) {
  const bytes = new Uint8Array(LARGEST + 1);
  for (let at = 0; at < bytes.length; at += 4096) crypto.getRandomValues(bytes.subarray(at, at + 4096));
  const place = { root: "/", path: "/workspace/large" };
  const largest = bytes.subarray(0, LARGEST);
  const written = await object.koze({ write: { ...place, bytes: largest, append: false } });
  const appended = await object.koze({ write: { ...place, bytes: bytes.subarray(LARGEST), append: true } });
  const read = await object.koze({ read: { ...place, offset: 0, limit: LARGEST } });
  const rest = await object.koze({ read: { ...place, offset: LARGEST, limit: LARGEST } });
  const tooLarge = await object.koze({ write: { ...place, bytes, append: false } });
  const tooLong = await object.koze({ read: { ...place, offset: 0, limit: LARGEST + 1 } });
  return {
    written,
    appended,
    same: Buffer.compare(read.value.bytes, largest) === 0,
    size: read.value.size,
    rest: rest.value.bytes[0] === bytes[LARGEST] && rest.value.bytes.length === 1,
    refused: [tooLarge.error.code, tooLong.error.code],
  };
}

async function copy(from, to, { pack, unpack, pace }) {
  const packed = await from.koze({ pack });
  if (!packed.ok) return packed;
  const reader = packed.value.stream.getReader();
  const pull = async (controller) => {
    const { done, value } = await reader.read();
    if (done) return controller.close();
    controller.enqueue(value);
    await new Promise((done) => setTimeout(done, pace));
  };
  const slowly = () => new ReadableStream({ type: "bytes", pull, cancel: (why) => reader.cancel(why) });
  if (!pace) reader.releaseLock();
  return to.kozeUnpack(unpack, pace ? slowly() : packed.value.stream);
}

export default {
  async fetch(request, env) {
    const { pathname, search } = new URL(request.url);
    const [, what, name, ...rest] = pathname.split("/");
    if (what === "env") return Response.json(env[name] ?? null);
    // `BARE_SANDBOX.a` is an object of another class.
    const [key, binding = "SHELL_SANDBOX"] = name.split(".").reverse();
    const object = env[binding].getByName(key);
    if (what === "id") return new Response(object.id.toString());
    if (what === "call") return Response.json(encoded(await operate(object, rest[0], decoded(await request.json()))));
    if (what === "pieces") return Response.json(await pieces(object));
    if (what === "copy") return Response.json(await copy(object, env[binding].getByName(rest[0]), await request.json()));
    const [port, nonce] = what === "port" ? rest.shift().split(".") : [];
    const inner = new Request(new URL(`/${rest.join("/")}${search}`, request.url), request);
    if (port !== undefined) inner.headers.set("koze-port", port);
    if (nonce !== undefined) inner.headers.set("koze-nonce", nonce);
    return object.fetch(inner);
  },
};
