// Mutations that remove each workaround of the class: the text in the generated file, its replacement, and the case
// that must fail then. koze's guest has its own tests.

/** Operations implemented naively over the SDK. */
const NAIVE_EXEC = `async naive({ argv, workingDir, env, timeoutMs }) {
    return this.#calls.opened(async () => {
      const quoted = argv.map((one) => "'" + one.replaceAll("'", "'\\\\''") + "'").join(" ");
      const { stdout, stderr, exitCode } = await this.exec(quoted, { cwd: workingDir, env: Object.fromEntries(env), timeout: timeoutMs });
      const [out, err] = [stdout, stderr].map((text) => new TextEncoder().encode(text));
      return { stdout: out, stderr: err, exitCode, timedOut: false };
    });
  }`;
const NAIVE_READ = `async naive({ path, offset, limit }) {
    return this.#calls.opened(async () => {
      const { content } = await this.readFile(path);
      const bytes = new TextEncoder().encode(content);
      return { bytes: bytes.slice(offset, offset + limit), size: bytes.length };
    });
  }`;
const NAIVE_APPEND = `async naive({ path, bytes, append }) {
    return this.#calls.opened(async () => {
      const old = append ? (await this.readFile(path).catch(() => ({ content: "" }))).content : "";
      const text = old + new TextDecoder().decode(bytes);
      await this.writeFile(path, text);
      return { size: text.length };
    });
  }`;

const NAIVE_EDIT = `async naive({ root, path, old, new: replacement }) {
    const { value } = await this.koze({ read: { root, path, offset: 0, limit: 8 << 20 } });
    const [text, from, to] = [value.bytes, old, replacement].map((bytes) => new TextDecoder().decode(bytes));
    const { value: { size } } = await this.koze({ write: { root, path, bytes: new TextEncoder().encode(text.replace(from, to)), append: false } });
    return { ok: true, value: { done: { size, replaced: 1 } } };
  }`;

const UNSTREAMED = `async naive() {
    return { ok: false, error: { code: "unstreamed", message: "", retryable: false } };
  }`;

const KOZE = "async koze(request, waiting) {";
const naive = (name, operation, method, fails) => {
  const to = `${method}\n  ${KOZE}\n    if (request.${operation}) return this.naive(request.${operation});`;
  return { name, file: "koze/sdk/sdk.mjs", from: KOZE, to, fails };
};
const sdk = (name, from, to, fails) => ({ name, file: "koze/sdk/sdk.mjs", from, to, fails });
const placed = (name, from, to, fails) => ({ name, file: "koze/sdk/placed.mjs", from, to, fails });
const waiting = (name, from, to, fails) => ({ name, file: "koze/waiting.mjs", from, to, fails });
const operations = (name, from, to, fails) => ({ name, file: "koze/operations.mjs", from, to, fails });
const calls = (name, from, to, fails) => ({ name, file: "koze/calls.mjs", from, to, fails });
const entry = (name, from, to, fails) => ({ name, file: "worker.mjs", from, to, fails });

const OPENING = "the URL of a port does not work for a later sandbox of that name";

export const mutations = [
  // These hang, so they start first.
  sdk("never-asleep", `asked == null ? this.#sleepAfter : asked / 1000`, `this.#sleepAfter`, "a sandbox sleeps after the idle time of its opening"),
  sdk("asleep-at-work", `if (this.#busy) this`, `if (false) this`, "a sandbox does not sleep during a call"),
  // Programs.
  naive("newline-lost", "exec", NAIVE_EXEC, "an output is exact"),
  naive("bytes-lost", "exec", NAIVE_EXEC, "an output may be any bytes"),
  naive("names-unescaped", "exec", NAIVE_EXEC, "variables arrive as they are, and no others"),
  naive("time-not-kept", "exec", NAIVE_EXEC, "a timeout kills a program with its descendants"),
  naive("output-unbounded", "exec", NAIVE_EXEC, "an output is bounded"),
  naive("nothing-reaped", "exec", NAIVE_EXEC, "exited processes are reaped"),
  sdk("home-of-the-user", `{ HOME, ...offline(this)`, `{ ...offline(this)`, "programs and tools have one home, also those of root"),
  waiting("canceled-and-goes-on", `all.forEach((controller) => controller.abort(new Canceled()))`, `undefined`, "a canceled program is killed with its descendants"),
  // Processes.
  operations("lookups-start-it", `if (!this.#isRunning()) throw`, `if (false) throw`, "a process ends with its container, and a lookup starts none"),
  operations("lists-start-it", `if (!this.#isRunning()) return`, `if (false) return`, "a process ends with its container, and a lookup starts none"),
  operations("one-stream", `stream === 2 ? "stderr"`, `stream === 3 ? "stderr"`, "output of a process is kept for later readers"),
  // Files.
  naive("binary-as-base64", "read", NAIVE_READ, "files hold any bytes"),
  naive("32-MiB", "read", NAIVE_READ, "files may be large"),
  naive("append-over-all", "write", NAIVE_APPEND, "bytes are appended atomically"),
  naive("edit-in-two-steps", "edit", NAIVE_EDIT, "edits and appends at once are all there"),
  naive("edit-as-text", "edit", NAIVE_EDIT, "a text in a file is replaced"),
  operations("continued-anywhere", `path, append, offset }`, `path, append }`, "a file is not continued in a new container"),
  operations("half-a-binary", `binary ? new Uint8Array() : out`, `out`, "lines of a binary file are not returned"),
  naive("archive-file-by-file", "archive", UNSTREAMED, "three thousand files are one archive, of one call"),
  naive("file-by-file", "pack", UNSTREAMED, "a tree is copied to another sandbox as one stream"),
  // The guest.
  placed("left-behind", `; rm -f "$p" "$p.gz"`, ``, "nothing is left behind"),
  placed("put-once", `BACK_MS).catch((error) => log(error))`, `BACK_MS)`, "a sandbox survives a program that kills all processes"),
  placed("put-each-time", `this.#ctx.storage.put(GUEST, `, `void (`, "a later object finds the running guest"),
  placed("stopped-and-kept", "&& kill -9 ${last}", "&& true", "a guest that is stopped is replaced"),
  placed("packed-only", "[true, false]", "[true]", "an image without gzip runs the guest, too"),
  placed("put-anywhere", `if (port === undefined) {`, `if (false) {`, "an image in which the guest cannot run is reported"),
  sdk("guest-port-exposed", `taken: [CONTROL_PORT, PORT]`, `taken: [CONTROL_PORT]`, "the port of the guest cannot be exposed"),
  // The object.
  calls("never-unopened", `if (!this.memory) throw`, `if (false) throw`, "a sandbox is opened, and destroyed"),
  sdk("not-forgotten", `, this.#calls.forget()]`, `]`, "a sandbox is opened, and destroyed"),
  sdk("own-fetch", `const fetch = (request) => Sandbox.prototype.fetch.call(this, request);`, `const fetch = (request) => this.fetch(request);`, "an output is exact"),
  sdk("control-port-open", `if (!port) return`, `if (!port) return super.fetch(request);\n    if (!port) return`, "the class forwards requests only to exposed ports"),
  calls("any-port", `askedPort(request, this.memory?.nonces)`, `Number(request.headers.get("koze-port"))`, "the class forwards requests only to exposed ports"),
  sdk("control-port-exposed", `taken: [CONTROL_PORT, PORT]`, `taken: [PORT]`, "the class forwards requests only to exposed ports"),
  calls("headers-passed", `headers.delete(name)`, `void name`, "the class forwards requests only to exposed ports"),
  sdk("address-told", `if (response.status === 500 && `, `if (false && `, "the class forwards requests only to exposed ports"),
  calls("loose-port", `/^[1-9][0-9]{3,4}$/.test(header) ? Number(header) : 0`, `Number.parseInt(header)`, "the class forwards requests only to exposed ports"),
  calls("domain-passed", `|| !/^\\s*domain\\s*(=|$)/i.test(part)`, `|| true`, "the class forwards requests only to exposed ports"),
  sdk("answer-as-it-is", `return answered(response)`, `return response`, "the class forwards requests only to exposed ports"),
  calls("any-opening", `isOpen && crypto.subtle.timingSafeEqual(given, nonce)`, `nonce.length`, OPENING),
  calls("one-nonce", `BASE32[byte & 31]`, `BASE32[byte & 0]`, OPENING),
  calls("a-nonce-each-time", `if (known) return`, `if (false) return`, OPENING),
  calls("nonces-expected", `...(memory.nonces ?? [])`, `...memory.nonces`, "a port that an earlier koze opened can be opened again"),
  calls("without-a-word", `error ?? new Error`, `true ? error : new Error`, "an empty exception of the platform is logged"),
  // The settings of the attribute.
  entry("variables-missing", `Object.assign(this.envVars, `, `void (`, "the network is what the attribute says"),
];
