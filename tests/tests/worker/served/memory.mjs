// Sandbox classes with files in the object's own storage and a few commands, for testing the Rust Worker. They count the
// calls. One implements `contract.d.ts`; the other has a method for each operation, as classes had before koze 0.2.

import { DurableObject } from "cloudflare:workers";
import { askedPort, methodOf, newNonce } from "./calls.mjs";
import { Waiting } from "./waiting.mjs";

/** @import * as contract from "./contract.js" */

/** @template T @param {T} value @returns {{ ok: true, value: T }} */
const done = (value) => ({ ok: true, value });

/**
 * @param {contract.Failure["code"]} code
 * @param {string} message
 * @returns {{ ok: false, error: contract.Failure }}
 */
const failed = (code, message, retryable = false) => ({ ok: false, error: { code, message, retryable } });

const text = (/** @type {string} */ text) => new TextEncoder().encode(text);

/** A class of an older koze, without streams. */
export class Plain extends DurableObject {
  calls = 0;
  unpacks = 0;
  busy = 0;
  waited = new Waiting();
  /** The ends of the commands that waited. @type {string[]} */
  ends = [];

  /** @template T @param {() => contract.Reply<T> | Promise<contract.Reply<T>>} work @returns {Promise<contract.Reply<T>>} */
  async opened(work) {
    this.calls++;
    if (!(await this.ctx.storage.get("opened"))) return failed("unopened", "this sandbox was never opened");
    return work();
  }

  /** @param {contract.Open} input @returns {Promise<contract.Reply<contract.Opened>>} */
  async kozeOpen(input) {
    const created = !(await this.ctx.storage.get("opened"));
    await this.ctx.storage.put("opened", { ...input });
    return done({ created });
  }

  /** It runs no programs that outlive their call. @returns {Promise<contract.Reply<never>>} */
  noProcesses() {
    return this.opened(() => failed("unsupported", "this class has no processes"));
  }

  kozeStart() {
    return this.noProcesses();
  }

  kozeProcess() {
    return this.noProcesses();
  }

  kozeProcesses() {
    return this.noProcesses();
  }

  kozeReadProcess() {
    return this.noProcesses();
  }

  kozeWriteProcess() {
    return this.noProcesses();
  }

  kozeCloseProcess() {
    return this.noProcesses();
  }

  kozeSignalProcess() {
    return this.noProcesses();
  }

  kozeResizeProcess() {
    return this.noProcesses();
  }

  kozeWaitProcess() {
    return this.noProcesses();
  }

  /** @param {contract.Cancel} input @returns {Promise<contract.Reply<contract.Done>>} */
  async kozeCancel({ call }) {
    this.waited.cancel(call);
    return done({});
  }

  /**
   * Waits until it is canceled, or for some time.
   * @param {contract.Exec} input @param {(() => Promise<unknown>) | undefined} waiting @param {string} named @param {number} ms
   */
  async wait({ call }, waiting, named, ms) {
    this.ends.push(`${named} begun`);
    return this.waited.during({ call, waiting }, async (signal) => {
      await new Promise((/** @type {(value?: undefined) => void} */ done) => {
        if (signal.aborted) done();
        signal.addEventListener("abort", () => done());
        setTimeout(done, ms);
      });
      this.ends.push(`${named} ${signal.aborted ? "canceled" : "done"}`);
      return signal.aborted;
    });
  }

  /** @param {contract.Exec} input @param {() => Promise<unknown>} [waiting] @returns {Promise<contract.Reply<contract.Output>>} */
  kozeExec(input, waiting) {
    return this.opened(async () => {
      const [verb, ...words] = (input.argv.at(-2) ?? "").split(" ");
      const rest = words.join(" ");
      const output = (/** @type {string} */ out, code = 0) =>
        done({ stdout: text(out), stderr: new Uint8Array(), exitCode: code, timedOut: false });
      switch (verb) {
        case "echo":
          return output(`${rest}\n`);
        case "true":
          return (await this.ctx.storage.get("sick")) ? failed("unavailable", "it does not answer") : output("");
        case "wait": {
          const [named = "", ms] = words;
          const up = await this.wait(input, waiting, named, Number(ms));
          return up ? failed("unavailable", "the call was canceled") : output("waited");
        }
        case "ends":
          return output(this.ends.join(", "));
        case "sicken":
          await this.ctx.storage.put("sick", true);
          return output("");
        case "unpacks":
          return output(String(this.unpacks));
        case "archives":
          return output(this instanceof Memory ? `${this.archives} ${this.extracts}` : "none");
        case "fill":
          for (let n = 0; n < Number(words[0]); n++) this.files.set(`${words[1] ?? "/home/user"}/tree/d/${n}`, text(`${n}`));
          return output("");
        case "exit":
          return output("", Number(rest));
        case "input":
          return output(JSON.stringify(input));
        case "class":
          return output(this.constructor.name);
        case "opened":
          return output(JSON.stringify(await this.ctx.storage.get("opened")));
        case "calls":
          return output(String(this.calls));
        case "binary":
          return done({ stdout: new Uint8Array([255, 0]), stderr: text("e"), exitCode: 0, timedOut: false });
        case "throw":
          throw new Error(`${rest} at /a/path/of/the/host`);
        case "nothing":
          return /** @type {any} */ (undefined);
        case "busy":
          this.busy = this.busy || Number(rest) + 1;
          return --this.busy > 1 ? failed("unavailable", "a container starts", true) : output("at last");
        case "refuse":
          return failed("unavailable", "no container is free");
        case "forget":
          await this.ctx.storage.deleteAll();
          return output("");
        default:
          return failed("internal", `no command ${verb}`);
      }
    });
  }

  /** @param {contract.Read} input @returns {Promise<contract.Reply<contract.Piece>>} */
  kozeRead(input) {
    return this.opened(async () => {
      const bytes = await this.file(input.path);
      if (!bytes) return failed("not_found", `${input.path} does not exist`);
      if (input.limit > 8 << 20) return failed("internal", "a piece is larger than the contract says");
      return done({ bytes: bytes.slice(input.offset, input.offset + input.limit), size: bytes.length });
    });
  }

  /** @param {contract.Write} input @returns {Promise<contract.Reply<contract.Written>>} */
  kozeWrite(input) {
    return this.opened(async () => {
      if (input.bytes.length > 8 << 20) return failed("internal", "a piece is larger than the contract says");
      if (input.path.endsWith("/full")) return failed("too_large", "the disk is full");
      // In this directory, the container restarts after the first piece of a file.
      if (input.path.includes("/restarts/") && (this.files.get(input.path)?.length ?? 0) >= 4 << 20) this.files.clear();
      const there = await this.file(input.path);
      // A class without streams is also older than offsets.
      if (this instanceof Memory && input.offset !== null && (there?.length ?? 0) !== input.offset) {
        return failed("unavailable", `${input.path} was not written: its first part is gone`);
      }
      const before = (input.append && there) || new Uint8Array();
      const bytes = new Uint8Array(before.length + input.bytes.length);
      bytes.set(before);
      bytes.set(input.bytes, before.length);
      this.files.set(input.path, bytes);
      return done({ size: bytes.length });
    });
  }

  /** @param {contract.Edit} input @returns {Promise<contract.Reply<contract.Edited>>} */
  kozeEdit({ path, old, new: replacement, all }) {
    return this.opened(/** @returns {Promise<contract.Reply<contract.Edited>>} */ async () => {
      const before = await this.file(path);
      if (!before) return failed("not_found", `${path} does not exist`);
      // One character for each byte, so that every byte can be searched for.
      const binary = (/** @type {Uint8Array} */ bytes) => Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
      const parts = binary(before).split(binary(old));
      const occurrences = parts.length - 1;
      if (occurrences === 0) return done({ not_found: { nearest: { number: 1, text: "nearest" } } });
      if (occurrences > 1 && !all) return done({ ambiguous: { occurrences, lines: [1, 2] } });
      const after = Uint8Array.from(parts.join(binary(replacement)), (character) => character.charCodeAt(0));
      this.files.set(path, after);
      return done({ done: { size: after.length, replaced: occurrences } });
    });
  }

  /** Returns the input as the text. @param {contract.ReadLines} input @returns {Promise<contract.Reply<contract.Lines>>} */
  kozeReadLines(input) {
    return this.opened(() => done({ text: text(JSON.stringify(input)), chars: 7, pastEnd: true, binary: true, size: 2 ** 40 }));
  }

  /** @param {contract.Path} input @returns {Promise<contract.Reply<contract.Entries>>} */
  kozeList(input) {
    return this.opened(() => {
      const below = input.path.endsWith("/") ? input.path : `${input.path}/`;
      const names = [...this.files.keys()].filter((path) => path.startsWith(below)).map((path) => path.slice(below.length));
      if (names.length === 0) return failed("not_found", `${input.path} does not exist`);
      /** @type {contract.Stat} */
      const directory = { kind: "directory", target: null, size: 0, mode: 0o755 };
      const above = new Set(names.filter((name) => name.includes("/")).map((name) => name.replace(/\/.*/s, "")));
      const files = names.filter((name) => !name.includes("/")).map((name) => ({ name, stat: this.about(below + name) }));
      return done({ entries: [...files, ...[...above].map((name) => ({ name, stat: directory }))] });
    });
  }

  /** @param {contract.Path} input @returns {Promise<contract.Reply<contract.Stat>>} */
  kozeStat(input) {
    return this.opened(() => {
      if (this.files.has(input.path)) return done(this.about(input.path));
      const above = [...this.files.keys()].some((path) => path.startsWith(`${input.path}/`));
      if (above) return done({ kind: "directory", target: null, size: 0, mode: 0o755 });
      return failed("not_found", `${input.path} does not exist`);
    });
  }

  /** @param {contract.Path} input @returns {Promise<contract.Reply<contract.Done>>} */
  kozeMakeDir({ path }) {
    return this.opened(() => {
      this.directories.add(path);
      return done({});
    });
  }

  /** @param {any} input @returns {Promise<contract.Reply<contract.Done>>} */
  kozeMakeLink(input) {
    return this.opened(() => failed("unsupported", `${input.path}: there are no links here`));
  }

  /** @param {any} input @returns {Promise<contract.Reply<contract.Done>>} */
  kozeSetMode(input) {
    return this.opened(() => {
      this.modes.set(input.path, input.mode);
      return done({});
    });
  }

  /** @param {contract.Path} input @returns {Promise<contract.Reply<contract.Done>>} */
  kozeRemove(input) {
    return this.opened(() => {
      for (const path of this.below(input.path)) this.files.delete(path);
      for (const path of this.directories) if (`${path}/`.startsWith(`${input.path}/`)) this.directories.delete(path);
      return done({});
    });
  }

  /** @param {any} input @returns {Promise<contract.Reply<contract.Done>>} */
  kozeRename({ from, to }) {
    return this.opened(() => {
      const all = this.below(from.path);
      if (all.length === 0) return failed("not_found", `${from.path} does not exist`);
      for (const path of all) {
        this.files.set(to.path + path.slice(from.path.length), this.files.get(path) ?? new Uint8Array());
        this.files.delete(path);
      }
      return done({});
    });
  }

  /** @param {contract.Expose} input @returns {Promise<contract.Reply<contract.Exposed>>} */
  kozeExpose({ port }) {
    return this.opened(async () => {
      /** @type {import("./calls.mjs").Openings} */
      const openings = (await this.ctx.storage.get("openings")) ?? new Map();
      const nonce = openings.get(port) ?? newNonce();
      await this.ctx.storage.put("openings", openings.set(port, nonce));
      return done({ nonce });
    });
  }

  /** @returns {Promise<contract.Reply<contract.State>>} */
  async kozeStatus() {
    const opened = Boolean(await this.ctx.storage.get("opened"));
    // An object without a call since it was loaded counts as asleep.
    return done({ opened, status: this.calls > 0 ? "running" : "sleeping" });
  }

  /** @returns {Promise<contract.Reply<contract.Done>>} */
  async kozeDestroy() {
    await this.ctx.storage.deleteAll();
    this.files.clear();
    return done({});
  }

  /** Echoes a request to a port. @override @param {Request} request */
  async fetch(request) {
    const port = askedPort(request, await this.ctx.storage.get("openings"));
    if (!port) return new Response("no such port", { status: 404 });
    if (request.headers.get("upgrade") === "websocket") {
      const { 0: client, 1: server } = new WebSocketPair();
      server.accept();
      server.addEventListener("message", (event) => server.send(`${port}: ${event.data}`));
      return new Response(null, { status: 101, webSocket: client });
    }
    const headers = Object.fromEntries(request.headers);
    const body = { class: this.constructor.name, method: request.method, url: request.url, headers, text: await request.text() };
    return Response.json(body, { status: 201, headers: { "x-of-the-port": "yes" } });
  }

  /** @type {Map<string, Uint8Array>} */
  files = new Map();
  /** The directories that were created, which only archives know. @type {Set<string>} */
  directories = new Set();
  /** @type {Map<string, number>} */
  modes = new Map();
  /** @type {WeakMap<Uint8Array, number>} */
  versions = new WeakMap();
  last = 0;

  /** @param {string} path */
  async file(path) {
    return this.files.get(path);
  }

  /** Returns a file, or everything in a directory. @param {string} path */
  below(path) {
    return [...this.files.keys()].filter((file) => file === path || file.startsWith(`${path}/`));
  }

  /** @param {string} path @returns {contract.Stat} */
  about(path) {
    const size = this.files.get(path)?.length ?? 0;
    const bytes = this.files.get(path) ?? new Uint8Array();
    // Each write replaces the array.
    const version = this.versions.get(bytes) ?? ++this.last;
    this.versions.set(bytes, version);
    return { kind: "file", target: null, size, mode: this.modes.get(path) ?? 0o644, mtime: 1, version };
  }
}

const BLOCK = 512;

/** Returns the entry of a file or directory in a tar archive. @param {string} path @param {string} type @param {Uint8Array} content @param {number} mode */
function entry(path, type, content, mode) {
  const block = new Uint8Array(BLOCK + Math.ceil(content.length / BLOCK) * BLOCK);
  const field = (/** @type {number} */ at, /** @type {string} */ value) => block.set(text(value), at);
  const octal = (/** @type {number} */ value, /** @type {number} */ length) => `${value.toString(8).padStart(length, "0")}\0`;
  const name = type === "5" ? `./${path}/` : `./${path}`;
  if (text(name).length > 100) throw new Error("long names are not for tests");
  field(0, path ? name : "./");
  field(100, octal(mode, 7));
  field(108, octal(0, 7) + octal(0, 7) + octal(content.length, 11) + octal(0, 11) + " ".repeat(8) + type);
  field(257, "ustar  \0");
  const sum = block.subarray(0, BLOCK).reduce((sum, byte) => sum + byte, 0);
  field(148, `${octal(sum, 6)} `);
  block.set(content, BLOCK);
  return block;
}

/** Encodes a piece of an archive. @param {Uint8Array} bytes */
function piece(bytes) {
  const all = new Uint8Array(4 + bytes.length);
  new DataView(all.buffer).setUint32(0, bytes.length, true);
  all.set(bytes, 4);
  return all;
}

/**
 * Splits a tar archive into its entries; only the last one may be cut off.
 * @param {Uint8Array} tar
 * @returns {{ entries: { path: string, type: string, mode: number, content: Uint8Array }[], whole: boolean }}
 */
function entries(tar) {
  const all = [];
  for (let at = 0; at + BLOCK <= tar.length; ) {
    const block = tar.subarray(at, at + BLOCK);
    if (block.every((byte) => byte === 0)) return { entries: all, whole: true };
    const field = (/** @type {number} */ from, /** @type {number} */ to) => new TextDecoder().decode(block.subarray(from, to)).replace(/\0.*/s, "");
    const size = Number.parseInt(field(124, 136), 8);
    const content = tar.slice(at + BLOCK, at + BLOCK + size);
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
    all.push({ path: field(0, 100).replace(/^\.\/|\/$/g, ""), type: field(156, 157), mode: Number.parseInt(field(100, 108), 8), content });
  }
  return { entries: all, whole: false };
}

/** The class with streams, in its own JSON format, and with archives. @implements {contract.Contract} */
export class Memory extends Plain {
  /**
   * @template {contract.Request} R
   * @param {R} request
   * @param {contract.Waiting} [waiting]
   * @returns {Promise<contract.Reply<contract.Result<R>>>}
   */
  koze(request, waiting) {
    /** @type {[string, any][]} */
    const [[name, input] = ["none", {}]] = Object.entries(request);
    // A change has the method of its own name.
    const [[operation, given] = [name, input]] = name === "change" ? Object.entries(input) : [];
    const methods = /** @type {Record<string, (input: any, waiting?: contract.Waiting) => any>} */ (/** @type {unknown} */ (this));
    return methods[methodOf(operation)]?.(given, waiting);
  }

  /** @param {contract.Pack} input @returns {Promise<contract.Reply<contract.Packed>>} */
  kozePack({ path }) {
    return this.opened(() => {
      const all = [...this.files].filter(([name]) => name === path || name.startsWith(`${path}/`));
      if (all.length === 0) return failed("not_found", `${path} does not exist`);
      const files = all.map(([name, bytes]) => [name.slice(path.length), [...bytes], this.modes.get(name) ?? 0o644]);
      let left = text(JSON.stringify(path.endsWith("/secret") ? "permission_denied" : files));
      const stream = new ReadableStream({
        type: "bytes",
        pull: (controller) => {
          if (left.length === 0) return controller.close();
          // If it should break off, only its beginning is sent.
          if (path.endsWith("/torn") && left.length < 1000) return controller.error(new Error("at /a/path/of/the/host"));
          controller.enqueue(left.slice(0, 500));
          left = left.slice(500);
        },
        cancel: () => void this.ends.push(`${path} not read`),
      });
      return done({ stream });
    });
  }

  /** Finds the pattern in one file. @param {contract.SearchFiles} input @returns {Promise<contract.Reply<contract.Searched>>} */
  kozeSearch({ path, search }) {
    const match = { path: "found", number: 7, text: `${search.pattern} below ${path}` };
    return this.opened(() => done({ matches: [match], skipped: ["skipped"], binary: ["binary"], end: "full" }));
  }

  /**
   * @param {contract.Unpack} input @param {ReadableStream<Uint8Array>} stream @param {() => Promise<unknown>} [waiting]
   * @returns {Promise<contract.Reply<contract.Unpacked>>}
   */
  kozeUnpack(input, stream, waiting) {
    const { path, call } = input;
    return this.opened(async () => {
      this.unpacks++;
      if (path.includes("/old/")) return failed("unstreamed", "no streams here");
      if (path.includes("/starting/") && this.starts++ < 2) return failed("unavailable", "a container starts", true);
      try {
        /** @type {string | [string, number[], number][]} */
        const files = await this.waited.during({ call, waiting }, async (signal) => {
          if (path.includes("/slow/")) await new Promise((given) => signal.addEventListener("abort", given));
          signal.throwIfAborted();
          return new Response(stream).json();
        });
        if (typeof files === "string") return failed("permission_denied", `${path} is not for you`);
        for (const [name, bytes, mode] of files) {
          this.files.set(path + name, Uint8Array.from(bytes));
          this.modes.set(path + name, mode);
        }
        const size = files.reduce((/** @type {number} */ sum, [name]) => sum + (this.files.get(path + name)?.length ?? 0), 0);
        return done({ bytes: size });
      } catch {
        if (!stream.locked) await stream.cancel();
        this.ends.push("not unpacked");
        return failed("unavailable", `${path} did not come whole`);
      }
    });
  }

  starts = 0;

  /** @param {contract.Path} input @returns {Promise<contract.Reply<contract.Packed>>} */
  kozeArchive({ path }) {
    return this.opened(() => {
      this.archives++;
      if (path.includes("/old")) return failed("unstreamed", "no archives here");
      const files = [...this.files].filter(([name]) => name.startsWith(`${path}/`));
      if (this.files.has(path)) return failed("not_a_directory", `${path} is not a directory`);
      const exists = files.length > 0 || this.directories.has(path);
      if (!exists) return failed("not_found", `${path} does not exist`);
      const [torn, refused] = [path.endsWith("/torn"), path.endsWith("/refused")];
      const names = files.map(([name]) => name.slice(path.length + 1));
      const above = new Set(names.flatMap((name) => [...name.matchAll(/\//g)].map(({ index }) => name.slice(0, index))));
      const contents = { entries: files.length + above.size, bytes: files.reduce((sum, [, bytes]) => sum + bytes.length, 0), skipped: 0 };
      const last = refused ? { failed: { why: "permission_denied", text: `${path} is not for you` } } : { ok: contents };
      /** Yields the archive in pieces, some of which are small. @this {Memory} */
      function* parts() {
        yield entry("", "5", new Uint8Array(), 0o755);
        for (const name of [...above].sort()) yield entry(name, "5", new Uint8Array(), 0o755);
        for (const [name, bytes] of files) {
          const whole = entry(name.slice(path.length + 1), "0", bytes, this.modes.get(name) ?? 0o644);
          for (let at = 0; at < whole.length; at += 60_000) yield whole.slice(at, at + 60_000);
        }
        yield new Uint8Array(2 * BLOCK);
      }
      const left = parts.call(this);
      let sent = 0;
      const stream = new ReadableStream({
        type: "bytes",
        pull: (controller) => {
          const { value, done } = left.next();
          sent += value?.length ?? 0;
          // If it should break off, only its beginning is sent.
          if (torn && sent > 300_000) return controller.error(new Error("at /a/path/of/the/host"));
          if (!done) return controller.enqueue(piece(value));
          controller.enqueue(piece(new Uint8Array()));
          controller.enqueue(piece(text(JSON.stringify(last))));
          controller.close();
        },
        cancel: () => void this.ends.push(`${path} not archived`),
      });
      return done({ stream });
    });
  }

  /**
   * @param {contract.Unpack} input @param {ReadableStream<Uint8Array>} stream @param {() => Promise<unknown>} [waiting]
   * @returns {Promise<contract.Reply<contract.Extracted>>}
   */
  kozeExtract({ path, call }, stream, waiting) {
    return this.opened(async () => {
      this.extracts++;
      try {
        return await this.waited.during({ call, waiting }, async (signal) => {
          const reader = stream.getReader();
          signal.addEventListener("abort", () => reader.cancel());
          /** @type {Uint8Array[]} */
          const parts = [];
          for (let size = 0; ; ) {
            const { done: over, value } = await reader.read();
            signal.throwIfAborted();
            if (over) break;
            size += value.length;
            const begin = size <= 200_000 ? new TextDecoder().decode(value) : "";
            // A file of this name takes for ever, and for others the disk is full, or the class forgets the rest.
            if (begin.includes("./slow")) await new Promise((given) => signal.addEventListener("abort", given));
            signal.throwIfAborted();
            if (begin.includes("./no-room")) {
              await reader.cancel();
              return failed("too_large", "the disk is full");
            }
            if (begin.includes("./forgotten")) {
              await reader.cancel();
              return done({ entries: 1, bytes: 1 });
            }
            parts.push(value);
          }
          const tar = new Uint8Array(await new Blob(parts).arrayBuffer());
          const { entries: all, whole } = entries(tar);
          if (!whole) return failed("unavailable", `${path}: the archive is incomplete`);
          let [count, bytes] = [0, 0];
          for (const { path: name, type, mode, content } of all) {
            if (!"05".includes(type)) return failed("unsupported", `${name} is neither a file nor a directory`);
            if (name) count++;
            bytes += content.length;
            if (type === "0") {
              this.files.set(`${path}/${name}`, content);
              this.modes.set(`${path}/${name}`, mode);
            } else this.directories.add(name ? `${path}/${name}` : path);
          }
          return done({ entries: count, bytes });
        });
      } catch {
        this.ends.push("not extracted");
        return failed("unavailable", `${path} did not come whole`);
      }
    });
  }

  archives = 0;
  extracts = 0;
}
