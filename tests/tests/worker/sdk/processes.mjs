// The cases of processes: programs that run on after the call that started them.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually, refused } from "./cases.mjs";

const BUFFER = 64 << 10;

/** Starts a script in bash, and returns the ID of its process. */
async function start(s, script, { terminal = null, buffer = BUFFER, dropOldest = false, env = [], argv, label = null, attendWithinMs = null } = {}) {
  const input = { argv: argv ?? ["bash", "-c", script], workingDir: "/home/user", env, terminal, buffer, dropOldest, label, attendWithinMs };
  return (await s.ask("start", input)).id;
}

const read = (s, id, cursor = 0, { limit = 1 << 20, waitMs = 30_000, call = null } = {}) =>
  s.ask("read_process", { id, cursor, limit, waitMs, call });
const write = (s, id, bytes, { waitMs = 30_000 } = {}) => s.writeProcess(id, bytes, waitMs);
const wait = async (s, id, timeoutMs = 30_000) => (await s.ask("wait_process", { id, timeoutMs, call: null })).exit;
const signal = (s, id, number) => s.ask("signal_process", { id, signal: number });

/** Reads to the end. */
async function all(s, id, limit = 1 << 20) {
  const streams = { stdout: [], stderr: [] };
  let [cursor, dropped, exit] = [0, 0, null];
  while (exit === null) {
    const output = await read(s, id, cursor, { limit });
    assert.ok(output.next > cursor || output.exit !== null, "the time was up");
    let at = 0;
    for (const { stream, length } of output.chunks) streams[stream].push(output.bytes.subarray(at, (at += length)));
    assert.equal(at, output.bytes.length);
    dropped += output.dropped;
    [cursor, exit] = [output.next, output.exit];
  }
  return { stdout: Buffer.concat(streams.stdout), stderr: Buffer.concat(streams.stderr), dropped, exit };
}

/** Waits until a process has printed something. */
async function until(s, id, text) {
  let [cursor, seen] = [0, ""];
  while (!seen.includes(text)) {
    const output = await read(s, id, cursor);
    assert.ok(output.next > cursor, `it never printed ${text}: ${seen}`);
    seen += output.bytes;
    cursor = output.next;
  }
}

const numbers = (last) => Array.from({ length: last }, (_, at) => `${at + 1}\n`).join("");

/** @type {Record<string, (sandbox: any, dir: string, stage: any) => Promise<void>>} */
export const cases = {
  async "output of a process is kept for later readers"(s) {
    const id = await start(s, "printf 'a\\377\\000b'; echo oops >&2; echo \"$V\"; exit 77", { env: [["V", "$(id)\n'"]] });
    assert.match(id, /^[0-9a-f]{32}$/);
    assert.equal(await wait(s, id), 77);
    for (const limit of [1 << 20, 1]) {
      const { stdout, stderr, dropped, exit } = await all(s, id, limit);
      assert.deepEqual([...stdout], [...Buffer.from("a\xff\0b$(id)\n'\n", "latin1")]);
      assert.deepEqual([String(stderr), dropped, exit], ["oops\n", 0, 77]);
    }
    const info = await s.ask("process", { id });
    assert.deepEqual(info, { id, program: "bash", terminal: false, exit: 77, label: null });
    const { processes } = await s.ask("processes");
    assert.deepEqual(processes.find((one) => one.id === id), info);
    await refused(read(s, id, 1000), "invalid_input");
    await refused(read(s, id, 0, { limit: 0 }), "invalid_input");
    for (const unknown of ["0".repeat(32), "", "../x"]) await refused(s.ask("process", { id: unknown }), "not_found");
  },

  async "a process reads what is written to it"(s) {
    const id = await start(s, "", { argv: ["cat"] });
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, at) => (at * 7) % 256));
    const reading = read(s, id);
    assert.deepEqual(await write(s, id, bytes), { taken: 256 });
    assert.deepEqual((await reading).bytes, bytes);
    await s.ask("close_process", { id });
    assert.equal(await wait(s, id), 0);
    await refused(write(s, id, Buffer.from("x")), "invalid_input");
    await s.ask("close_process", { id });
    // One that reads nothing takes what a pipe holds.
    const full = await start(s, "exec sleep 1000");
    const { taken } = await write(s, full, Buffer.alloc(1 << 20), { waitMs: 200 });
    assert.ok(taken > 0 && taken < 1 << 20, String(taken));
    assert.deepEqual(await write(s, full, Buffer.alloc(1), { waitMs: 100 }), { taken: 0 });
    await signal(s, full, 9);
    // One that reads slowly gets all of it.
    const counts = await start(s, "sleep 0.3; wc -c");
    assert.deepEqual(await write(s, counts, Buffer.alloc(3 << 20)), { taken: 3 << 20 });
    await s.ask("close_process", { id: counts });
    assert.equal(Number((await all(s, counts)).stdout), 3 << 20);
  },

  async "a slow reader slows a process down, and loses nothing"(s) {
    const id = await start(s, "rm -f koze-over; seq 50000; seq 50000 >&2; touch koze-over", { buffer: 4096 });
    assert.equal(await wait(s, id, 300), null);
    await refused(s.stat("/home/user/koze-over"), "not_found");
    const { stdout, stderr, dropped, exit } = await all(s, id, 3000);
    assert.ok(String(stdout) === numbers(50_000) && String(stderr) === numbers(50_000));
    assert.deepEqual([dropped, exit], [0, 0]);
  },

  async "a process that drops its oldest output says how much"(s) {
    const id = await start(s, "seq 100000; exit 3", { buffer: 4096, dropOldest: true });
    assert.equal(await wait(s, id), 3);
    // Output may arrive after the end of the program. One reader waits for it, and a later one finds what was kept.
    await all(s, id);
    const { stdout, dropped, exit } = await all(s, id);
    const whole = numbers(100_000);
    assert.ok(stdout.length > 0 && stdout.length <= 4096 && whole.endsWith(String(stdout)));
    assert.deepEqual([dropped + stdout.length, exit], [whole.length, 3]);
  },

  async "signals reach a process, and all that came of it"(s) {
    for (const [number, code] of [[15, 143], [2, 130], [9, 137]]) {
      const id = await start(s, "exec sleep 1000");
      await signal(s, id, number);
      assert.equal(await wait(s, id), code);
      await signal(s, id, 9);
    }
    const id = await start(s, "setsid sleep 98764 & echo up; wait");
    await until(s, id, "up");
    await signal(s, id, 9);
    assert.equal(await wait(s, id), 137);
    const left = () => s.sh("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c '[s]leep 98764' || true");
    await eventually("the end of all", async () => (await left()) === "0\n");
    // A process that it leaves behind with its streams does not hold up its end.
    const leaves = await start(s, "sleep 1000 & echo early; exit 6");
    assert.equal(await wait(s, leaves), 6);
    const { stdout, exit } = await all(s, leaves);
    assert.deepEqual([String(stdout), exit], ["early\n", 6]);
  },

  async "a process has a terminal of its own"(s) {
    const script = "trap 'stty size; exit 7' WINCH; stty size; echo $TERM; test -t 2 && echo up; while :; do sleep 0.05; done";
    const id = await start(s, script, { terminal: { rows: 24, columns: 80 } });
    await until(s, id, "up");
    await s.ask("resize_process", { id, rows: 40, columns: 132 });
    const { stdout, exit } = await all(s, id);
    assert.deepEqual([String(stdout), exit], ["24 80\r\nxterm-256color\r\nup\r\n40 132\r\n", 7]);
    // Once the program runs: the shell ignores Ctrl-C while it starts one.
    const typed = await start(s, "cat", { terminal: { rows: 24, columns: 80 } });
    await write(s, typed, Buffer.from("up\n"));
    await until(s, typed, "up\r\nup\r\n");
    await write(s, typed, Buffer.from("\x03"));
    assert.equal(await wait(s, typed), 130);
    const ends = await start(s, "cat; seq 20000", { terminal: { rows: 24, columns: 80 } });
    await s.ask("close_process", { id: ends });
    assert.ok(String((await all(s, ends)).stdout).endsWith("\r\n19999\r\n20000\r\n"));
    await refused(s.ask("resize_process", { id: ends, rows: 0, columns: 80 }), "invalid_input");
    const pipes = await start(s, ":");
    await refused(s.ask("resize_process", { id: pipes, rows: 24, columns: 80 }), "invalid_input");
  },

  async "what cannot start as a process is told so"(s) {
    await refused(start(s, "", { argv: ["no-such-program"] }), "not_found");
    await refused(start(s, "", { argv: [] }), "invalid_input");
    await refused(start(s, ":", { buffer: 1 }), "invalid_input");
    await refused(start(s, ":", { buffer: 1 << 30 }), "invalid_input");
    await refused(start(s, ":", { terminal: { rows: 0, columns: 1 } }), "invalid_input");
  },

  async "a process has a label"(s) {
    const label = "a 'label' $(id)\n\u{1f600}";
    const id = await start(s, ":", { label });
    assert.equal((await s.ask("process", { id })).label, label);
    assert.equal((await s.ask("processes")).processes.find((one) => one.id === id).label, label);
    await refused(start(s, ":", { label: "x".repeat(65) }), "invalid_input");
  },

  async "a process that nobody attends is killed"(s) {
    const attendWithinMs = 500;
    const [left, attended] = [await start(s, "exec sleep 1000", { attendWithinMs }), await start(s, "exec sleep 1000", { attendWithinMs })];
    await s.ask("wait_process", { id: attended, timeoutMs: 0, call: null, abandonedSignal: 9 });
    assert.equal(await wait(s, left), 137);
    assert.equal(await wait(s, attended, 500), null);
    await signal(s, attended, 9);
  },

  async "a reader that was given up waits no longer"(s) {
    const id = await start(s, "exec cat");
    const polls = Array.from({ length: 3 }, () => read(s, id, 0, { waitMs: 300_000, call: "gone" }));
    const refusals = polls.map((poll) => refused(poll, "unavailable"));
    await sleep(300);
    await s.cancel("gone");
    await Promise.all(refusals);
    // It goes on.
    await write(s, id, Buffer.from("x"));
    assert.equal((await read(s, id)).next, 1);
    await signal(s, id, 9);
  },
};

/** Cases that each get their own sandbox, which is not open yet. */
export const lives = {
  async "a process whose caller is gone gets a signal"(s) {
    await s.open(null);
    const attend = (id, abandonedSignal) => ({
      wait_process: { id, timeoutMs: 60_000, call: null, abandonedSignal },
      read_process: { id, cursor: 3, limit: 100, waitMs: 60_000, call: null, abandonedSignal },
    });
    for (const operation of ["wait_process", "read_process"]) {
      for (const [abandonedSignal, code] of [[9, 137], [2, 130]]) {
        // It is canceled by name, its client disconnects, and its object is evicted.
        for (const how of ["cancel", "leave", "abort"]) {
          const id = await start(s, "echo up; exec sleep 1000");
          await until(s, id, "up");
          const input = { ...attend(id, abandonedSignal)[operation], call: `attend ${id}` };
          if (how === "leave") await s.leaveCall(operation, input, () => sleep(800));
          else {
            const attended = s.ask(operation, input).catch(() => {});
            await sleep(300);
            if (how === "cancel") await s.cancel(input.call);
            else await s.linger().then(() => s.abort());
            await attended;
          }
          assert.equal(await wait(s, id), code, `${operation} ${how}`);
        }
      }
    }
    // Without the signal it goes on, also after an answer.
    const id = await start(s, "echo up; exec sleep 1000");
    assert.equal((await s.ask("read_process", { ...attend(id, 9).read_process, cursor: 0 })).exit, null);
    assert.equal((await s.ask("wait_process", { ...attend(id, 9).wait_process, timeoutMs: 100 })).exit, null);
    await s.leaveCall("wait_process", attend(id, null).wait_process, () => sleep(800));
    assert.equal(await wait(s, id, 500), null);
    await signal(s, id, 9);
  },

  async "processes are bounded, and make room for each other"(s) {
    await s.open(null);
    const ids = [];
    const starts = await Promise.allSettled(Array.from({ length: 100 }, () => start(s, "exec sleep 1000")));
    for (const { status, value, reason } of starts) {
      if (status === "fulfilled") ids.push(value);
      else assert.equal(reason.code, "unavailable", String(reason));
    }
    assert.ok(ids.length > 0 && ids.length <= 64, String(ids.length));
    await Promise.all(ids.map((id) => signal(s, id, 9)));
    await Promise.all(ids.map((id) => wait(s, id)));
    const large = await Promise.all([1, 2, 3, 4].map(() => start(s, "exec sleep 1000", { buffer: 8 << 20 })));
    await refused(start(s, ":", { buffer: 4096 }), "unavailable");
    await Promise.all(large.map((id) => signal(s, id, 9)));
  },

  async "calls that wait for processes hold up no others"(s) {
    await s.open(null);
    const id = await start(s, "exec cat");
    let over = 0;
    const polls = Array.from({ length: 100 }, () => read(s, id, 0, { waitMs: 60_000 }).finally(() => over++));
    // They are under way.
    await sleep(500);
    for (let turn = 0; turn < 5; turn++) assert.equal(await s.sh("echo served"), "served\n");
    // Nor each other, where there is something to read, or to write.
    const other = await start(s, "echo there; exec cat");
    await until(s, other, "there");
    assert.deepEqual(await write(s, other, Buffer.from("x")), { taken: 1 });
    assert.equal(over, 0, "others had to wait for them");
    // A caller that waits for its turn, and is gone, also abandons its process.
    const third = await start(s, "exec sleep 1000");
    const waits = s.ask("wait_process", { id: third, timeoutMs: 60_000, call: "third", abandonedSignal: 9 }).catch(() => {});
    await sleep(1500);
    await s.cancel("third");
    await waits;
    assert.equal(await wait(s, third), 137);
    await write(s, id, Buffer.from("x"));
    for (const { next } of await Promise.all(polls)) assert.equal(next, 1);
    await signal(s, id, 9);
  },

  async "a process ends with its container, and a lookup starts none"(s) {
    const unopened = await s.ask("processes").catch((error) => error);
    assert.equal(unopened.code, "unopened");
    await s.open(null);
    assert.deepEqual(await s.ask("processes"), { processes: [] });
    assert.equal((await s.status()).status, "sleeping");
    const id = await start(s, "echo up; exec sleep 1000");
    await until(s, id, "up");
    // An object that comes after another finds it.
    await s.linger();
    await s.abort();
    assert.equal(String((await read(s, id)).bytes), "up\n");
    const polled = read(s, id, 3, { waitMs: 60_000 }).catch((error) => error);
    await sleep(300);
    await s.ask("destroy");
    assert.match((await polled).code, /^(unavailable|not_found|unopened)$/);
    await s.open(null);
    await refused(s.ask("process", { id }), "not_found");
    await refused(read(s, id), "not_found");
    assert.deepEqual(await s.ask("processes"), { processes: [] });
    assert.equal((await s.status()).status, "sleeping");
    await eventually("another container", async () => (await s.sh("echo up")) === "up\n");
    await refused(read(s, id), "not_found");
  },
};
