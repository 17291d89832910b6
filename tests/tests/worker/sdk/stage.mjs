// The test environment: a Worker in workerd whose sandboxes run in the stand-in for the Docker engine. It has the
// classes that `koze build` generated for a project, and a variant of the first one for each mutation.

import { readFileSync, readdirSync, realpathSync } from "node:fs";
import net from "node:net";
import { join } from "node:path";
import { build } from "esbuild";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";
import { Engine } from "./engine.mjs";

const IMAGE = "docker.io/cloudflare/sandbox:0.12.10";

// JSON contains bytes as base64. Everything but `/call` is forwarded to the object unchanged.
const ENTRY = `
const pack = (value) =>
  value instanceof Uint8Array ? { base64: value.toBase64() }
  : Array.isArray(value) ? value.map(pack)
  : value && typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, pack(one)]))
  : value;
const unpack = (_, value) => (value?.base64 === undefined ? value : Uint8Array.fromBase64(value.base64));
// Copies like the Rust Worker: two calls, and a stream between them. Fixed bytes can replace the source. Only the
// client of this request waits.
async function copy(stub, env, { pack, bytes, times = 1, pace, to, unpack, method = "kozeUnpack" }) {
  let stream;
  if (pack) {
    const packed = await stub.koze({ pack });
    if (!packed.ok) return Response.json(packed);
    stream = pace ? slowly(packed.value.stream, pace) : packed.value.stream;
  } else {
    const pull = async (controller) => {
      if (pace) await new Promise((done) => setTimeout(done, pace));
      if (times-- > 0) controller.enqueue(bytes.slice());
      else controller.close();
    };
    stream = new ReadableStream({ type: "bytes", pull });
  }
  if (!to) {
    let size = 0;
    for await (const part of stream) size += part.length;
    return Response.json({ ok: true, value: { size } });
  }
  const other = env[to.Class].get(env[to.Class].idFromName(to.name));
  const reply = await other[method](unpack, stream, () => new Promise(() => {})).catch((error) => ({ thrown: String(error) }));
  return Response.json(reply);
}
// Returns what the stream of an archive has, or its beginning, after which nobody reads on.
async function archive(stub, { input, most = Infinity, pace }) {
  const packed = await stub.koze({ archive: input });
  if (!packed.ok) return packed;
  const reader = (pace ? slowly(packed.value.stream, pace) : packed.value.stream).getReader();
  const parts = [];
  for (let size = 0; size < most; size += parts.at(-1).length) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value.slice());
  }
  await reader.cancel();
  return { ok: true, value: { bytes: new Uint8Array(await new Blob(parts).arrayBuffer()) } };
}
function slowly(stream, pace) {
  const reader = stream.getReader();
  const pull = async (controller) => {
    const { done, value } = await reader.read();
    if (done) return controller.close();
    controller.enqueue(value);
    await new Promise((done) => setTimeout(done, pace));
  };
  return new ReadableStream({ type: "bytes", pull, cancel: (why) => reader.cancel(why) });
}
export default {
  async fetch(request, env) {
    const [, Class, name, ...path] = new URL(request.url).pathname.split("/");
    const stub = env[Class].get(env[Class].idFromName(decodeURIComponent(name)));
    if (path[0] === "fetch") {
      const url = new URL(request.url);
      url.pathname = "/" + path.slice(1).join("/");
      return stub.fetch(new Request(url, new Request(request, { redirect: "manual" })));
    }
    if (path[0] === "id") return new Response(stub.id.toString());
    if (path[0] === "archive") {
      const reply = await archive(stub, await request.json()).catch((error) => ({ thrown: String(error) }));
      return Response.json(pack(reply));
    }
    if (path[0] === "copy") return copy(stub, env, JSON.parse(await request.text(), unpack));
    const input = JSON.parse(await request.text(), unpack);
    const waits = path[0] === "koze" && /^(exec|(read|write|wait)_process)$/.test(Object.keys(input)[0]);
    // This call is canceled only with its own client.
    const more = waits ? [() => new Promise(() => {})] : [];
    const reply = await stub[path[0]](input, ...more).catch((error) => ({ thrown: String(error) }));
    return Response.json(pack(reply));
  },
};
`;

// Test operations on an object, in addition to those of its class.
const TOOLS = `{
  abort() { this.ctx.abort("a test"); }
  async linger() {
    await this.ctx.container.setInactivityTimeout(60_000);
    return { ok: true, value: {} };
  }
  async again(exec) {
    await this.koze({ destroy: {} });
    await this.koze({ open: { sleepAfterMs: null } });
    return this.koze({ exec });
  }
  async remember(memory) {
    await this.ctx.storage.put("koze", memory);
    await this.ctx.storage.sync();
    return { ok: true, value: {} };
  }
  async token() { return { ok: true, value: await this.ctx.storage.get("koze:guest") }; }
  async gate({ url, props }) {
    const response = await this.ctx.exports.KozeEgress({ props }).fetch(url, { redirect: "manual" });
    return { ok: true, value: [response.status, response.headers.get("location"), await response.text()] };
  }
  async forge({ token }) {
    if (token) await this.ctx.storage.put("koze:guest", token);
    else await this.ctx.storage.delete("koze:guest");
    await this.ctx.storage.sync();
    return { ok: true, value: {} };
  }
}`;

/** Returns the SDK of a project as one module. @param {string} project */
export async function bundledSdk(project) {
  const sdk = await build({
    stdin: { contents: `export * from "@cloudflare/sandbox";`, resolveDir: project },
    bundle: true,
    format: "esm",
    external: ["cloudflare:*", "node:*"],
    conditions: ["workerd", "worker"],
    write: false,
  });
  return sdk.outputFiles[0].text;
}

/** Returns the modules that `koze build` generated for a project, by path. @param {string} project */
export function generatedFiles(project) {
  const generated = join(project, "src/generated");
  const names = readdirSync(generated, { recursive: true }).filter((name) => name.endsWith(".mjs"));
  return Object.fromEntries(names.map((name) => [name, readFileSync(join(generated, name), "utf8")]));
}

/** Returns a generated module that imports the SDK from the bundle, five directories above it. @param {string} text */
export function withBundle(text) {
  return text.replaceAll(`"@cloudflare/sandbox"`, `"../../../../../sdk-bundle.mjs"`);
}

export class Stage {
  /**
   * @param {string} project where `koze build` ran
   * @param {{ name: string, file: string, from: string, to: string }[]} mutations of the generated files
   * @param {(modules: string) => Engine} [make] creates the engine from `node_modules`
   */
  static async open(project, mutations, make = (modules) => new Engine(modules)) {
    const stage = new Stage();
    const modules = realpathSync(join(project, "node_modules"));
    stage.engine = make(modules);
    await stage.engine.listen();
    const texts = { "sdk-bundle.mjs": await bundledSdk(project) };
    const files = generatedFiles(project);
    const classes = [...files["worker.mjs"].matchAll(/^export class (\w+)/gm)].map(([, name]) => name);
    let entry = `${ENTRY}\nexport * from "./as-built/src/generated/worker.mjs";\n`;
    const all = [{ name: "as-built" }, ...mutations];
    const exported = [];
    for (const [index, { name, file, from, to }] of all.entries()) {
      for (const [one, text] of Object.entries(files)) {
        if (one === file && text.split(from).length !== 2) throw new Error(`${name}: not once in ${file}: ${from}`);
        const changed = one === file ? text.replace(from, () => to) : text;
        texts[`${name}/src/generated/${one}`] = withBundle(changed);
      }
      texts[`${name}/build/index.js`] = "export default {};";
      for (const Class of classes) {
        exported.push(`${Class}_${index}`);
        entry += `import { ${Class} as Base_${Class}_${index} } from "./${name}/src/generated/worker.mjs";\n`;
        entry += `export class ${Class}_${index} extends Base_${Class}_${index} ${TOOLS}\n`;
      }
    }
    stage.variants = all.map(({ name }) => name);
    stage.texts = texts;
    // Never query a real Docker.
    process.env.WRANGLER_DOCKER_BIN = "/bin/false";
    stage.miniflare = new Miniflare(
      convertV4MiniflareOptions({
        host: "127.0.0.1",
        port: 0,
        cf: false,
        // The SDK's logs about containers that fail on purpose are not interesting.
        handleStructuredLogs: ({ message }) => process.env.KOZE_TEST_LOGS && console.error(message),
        containerEngine: {
          localDocker: { socketPath: `unix://${stage.engine.socket}`, containerEgressInterceptorImage: "sidecar" },
        },
        workers: [
          {
            name: "w",
            modulesRoot: "/",
            modules: [
              { type: "ESModule", path: "/entry.mjs", contents: entry },
              ...Object.entries(texts).map(([path, contents]) => ({ type: "ESModule", path: `/${path}`, contents })),
            ],
            compatibilityDate: "2026-04-21",
            compatibilityFlags: ["nodejs_compat"],
            bindings: { SANDBOX_LOG_LEVEL: "error" },
            durableObjects: Object.fromEntries(
              exported.map((name) => [name, { className: name, useSQLite: true, container: { imageName: IMAGE } }]),
            ),
          },
        ],
      }),
    );
    stage.url = await stage.miniflare.ready;
    return stage;
  }

  /** Returns an object of a variant's class. */
  sandbox(name, { variant = "as-built", Class = "ShellSandbox" } = {}) {
    return new Sandbox(this, `${Class}_${this.variants.indexOf(variant)}`, name);
  }

  /** Returns the URL from which a file of a variant without imports can be imported. */
  module(variant, file) {
    return `data:text/javascript,${encodeURIComponent(this.texts[`${variant}/src/generated/${file}`])}`;
  }

  async close() {
    await this.miniflare.dispose();
    await this.engine.close();
  }
}

/** The error of a method. */
export class Refused extends Error {
  constructor({ code, message, retryable }) {
    super(`${code}: ${message}`);
    Object.assign(this, { code, text: message, retryable });
  }
}

/** A sandbox: calls the methods of the contract over RPC. */
class Sandbox {
  constructor(stage, Class, name) {
    Object.assign(this, { stage, engine: stage.engine, base: `/${Class}/${encodeURIComponent(name)}/`, of: { Class, name } });
  }

  /** Returns the object's ID, which is part of its container's name. */
  async id() {
    return (await fetch(new URL(`${this.base}id`, this.stage.url))).text();
  }

  /** Returns a URL of the object's `fetch`. */
  url(path) {
    return new URL(`${this.base}fetch${path}`, this.stage.url);
  }

  async call(method, input = {}) {
    const body = JSON.stringify(input, (_, value) => (value instanceof Bytes ? { base64: value.base64 } : value));
    const response = await fetch(new URL(this.base + method, this.stage.url), { method: "POST", body });
    const reply = JSON.parse(await response.text(), (_, value) =>
      value?.base64 === undefined ? value : Buffer.from(value.base64, "base64"),
    );
    if (reply.ok === true) return reply.value;
    if (reply.ok === false) throw new Refused(reply.error);
    throw new Error(`${method} answered ${JSON.stringify(reply)}`);
  }

  open(sleepAfterMs = null) {
    return this.ask("open", { sleepAfterMs });
  }

  /** Does an operation of the contract. */
  ask(operation, input = {}) {
    return this.call("koze", { [operation]: input });
  }

  exec(argv, options = {}) {
    return this.ask("exec", program(argv, options));
  }

  writeProcess(id, bytes, waitMs) {
    return this.ask("write_process", { id, bytes: new Bytes(bytes), waitMs, call: null });
  }

  /** Cancels the calls with a name. */
  cancel(call) {
    return this.ask("cancel", { call });
  }

  /** Runs a command in bash for a client whose connection breaks at some time. */
  async leave(command, when) {
    const exec = { argv: ["bash", "-c", command], workingDir: "/home/user", env: [], timeoutMs: 60_000, maxOutput: 100, call: null };
    await this.leaveCall("exec", exec, when);
  }

  /** Does an operation for a client whose connection breaks at some time. */
  async leaveCall(operation, input, when) {
    const url = new URL(`${this.base}koze`, this.stage.url);
    const socket = net.connect(Number(url.port), url.hostname);
    socket.on("error", () => {});
    const body = JSON.stringify({ [operation]: input });
    socket.write(`POST ${url.pathname} HTTP/1.1\r\nhost: ${url.host}\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
    await when();
    socket.resetAndDestroy();
  }

  /** Destroys the sandbox, opens it and runs a program in it, without a pause. */
  again(argv) {
    return this.call("again", program(argv));
  }

  /** Returns the output of a command in bash. */
  async sh(command, options) {
    return (await this.exec(["bash", "-c", command], options)).stdout.toString();
  }

  async read(path, { root = "/", offset = 0, limit = 8 << 20 } = {}) {
    return (await this.ask("read", { root, path, offset, limit })).bytes;
  }

  write(path, bytes, { root = "/", append = false, offset } = {}) {
    return this.ask("write", { root, path, bytes: new Bytes(bytes), append, offset });
  }

  edit(path, old, replacement, { root = "/", all = false } = {}) {
    return this.ask("edit", { root, path, old: new Bytes(old), new: new Bytes(replacement), all });
  }

  lines(path, { root = "/", first = 1, last = null, maxChars = 1000, verbatim = false } = {}) {
    return this.ask("read_lines", { root, path, first, last, maxChars, verbatim });
  }

  search(path, pattern, { root = "/", ...more } = {}) {
    const search = { pattern, ignoreCase: false, include: null, skipIgnored: false, maxFileSize: 1 << 20, binaryWithin: 1 << 20 };
    const limits = { maxLineChars: 1 << 20, maxLineBytes: 99, maxMatches: 9, maxSkipped: 9, maxDirectories: 9, maxEntries: 999 };
    return this.ask("search", { root, path, search: { ...search, ...limits, timeoutMs: 60_000, ...more }, call: null });
  }

  list(path, root = "/") {
    return this.ask("list", { root, path }).then(({ entries }) => entries);
  }

  stat(path, root = "/") {
    return this.ask("stat", { root, path });
  }

  makeDir(path, root = "/") {
    return this.ask("change", { make_dir: { root, path } });
  }

  makeLink(path, target, root = "/") {
    return this.ask("change", { make_link: { root, path, target } });
  }

  setMode(path, mode, root = "/") {
    return this.ask("change", { set_mode: { root, path, mode } });
  }

  remove(path, root = "/") {
    return this.ask("change", { remove: { root, path } });
  }

  rename(from, to, root = "/") {
    return this.ask("change", { rename: { from: { root, path: from }, to: { root, path: to } } });
  }

  /** Copies to another sandbox, by default this one. */
  copy(path, target, { other = this, except = "", call = null, pace = 0 } = {}) {
    const unpack = { root: "/", path: target, call };
    return this.call("copy", { pack: { root: "/", path, except }, to: other.of, unpack, pace });
  }

  /** Unpacks a stream that consists of some bytes, repeated. */
  unpack(bytes, path, { times = 1, pace = 0, call = null } = {}) {
    return this.call("copy", { bytes: new Bytes(bytes), times, pace, to: this.of, unpack: { root: "/", path, call } });
  }

  /** Returns what the stream of an archive has, up to about a number of bytes. */
  async archive(path, { root = "/", most, pace } = {}) {
    return (await this.call("archive", { input: { root, path }, most, pace })).bytes;
  }

  /** Creates the files of an archive that consists of some bytes, repeated. */
  extract(bytes, path, { times = 1, pace = 0, call = null } = {}) {
    const unpack = { root: "/", path, call };
    return this.call("copy", { bytes: new Bytes(bytes), times, pace, to: this.of, unpack, method: "kozeExtract" });
  }

  expose(port) {
    return this.ask("expose", { port });
  }

  /** Opens a port, and returns the headers with which the Worker forwards a request to its URL. */
  async preview(port) {
    const { nonce } = await this.expose(port);
    return { "koze-port": String(port), "koze-nonce": nonce };
  }

  /** Sets the stored state, as an earlier koze may have left it, which is read when the object starts. */
  remember(memory) {
    return this.call("remember", memory);
  }

  /** Evicts the object, as the platform may do at any time, so that it loses its state in memory. */
  abort() {
    return this.call("abort").catch(() => {});
  }

  /** Keeps the container running without its object, as the platform does. */
  linger() {
    return this.call("linger");
  }

  /** Returns the guest's token, or replaces it. */
  token() {
    return this.call("token");
  }

  /** Returns the result of a request of a sandbox with an egress policy: status, redirect target, and text. */
  gate(url, props) {
    return this.call("gate", { url, props });
  }

  forge(token) {
    return this.call("forge", { token });
  }

  status() {
    return this.ask("status");
  }

  destroy() {
    return this.ask("destroy");
  }
}

/** Returns the input of a program. */
function program(argv, { workingDir = "/home/user", env = [], timeoutMs = 60_000, maxOutput = 100_000, call = null } = {}) {
  return { argv, workingDir, env, timeoutMs, maxOutput, call };
}

/** Bytes, which JSON does not have. */
class Bytes {
  constructor(bytes) {
    this.base64 = Buffer.from(bytes).toString("base64");
  }
}
