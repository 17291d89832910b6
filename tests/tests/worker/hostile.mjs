// Hostile answers of a container to the sandbox classes, and responses of its programs: `node hostile.mjs DIRECTORY`,
// where DIRECTORY contains the templates of the classes.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [directory] = process.argv.slice(2);
/** @param {string} name */
const template = (name) => pathToFileURL(join(directory, name)).href;
const operations = template("operations.mjs");
registerHooks({
  load: (url, context, next) => {
    const [path, query] = url.split("?");
    if (path !== operations || query !== "control") return next(url, context);
    return { format: "module", source: weakened(readFileSync(new URL(path), "utf8")), shortCircuit: true };
  },
});

/** Makes the code look up words in plain objects, as the control. @param {string} source */
function weakened(source) {
  const words = source.replace("WORDS.has(error.why)", "Object.fromEntries([...WORDS].map((word) => [word, true]))[error.why]");
  const kinds = words.replace(/const known = link .*;/, 'const known = { link, file: "file", directory: "directory" }[kind] ?? "other";');
  assert.ok(source !== words && words !== kinds);
  return kinds;
}

const { Calls, Fault } = await import(template("calls.mjs"));
const { Refused } = await import(template("guest.mjs"));
const SILENT = "see the Worker's log";

/** Returns a class of the contract over a guest that gives fixed answers. @param {string} query */
async function sandbox(query) {
  const { Operations, known } = await import(operations + query);
  const kept = new Map([["koze", { sleepAfterMs: null, ports: [] }]]);
  const storage = { get: async (keys) => new Map(keys.map((key) => [key, kept.get(key)])), put: async (key, value) => kept.set(key, value) };
  const calls = new Calls(storage, { taken: [], settle: async () => {}, thrown: (error) => known(error) ?? new Fault("internal", SILENT) });
  await calls.load();
  const guest = { answer: () => {} };
  const host = { calls, ask: async () => guest.answer(), isRunning: () => true, destroy: async () => {} };
  return { guest, operations: new Operations(host) };
}

const HOSTILE = ["constructor", "__proto__", "toString", "hasOwnProperty", "valueOf"];
const place = { root: "/", path: "/x" };

/** Returns what a sandbox makes of a hostile guest's answers: error codes, and kinds of files. @param {string} query */
async function answers(query) {
  const { guest, operations } = await sandbox(query);
  const all = [];
  for (const word of HOSTILE) {
    guest.answer = () => {
      throw new Refused(word, "text");
    };
    const failed = await operations.answer({ change: { make_dir: place } });
    guest.answer = () => ({ ok: { kind: word, target: null, size: 3, mode: 0o644 } });
    const found = await operations.answer({ stat: place });
    all.push([failed.error?.code, failed.error?.message, found.value?.kind]);
  }
  return all;
}

assert.deepEqual(await answers(""), HOSTILE.map(() => ["internal", SILENT, "other"]));
const honest = await sandbox("");
honest.guest.answer = () => {
  throw new Refused("not_found", "/x is not there");
};
assert.equal((await honest.operations.answer({ change: { make_dir: place } })).error.code, "not_found");
const weak = await answers("?control");
assert.ok(weak.every(([code, , kind]) => code !== "internal" && kind !== "other"), JSON.stringify(weak));

// Cookies are restricted to the host of the preview.
const { answered } = await import(template("calls.mjs"));
const headers = new Headers({ "x-mine": "1" });
for (const cookie of ["a=1", "b=domain=x; Path=/", "c=1; Domain=example.com; Path=/", "d=1;DOMAIN = .a;domain"]) {
  headers.append("set-cookie", cookie);
}
const answer = answered(new Response("body", { status: 201, headers }));
assert.deepEqual(answer.headers.getSetCookie(), ["a=1", "b=domain=x; Path=/", "c=1; Path=/", "d=1"]);
assert.deepEqual([answer.status, answer.headers.get("x-mine"), await answer.text()], [201, "1", "body"]);
const plain = new Response("body", { headers: { "set-cookie": "a=1; Path=/" } });
assert.equal(answered(plain), plain);
