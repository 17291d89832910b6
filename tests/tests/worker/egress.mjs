// The egress policy of a Worker: `node egress.mjs MODULE CASES SCRIPTS PUBLIC`. CASES lists the addresses embedded in other
// addresses. SCRIPTS is the module that sends requests of scripts, and PUBLIC lists what is open and what is closed to them.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { pathToFileURL } from "node:url";

const [module, cases, scripts, addressesFile] = process.argv.slice(2);
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
