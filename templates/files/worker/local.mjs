// Written by `koze dev --local`, and deleted when it exits.
//
// A sandbox on this machine as a Durable Object. Each call is a request to the server of `koze dev`, which listens on
// the loopback interface and runs the sandbox.

import { DurableObject } from "cloudflare:workers";
import { askedPort, newNonce } from "./calls.mjs";
import { Canceled, Unattended, Waiting } from "./waiting.mjs";

/** @import { Cancel, Contract, Done, Edit, Edited, Entries, Exec, Expose, Exposed, Extracted, Failure, MakeLink, Nothing, Open, Opened, Output } from "./contract" */
/** @import { Lines, Pack, Packed, Path, Piece, Read, ReadLines, Rename, Reply, SearchFiles, Searched, SetMode, Stat, State } from "./contract" */
/** @import { Ended, OneProcess, ProcessInfo, ProcessOutput, Processes, ReadProcess, ResizeProcess } from "./contract" */
/** @import { SignalProcess, Start, Started, Taken, WaitProcess, WriteProcess } from "./contract" */
/** @import { Unpack, Unpacked, Write, Written } from "./contract" */

/**
 * The variables that `koze dev` adds to the Worker's own: the URL of its server and the token for it.
 * @typedef {{ KOZE_LOCAL: { url: string, token: string } }} Env
 */

const GONE = "`koze dev` no longer answers: start it again";

/** The number of the signal that kills a process, and all that came of it. */
const KILL = 9;

/** The storage key of the open ports and their nonces. */
const NONCES = "koze:nonces";

/**
 * The base of every class.
 * @implements {Contract}
 */
export class KozeSandbox extends DurableObject {
  #ctx;
  #env;
  #object;
  #waiting = new Waiting();
  #unattended = new Unattended();

  /**
   * @param {DurableObjectState} ctx
   * @param {Env} env
   * @param {string} className
   */
  constructor(ctx, env, className) {
    super(ctx, env);
    this.#ctx = ctx;
    this.#env = env;
    this.#object = `${className}/${ctx.id}`;
  }

  /**
   * @param {Open} input
   * @returns {Promise<Reply<Opened>>}
   */
  async kozeOpen(input) {
    /** @type {Reply<Opened>} */
    const reply = await this.#call("kozeOpen", input);
    // The ports of a sandbox that was destroyed from outside are still stored.
    if (reply.ok && reply.value.created) await this.#ctx.storage.deleteAll();
    return reply;
  }

  /**
   * @param {Exec} input
   * @param {() => PromiseLike<unknown>} [waiting]
   * @returns {Promise<Reply<Output>>}
   */
  kozeExec(input, waiting) {
    const { call } = input;
    // The server kills the program when its request is canceled.
    return this.#waiting.during({ call, waiting }, (signal) => this.#call("kozeExec", input, { signal }));
  }

  /**
   * @param {Cancel} input
   * @returns {Promise<Reply<Done>>}
   */
  async kozeCancel({ call }) {
    this.#waiting.cancel(call);
    return { ok: true, value: {} };
  }

  /**
   * @param {Start} input
   * @returns {Promise<Reply<Started>>}
   */
  async kozeStart(input) {
    /** @type {Reply<Started>} */
    const reply = await this.#call("kozeStart", input);
    if (reply.ok && input.attendWithinMs != null) {
      const { id } = reply.value;
      const abandon = () => this.#call("kozeSignalProcess", { id, signal: KILL });
      this.#unattended.expect(id, input.attendWithinMs, abandon);
    }
    return reply;
  }

  /**
   * @param {OneProcess} input
   * @returns {Promise<Reply<ProcessInfo>>}
   */
  kozeProcess(input) {
    return this.#call("kozeProcess", input);
  }

  /**
   * @param {Nothing} input
   * @returns {Promise<Reply<Processes>>}
   */
  kozeProcesses(input) {
    return this.#call("kozeProcesses", input);
  }

  /**
   * @param {ReadProcess} input
   * @param {() => PromiseLike<unknown>} [waiting]
   * @returns {Promise<Reply<ProcessOutput>>}
   */
  kozeReadProcess(input, waiting) {
    const { id, call, abandonedSignal } = input;
    // The server sends the signal when its request is canceled.
    if (abandonedSignal != null) this.#unattended.attend(id);
    return this.#waiting.during({ call, waiting }, (signal) => this.#call("kozeReadProcess", input, { signal }));
  }

  /**
   * @param {WriteProcess} input
   * @param {() => PromiseLike<unknown>} [waiting]
   * @returns {Promise<Reply<Taken>>}
   */
  kozeWriteProcess(input, waiting) {
    const { call, bytes } = input;
    return this.#waiting.during({ call, waiting }, (signal) =>
      this.#call("kozeWriteProcess", { ...input, bytes: [] }, { bytes, signal }),
    );
  }

  /**
   * @param {OneProcess} input
   * @returns {Promise<Reply<Done>>}
   */
  kozeCloseProcess(input) {
    return this.#call("kozeCloseProcess", input);
  }

  /**
   * @param {SignalProcess} input
   * @returns {Promise<Reply<Done>>}
   */
  kozeSignalProcess(input) {
    return this.#call("kozeSignalProcess", input);
  }

  /**
   * @param {ResizeProcess} input
   * @returns {Promise<Reply<Done>>}
   */
  kozeResizeProcess(input) {
    return this.#call("kozeResizeProcess", input);
  }

  /**
   * @param {WaitProcess} input
   * @param {() => PromiseLike<unknown>} [waiting]
   * @returns {Promise<Reply<Ended>>}
   */
  kozeWaitProcess(input, waiting) {
    const { id, call, abandonedSignal } = input;
    if (abandonedSignal != null) this.#unattended.attend(id);
    return this.#waiting.during({ call, waiting }, (signal) => this.#call("kozeWaitProcess", input, { signal }));
  }

  /**
   * @param {Read} input
   * @returns {Promise<Reply<Piece>>}
   */
  kozeRead(input) {
    return this.#call("kozeRead", input);
  }

  /**
   * @param {Write} input
   * @returns {Promise<Reply<Written>>}
   */
  kozeWrite(input) {
    return this.#call("kozeWrite", { ...input, bytes: [] }, { bytes: input.bytes });
  }

  /**
   * @param {Edit} input
   * @returns {Promise<Reply<Edited>>}
   */
  kozeEdit({ old, new: replacement, ...input }) {
    const bytes = new Uint8Array(old.length + replacement.length);
    bytes.set(old);
    bytes.set(replacement, old.length);
    return this.#call("kozeEdit", { ...input, old: old.length }, { bytes });
  }

  /**
   * @param {ReadLines} input
   * @returns {Promise<Reply<Lines>>}
   */
  kozeReadLines(input) {
    return this.#call("kozeReadLines", input);
  }

  /**
   * @param {SearchFiles} input
   * @param {() => PromiseLike<unknown>} [waiting]
   * @returns {Promise<Reply<Searched>>}
   */
  kozeSearch(input, waiting) {
    const { call } = input;
    // The server ends the search when its request is canceled.
    return this.#waiting.during({ call, waiting }, (signal) => this.#call("kozeSearch", input, { signal }));
  }

  /**
   * @param {Path} input
   * @returns {Promise<Reply<Entries>>}
   */
  kozeList(input) {
    return this.#call("kozeList", input);
  }

  /**
   * @param {Path} input
   * @returns {Promise<Reply<Stat>>}
   */
  kozeStat(input) {
    return this.#call("kozeStat", input);
  }

  /**
   * @param {Path} input
   * @returns {Promise<Reply<Done>>}
   */
  kozeMakeDir(input) {
    return this.#call("kozeMakeDir", input);
  }

  /**
   * @param {MakeLink} input
   * @returns {Promise<Reply<Done>>}
   */
  kozeMakeLink(input) {
    return this.#call("kozeMakeLink", input);
  }

  /**
   * @param {SetMode} input
   * @returns {Promise<Reply<Done>>}
   */
  kozeSetMode(input) {
    return this.#call("kozeSetMode", input);
  }

  /**
   * @param {Path} input
   * @returns {Promise<Reply<Done>>}
   */
  kozeRemove(input) {
    return this.#call("kozeRemove", input);
  }

  /**
   * @param {Rename} input
   * @returns {Promise<Reply<Done>>}
   */
  kozeRename(input) {
    return this.#call("kozeRename", input);
  }

  /**
   * @param {Pack} input
   * @returns {Promise<Reply<Packed>>}
   */
  kozePack(input) {
    return this.#outflow("kozePack", input);
  }

  /**
   * @param {Unpack} input
   * @param {ReadableStream<Uint8Array>} stream
   * @param {() => PromiseLike<unknown>} [waiting]
   * @returns {Promise<Reply<Unpacked>>}
   */
  kozeUnpack(input, stream, waiting) {
    return this.#inflow("kozeUnpack", input, stream, waiting);
  }

  /**
   * @param {Path} input
   * @returns {Promise<Reply<Packed>>}
   */
  kozeArchive(input) {
    return this.#outflow("kozeArchive", input);
  }

  /**
   * @param {Unpack} input
   * @param {ReadableStream<Uint8Array>} stream
   * @param {() => PromiseLike<unknown>} [waiting]
   * @returns {Promise<Reply<Extracted>>}
   */
  kozeExtract(input, stream, waiting) {
    return this.#inflow("kozeExtract", input, stream, waiting);
  }

  /**
   * @param {Expose} input
   * @returns {Promise<Reply<Exposed>>}
   */
  async kozeExpose(input) {
    /** @type {Reply<Done>} */
    const reply = await this.#call("kozeExpose", input);
    if (!reply.ok) return reply;
    const nonces = await this.#nonces();
    const nonce = nonces.get(input.port) ?? newNonce();
    await this.#ctx.storage.put(NONCES, nonces.set(input.port, nonce));
    return { ok: true, value: { nonce } };
  }

  /**
   * @param {Nothing} input
   * @returns {Promise<Reply<State>>}
   */
  kozeStatus(input) {
    return this.#call("kozeStatus", input);
  }

  /**
   * @param {Nothing} input
   * @returns {Promise<Reply<Done>>}
   */
  async kozeDestroy(input) {
    /** @type {Reply<Done>} */
    const reply = await this.#call("kozeDestroy", input);
    if (reply.ok) await this.#ctx.storage.deleteAll();
    return reply;
  }

  /**
   * Forwards a request to an open port, given in the header `koze-port` with its nonce in `koze-nonce`.
   * @override
   * @param {Request} request
   */
  async fetch(request) {
    const port = askedPort(request, await this.#nonces());
    if (!port) {
      return new Response("koze: this address is not a preview URL\n", { status: 404 });
    }
    const { host, protocol, pathname, search } = new URL(request.url);
    const headers = new Headers(request.headers);
    for (const [name] of request.headers) if (name.startsWith("koze-")) headers.delete(name);
    headers.set("koze-token", this.#env.KOZE_LOCAL.token);
    headers.set("koze-object", this.#object);
    headers.set("koze-port", String(port));
    headers.set("koze-host", host);
    headers.set("koze-scheme", protocol.slice(0, -1));
    const url = this.#env.KOZE_LOCAL.url + pathname + search;
    const { method, body } = request;
    try {
      return await fetch(url, { method, headers, body, redirect: "manual" });
    } catch {
      return new Response("koze: `koze dev` no longer answers: start it again\n", { status: 503 });
    }
  }

  /** @returns {Promise<import("./calls.mjs").Openings>} */
  async #nonces() {
    return (await this.#ctx.storage.get(NONCES)) ?? new Map();
  }

  /**
   * Calls a method that returns a stream.
   * @param {string} method
   * @param {object} input
   * @returns {Promise<Reply<Packed>>}
   */
  async #outflow(method, input) {
    try {
      const response = await this.#stream(method, input);
      if (!response.ok) return failed(await response.text());
      // A stream is the whole body; a failure has the format of other replies.
      if (!response.headers.has("koze-stream") || !response.body) return answer(await response.arrayBuffer());
      return { ok: true, value: { stream: response.body } };
    } catch {
      return failed(GONE);
    }
  }

  /**
   * Calls a method that takes a stream, for as long as its caller waits.
   * @template T
   * @param {string} method
   * @param {Unpack} input
   * @param {ReadableStream<Uint8Array>} stream
   * @param {() => PromiseLike<unknown>} [waiting]
   * @returns {Promise<Reply<T>>}
   */
  #inflow(method, input, stream, waiting) {
    const over = new AbortController();
    return this.#waiting.during({ call: input.call, waiting }, async (given) => {
      try {
        const signal = AbortSignal.any([given, over.signal]);
        const response = await this.#stream(method, input, { body: stream, signal });
        if (!response.ok) return failed(await response.text());
        return answer(await response.arrayBuffer());
      } catch {
        if (given.reason instanceof Canceled) return failed(given.reason.message);
        return failed("the files are incomplete: their source, or `koze dev`, has ended");
      } finally {
        // The reply may arrive before the whole stream was read. Stop sending the rest.
        over.abort();
      }
    });
  }

  /**
   * Calls a method that sends or returns a stream as the whole body.
   * @param {string} method
   * @param {object} input
   * @param {{ body?: ReadableStream<Uint8Array>, signal?: AbortSignal }} [more]
   */
  #stream(method, input, more) {
    const { token, url } = this.#env.KOZE_LOCAL;
    const encoded = encodeURIComponent(JSON.stringify(input));
    const headers = { "koze-token": token, "koze-object": this.#object, "koze-method": method, "koze-input": encoded };
    return fetch(url, { method: "POST", headers, ...more });
  }

  /**
   * Calls a method of the sandbox. Input and reply are framed: the length of the JSON, the JSON, then bytes.
   * @template T
   * @param {string} method
   * @param {object} input
   * @param {{ bytes?: Uint8Array, signal?: AbortSignal }} [more]
   * @returns {Promise<Reply<T>>}
   */
  async #call(method, input, { bytes = new Uint8Array(), signal } = {}) {
    const { token, url } = this.#env.KOZE_LOCAL;
    const headers = { "koze-token": token, "koze-object": this.#object, "koze-method": method };
    try {
      const body = framed(JSON.stringify(input), bytes);
      const response = await fetch(url, { method: "POST", headers, body, ...(signal && { signal }) });
      if (!response.ok) return failed(await response.text());
      return answer(await response.arrayBuffer());
    } catch {
      if (signal?.reason instanceof Canceled) return failed(signal.reason.message);
      return failed(GONE);
    }
  }
}

/**
 * Sends a request of a script's `fetch` from this machine, where it is checked. Takes and returns what `kozeFetch` of the class
 * `KozeScripts` does.
 *
 * @param {Env["KOZE_LOCAL"]} local
 * @param {string} sent
 * @param {() => PromiseLike<unknown>} left its promise settles when the caller has stopped waiting
 * @returns {Promise<{ head: string, body: Uint8Array }>}
 */
export async function fetched({ token, url }, sent, left) {
  const over = new AbortController();
  const leave = () => over.abort();
  left().then(leave, leave);
  const headers = { "koze-token": token, "koze-method": "kozeFetch" };
  /** @type {Reply<{ status: number, headers: [string, string][], body: Uint8Array }>} */
  let reply;
  try {
    const response = await fetch(url, { method: "POST", headers, body: framed(sent), signal: over.signal });
    reply = response.ok ? answer(await response.arrayBuffer()) : failed(await response.text());
  } catch {
    reply = failed(GONE);
  }
  if (!reply.ok) return { head: JSON.stringify({ Err: reply.error }), body: new Uint8Array() };
  const { body, ...head } = reply.value;
  return { head: JSON.stringify({ Ok: head }), body };
}

/**
 * Connects to the browser of an agent on this machine. Takes and returns what `fetch` of the class `KozeScripts` does.
 *
 * @param {Env["KOZE_LOCAL"]} local
 * @param {DurableObjectId} agent
 * @param {Request} request
 */
export async function browsing({ token, url }, agent, request) {
  const input = request.headers.get("koze-browser") ?? "";
  const headers = { "koze-token": token, "koze-method": "kozeBrowser", "koze-agent": String(agent), "koze-browser": input, upgrade: "websocket" };
  try {
    return await fetch(url, { headers });
  } catch {
    return Response.json({ code: "unavailable", message: GONE }, { status: 503 });
  }
}

/** Ends the browser of an agent. @param {Env["KOZE_LOCAL"]} local @param {DurableObjectId} agent */
export async function closeBrowser({ token, url }, agent) {
  const headers = { "koze-token": token, "koze-method": "kozeCloseBrowser", "koze-agent": String(agent) };
  // Without the server, there is no browser.
  await fetch(url, { method: "POST", headers }).catch(() => {});
}

/** Encodes an input: its JSON, and its bytes. @param {string} text @param {Uint8Array} [bytes] */
function framed(text, bytes = new Uint8Array()) {
  const json = new TextEncoder().encode(text);
  const frame = new Uint8Array(4 + json.length + bytes.length);
  new DataView(frame.buffer).setUint32(0, json.length);
  frame.set(json, 4);
  frame.set(bytes, 4 + json.length);
  return frame;
}

/**
 * Decodes a framed reply. Its bytes belong to the named fields, one after the other.
 * @template T
 * @param {ArrayBuffer} frame
 * @returns {Reply<T>}
 */
function answer(frame) {
  let at = 4 + new DataView(frame).getUint32(0);
  const json = new TextDecoder().decode(new Uint8Array(frame, 4, at - 4));
  const { reply, bytes } = JSON.parse(json);
  for (const [name, length] of Object.entries(bytes)) {
    // Copy the bytes: a view would be serialized with the whole underlying buffer.
    reply.value[name] = new Uint8Array(frame.slice(at, at + length));
    at += length;
  }
  return reply;
}

/**
 * @param {string} message
 * @returns {{ ok: false, error: Failure }}
 */
function failed(message) {
  return { ok: false, error: { code: "unavailable", message: message.trim(), retryable: false } };
}
