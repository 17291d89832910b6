// Written by `koze dev --local`, and deleted when it exits.
//
// A sandbox on this machine as a Durable Object. Each call is a request to the server of `koze dev`, which listens on
// the loopback interface and runs the sandbox.

import { DurableObject } from "cloudflare:workers";
import { addOldMethods, askedPort, joined, lookUp, newNonce } from "./calls.mjs";
import { Canceled, Unattended, Waiting } from "./waiting.mjs";

/** @import * as koze from "./contract" */

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
 * @implements {koze.Contract}
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
   * Answers a request of the Worker.
   *
   * @template {koze.Request} R
   * @param {R} request
   * @param {koze.Waiting} [waiting]
   * @returns {Promise<koze.Reply<koze.Result<R>>>}
   */
  async koze(request, waiting) {
    const { name, input, run } = lookUp(request, this.#special);
    return run ? run(input, waiting) : this.#call(name, input);
  }

  /**
   * The operations that are more than a request to the server.
   *
   * @type {{ [N in keyof koze.Operations]?: (input: koze.Operations[N]["input"], waiting?: koze.Waiting) =>
   *   Promise<koze.Reply<koze.Operations[N]["value"]>> }}
   */
  #special = {
    open: async (input) => {
      /** @type {koze.Reply<koze.Opened>} */
      const reply = await this.#call("open", input);
      // The ports of a sandbox that was destroyed from outside are still stored.
      if (reply.ok && reply.value.created) await this.#ctx.storage.deleteAll();
      return reply;
    },
    // The server kills the program, or ends the search, when its request is canceled.
    exec: (input, waiting) => this.#wait("exec", input, { call: input.call, waiting }),
    search: (input, waiting) => this.#wait("search", input, { call: input.call, waiting }),
    cancel: async ({ call }) => {
      this.#waiting.cancel(call);
      return { ok: true, value: {} };
    },
    start: async (input) => {
      /** @type {koze.Reply<koze.Started>} */
      const reply = await this.#call("start", input);
      if (reply.ok && input.attendWithinMs != null) {
        const { id } = reply.value;
        const abandon = () => this.#call("signal_process", { id, signal: KILL });
        this.#unattended.expect(id, input.attendWithinMs, abandon);
      }
      return reply;
    },
    read_process: (input, waiting) => this.#attend("read_process", input, waiting),
    wait_process: (input, waiting) => this.#attend("wait_process", input, waiting),
    write_process: ({ bytes, ...input }, waiting) =>
      this.#wait("write_process", input, { call: input.call, waiting }, bytes),
    write: ({ bytes, ...input }) => this.#call("write", input, { bytes }),
    edit: ({ old, new: replacement, ...input }) =>
      this.#call("edit", { ...input, old: old.length }, { bytes: joined(old, replacement) }),
    pack: (input) => this.#outflow("pack", input),
    archive: (input) => this.#outflow("archive", input),
    expose: async (input) => {
      /** @type {koze.Reply<koze.Done>} */
      const reply = await this.#call("expose", input);
      if (!reply.ok) return reply;
      const nonces = await this.#nonces();
      const nonce = nonces.get(input.port) ?? newNonce();
      await this.#ctx.storage.put(NONCES, nonces.set(input.port, nonce));
      return { ok: true, value: { nonce } };
    },
    destroy: async (input) => {
      /** @type {koze.Reply<koze.Done>} */
      const reply = await this.#call("destroy", input);
      if (reply.ok) await this.#ctx.storage.deleteAll();
      return reply;
    },
  };

  /**
   * @param {koze.Unpack} input
   * @param {ReadableStream<Uint8Array>} stream
   * @param {koze.Waiting} [waiting]
   * @returns {Promise<koze.Reply<koze.Unpacked>>}
   */
  kozeUnpack(input, stream, waiting) {
    return this.#inflow("unpack", input, stream, waiting);
  }

  /**
   * @param {koze.Unpack} input
   * @param {ReadableStream<Uint8Array>} stream
   * @param {koze.Waiting} [waiting]
   * @returns {Promise<koze.Reply<koze.Extracted>>}
   */
  kozeExtract(input, stream, waiting) {
    return this.#inflow("extract", input, stream, waiting);
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
   * Calls the server about a process, which gets a signal if the caller is gone before there is an answer.
   * @template T
   * @param {string} operation
   * @param {koze.ReadProcess | koze.WaitProcess} input
   * @param {koze.Waiting} [waiting]
   * @returns {Promise<koze.Reply<T>>}
   */
  #attend(operation, input, waiting) {
    const { id, call, abandonedSignal } = input;
    // The server sends the signal when its request is canceled.
    if (abandonedSignal != null) this.#unattended.attend(id);
    return this.#wait(operation, input, { call, waiting });
  }

  /**
   * Calls the server for as long as the caller waits.
   * @template T
   * @param {string} operation
   * @param {object} input
   * @param {{ call: string | null, waiting: koze.Waiting | undefined }} caller
   * @param {Uint8Array} [bytes]
   * @returns {Promise<koze.Reply<T>>}
   */
  #wait(operation, input, caller, bytes) {
    return this.#waiting.during(caller, (signal) => this.#call(operation, input, { ...(bytes && { bytes }), signal }));
  }

  /**
   * Calls an operation that returns a stream.
   * @param {string} operation
   * @param {object} input
   * @returns {Promise<koze.Reply<koze.Packed>>}
   */
  async #outflow(operation, input) {
    try {
      const response = await this.#stream(operation, input);
      if (!response.ok) return failed(await response.text());
      // A stream is the whole body; a failure has the format of other replies.
      if (!response.headers.has("koze-stream") || !response.body) return answer(await response.arrayBuffer());
      return { ok: true, value: { stream: response.body } };
    } catch {
      return failed(GONE);
    }
  }

  /**
   * Calls an operation that takes a stream, for as long as its caller waits.
   * @template T
   * @param {string} operation
   * @param {koze.Unpack} input
   * @param {ReadableStream<Uint8Array>} stream
   * @param {koze.Waiting} [waiting]
   * @returns {Promise<koze.Reply<T>>}
   */
  #inflow(operation, input, stream, waiting) {
    const over = new AbortController();
    return this.#waiting.during({ call: input.call, waiting }, async (given) => {
      try {
        const signal = AbortSignal.any([given, over.signal]);
        const response = await this.#stream(operation, input, { body: stream, signal });
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
   * Calls an operation that sends or returns a stream as the whole body.
   * @param {string} operation
   * @param {object} input
   * @param {{ body?: ReadableStream<Uint8Array>, signal?: AbortSignal }} [more]
   */
  #stream(operation, input, more) {
    const { token, url } = this.#env.KOZE_LOCAL;
    const encoded = encodeURIComponent(JSON.stringify(input));
    const headers = { "koze-token": token, "koze-object": this.#object, "koze-operation": operation, "koze-input": encoded };
    return fetch(url, { method: "POST", headers, ...more });
  }

  /**
   * Calls an operation of the sandbox. Input and reply are framed: the length of the JSON, the JSON, then bytes.
   * @template T
   * @param {string} operation
   * @param {object} input
   * @param {{ bytes?: Uint8Array, signal?: AbortSignal }} [more]
   * @returns {Promise<koze.Reply<T>>}
   */
  async #call(operation, input, { bytes = new Uint8Array(), signal } = {}) {
    const { token, url } = this.#env.KOZE_LOCAL;
    const headers = { "koze-token": token, "koze-object": this.#object, "koze-operation": operation };
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

addOldMethods(KozeSandbox);

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
  const headers = { "koze-token": token, "koze-operation": "kozeFetch" };
  /** @type {koze.Reply<{ status: number, headers: [string, string][], body: Uint8Array }>} */
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
  const headers = { "koze-token": token, "koze-operation": "kozeBrowser", "koze-agent": String(agent), "koze-browser": input, upgrade: "websocket" };
  try {
    return await fetch(url, { headers });
  } catch {
    return Response.json({ code: "unavailable", message: GONE }, { status: 503 });
  }
}

/** Ends the browser of an agent. @param {Env["KOZE_LOCAL"]} local @param {DurableObjectId} agent */
export async function closeBrowser({ token, url }, agent) {
  const headers = { "koze-token": token, "koze-operation": "kozeCloseBrowser", "koze-agent": String(agent) };
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
 * @returns {koze.Reply<T>}
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
 * @returns {{ ok: false, error: koze.Failure }}
 */
function failed(message) {
  return { ok: false, error: { code: "unavailable", message: message.trim(), retryable: false } };
}
