// Scripts in workerd: `node main.mjs TEMPLATES HOSTILE`, where HOSTILE is a file with scripts that do not want to end.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";

const [templates, hostile] = process.argv.slice(2);
/** Enough for every honest script of this test, and soon burnt. */
const FUEL = 100_000_000;

const text = (path) => readFileSync(path, "utf8");
const worker = join(import.meta.dirname, "worker.mjs");
const isolated = text(join(templates, "generated/koze/isolated.mjs"))
  .replace("__KOZE_SCRIPTS_NAME__", '"koze-scripts"')
  .replace("__KOZE_SCRIPTS_SOURCE__", () => JSON.stringify(text(join(templates, "generated/koze/scripts.mjs"))));
const miniflare = new Miniflare(
  convertV4MiniflareOptions({
    host: "127.0.0.1",
    port: 0,
    cf: false,
    workerLoaders: { LOADER: {} },
    compatibilityDate: "2026-01-01",
    modulesRoot: "/",
    modules: [
      { type: "ESModule", path: "/worker.mjs", contents: text(worker) },
      { type: "ESModule", path: "/scripts.mjs", contents: text(join(templates, "generated/koze/scripts.mjs")) },
      { type: "ESModule", path: "/isolated.mjs", contents: isolated },
      { type: "CompiledWasm", path: "/koze-script.wasm", contents: readFileSync(join(templates, "script/koze-script.wasm")) },
    ],
  }),
);

/** Runs all cases, in the isolate of the Worker or in a dynamic one. @param {URL} url @param {boolean} loaded */
async function cases(url, loaded) {
  const ask = async (body) => {
    const signal = AbortSignal.timeout(120_000);
    const response = await fetch(url, { method: "POST", body: JSON.stringify({ ...body, loaded }), signal });
    const answer = await response.text();
    assert.equal(response.status, 200, answer);
    return JSON.parse(answer);
  };
  const run = (code, { start, ...rest } = {}) => ask({ start: { code, ...start }, ...rest });
  const two = async () => assert.deepEqual((await run("1 + 1")).result, { Ok: 2 });

  await two();
  const code = "console.log('one'); await state.set('a', [1, 'ä']); console.warn('two'); return state.get('a')";
  assert.deepEqual(await run(code), { result: { Ok: [1, "ä"] }, logs: ["one", "[WARN] two"], aborted: true });
  const failed = await run("console.log('before');\n  null.x");
  assert.deepEqual(failed.result.Err.place, { line: 2, column: 3 });
  assert.deepEqual(failed.logs, ["before"]);
  assert.equal((await run("await db.schema()")).result.Err.message, "Error: not in this test");
  assert.deepEqual((await run("args.a + secrets.KEY + require('b').c", {
    start: { args: { a: "a" }, secrets: { KEY: "-key-" }, libraries: { b: "exports.c = 'c'" } },
  })).result, { Ok: "a-key-c" });
  assert.equal(await ask({ source: { script: "return 1" } }), null);
  assert.match((await ask({ source: { script: "return (" } })).message, /^SyntaxError/);
  const schema = { type: "object", required: ["a"] };
  assert.equal(await ask({ source: { schema } }), null);
  assert.match((await ask({ source: { schema: { type: "object", required: 1 } } })).message, /must be a list of names/);
  assert.match((await run("1", { start: { args: null, schema } })).result.Err.message, /null is not of type "object"/);
  const timers = "const seen = []; setTimeout(() => seen.push(2), 60); setTimeout(() => seen.push(1), 20);\n" +
    "await new Promise((done) => setTimeout(done, 100)); seen";
  assert.deepEqual((await run(timers)).result, { Ok: [1, 2] });
  const long = "await state.set('long', 'x'.repeat(1000000)); return (await state.get('long')).length";
  assert.deepEqual((await run(long)).result, { Ok: 1_000_000 });

  // What one script changes does not reach the next one.
  await run("Object.prototype.x = 1; globalThis.y = 2; JSON.stringify = () => 'no'; 1");
  assert.deepEqual((await run("[typeof ({}).x, typeof y, JSON.stringify([1])]")).result, { Ok: ["undefined", "undefined", "[1]"] });

  // Others go on while a script waits, and a call ends with its script.
  const waiting = run("await fetch('http://slow')", { start: { limits: { time_ms: 2000 } } });
  await new Promise((done) => setTimeout(done, 200));
  const before = Date.now();
  await two();
  assert.ok(Date.now() - before < 1500, "another script waited for it");
  const late = await waiting;
  assert.equal(late.result.Err.limit, "time");
  assert.match(late.result.Err.message, /time limit of 2 s/);
  assert.ok(late.aborted, "its call goes on");

  // One that computes cannot be interrupted by the clock, so a short time is little fuel.
  const computing = performance.now();
  const spent = await run("for (;;) ;", { start: { limits: { time_ms: 100 } } });
  assert.equal(spent.result.Err.limit, "time");
  assert.ok(performance.now() - computing < 1500, `it computed for ${performance.now() - computing} ms`);

  // Its caller can end it.
  const canceled = await run("await fetch('http://slow')", { cancel: 100 });
  assert.equal(canceled.thrown, "TimeoutError");
  assert.ok(canceled.aborted, "its call goes on");
  // An answer that is not JSON is an error of the call.
  assert.match((await run("try { await state.keys() } catch (error) { return error.message }")).result.Ok, /BigInt/);

  const many = await Promise.all(Array.from({ length: 100 }, (_, n) => run(`await null; return ${n}`)));
  assert.deepEqual(many.map(({ result }) => result.Ok), Array.from({ length: 100 }, (_, n) => n));

  for (const [what, script, limit] of JSON.parse(text(hostile))) {
    const limits = { time_ms: script.includes("http://slow") ? 400 : 60_000 };
    const { result } = await run(script, { fuel: FUEL, start: { limits } });
    assert.ok(result.Err?.message, `${what}: ${JSON.stringify(result)}`);
    // Some fill the memory first, of which a Worker has less.
    if (limit && result.Err.limit !== "memory") assert.equal(result.Err.limit, limit, `${what}: ${result.Err.message}`);
    await two();
  }

  // The memory of instances that are gone is free again.
  for (let left = 20; left > 0; left--) {
    const { result } = await run("const a = []; for (;;) a.push(new Uint8Array(1 << 20))");
    assert.equal(result.Err.limit, "memory");
  }
  await two();

  const start = performance.now();
  const times = 200;
  assert.deepEqual((await run("1 + 1", { times })).result, { Ok: 2 });
  console.log(`${loaded ? "in a dynamic Worker, " : ""}a fresh instance and 1 + 1: ${((performance.now() - start) / times).toFixed(2)} ms`);
  return ask;
}

try {
  const url = await miniflare.ready;
  await cases(url, false);
  const ask = await cases(url, true);

  // As the platform words it.
  const ends = async (text) => (await ask({ start: { code: "1" }, ends: text })).result?.Err.limit;
  assert.equal(await ends("Worker exceeded CPU time limit."), "time");
  assert.equal(await ends("Worker exceeded memory limit."), "memory");
  assert.equal((await ask({ start: { code: "1" }, ends: "another error" })).message, "another error");
} finally {
  await miniflare.dispose();
}
