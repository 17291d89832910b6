// What a container may say to the class over the SDK, and what its programs answer: `node hostile.mjs DIRECTORY`, with the
// templates of the classes in it.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [directory] = process.argv.slice(2);
const sdk = pathToFileURL(join(directory, "sdk.mjs")).href;
// The SDK without a container: each command is answered with what the test says.
const stub = `
  export class Sandbox {
    constructor(ctx) { this.ctx = ctx }
    createClientForTransport() {}
    renewActivityTimeout() {}
    async execWithSessionToken() { return { stdout: globalThis.said, stderr: "", exitCode: 0 } }
  }`;
let control = false;
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === "@cloudflare/sandbox"
      ? { url: `data:text/javascript,${encodeURIComponent(stub)}`, shortCircuit: true }
      : next(specifier, context),
  load: (url, context, next) => {
    const [path] = url.split("?");
    if (path !== sdk) return next(url, context);
    const source = readFileSync(new URL(path), "utf8").replace("__KOZE_SCRIPT__", "''");
    return { format: "module", source: control ? weakened(source) : source, shortCircuit: true };
  },
});

/** The class as it would be with plain objects. @param {string} source */
function weakened(source) {
  const weak = source
    .replace("FAULTS.get(this.word)", "Object.fromEntries(FAULTS)[this.word]")
    .replace("KINDS.get(type)", "Object.fromEntries(KINDS)[type]");
  assert.notEqual(weak, source);
  return weak;
}

// Node 22 does not have these yet.
Uint8Array.fromBase64 ??= (text) => new Uint8Array(Buffer.from(text, "base64"));
Uint8Array.prototype.toBase64 ??= function () {
  return Buffer.from(this).toString("base64");
};
console.error = () => {};

async function sandbox(query) {
  const { KozeSandbox } = await import(sdk + query);
  const kept = new Map([["koze", { sleepAfterMs: null, ports: [] }]]);
  const storage = { get: async (key) => kept.get(key), put: async (key, value) => kept.set(key, value) };
  const ctx = { storage, container: { running: true }, blockConcurrencyWhile: (work) => work() };
  const object = new KozeSandbox(ctx, {});
  await new Promise((done) => setTimeout(done, 10));
  return object;
}

const WORDS = ["constructor", "__proto__", "toString", "hasOwnProperty", "valueOf"];
const place = { root: "/", path: "/x" };
async function answers(object) {
  const all = [];
  for (const word of WORDS) {
    globalThis.said = `no ${word} 0\n.`;
    const failed = await object.kozeMakeDir(place).catch((error) => ({ thrown: String(error) }));
    globalThis.said = `ok ${word} 644 3\n\n.`;
    const stat = await object.kozeStat(place).catch((error) => ({ thrown: String(error) }));
    all.push([failed.error?.code, failed.error?.message, stat.value?.kind]);
  }
  return all;
}

const message = "/x: the sandbox could not do it, and did not say why";
assert.deepEqual(await answers(await sandbox("")), WORDS.map(() => ["internal", message, "other"]));
globalThis.said = "no ENOENT 0\n.";
assert.equal((await (await sandbox("")).kozeMakeDir(place)).error.code, "not_found");
control = true;
const weak = await answers(await sandbox("?control"));
assert.ok(weak.every(([code, , kind]) => code !== "internal" || kind !== "other"), JSON.stringify(weak));

// Cookies are for the host of the preview alone.
const { answered } = await import(pathToFileURL(join(directory, "calls.mjs")));
const headers = new Headers({ "x-mine": "1" });
for (const cookie of ["a=1", "b=domain=x; Path=/", "c=1; Domain=example.com; Path=/", "d=1;DOMAIN = .a;domain"]) {
  headers.append("set-cookie", cookie);
}
const answer = answered(new Response("body", { status: 201, headers }));
assert.deepEqual(answer.headers.getSetCookie(), ["a=1", "b=domain=x; Path=/", "c=1; Path=/", "d=1"]);
assert.deepEqual([answer.status, answer.headers.get("x-mine"), await answer.text()], [201, "1", "body"]);
const plain = new Response("body", { headers: { "set-cookie": "a=1; Path=/" } });
assert.equal(answered(plain), plain);
