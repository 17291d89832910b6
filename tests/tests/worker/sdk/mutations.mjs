// Mutations that remove each workaround of the class: the text in the generated file, its replacement, and the case
// that must fail then. koze's guest has its own tests.

/** Methods implemented naively over the SDK. */
const NAIVE_EXEC = `async kozeExec({ argv, workingDir, env, timeoutMs }) {
    return this.#calls.opened(async () => {
      const quoted = argv.map((one) => "'" + one.replaceAll("'", "'\\\\''") + "'").join(" ");
      const { stdout, stderr, exitCode } = await this.exec(quoted, { cwd: workingDir, env: Object.fromEntries(env), timeout: timeoutMs });
      const [out, err] = [stdout, stderr].map((text) => new TextEncoder().encode(text));
      return { stdout: out, stderr: err, exitCode, timedOut: false };
    });
  }
  async unused(`;
const NAIVE_READ = `async kozeRead({ path, offset, limit }) {
    return this.#calls.opened(async () => {
      const { content } = await this.readFile(path);
      const bytes = new TextEncoder().encode(content);
      return { bytes: bytes.slice(offset, offset + limit), size: bytes.length };
    });
  }
  async unused(`;
const NAIVE_APPEND = `async kozeWrite({ path, bytes, append }) {
    return this.#calls.opened(async () => {
      const old = append ? (await this.readFile(path).catch(() => ({ content: "" }))).content : "";
      const text = old + new TextDecoder().decode(bytes);
      await this.writeFile(path, text);
      return { size: text.length };
    });
  }
  async unused(`;

const UNSTREAMED = `async kozePack() {
    return { ok: false, error: { code: "unstreamed", message: "", retryable: false } };
  }
  async unused(`;

const naive = (name, method, to, fails) => ({ name, file: "sdk.mjs", from: `async ${method}(`, to, fails });
const sdk = (name, from, to, fails) => ({ name, file: "sdk.mjs", from, to, fails });
const placed = (name, from, to, fails) => ({ name, file: "placed.mjs", from, to, fails });
const waiting = (name, from, to, fails) => ({ name, file: "waiting.mjs", from, to, fails });
const calls = (name, from, to, fails) => ({ name, file: "calls.mjs", from, to, fails });
const entry = (name, from, to, fails) => ({ name, file: "worker.mjs", from, to, fails });

const OPENING = "the URL of a port is of no use for another sandbox of the name";

export const mutations = [
  // These hang, so they start first.
  sdk("never-asleep", `asked == null ? this.#sleepAfter : asked / 1000`, `this.#sleepAfter`, "a sandbox sleeps when it was idle for as long as it was opened for"),
  sdk("asleep-at-work", `if (this.#busy) this`, `if (false) this`, "a sandbox does not sleep while a call is under way"),
  // Programs.
  naive("newline-lost", "kozeExec", NAIVE_EXEC, "an output is what was printed"),
  naive("bytes-lost", "kozeExec", NAIVE_EXEC, "an output may be any bytes"),
  naive("names-unescaped", "kozeExec", NAIVE_EXEC, "variables arrive as they are, and no others"),
  naive("time-not-kept", "kozeExec", NAIVE_EXEC, "a program ends in its time, with all that came of it"),
  naive("output-unbounded", "kozeExec", NAIVE_EXEC, "an output is bounded"),
  naive("nothing-reaped", "kozeExec", NAIVE_EXEC, "what has ended is gone, and nothing waits for it"),
  sdk("home-of-the-user", `{ HOME, ...this.envVars`, `{ ...this.envVars`, "programs and tools have one home, also those of root"),
  waiting("given-up-and-goes-on", `all.forEach((controller) => controller.abort(new GivenUp()))`, `undefined`, "a program that was given up is killed, with all that came of it"),
  // Files.
  naive("binary-as-base64", "kozeRead", NAIVE_READ, "files hold any bytes"),
  naive("32-MiB", "kozeRead", NAIVE_READ, "files may be large"),
  naive("append-over-all", "kozeWrite", NAIVE_APPEND, "bytes are appended together"),
  naive("file-by-file", "kozePack", UNSTREAMED, "a tree goes to another sandbox as one stream"),
  // The guest.
  placed("left-behind", `; rm -f "$p"`, ``, "nothing is left behind"),
  placed("put-once", `BACK_MS).catch((error) => log(error))`, `BACK_MS)`, "a sandbox lives on where a program kills all that runs"),
  placed("put-each-time", `await this.#ctx.storage.put(GUEST, `, `void (`, "an object that comes after another finds the guest that is there"),
  placed("put-anywhere", `if (port === undefined) {`, `if (false) {`, "an image that takes no program is told so"),
  sdk("guest-port-exposed", `taken: [CONTROL_PORT, PORT]`, `taken: [CONTROL_PORT]`, "the port of the guest is no preview"),
  // The object.
  calls("never-unopened", `if (!this.memory) throw`, `if (false) throw`, "a sandbox is opened, and destroyed"),
  sdk("not-forgotten", `, this.#calls.forget()]`, `]`, "a sandbox is opened, and destroyed"),
  sdk("own-fetch", `const fetch = (request) => Sandbox.prototype.fetch.call(this, request);`, `const fetch = (request) => this.fetch(request);`, "an output is what was printed"),
  sdk("control-port-open", `if (!port) return`, `if (!port) return super.fetch(request);\n    if (!port) return`, "nobody is let in by the class but to ports that were exposed"),
  calls("any-port", `askedPort(request, this.memory?.nonces)`, `Number(request.headers.get("koze-port"))`, "nobody is let in by the class but to ports that were exposed"),
  sdk("control-port-exposed", `taken: [CONTROL_PORT, PORT]`, `taken: [PORT]`, "nobody is let in by the class but to ports that were exposed"),
  calls("headers-passed", `headers.delete(name)`, `void name`, "nobody is let in by the class but to ports that were exposed"),
  sdk("address-told", `if (response.status === 500 && `, `if (false && `, "nobody is let in by the class but to ports that were exposed"),
  calls("loose-port", `/^[1-9][0-9]{3,4}$/.test(header) ? Number(header) : 0`, `Number.parseInt(header)`, "nobody is let in by the class but to ports that were exposed"),
  calls("domain-passed", `|| !/^\\s*domain\\s*(=|$)/i.test(part)`, `|| true`, "nobody is let in by the class but to ports that were exposed"),
  sdk("answer-as-it-is", `return answered(response)`, `return response`, "nobody is let in by the class but to ports that were exposed"),
  calls("any-opening", `isOpen && crypto.subtle.timingSafeEqual(given, nonce)`, `nonce.length`, OPENING),
  calls("one-nonce", `BASE32[byte & 31]`, `BASE32[byte & 0]`, OPENING),
  calls("a-nonce-each-time", `if (known) return`, `if (false) return`, OPENING),
  calls("nonces-expected", `...(memory.nonces ?? [])`, `...memory.nonces`, "a port that an earlier koze opened is opened again"),
  calls("without-a-word", `error ?? new Error`, `true ? error : new Error`, "what the platform throws without a word is in the log as such"),
  // The settings of the attribute.
  entry("variables-missing", `Object.assign(this.envVars, `, `void (`, "the network is what the attribute says"),
];
