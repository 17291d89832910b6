// The stage of the tests: a Worker in workerd whose sandboxes run in the stand-in of the Docker engine. It has the
// classes that `koze build` made for a project, and of the first of them as many variants as there are mutations.

import { readFileSync, readdirSync, realpathSync } from "node:fs";
import net from "node:net";
import { join } from "node:path";
import { build } from "esbuild";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";
import { Engine } from "./engine.mjs";

const IMAGE = "docker.io/cloudflare/sandbox:0.12.10";

// Bytes go through JSON as base64. Everything but `/call` is handed to the object as it comes.
const ENTRY = `
const pack = (value) =>
  value instanceof Uint8Array ? { base64: value.toBase64() }
  : Array.isArray(value) ? value.map(pack)
  : value && typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, pack(one)]))
  : value;
const unpack = (_, value) => (value?.base64 === undefined ? value : Uint8Array.fromBase64(value.base64));
// As the Rust Worker copies: two calls, and a stream that goes from one to the other. In place of a sandbox it may be given
// what to send, so often; and nobody but the client of this request waits.
async function copy(stub, env, { pack, bytes, times = 1, pace, to, unpack }) {
  let stream;
  if (pack) {
    const packed = await stub.kozePack(pack);
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
  const reply = await other.kozeUnpack(unpack, stream, () => new Promise(() => {})).catch((error) => ({ thrown: String(error) }));
  return Response.json(reply);
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
    if (path[0] === "copy") return copy(stub, env, JSON.parse(await request.text(), unpack));
    // This one waits for as long as its own client does.
    const more = path[0] === "kozeExec" ? [() => new Promise(() => {})] : [];
    const reply = await stub[path[0]](JSON.parse(await request.text(), unpack), ...more).catch((error) => ({ thrown: String(error) }));
    return Response.json(pack(reply));
  },
};
`;

// What the tests do to an object beside what its class does.
const TOOLS = `{
  abort() { this.ctx.abort("a test"); }
  async linger() {
    await this.ctx.container.setInactivityTimeout(60_000);
    return { ok: true, value: {} };
  }
  async again(exec) {
    await this.kozeDestroy({});
    await this.kozeOpen({ sleepAfterMs: null });
    return this.kozeExec(exec);
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

export class Stage {
  /**
   * @param {string} project where `koze build` ran
   * @param {{ name: string, file: string, from: string, to: string }[]} mutations of the generated files
   * @param {(modules: string) => Engine} [make] makes the engine, of `node_modules`
   */
  static async open(project, mutations, make = (modules) => new Engine(modules)) {
    const stage = new Stage();
    const modules = realpathSync(join(project, "node_modules"));
    stage.engine = make(modules);
    await stage.engine.listen();
    const sdk = await build({
      stdin: { contents: `export * from "@cloudflare/sandbox";`, resolveDir: project },
      bundle: true,
      format: "esm",
      external: ["cloudflare:*", "node:*"],
      conditions: ["workerd", "worker"],
      write: false,
    });
    const texts = { "sdk-bundle.mjs": sdk.outputFiles[0].text };
    const generated = join(project, "src/generated");
    const names = readdirSync(generated).filter((name) => name.endsWith(".mjs"));
    const files = Object.fromEntries(names.map((name) => [name, readFileSync(join(generated, name), "utf8")]));
    const classes = [...files["worker.mjs"].matchAll(/^export class (\w+)/gm)].map(([, name]) => name);
    let entry = `${ENTRY}\nexport * from "./as-built/src/generated/worker.mjs";\n`;
    const all = [{ name: "as-built" }, ...mutations];
    const exported = [];
    for (const [index, { name, file, from, to }] of all.entries()) {
      for (const [one, text] of Object.entries(files)) {
        if (one === file && text.split(from).length !== 2) throw new Error(`${name}: not once in ${file}: ${from}`);
        const changed = one === file ? text.replace(from, () => to) : text;
        texts[`${name}/src/generated/${one}`] = changed.replaceAll(`"@cloudflare/sandbox"`, `"../../../sdk-bundle.mjs"`);
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
    // No Docker is asked what it can do.
    process.env.WRANGLER_DOCKER_BIN = "/bin/false";
    stage.miniflare = new Miniflare(
      convertV4MiniflareOptions({
        host: "127.0.0.1",
        port: 0,
        cf: false,
        // What the SDK logs of containers that are made to fail is no news.
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

  /** An object of a class, as a variant has it. */
  sandbox(name, { variant = "as-built", Class = "ShellSandbox" } = {}) {
    return new Sandbox(this, `${Class}_${this.variants.indexOf(variant)}`, name);
  }

  /** Where a file of a variant can be imported from that imports nothing itself. */
  module(variant, file) {
    return `data:text/javascript,${encodeURIComponent(this.texts[`${variant}/src/generated/${file}`])}`;
  }

  async close() {
    await this.miniflare.dispose();
    await this.engine.close();
  }
}

/** What a method answered that was not done. */
export class Refused extends Error {
  constructor({ code, message, retryable }) {
    super(`${code}: ${message}`);
    Object.assign(this, { code, text: message, retryable });
  }
}

/** A sandbox: the methods of the contract, by way of RPC. */
class Sandbox {
  constructor(stage, Class, name) {
    Object.assign(this, { stage, engine: stage.engine, base: `/${Class}/${encodeURIComponent(name)}/`, of: { Class, name } });
  }

  /** The id of the object, which its container has in its name. */
  async id() {
    return (await fetch(new URL(`${this.base}id`, this.stage.url))).text();
  }

  /** Where requests reach the object's `fetch`. */
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
    return this.call("kozeOpen", { sleepAfterMs });
  }

  exec(argv, options = {}, method = "kozeExec") {
    const { workingDir = "/home/user", env = [], timeoutMs = 60_000, maxOutput = 100_000, call = null } = options;
    return this.call(method, { argv, workingDir, env, timeoutMs, maxOutput, call });
  }

  /** Gives up the calls of a name. */
  cancel(call) {
    return this.call("kozeCancel", { call });
  }

  /** Runs a command in bash for a client that is gone at some time, with a connection that breaks off. */
  async leave(command, when) {
    const exec = { argv: ["bash", "-c", command], workingDir: "/home/user", env: [], timeoutMs: 60_000, maxOutput: 100, call: null };
    const url = new URL(`${this.base}kozeExec`, this.stage.url);
    const socket = net.connect(Number(url.port), url.hostname);
    socket.on("error", () => {});
    const body = JSON.stringify(exec);
    socket.write(`POST ${url.pathname} HTTP/1.1\r\nhost: ${url.host}\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
    await when();
    socket.resetAndDestroy();
  }

  /** Destroys the sandbox, opens it and runs a program in it, with nothing in between. */
  again(argv) {
    return this.exec(argv, {}, "again");
  }

  /** What a command in bash prints. */
  async sh(command, options) {
    return (await this.exec(["bash", "-c", command], options)).stdout.toString();
  }

  async read(path, { root = "/", offset = 0, limit = 8 << 20 } = {}) {
    return (await this.call("kozeRead", { root, path, offset, limit })).bytes;
  }

  write(path, bytes, { root = "/", append = false } = {}) {
    return this.call("kozeWrite", { root, path, bytes: new Bytes(bytes), append });
  }

  list(path, root = "/") {
    return this.call("kozeList", { root, path }).then(({ entries }) => entries);
  }

  stat(path, root = "/") {
    return this.call("kozeStat", { root, path });
  }

  makeDir(path, root = "/") {
    return this.call("kozeMakeDir", { root, path });
  }

  makeLink(path, target, root = "/") {
    return this.call("kozeMakeLink", { root, path, target });
  }

  setMode(path, mode, root = "/") {
    return this.call("kozeSetMode", { root, path, mode });
  }

  remove(path, root = "/") {
    return this.call("kozeRemove", { root, path });
  }

  rename(from, to, root = "/") {
    return this.call("kozeRename", { from: { root, path: from }, to: { root, path: to } });
  }

  /** Copies to another sandbox, by default this one. */
  copy(path, target, { other = this, except = "", call = null, pace = 0 } = {}) {
    const unpack = { root: "/", path: target, call };
    return this.call("copy", { pack: { root: "/", path, except }, to: other.of, unpack, pace });
  }

  /** Makes what a stream says, which is some bytes so often. */
  unpack(bytes, path, { times = 1, pace = 0, call = null } = {}) {
    return this.call("copy", { bytes: new Bytes(bytes), times, pace, to: this.of, unpack: { root: "/", path, call } });
  }

  expose(port) {
    return this.call("kozeExpose", { port });
  }

  /** Opens a port: the headers with which the Worker hands over a request of its URL. */
  async preview(port) {
    const { nonce } = await this.expose(port);
    return { "koze-port": String(port), "koze-nonce": nonce };
  }

  /** What the object remembers, as an earlier koze may have left it, which is read when it comes to life. */
  remember(memory) {
    return this.call("remember", memory);
  }

  /** Ends the object as the platform may at any time, and with it what it remembers outside of its storage. */
  abort() {
    return this.call("abort").catch(() => {});
  }

  /** Has the container live on without its object, as the platform's do. */
  linger() {
    return this.call("linger");
  }

  /** What the guest wants to be told, and to make it something else. */
  token() {
    return this.call("token");
  }

  /** What a request of a sandbox with an egress policy comes to: its status, where it leads to, and its text. */
  gate(url, props) {
    return this.call("gate", { url, props });
  }

  forge(token) {
    return this.call("forge", { token });
  }

  status() {
    return this.call("kozeStatus");
  }

  destroy() {
    return this.call("kozeDestroy");
  }
}

/** Bytes, which JSON has none of. */
class Bytes {
  constructor(bytes) {
    this.base64 = Buffer.from(bytes).toString("base64");
  }
}
