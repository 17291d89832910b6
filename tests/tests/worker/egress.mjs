// The egress policy of a Worker: `node egress.mjs MODULE CASES SCRIPTS PUBLIC REQUESTS`. CASES lists the addresses embedded in other
// addresses. SCRIPTS is the module that sends requests of scripts, and PUBLIC lists what is open and what is closed to them.
// REQUESTS is the module for policies with methods, paths or credentials.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { pathToFileURL } from "node:url";

const [module, cases, scripts, addressesFile, requestsFile] = process.argv.slice(2);
const runtime = "export class WorkerEntrypoint { constructor(ctx) { this.ctx = ctx } }";
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === "cloudflare:workers"
      ? { url: `data:text/javascript,${encodeURIComponent(runtime)}`, shortCircuit: true }
      : next(specifier, context),
});
const { ContainerProxy, KozeEgress, addresses, mayReach } = await import(pathToFileURL(module));

const { isClosed } = await import(pathToFileURL(scripts));

/** Formats an address as URLs do. */
const inUrl = (address) => new URL(address.includes(":") ? `http://[${address}]` : `http://${address}`).hostname;

const table = JSON.parse(readFileSync(cases, "utf8"));
assert.ok(table.length > 10);
for (const { address, holds } of table) {
  assert.deepEqual(addresses(inUrl(address)), [inUrl(address), ...holds], address);
  const policy = { internet: true, denied: ["203.0.113.7"] };
  const leads = address === "203.0.113.7" || holds.includes("203.0.113.7");
  assert.equal(mayReach(policy, new URL(`https://${inUrl(address)}/`)), !leads, address);
}
for (const name of ["example.com", "a.1", "abc", "face"]) assert.deepEqual(addresses(name), [], name);
// The control: a list that compares texts allows the address in other notations.
const written = table.filter(({ holds }) => holds.includes("203.0.113.7")).map(({ address }) => inUrl(address));
assert.ok(written.length > 8 && !written.includes("203.0.113.7"));

const some = { internet: false, allowed: ["a.example", "b.example:8080", "*.c.example", "*.c.example:22"], denied: ["x.c.example:443"] };
for (const [url, wanted] of [
  ["http://a.example/", true],
  ["https://a.example./", true],
  ["https://a.example:80/", true],
  ["http://a.example:443/", true],
  ["http://a.example:22/", false],
  ["https://a.example:8443/", false],
  ["http://b.example:8080/", true],
  ["http://b.example/", false],
  ["https://b.example/", false],
  ["https://y.c.example/", true],
  ["http://y.c.example:22/", true],
  ["http://y.c.example:25/", false],
  ["http://c.example/", false],
  ["http://.c.example/", false],
  ["https://x.c.example/", false],
  ["http://x.c.example/", true],
  ["http://other.example/", false],
]) {
  assert.equal(mayReach(some, new URL(url)), wanted, url);
}
// Without an allowlist, all ports are allowed. A denied host without a port is denied at every port.
const all = { internet: true, denied: ["a.example"] };
for (const [url, wanted] of [["http://b.example:22/", true], ["http://a.example:22/", false], ["http://a.example/", false]]) {
  assert.equal(mayReach(all, new URL(url)), wanted, url);
}
assert.equal(mayReach({ internet: false }, new URL("http://a.example/")), false);

const { open, closed } = JSON.parse(readFileSync(addressesFile, "utf8"));
assert.ok(open.length > 20 && closed.length > 30);
for (const address of open) assert.equal(isClosed(inUrl(address)), false, address);
for (const address of [...closed, "localhost", "a.localhost", "2130706433", "0x7f.1"]) assert.equal(isClosed(inUrl(address)), true, address);
for (const name of ["example.com", "localhost.example", "notlocalhost"]) assert.equal(isClosed(name), false, name);

// Both classes use the policy, forward allowed requests, and report others to the object of the sandbox.
const reported = [];
const objects = {
  idFromString: (id) => id,
  get: (id) => ({ kozeRefused: async (host) => (reported.push([id, host]), assert.fail("which is only logged")) }),
};
const [exports, place] = [{ ShellSandbox: objects }, { className: "ShellSandbox", containerId: "1" }];
console.error = () => {};
let fetched = [];
globalThis.fetch = async (request) => (fetched.push(request.url), new Response("reached"));
for (const gate of [
  new KozeEgress({ exports, props: { internet: false, allowed: ["a.example"], denied: undefined, ...place } }),
  new ContainerProxy({ exports, props: { enableInternet: false, allowedHosts: ["a.example"], deniedHosts: undefined, ...place } }),
  // A container that an earlier version started.
  new KozeEgress({ props: { internet: false, allowed: ["a.example"], denied: undefined } }),
]) {
  assert.equal(await (await gate.fetch(new Request("http://a.example/x"))).text(), "reached");
  const refused = await gate.fetch(new Request("http://a.example:22/x"));
  assert.deepEqual([refused.status, await refused.text()], [403, "The sandbox may not reach a.example:22\n"]);
  const other = await gate.fetch(new Request("https://b.example/x"));
  assert.deepEqual([other.status, await other.text()], [403, "The sandbox may not reach b.example\n"]);
}
assert.deepEqual(fetched, Array(3).fill("http://a.example/x"));
assert.deepEqual(reported, [["1", "a.example:22"], ["1", "b.example:443"], ["1", "a.example:22"], ["1", "b.example:443"]]);

// With a policy about requests, the Rust Worker decides. A stand-in for it replaces and masks `held`.
const { Requests } = await import(pathToFileURL(requestsFile));
let [asked, freed, counted] = [[], 0, 0];
class Judge {
  #open = new Map();
  open(policy, sandbox, values) {
    this.#open.set(asked.length, { policy: JSON.parse(policy), sandbox, values: JSON.parse(values), held: "" });
    return asked.length;
  }
  environment(number) {
    return JSON.stringify({ KEY: `placeholder of ${this.#open.get(number).sandbox}` });
  }
  decide(number, text) {
    const head = JSON.parse(text);
    // What a signature covers is decided about twice.
    if (head.target.startsWith("/signed") && !head.body_sha256) return JSON.stringify("read_body");
    asked.push({ ...head, values: this.#open.get(number).values });
    if (head.target === "/no") return JSON.stringify({ denied: { status: 429, rule: "a rule", text: "not this one" } });
    const isPlain = head.target === "/plain" || head.target === "/counted";
    const headers = isPlain ? [] : [["authorization", "Bearer secret"]];
    return JSON.stringify({ sent: { target: `${head.target}?replaced`, headers, credentials: isPlain ? [] : ["KEY"], masks: !isPlain, counts: head.target === "/counted" } });
  }
  countBytes(number, bytes, now) {
    assert.ok(this.#open.has(number) && Math.abs(now - Date.now()) < 60_000);
    counted += bytes;
    return counted > 20 ? "too many bytes" : undefined;
  }
  maskHeader(_, value) {
    return value.includes("secret") ? value.replace("secret", "******") : undefined;
  }
  maskPiece(number, piece) {
    this.#open.get(number).held += new TextDecoder().decode(piece);
    return new Uint8Array();
  }
  finish(number) {
    return new TextEncoder().encode(this.#open.get(number).held.replaceAll("secret", "******"));
  }
  close(number) {
    assert.ok(this.#open.delete(number));
    freed++;
  }
}
const policy = { internet: false, allowed_hosts: ["a.example"], denied_hosts: [], credentials: [{ name: "KEY" }, { name: "UNSET" }, { name: "OTHER" }] };
const requests = new Requests(new Judge(), { ShellSandbox: policy });
assert.deepEqual(requests.environment("ShellSandbox", "1"), { KEY: "placeholder of 1" });
for (const other of ["OtherSandbox", "constructor", "__proto__"]) assert.deepEqual(requests.environment(other, "1"), {});
globalThis.FixedLengthStream = class extends TransformStream {
  constructor(length) {
    super();
    assert.equal(length, 25);
  }
};
console.warn = () => {};
const answers = {
  "/plain?replaced": () => new Response("with a secret"),
  "/echo?replaced": () =>
    new Response("the secret, twice: secret", {
      status: 201,
      headers: [["x-echo", "a secret"], ["set-cookie", "a=secret"], ["set-cookie", "b=1"], ["content-length", "25"]],
    }),
  "/none?replaced": () => new Response(null, { status: 204, headers: { "x-echo": "secret" } }),
  "/cut?replaced": () => new Response(new ReadableStream({ pull: (out) => out.error(new Error("cut")) })),
  "/signed?replaced": (request) => new Response(request.body),
  "/counted?replaced": async (request) => new Response(`${await request.text()}, ten bytes`),
  "/gzip?replaced": () => new Response("compressed", { headers: { "content-encoding": "gzip" } }),
};
const env = { KEY: "secret", OTHER: { get: () => "a binding that is not a text" } };
for (const Gate of [KozeEgress, ContainerProxy]) {
  [asked, fetched, freed] = [[], [], 0];
  reported.length = 0;
  globalThis.fetch = async (request) => {
    fetched.push([request.method, request.redirect, request.headers.get("authorization"), request.headers.get("accept-encoding")]);
    const { pathname, search } = new URL(request.url);
    return answers[pathname + search](request);
  };
  const gate = new Gate({ exports, props: { internet: true, enableInternet: true, ...place } });
  Object.assign(gate, { env, requests });
  const send = (target, method = "GET", body = "body") =>
    gate.fetch(new Request(`https://a.example:8443${target}`, { method, headers: { authorization: "Bearer placeholder" }, body: method === "POST" ? body : undefined, duplex: "half" }));

  const refused = await send("/no");
  assert.deepEqual([refused.status, await refused.text()], [429, "not this one\n"]);
  assert.deepEqual(reported, [["1", "a.example:8443"]]);
  assert.equal(await (await send("/plain")).text(), "with a secret");
  const echo = await send("/echo", "POST");
  assert.deepEqual([echo.status, await echo.text()], [201, "the ******, twice: ******"]);
  assert.deepEqual([echo.headers.get("x-echo"), echo.headers.getSetCookie()], ["a ******", ["a=******", "b=1"]]);
  const none = await send("/none");
  assert.deepEqual([none.status, none.body, none.headers.get("x-echo")], [204, null, "******"]);
  const compressed = await send("/gzip");
  assert.equal(compressed.status, 502);
  assert.match(await compressed.text(), /^a\.example:8443 compressed/);
  await assert.rejects((await send("/cut")).text(), /cut/);
  counted = 0;
  assert.equal(await (await send("/counted", "POST")).text(), "body, ten bytes");
  assert.equal(counted, 4 + 15);
  const exceeded = await send("/counted", "POST");
  assert.deepEqual([exceeded.status, await exceeded.text()], [429, "too many bytes\n"]);
  assert.equal(reported.length, 2);
  await assert.rejects((await send("/counted")).text(), /too many bytes/);
  assert.equal(await (await send("/signed", "POST", "signed body")).text(), "signed body");
  assert.equal(asked.at(-1).body_sha256, createHash("sha256").update("signed body").digest("hex"));
  assert.equal(await (await send("/signed")).text(), "");
  assert.equal(asked.at(-1).body_sha256, createHash("sha256").update("").digest("hex"));
  assert.equal(freed, asked.length);
  const long = await send("/signed", "POST", new Uint8Array((16 << 20) + 1));
  assert.deepEqual([long.status, freed], [403, asked.length + 1]);
  assert.match(await long.text(), /more than 16 MiB/);
  const [head] = asked;
  assert.deepEqual([head.tls, head.host, head.port, head.method, head.target, head.values], [true, "a.example", 8443, "GET", "/no", { KEY: "secret" }]);
  assert.ok(head.headers.some(([name, value]) => name === "authorization" && value === "Bearer placeholder"));
  assert.deepEqual(fetched[0], ["GET", "manual", "Bearer placeholder", null]);
  assert.deepEqual(fetched[1], ["POST", "manual", "Bearer secret", "identity"]);
  // Classes without such a policy keep theirs.
  const other = new Gate({ exports, props: { ...place, internet: false, enableInternet: false, className: "OtherSandbox" } });
  Object.assign(other, { env, requests });
  assert.equal((await other.fetch(new Request("http://a.example/no"))).status, 403);
  assert.equal(asked.length, 11);
}
