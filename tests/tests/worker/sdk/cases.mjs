// The cases of the class, each in its own directory of an open sandbox.

import assert from "node:assert/strict";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "ws";
import { cases as archives, lives as archiveLives } from "./archives.mjs";
import { edits } from "./edits.mjs";
import { cases as processes, lives as processLives } from "./processes.mjs";

/** Waits for a condition, with a generous timeout. */
export async function eventually(what, holds) {
  for (let turn = 0; turn < 200; turn++) {
    if (await holds()) return;
    await sleep(50);
  }
  assert.fail(`it never came: ${what}`);
}

/** Checks that a call fails with a code and without internal details, and returns the error. */
export async function refused(call, code, retryable = false) {
  const error = await call.then(
    (value) => assert.fail(`done: ${JSON.stringify(value)}`),
    (error) => error,
  );
  assert.equal(error.code, code, String(error));
  assert.equal(error.retryable, retryable, String(error));
  assert.doesNotMatch(error.text, /\n|bash:|at .*:[0-9]+|\/tmp\/|10\.0\.0\.|127\.0/);
  return error;
}

/** Every byte value, in an order that is not valid UTF-8. */
const BYTES = Buffer.from(Array.from({ length: 256 }, (_, index) => (index * 7) % 256));

/** Texts that would be executed if they became part of a command. */
const NASTY = [
  "$(touch /tmp/pwned)", "`touch /tmp/pwned`", "'; touch /tmp/pwned; '", '"; touch /tmp/pwned; "', "a\nb", "-rf", "*", "ü 漢",
  "back\\slash", "${HOME}", "tab\there", "end ",
];

/** Computes the bounded output in another way than the class. */
function bounded(text, limit) {
  if (text.length <= limit) return text;
  const room = limit - `\n[... ${text.length} bytes left out ...]\n`.length;
  const [first, last] = [Math.ceil(room / 2), Math.floor(room / 2)];
  const end = last ? text.slice(-last) : "";
  return `${text.slice(0, first)}\n[... ${text.length - first - last} bytes left out ...]\n${end}`;
}

/** @type {Record<string, (sandbox: any, dir: string, stage: any) => Promise<void>>} */
export const cases = {
  ...archives,
  ...edits,
  ...processes,

  async "an output is exact"(s) {
    const done = await s.exec(["bash", "-c", "printf 'one\\n\\n'; echo two >&2; exit 3"]);
    assert.deepEqual([String(done.stdout), String(done.stderr), done.exitCode, done.timedOut], ["one\n\n", "two\n", 3, false]);
    assert.equal(await s.sh("printf x"), "x");
    assert.equal(await s.sh(":"), "");
  },

  async "a program may exit at once"(s) {
    for (let turn = 0; turn < 20; turn += 1) {
      const done = await s.exec(["true"], { timeoutMs: 5000 });
      assert.deepEqual([done.exitCode, done.timedOut], [0, false]);
    }
  },

  async "an output may be any bytes"(s, dir) {
    await s.write(`${dir}/bytes`, BYTES);
    assert.deepEqual((await s.exec(["cat", `${dir}/bytes`])).stdout, BYTES);
  },

  async "a signal is an exit code"(s) {
    assert.equal((await s.exec(["bash", "-c", "kill -9 $$"])).exitCode, 137);
    assert.equal((await s.exec(["bash", "-c", "kill -TERM $$"])).exitCode, 143);
  },

  async "each program has a fresh environment"(s, dir) {
    assert.equal(await s.sh("cd /usr && export LEFT=1 && pwd"), "/usr\n");
    assert.equal(await s.sh("pwd; echo $LEFT"), "/home/user\n\n");
    for (const name of NASTY.filter((name) => name.trim() === name)) {
      await s.makeDir(`${dir}/${name}`);
      assert.equal(await s.sh("pwd", { workingDir: `${dir}/${name}` }), `${dir}/${name}\n`);
    }
    await refused(s.exec(["true"], { workingDir: `${dir}/missing` }), "not_found");
    await s.write(`${dir}/file`, "");
    await refused(s.exec(["true"], { workingDir: `${dir}/file` }), "not_a_directory");
    await refused(s.exec(["true"], { workingDir: "here" }), "invalid_input");
  },

  async "standard input is empty"(s) {
    assert.equal(await s.sh("cat; echo done"), "done\n");
  },

  async "arguments arrive as they are"(s) {
    const texts = [...NASTY, "", " ", "a=b"];
    const { stdout } = await s.exec(["printf", "%s\\0", ...texts]);
    assert.deepEqual(String(stdout).split("\0").slice(0, -1), texts);
    assert.equal(await s.sh("ls /tmp/pwned 2>&1 | wc -l; test ! -e /tmp/pwned && echo safe"), "1\nsafe\n");
    await refused(s.exec(["echo", "a\0b"]), "invalid_input");
    await refused(s.exec([]), "invalid_input");
  },

  async "variables arrive as they are, and no others"(s) {
    const env = [["A-B", "it's $(x)"], ["C", "two\nlines"], ["x y", ""], ["-u", "dash"], ["BASH_FUNC_echo%%", "() { :; }"]];
    const { stdout } = await s.exec(["env", "-0"], { env });
    const there = new Map(String(stdout).split("\0").map((pair) => pair.split(/=(.*)/s).slice(0, 2)));
    for (const [name, value] of env) assert.equal(there.get(name), value);
    // From the class.
    assert.equal(there.get("GREETING"), "hello 'you'");
    assert.deepEqual([...there.keys()].filter((name) => name.startsWith("KOZE")), []);
    // From the shell that started the guest.
    assert.deepEqual(["PWD", "OLDPWD", "SHLVL", "_"].filter((name) => there.has(name)), []);
    await refused(s.exec(["true"], { env: [["A=B", ""]] }), "invalid_input");
    await refused(s.exec(["true"], { env: [["", ""]] }), "invalid_input");
  },

  async "arguments may be many, and not too many"(s) {
    const texts = Array.from({ length: 60 }, (_, index) => String(index).padEnd(10_000, "x"));
    assert.equal((await s.exec(["printf", "%s", ...texts], { maxOutput: 1 << 20 })).stdout.length, 600_000);
    assert.equal(await s.sh(`: ${"x".repeat(125_000)}; echo long`), "long\n");
    await refused(s.exec(["echo", "x".repeat(131_072)]), "too_large");
    await refused(s.exec(["echo", ...Array(20).fill("x".repeat(100_000))]), "too_large");
  },

  async "programs are found or not"(s, dir) {
    await refused(s.exec(["no-such-program"]), "not_found");
    await s.write(`${dir}/a=b`, "#!/bin/sh\necho \"$0 $1\"\n");
    await refused(s.exec([`${dir}/a=b`]), "permission_denied");
    await refused(s.exec([dir]), "permission_denied");
    await s.setMode(`${dir}/a=b`, 0o755);
    assert.equal(String((await s.exec([`${dir}/a=b`, "x"], { env: [["C", "d"]] })).stdout), `${dir}/a=b x\n`);
    assert.equal(String((await s.exec([`${dir}/a=b`, "x"])).stdout), `${dir}/a=b x\n`);
    assert.equal(String((await s.exec(["./a=b", "x"], { workingDir: dir })).stdout), "./a=b x\n");
    await s.rename(`${dir}/a=b`, `${dir}/mine`);
    assert.equal(String((await s.exec(["mine"], { env: [["PATH", `${dir}:/usr/bin:/bin`]] })).stdout), `${dir}/mine \n`);
    assert.equal((await s.exec(["bash", "-c", "exit 127"])).exitCode, 127);
  },

  async "a timeout kills a program with its descendants"(s, dir) {
    // A process with its own group, one with its own session, and an orphan.
    const command = `
      echo begun; echo partly >&2
      setsid bash -c 'echo $$ >${dir}/session; exec sleep 1000' &
      (set -m; sleep 1000 & echo $! >${dir}/group)
      (sleep 1000 & echo $! >${dir}/orphan)
      (setsid bash -c 'echo $$ >${dir}/gone; exec sleep 1000' &)
      echo $$ >${dir}/program
      sleep 1000`;
    const done = await s.exec(["bash", "-c", command], { timeoutMs: 3000 });
    assert.deepEqual([String(done.stdout), String(done.stderr)], ["begun\n", "partly\n"]);
    assert.deepEqual([done.exitCode, done.timedOut], [124, true]);
    // Zombies count as dead.
    const alive = `for name in session group orphan gone program; do
      read -r pid <${dir}/$name; grep -q '^State:.[^Z]' /proc/$pid/status 2>/dev/null && echo $name; done; true`;
    assert.equal(await s.sh(alive), "");
  },

  async "a canceled program is killed with its descendants"(s, dir) {
    // One whose client is gone, and some that are canceled by name.
    const command = (name) => `
      (setsid bash -c 'echo $$ >${dir}/${name}-gone; exec sleep 1000' &)
      sleep 1000 & echo $! >${dir}/${name}-child
      echo $$ >${dir}/${name}-new; mv ${dir}/${name}-new ${dir}/${name}-program
      sleep 1000`;
    const began = async (/** @type {string} */ name) => {
      await eventually(`${name} runs`, () => s.stat(`${dir}/${name}-program`).then(() => true, () => false));
      await eventually(`all of ${name} runs`, async () => (await alive(name)) === "gone\nchild\nprogram\n");
    };
    // Zombies count as dead.
    const alive = (/** @type {string} */ name) => s.sh(`for one in gone child program; do
      read -r pid <${dir}/${name}-$one; grep -q '^State:.[^Z]' /proc/$pid/status 2>/dev/null && echo $one; done; true`);
    const dead = (/** @type {string} */ name) => eventually(`${name} is killed`, async () => (await alive(name)) === "");

    const named = ["a", "b"].map((name) => s.exec(["bash", "-c", command(name)], { call: "named" }));
    const other = s.exec(["bash", "-c", command("c")], { call: "other" });
    // Ignore their results if the case fails earlier.
    for (const call of [...named, other]) call.catch(() => {});
    await Promise.all([s.leave(command("left"), () => began("left")), began("a"), began("b"), began("c")]);
    await dead("left");
    const start = Date.now();
    await s.cancel("named");
    for (const call of named) await refused(call, "unavailable");
    await Promise.all([dead("a"), dead("b")]);
    assert.equal(await alive("c"), "gone\nchild\nprogram\n");
    // A call that arrives after its cancellation.
    await s.cancel("early");
    await refused(s.exec(["bash", "-c", `echo ran >${dir}/early`], { call: "early" }), "unavailable");
    await refused(s.stat(`${dir}/early`), "not_found");
    await s.cancel("other");
    await refused(other, "unavailable");
    await dead("c");
    assert.ok(Date.now() - start < 45_000, "it took as long as if nobody had said a word");
    assert.equal(await s.sh("echo $((6 * 7))"), "42\n");
  },

  async "background processes keep running"(s, dir) {
    const command = `(until [ -e ${dir}/go ]; do sleep 0.05; done; head -c 40M /dev/zero && echo more >&2 && echo alive >${dir}/said) & echo begun`;
    assert.equal(await s.sh(command, { timeoutMs: 3000 }), "begun\n");
    await s.write(`${dir}/go`, "");
    await eventually("a word from the background", () => s.read(`${dir}/said`).then((said) => String(said) === "alive\n", () => false));
  },

  async "many calls at once are all answered"(s, dir) {
    const some = Array.from({ length: 150 }, (_, n) => n);
    const made = await Promise.all(
      some.map(async (n) => {
        await s.write(`${dir}/${n}`, Buffer.alloc(100_000, n));
        const [bytes, text] = await Promise.all([s.read(`${dir}/${n}`), s.sh(`echo ${n}`)]);
        return bytes.length === 100_000 && bytes.every((byte) => byte === n) && text === `${n}\n`;
      }),
    );
    assert.ok(made.every(Boolean));
  },

  async "a program with much output blocks no other"(s) {
    const much = s.exec(["bash", "-c", "head -c 300000000 /dev/zero"], { maxOutput: 8 << 20 });
    for (let n = 0; n < 20; n++) assert.equal(await s.sh(`echo ${n}`), `${n}\n`);
    assert.equal((await much).stdout.length, 8 << 20);
  },

  async "an output is bounded"(s) {
    const text = Array.from({ length: 30_000 }, (_, index) => `${index + 1}\n`).join("");
    for (const maxOutput of [0, 1, 20, 60, 61, 1000, text.length - 1, text.length]) {
      const { stdout, stderr } = await s.exec(["bash", "-c", "seq 30000; seq 30000 >&2"], { maxOutput });
      if (maxOutput >= 60) assert.equal(String(stdout), bounded(text, maxOutput));
      assert.ok(stdout.length <= maxOutput && stdout.equals(stderr));
    }
    // More than fits on the disk, in pieces of every size, and once without a pause.
    const { stdout } = await s.exec(["bash", "-c", "echo first; head -c 250M /dev/zero; sleep 0.1; echo; echo last"], { maxOutput: 200 });
    const missing = 250 * 1024 * 1024 + 12 - (200 - "\n[... 262144012 bytes left out ...]\n".length);
    assert.match(String(stdout), new RegExp(`^first\n\0+\n\\[\\.\\.\\. ${missing} bytes left out \\.\\.\\.\\]\n\0+\nlast\n$`));
    assert.equal(stdout.length, 200);
    const lines = await s.sh("for n in {1..2000}; do echo $n; done", { maxOutput: 100 });
    assert.match(lines, /^1\n2\n[^]*1999\n2000\n$/);
  },

  async "files hold any bytes"(s, dir) {
    assert.deepEqual(await s.write(`${dir}/new/deep/file`, BYTES), { size: 256 });
    assert.deepEqual(await s.read(`${dir}/new/deep/file`), BYTES);
    assert.deepEqual(await s.write(`${dir}/empty`, ""), { size: 0 });
    assert.deepEqual(await s.read(`${dir}/empty`), Buffer.alloc(0));
    for (const name of NASTY) {
      await s.write(`${dir}/${name}`, name);
      assert.equal(String(await s.read(`${dir}/${name}`)), name);
    }
    assert.equal((await s.stat(`${dir}/empty`)).mode, 0o644);
  },

  async "files are read in pieces"(s, dir) {
    await s.write(`${dir}/file`, "0123456789");
    const piece = (offset, limit) => s.ask("read", { root: "/", path: `${dir}/file`, offset, limit });
    assert.deepEqual(await piece(3, 4), { bytes: Buffer.from("3456"), size: 10 });
    assert.deepEqual(await piece(8, 100), { bytes: Buffer.from("89"), size: 10 });
    assert.deepEqual(await piece(10, 100), { bytes: Buffer.alloc(0), size: 10 });
    assert.deepEqual(await piece(1e12, 100), { bytes: Buffer.alloc(0), size: 10 });
    assert.ok((await s.read("/proc/version")).length > 10);
  },

  async "files may be large"(s, dir) {
    const bytes = Buffer.alloc(8 << 20, BYTES);
    assert.deepEqual(await s.write(`${dir}/large`, bytes), { size: bytes.length });
    assert.ok(bytes.equals(await s.read(`${dir}/large`)));
    await refused(s.write(`${dir}/larger`, Buffer.alloc((8 << 20) + 1)), "too_large");
    await s.sh(`truncate -s 40M ${dir}/large; printf end >>${dir}/large`);
    const { bytes: end, size } = await s.ask("read", { root: "/", path: `${dir}/large`, offset: (40 << 20) - 1, limit: 10 });
    assert.deepEqual([String(end), size], ["\0end", (40 << 20) + 3]);
    await s.remove(`${dir}/large`);
  },

  async "a file is replaced atomically and keeps its mode"(s, dir) {
    await s.write(`${dir}/file`, "old");
    await s.setMode(`${dir}/file`, 0o750);
    await s.sh(`exec 9<file; ln file other`, { workingDir: dir });
    await s.makeLink(`${dir}/link`, "file");
    await s.write(`${dir}/link`, "new");
    assert.deepEqual([String(await s.read(`${dir}/file`)), (await s.stat(`${dir}/file`)).mode], ["new", 0o750]);
    // A reader with the old file open reads it to its end.
    assert.equal(String(await s.read(`${dir}/other`)), "old");
    assert.equal((await s.stat(`${dir}/link`)).kind, "link");
    await s.makeLink(`${dir}/dangling`, "made/here");
    await s.write(`${dir}/dangling`, "there");
    assert.equal(String(await s.read(`${dir}/made/here`)), "there");
    await s.makeLink(`${dir}/round`, "round");
    await refused(s.write(`${dir}/round`, ""), "invalid_input");
    assert.equal(await s.sh("ls -A | grep -c koze || true", { workingDir: dir }), "0\n");
  },

  async "a failed write leaves a file unchanged"(s) {
    await s.write("/small/replaced", "old");
    await s.write("/small/appended", "old");
    await refused(s.write("/small/replaced", Buffer.alloc(2 << 20)), "too_large");
    await refused(s.write("/small/appended", Buffer.alloc(2 << 20), { append: true }), "too_large");
    await refused(s.write("/small/new", Buffer.alloc(2 << 20), { append: true }), "too_large");
    assert.deepEqual([String(await s.read("/small/replaced")), String(await s.read("/small/appended"))], ["old", "old"]);
    assert.deepEqual((await s.list("/small")).map(({ name }) => name).sort(), ["appended", "replaced"]);
    await s.sh("rm /small/*");
  },

  async "bytes are appended atomically"(s, dir) {
    assert.deepEqual(await s.write(`${dir}/log`, "first\n", { append: true }), { size: 6 });
    const parts = Array.from({ length: 6 }, (_, index) => Buffer.alloc(1 << 20, String(index)));
    await Promise.all(parts.map((part) => s.write(`${dir}/log`, part, { append: true })));
    // One run for each: equal bytes are contiguous.
    const runs = await s.sh("tail -c +7 log | tr -s 0-9", { workingDir: dir });
    assert.equal([...runs].sort().join(""), "012345");
    assert.equal((await s.stat(`${dir}/log`)).size, 6 + (6 << 20));
    await s.remove(`${dir}/log`);
  },

  async "operations on the wrong file type fail"(s, dir) {
    await s.write(`${dir}/file`, "");
    await refused(s.read(`${dir}/missing`), "not_found");
    await refused(s.read(dir), "is_directory");
    await refused(s.write(dir, ""), "is_directory");
    await refused(s.write(`${dir}/new/`, ""), "is_directory");
    await refused(s.read(`${dir}/file/x`), "not_a_directory");
    await refused(s.write(`${dir}/file/x`, ""), "not_a_directory");
    await refused(s.read("/dev/zero"), "invalid_input");
    await refused(s.write("/dev/null", ""), "invalid_input");
    await refused(s.write("/usr/new", ""), "permission_denied");
    await refused(s.read("relative"), "invalid_input");
    await refused(s.read(`/${"x".repeat(300)}`), "invalid_input");
    await refused(s.read(`/${"x/".repeat(3000)}`), "invalid_input");
    await refused(s.read("/a\0b"), "invalid_input");
    // bash would connect to such a name.
    await s.write("/dev/tcp/127.0.0.1/3000", "a file");
    assert.equal(String(await s.read("/dev/tcp/127.0.0.1/3000")), "a file");
  },

  async "directories are listed"(s, dir) {
    await s.write(`${dir}/file`, "12345");
    await s.makeDir(`${dir}/sub`);
    await s.makeLink(`${dir}/link`, "to where\nnothing is");
    await s.sh("mkfifo pipe; touch $'odd\\xff' .hidden $'new\\nline'; touch -d @1234567890.5 file; chmod 4755 file", { workingDir: dir });
    const entries = Object.fromEntries((await s.list(dir)).map(({ name, stat }) => [name, stat]));
    assert.deepEqual(Object.keys(entries).sort(), [".hidden", "file", "link", "new\nline", "odd\ufffd", "pipe", "sub"]);
    const { mtime, version, ...file } = entries.file;
    assert.deepEqual(file, { kind: "file", target: null, size: 5, mode: 0o4755 });
    assert.deepEqual([mtime, Number.isSafeInteger(version)], [1_234_567_890_500, true]);
    assert.deepEqual([entries.link.kind, entries.link.target], ["link", "to where\nnothing is"]);
    assert.deepEqual([entries.pipe.kind, entries.sub.kind], ["other", "directory"]);
    for (const name of ["file", "link", "pipe", "sub", "new\nline"]) assert.deepEqual(await s.stat(`${dir}/${name}`), entries[name]);
    await s.write(`${dir}/file`, "54321");
    assert.notEqual((await s.stat(`${dir}/file`)).version, version);
    assert.deepEqual(await s.list(`${dir}/sub`), []);
    await refused(s.list(`${dir}/missing`), "not_found");
    await refused(s.list(`${dir}/file`), "not_a_directory");
    await refused(s.stat(`${dir}/missing`), "not_found");
    assert.equal((await s.stat("/")).kind, "directory");
    assert.equal((await s.stat(`${dir}/sub/..`)).kind, "directory");
  },

  async "directories, links and modes are created"(s, dir) {
    await s.makeDir(`${dir}/a/b/c`);
    await s.makeDir(`${dir}/a/b/c`);
    assert.equal((await s.stat(`${dir}/a/b/c`)).mode, 0o755);
    await s.write(`${dir}/file`, "");
    await refused(s.makeDir(`${dir}/file`), "not_a_directory");
    await refused(s.makeDir(`${dir}/file/x`), "not_a_directory");
    await s.makeLink(`${dir}/link`, "-x");
    assert.equal((await s.stat(`${dir}/link`)).target, "-x");
    await refused(s.makeLink(`${dir}/link`, "other"), "already_exists");
    await refused(s.makeLink(`${dir}/missing/link`, "x"), "not_found");
    await refused(s.makeLink(`${dir}/other`, ""), "invalid_input");
    await s.setMode(`${dir}/file`, 0o600);
    assert.equal((await s.stat(`${dir}/file`)).mode, 0o600);
    await refused(s.setMode(`${dir}/missing`, 0o600), "not_found");
    await refused(s.setMode(`${dir}/file`, 0o10000), "invalid_input");
  },

  async "files and directories are removed"(s, dir) {
    await s.write(`${dir}/kept/file`, "kept");
    await s.makeLink(`${dir}/link`, "kept");
    await s.remove(`${dir}/link`);
    assert.equal(String(await s.read(`${dir}/kept/file`)), "kept");
    await s.write(`${dir}/tree/a/b`, "");
    await s.remove(`${dir}/tree/`);
    await refused(s.stat(`${dir}/tree`), "not_found");
    await refused(s.remove(`${dir}/tree`), "not_found");
    await s.write(`${dir}/-rf`, "");
    await s.remove(`${dir}/-rf`);
    await refused(s.remove("/"), "invalid_input");
    await refused(s.remove("/usr/.."), "invalid_input");
    await refused(s.remove("/usr/bin/bash"), "permission_denied");
  },

  async "files and directories are renamed"(s, dir) {
    await s.write(`${dir}/one`, "1");
    await s.write(`${dir}/two`, "2");
    await s.rename(`${dir}/one`, `${dir}/two`);
    assert.equal(String(await s.read(`${dir}/two`)), "1");
    await s.rename(`${dir}/two`, `${dir}/two`);
    await refused(s.rename(`${dir}/one`, `${dir}/x`), "not_found");
    await refused(s.rename(`${dir}/two`, `${dir}/missing/x`), "not_found");
    await s.write(`${dir}/full/file`, "");
    await s.makeDir(`${dir}/sub`);
    await refused(s.rename(`${dir}/sub`, `${dir}/full`), "already_exists");
    await refused(s.rename(`${dir}/two`, `${dir}/full`), "is_directory");
    await refused(s.rename(`${dir}/full`, `${dir}/two`), "not_a_directory");
    await refused(s.rename(`${dir}/full`, `${dir}/full/in`), "invalid_input");
    await s.rename(`${dir}/full`, `${dir}/sub`);
    assert.deepEqual((await s.list(`${dir}/sub`)).map(({ name }) => name), ["file"]);
    // To another file system, where no partial copy may appear.
    await s.rename(`${dir}/sub`, "/small/sub");
    assert.deepEqual((await s.list("/small/sub")).map(({ name }) => name), ["file"]);
    await refused(s.stat(`${dir}/sub`), "not_found");
    await s.write(`${dir}/heavy`, Buffer.alloc(2 << 20));
    await refused(s.rename(`${dir}/heavy`, "/small/heavy"), "too_large");
    await s.remove("/small/sub");
    assert.deepEqual(await s.list("/small"), []);
    assert.equal((await s.stat(`${dir}/heavy`)).size, 2 << 20);
  },

  async "no path escapes its root"(s, dir) {
    const root = `${dir}/root`;
    await s.write(`${dir}/secret`, "secret");
    await s.write(`${root}/in/file`, "inside");
    await s.makeLink(`${root}/out`, "..");
    await s.makeLink(`${root}/leak`, "../secret");
    await s.makeLink(`${root}/round`, `${root}/in`);
    await s.makeLink(`${dir}/root-link`, "root");
    assert.equal(String(await s.read(`${root}/round/file`, { root })), "inside");
    assert.equal(String(await s.read(`${dir}/root-link/in/file`, { root: `${dir}/root-link` })), "inside");
    assert.equal((await s.stat(root, root)).kind, "directory");
    const leads = ["leak", "out/secret", "../secret", "in/../../secret"].map((path) => `${root}/${path}`);
    for (const path of leads) {
      await refused(s.read(path, { root }), "path_escape");
      await refused(s.write(path, "", { root }), "path_escape");
      await refused(s.write(path, "", { root, append: true }), "path_escape");
      await refused(s.setMode(path, 0o777, root), "path_escape");
    }
    for (const path of leads.slice(1)) {
      await refused(s.stat(path, root), "path_escape");
      await refused(s.remove(path, root), "path_escape");
      await refused(s.rename(path, `${root}/stolen`, root), "path_escape");
      await refused(s.rename(`${root}/in`, path, root), "path_escape");
      await refused(s.makeLink(`${path}-link`, "x", root), "path_escape");
    }
    await refused(s.list(`${root}/out`, root), "path_escape");
    await refused(s.list(`${dir}/rootless`, root), "not_found");
    await refused(s.makeDir(`${root}/out/made`, root), "path_escape");
    await refused(s.makeDir(`${dir}/root2/made`, root), "path_escape");
    await refused(s.remove(root, root), "path_escape");
    assert.equal((await s.stat(`${root}/leak`, root)).kind, "link");
    assert.equal(String(await s.read(`${dir}/secret`)), "secret");
    assert.deepEqual((await s.list(dir)).map(({ name }) => name).sort(), ["root", "root-link", "secret"]);
  },

  async "the class forwards requests only to exposed ports"(s, dir, stage) {
    const server = `
      const http = require("http"), crypto = require("crypto");
      http.createServer((q, r) => {
        if (q.url === "/cookies") return r.writeHead(200, { "set-cookie": ["a=1; Domain=example.com; Path=/", "b=2"] }).end();
        if (q.url === "/moved") return r.writeHead(302, { location: "http://127.0.0.1:3000/" }).end();
        let body = ""; q.on("data", (part) => (body += part)).on("end", () => r.end(JSON.stringify({ url: q.url, headers: q.headers, body })));
      }).on("upgrade", (q, socket) => {
        const key = crypto.createHash("sha1").update(q.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
        socket.write("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: " + key + "\\r\\n\\r\\n");
        socket.on("data", () => socket.write(Buffer.from([0x81, 2, 0x68, 0x69])));
      }).listen(8080, "127.0.0.1", () => require("fs").writeFileSync("${dir}/up", ""));`;
    await s.exec(["bash", "-c", `/opt/node -e "$1" & sleep 0`, "x", server]);
    await eventually("a server", () => s.stat(`${dir}/up`).then(() => true, () => false));
    const ask = async (path, headers = {}, init = {}) => {
      const response = await fetch(s.url(path), { headers, redirect: "manual", ...init });
      return { status: response.status, text: await response.text(), headers: response.headers };
    };
    assert.equal((await ask("/", { "koze-port": "8080" })).status, 404);
    for (const wrong of [80, 1023, s.engine.taken, 65536, 8080.5, "8080"]) await refused(s.expose(wrong), "invalid_input");
    const port = await s.preview(8080);
    assert.deepEqual(await s.preview(8080), port);
    const { status, text } = await ask("/a?b=c", { ...port, "x-mine": "yes" }, { method: "POST", body: "hello" });
    const seen = JSON.parse(text);
    assert.deepEqual([status, seen.url, seen.body, seen.headers["x-mine"]], [200, "/a?b=c", "hello", "yes"]);
    const smuggled = {
      ...port,
      "koze-token": "x",
      "cf-container-target-port": "3000",
      "x-sandbox-preview-proxy": "1",
      "x-sandbox-preview-port": "3000",
      "x-sandbox-name": "other",
    };
    const { headers } = JSON.parse((await ask("/", smuggled)).text);
    assert.deepEqual(Object.keys(headers).filter((name) => /koze|sandbox|container/.test(name)), []);
    // The SDK's own headers, and invalid ports.
    const others = [{}, { "cf-container-target-port": "3000" }, { "x-sandbox-preview-proxy": "1", "x-sandbox-preview-port": "3000" }];
    const values = ["3000", "8081", "08080", "8080, 3000", "8080.0", "0x1f90", "+8080", "808", "-1", "8080a"];
    for (const one of [...others, ...values.map((value) => ({ ...port, "koze-port": value }))]) {
      for (const path of ["/", "/api/execute", "/rpc", "/proxy/3000/", "//127.0.0.1:3000/"]) {
        assert.deepEqual([(await ask(path, one)).status, path, one], [404, path, one]);
      }
    }
    const moved = await ask("/moved", port);
    assert.deepEqual([moved.status, moved.headers.get("location")], [302, "http://127.0.0.1:3000/"]);
    // Cookies are restricted to the host of the preview.
    assert.deepEqual((await ask("/cookies", port)).headers.getSetCookie(), ["a=1; Path=/", "b=2"]);
    const socket = new WebSocket(s.url("/socket"), { headers: port });
    await once(socket, "open");
    socket.send("hello");
    assert.equal(String((await once(socket, "message"))[0]), "hi");
    socket.terminate();
    const control = new WebSocket(s.url("/rpc"), { headers: { ...port, "koze-port": "3000" } });
    const [error] = await once(control, "error");
    assert.match(String(error), /404/);
    const nothing = await ask("/", await s.preview(8099));
    assert.deepEqual([nothing.status, nothing.text], [502, "Nothing answers on port 8099 of the sandbox\n"]);
  },
};

/** Cases that each get their own sandbox, which is not open yet. */
export const lives = {
  ...archiveLives,
  ...processLives,

  async "directories of tools are created again for programs"(s) {
    await s.open();
    await s.write("/home/user/file", "x");
    await s.exec(["rm", "-rf", "/home/user", "/workspace", "/mnt/user-data"], { workingDir: "/" });
    await refused(s.list("/home/user"), "not_found");
    for (const workingDir of ["/home/user", "/workspace", "/mnt/user-data/workspace"]) {
      assert.equal(await s.sh("pwd; ls -A; echo kept >file; cat file; rm file", { workingDir }), `${workingDir}\nkept\n`);
    }
    await refused(s.exec(["true"], { workingDir: "/home/other" }), "not_found");
  },

  async "a program keeps its timeout when others are killed"(s) {
    await s.open();
    // A program in the sandbox may wait for the timeout, too.
    const command = `
      for process in /proc/[0-9]*; do
        read -r name <$process/comm && [[ $name == sleep ]] && kill "\${process#/proc/}"
      done 2>/dev/null
      sleep 0.5; echo on; sleep 1000`;
    const done = await s.exec(["bash", "-c", command], { timeoutMs: 3000 });
    assert.deepEqual([String(done.stdout), done.exitCode, done.timedOut], ["on\n", 124, true]);
  },

  async "a sandbox is opened, and destroyed"(s) {
    const path = { root: "/", path: "/home/user/file" };
    const inputs = {
      exec: { argv: ["true"], workingDir: "/", env: [], timeoutMs: 1000, maxOutput: 10 },
      read: { ...path, offset: 0, limit: 1 },
      write: { ...path, bytes: {}, append: false },
      list: path,
      stat: path,
      change: { remove: path },
      expose: { port: 8080 },
    };
    const unopened = async () => {
      for (const [name, input] of Object.entries(inputs)) await refused(s.ask(name, input), "unopened", true);
      assert.deepEqual(await s.status(), { opened: false, status: "sleeping" });
    };
    await unopened();
    assert.equal(s.engine.container(await s.id()), undefined);
    assert.deepEqual([await s.open(), await s.open()], [{ created: true }, { created: false }]);
    await s.write("/home/user/file", "here");
    const headers = await s.preview(8080);
    assert.deepEqual(await s.status(), { opened: true, status: "running" });
    await s.destroy();
    await unopened();
    assert.ok(!s.engine.container(await s.id())?.running);
    assert.deepEqual(await s.open(), { created: true });
    await refused(s.read("/home/user/file"), "not_found");
    assert.equal((await fetch(s.url("/"), { headers })).status, 404);
    await s.destroy();
    await s.destroy();
  },

  async "an older version of the Worker calls the methods of operations"(s) {
    const path = { root: "/", path: "/home/user/old" };
    await s.call("kozeOpen", { sleepAfterMs: null });
    const { argv, ...rest } = { argv: ["echo", "old"], workingDir: "/", env: [], timeoutMs: 9000, maxOutput: 99, call: null };
    assert.equal(String((await s.call("kozeExec", { argv, ...rest })).stdout), "old\n");
    await s.call("kozeMakeDir", path);
    await s.call("kozeSetMode", { ...path, mode: 0o700 });
    await s.call("kozeRename", { from: path, to: { root: "/", path: "/home/user/older" } });
    assert.equal((await s.call("kozeStat", { root: "/", path: "/home/user/older" })).mode, 0o700);
    assert.deepEqual(await s.call("kozeProcesses"), { processes: [] });
    await s.call("kozeDestroy");
    await refused(s.call("kozeReadLines", { ...path, first: 1, last: 1, maxChars: 1, verbatim: true }), "unopened", true);
  },

  async "an operation that is not known is refused"(s) {
    await s.open();
    for (const name of ["kill_all", "constructor", "answer"]) await refused(s.ask(name), "unsupported");
  },

  async "the URL of a port does not work for a later sandbox of that name"(s) {
    // Without a container, an authenticated request is told that the sandbox sleeps.
    const ask = async (/** @type {Record<string, string>} */ headers) => (await fetch(s.url("/"), { headers })).status;
    await s.open();
    const [first, other] = [await s.preview(8080), await s.preview(8081)];
    const nonce = first["koze-nonce"];
    assert.match(nonce, /^[a-z2-7]{10}$/);
    assert.deepEqual([await ask(first), await ask(other)], [503, 503]);
    const { "koze-nonce": _, ...without } = first;
    assert.equal(await ask(without), 404);
    for (const wrong of ["", nonce.slice(1), `${nonce}a`, nonce.toUpperCase(), `${nonce}, ${nonce}`, other["koze-nonce"], "undefined"]) {
      assert.deepEqual([await ask({ ...first, "koze-nonce": wrong }), wrong], [404, wrong]);
    }
    // The nonce is kept as long as the sandbox exists. Neither the caller nor a restart of the object changes it.
    assert.deepEqual(await Promise.all([s.preview(8080), s.preview(8080)]), [first, first]);
    await s.abort();
    assert.equal(await ask(first), 503);
    assert.deepEqual(await s.preview(8080), first);
    const together = await Promise.all([s.preview(8082), s.preview(8082)]);
    assert.deepEqual([await ask(together[0]), together[0]], [503, together[1]]);
    await s.destroy();
    assert.equal(await ask(first), 404);
    await s.open();
    assert.equal(await ask(first), 404);
    const next = await s.preview(8080);
    assert.deepEqual([await ask(first), await ask(next)], [404, 503]);
    await s.abort();
    assert.deepEqual([await ask(first), await ask(next)], [404, 503]);
  },

  async "a port that an earlier koze opened can be opened again"(s) {
    const ask = async (/** @type {Record<string, string>} */ headers) => (await fetch(s.url("/"), { headers })).status;
    await s.remember({ sleepAfterMs: null, ports: [8080, 8081] });
    await s.abort();
    assert.deepEqual(await s.open(), { created: false });
    assert.equal(await ask({ "koze-port": "8080" }), 404);
    assert.equal(await ask({ "koze-port": "8080", "koze-nonce": "" }), 404);
    const headers = await s.preview(8080);
    assert.equal(await ask(headers), 503);
    await s.abort();
    assert.deepEqual([await ask(headers), await s.preview(8080)], [503, headers]);
    assert.equal(await ask({ ...headers, "koze-port": "8081" }), 404);
  },

  async "a destroyed sandbox can be created again at once"(s) {
    await s.open();
    await s.sh("true");
    // Without a pause in which the object could notice the end of the previous container.
    for (let round = 0; round < 3; round++) {
      assert.equal((await s.again(["echo", "there"])).stdout.toString(), "there\n");
    }
  },

  async "a sandbox sleeps after the idle time of its opening"(s) {
    await s.open(2000);
    await s.sh("true");
    await eventually("sleep", async () => (await s.status()).status === "sleeping");
    assert.equal((await s.status()).opened, true);
    assert.equal(await s.sh("echo awake"), "awake\n");
  },

  async "programs that end with a sleeping sandbox are named once"(s) {
    await s.open(2000);
    const asleep = () => eventually("sleep", async () => (await s.status()).status === "sleeping");
    // What has ended before is not named.
    await s.sh("sleep 0 >/dev/null 2>&1 & wait; echo done");
    await asleep();
    assert.equal((await s.exec(["true"])).ended, undefined);
    assert.deepEqual(await s.ask("take_ended"), { ended: null });

    await s.sh("for n in 1 2 3 4; do sleep 987$n >/dev/null 2>&1 & done");
    await asleep();
    // Looking starts nothing, and a later object knows them, too.
    await s.abort();
    assert.deepEqual(await s.status(), { opened: true, status: "sleeping" });
    assert.equal((await s.exec(["true"])).ended, true);
    assert.equal((await s.exec(["true"])).ended, true);
    const { ended } = await s.ask("take_ended");
    assert.deepEqual({ ...ended, programs: ended.programs.toSorted() }, { programs: ["sleep 9871", "sleep 9872", "sleep 9873"], count: 4 });
    assert.deepEqual(await s.ask("take_ended"), { ended: null });
    assert.equal((await s.exec(["true"])).ended, undefined);

    // The next sandbox with its name does not learn of them.
    await s.sh("sleep 9875 >/dev/null 2>&1 &");
    await asleep();
    await s.ask("destroy");
    await s.open();
    assert.equal((await s.exec(["true"])).ended, undefined);
    assert.deepEqual(await s.ask("take_ended"), { ended: null });
  },

  async "a container that does not start is unavailable"(s) {
    s.engine.breakDown(await s.id());
    await s.open();
    await refused(s.exec(["true"]), "unavailable", true);
    await refused(s.read("/etc/passwd"), "unavailable", true);
  },

  async "a call is not repeated when its container ends"(s) {
    await s.open();
    const id = await s.id();
    await s.sh("true");
    const running = s.exec(["sleep", "1000"], { timeoutMs: 600_000 });
    const seen = refused(running, "unavailable");
    await eventually("the program", async () => (await s.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).includes("sleep 1000 "));
    s.engine.kill(id);
    await seen;
    assert.equal(await s.sh("echo again"), "again\n");
  },

  async "a file is not continued in a new container"(s) {
    await s.open();
    const path = "/home/user/.staging";
    const piece = (/** @type {string} */ letter) => Buffer.alloc(3 << 20, letter);
    const write = (/** @type {number} */ offset, /** @type {string} */ letter) => s.write(path, piece(letter), { append: true, offset });
    assert.deepEqual(await write(0, "a"), { size: 3 << 20 });
    await refused(write(0, "a"), "already_exists");
    assert.deepEqual(await write(3 << 20, "b"), { size: 6 << 20 });
    await refused(write(3 << 20, "b"), "unavailable");
    s.engine.kill(await s.id());
    await eventually("the end of the container", async () => (await s.status()).status === "sleeping");
    // The next container has nothing of the file, and must not begin it with a later piece.
    const error = await refused(write(6 << 20, "c"), "unavailable", false);
    assert.match(error.text, /`\/home\/user\/\.staging` was not written.*restarted.*send it again/);
    await refused(s.stat(path), "not_found");
    // It can be sent again, and a Worker of an earlier version still appends.
    for (const [index, letter] of ["a", "b", "c"].entries()) await write(index * (3 << 20), letter);
    assert.deepEqual(await s.write(path, "d", { append: true }), { size: (9 << 20) + 1 });
    assert.deepEqual(await s.write(path, "e", { append: true, offset: null }), { size: (9 << 20) + 2 });
    const whole = Buffer.concat(["a", "b", "c"].map(piece));
    assert.ok((await s.read(path)).equals(whole.subarray(0, 8 << 20)));
    assert.equal(String(await s.read(path, { offset: 9 << 20 })), "de");
  },

  async "the network is what the attribute says"(s, _, stage) {
    await s.open();
    await s.sh("true");
    const { egress, spec } = s.engine.container(await s.id());
    assert.deepEqual(egress.internet, { enabled: false });
    assert.deepEqual(egress.dns.allowHostnames, []);
    assert.ok(spec.Env.includes("GREETING=hello 'you'"), JSON.stringify(spec.Env));
    const net = stage.sandbox("net", { variant: s.variant, Class: "NetSandbox" });
    await net.open();
    await net.sh("true");
    const allowed = stage.engine.container(await net.id());
    assert.deepEqual(allowed.egress.internet, { enabled: false });
    assert.deepEqual(new Set(allowed.egress.dns.allowHostnames), new Set(["*"]));
    assert.ok(allowed.spec.Env.includes("SANDBOX_INTERCEPT_HTTPS=1"));
    await net.destroy();
  },

  async "nothing is left behind"(s) {
    await s.open();
    await s.write("/home/user/large", Buffer.alloc(1 << 20));
    await s.write("/home/user/large", Buffer.alloc(1 << 20), { append: true });
    await s.exec(["printf", "%s", ...Array(20).fill("x".repeat(10_000))]);
    await s.exec(["sleep", "1000"], { timeoutMs: 200 });
    await refused(s.exec(["no-such-program", ...Array(20).fill("x".repeat(10_000))]), "not_found");
    assert.equal(await s.sh("ls -A /tmp /var/tmp | grep -c koze; ls -A /home/user"), "0\nlarge\n");
    await eventually("the end of all that ran", async () => !(await s.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).includes("sleep 1000"));
  },

  async "an object may have any name"(s, _, stage) {
    const odd = stage.sandbox("a b/../c ü'$(x)", { variant: s.variant });
    await odd.open();
    assert.equal(await odd.sh("echo there"), "there\n");
    await odd.destroy();
  },
};
