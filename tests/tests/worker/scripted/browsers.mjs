// A stand-in for the platform's browsers behind a `browser` binding: it speaks the protocol of the binding, and runs a Chromium
// of this machine for each session, without the flags with which koze starts one. Every name and address leads to one server.

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Response, WebSocketPair } from "miniflare";

const CHROMIUM = process.env.KOZE_TEST_CHROMIUM ?? "/usr/lib/chromium/chromium-headless-shell";

export class Browsers {
  #port;
  /** The running ones, by the IDs of their sessions. */
  #all = new Map();
  /** What was asked: a line each. */
  asked = [];
  /** Answers with this status in place of starting one. */
  refuses = 0;

  /** @param {string | number} port of the server */
  constructor(port) {
    this.#port = port;
  }

  /** Answers a request to the binding. @param {import("miniflare").Request} request */
  async fetch(request) {
    const { pathname, search } = new URL(request.url);
    const [, id] = /^\/v1\/devtools\/browser(?:\/([\w-]+))?$/.exec(pathname) ?? [null, undefined];
    const upgrade = request.headers.get("upgrade") === "websocket";
    this.asked.push(`${upgrade ? "CONNECT" : request.method} ${id ? "/ID" : ""}${search} ${await request.text()}`.trim());
    if (request.method === "POST" && !id) {
      if (this.refuses) return new Response("no more browsers", { status: this.refuses });
      return Response.json({ sessionId: await this.#start() });
    }
    const browser = id && this.#all.get(id);
    if (!browser) return new Response("no such session", { status: 404 });
    if (request.method === "DELETE") {
      this.#kill(id);
      return Response.json({ status: "closed" });
    }
    return upgrade ? this.#connect(browser) : new Response("unexpected", { status: 400 });
  }

  /** The IDs of the sessions. */
  get sessions() {
    return [...this.#all.keys()];
  }

  /** Ends all, as the platform does with those that have used up their time, or as if they crashed. */
  end() {
    for (const id of this.sessions) this.#kill(id);
  }

  async #start() {
    const id = randomUUID();
    const files = mkdtempSync(join(tmpdir(), "koze-browser-"));
    const resolves = `--host-resolver-rules=MAP * 127.0.0.1:${this.#port}`;
    const more = ["--no-sandbox", "--site-per-process", "--remote-debugging-port=0", `--user-data-dir=${files}`];
    // The certificate is that of a test.
    more.push("--ignore-certificate-errors");
    const child = spawn(CHROMIUM, ["--headless", ...more, resolves, "about:blank"], { stdio: ["ignore", "ignore", "pipe"] });
    child.once("exit", () => {
      this.#all.delete(id);
      rmSync(files, { recursive: true, force: true, maxRetries: 5 });
    });
    const url = await new Promise((done, fail) => {
      let said = "";
      child.once("error", fail);
      child.once("exit", () => fail(new Error(`Chromium has ended: ${said}`)));
      child.stderr.on("data", (data) => {
        said = (said + data).slice(-10_000);
        const [found] = /ws:\/\/\S+/.exec(said) ?? [];
        if (found) done(found);
      });
    });
    this.#all.set(id, { child, url });
    return id;
  }

  #kill(id) {
    this.#all.get(id)?.child.kill("SIGKILL");
    this.#all.delete(id);
  }

  /** Passes messages on, as they are. */
  async #connect({ url }) {
    const browser = new WebSocket(url);
    await new Promise((done, fail) => {
      browser.addEventListener("open", done);
      browser.addEventListener("error", () => fail(new Error("the browser does not answer")));
    });
    const [ours, theirs] = Object.values(new WebSocketPair());
    theirs.accept();
    const closing = (one) => () => {
      try {
        one.close(1000);
      } catch {
        // It is closed.
      }
    };
    browser.addEventListener("message", ({ data }) => theirs.send(data));
    theirs.addEventListener("message", ({ data }) => browser.send(data));
    browser.addEventListener("close", closing(theirs));
    theirs.addEventListener("close", closing(browser));
    return new Response(null, { status: 101, webSocket: ours });
  }
}
