// Trees that are streamed between sandboxes: they arrive completely or not at all, whatever happens to either side and
// whatever invalid data it sends.

import assert from "node:assert/strict";
import { eventually, refused } from "../sdk/cases.mjs";

/** Lists a tree as text: kinds, modes, sizes, names, targets, and file contents. */
const listing = (path) => `cd "${path}" && find . -printf '%y %m %p %l\\0' | sort -z | md5sum && find . -type f -print0 | sort -z | xargs -0 md5sum | md5sum`;

/** Lists what an incomplete transfer has left in a directory. */
const left = async (s, dir) => (await s.list(dir)).map(({ name }) => name).sort();

/** Encodes a record of a stream: its length, the number 0, its variant, and its fields. */
const record = (...bytes) => Buffer.concat([u32(bytes.flat().length + 1), Buffer.from([0, ...bytes.flat()])]);
const u32 = (number) => Buffer.from(new Uint32Array([number]).buffer);
const text = (name) => [Buffer.from(name).length, ...Buffer.from(name)];
const MODE = [0xa4, 3]; // 0o644
const directory = (name) => record(0, text(name), MODE);
const file = (name, ...pieces) =>
  Buffer.concat([record(1, text(name), MODE), ...pieces.flatMap((piece) => [u32(piece.length), Buffer.from(piece)]), u32(0)]);
const link = (name, target) => record(2, text(name), text(target));
const [up, end] = [record(3), record(4)];

/** @type {Record<string, (sandbox: any, dir: string, stage: any) => Promise<void>>} */
export const cases = {
  async "a tree arrives as it was"(s, dir) {
    await s.sh(`cd ${dir}; mkdir -p a/empty a/b/c; head -c 300000 /dev/urandom >a/b/big; printf x >a/b/c/small; : >a/none
      ln -s ../nowhere a/link; ln -s / a/root; printf n >$'a/a\nb'; printf u >$'a/\\xff\\xfe'; printf s >"a/ ' \\" -rf"
      mkfifo pipe; chmod 4750 a/b/big; chmod 500 a/b/c; chmod 1777 a/empty; chmod 600 a/none`);
    assert.deepEqual(await s.copy(`${dir}/a`, `${dir}/x/y`), { bytes: 300_004 });
    // One file, through a link, to a destination with missing parent directories.
    await s.makeLink(`${dir}/to-big`, "a/b/big");
    assert.deepEqual(await s.copy(`${dir}/to-big`, `${dir}/p/q/file`), { bytes: 300_000 });
    assert.equal(await s.sh(`cmp ${dir}/a/b/big ${dir}/p/q/file && stat -c %a ${dir}/p/q/file`), "750\n");
    assert.deepEqual(await s.copy(`${dir}/a/none`, `${dir}/none`), { bytes: 0 });
    // All of it is the same, without set-user-ID and sticky bits.
    assert.equal(await s.sh(`cd ${dir}; find a -perm /7000 | sort; find a -perm /7000 -exec chmod u-s,-t {} +`), "a/b/big\na/empty\n");
    assert.equal(await s.sh(listing(`${dir}/x/y`)), await s.sh(listing(`${dir}/a`)));
  },

  async "two thousand files are copied in two calls"(s, dir) {
    await s.sh(`mkdir ${dir}/t; cd ${dir}/t; for d in {1..20}; do mkdir $d; for f in {1..100}; do echo $d/$f >$d/$f; done; done`);
    const { bytes } = await s.copy(`${dir}/t`, `${dir}/u`);
    assert.equal(await s.sh(`diff -r ${dir}/t ${dir}/u && find ${dir}/u -type f | wc -l; cat ${dir}/u/*/* | wc -c`), `2000\n${bytes}\n`);
  },

  async "a tree is copied into itself"(s, dir) {
    await s.sh(`mkdir -p ${dir}/t/sub; echo 1 >${dir}/t/file`);
    assert.deepEqual(await s.copy(`${dir}/t`, `${dir}/t/sub/.copy`, { except: ".copy" }), { bytes: 2 });
    assert.equal(await s.sh(`cd ${dir}/t/sub/.copy; find . | sort | tr '\\n' ' '`), ". ./file ./sub ");
  },

  async "many trees at once within one sandbox"(s, dir) {
    await s.sh(`mkdir ${dir}/t; head -c 2000000 /dev/zero >${dir}/t/file`);
    const copies = Array.from({ length: 60 }, (_, n) => s.copy(`${dir}/t`, `${dir}/copy-${n}`));
    for (const { bytes } of await Promise.all(copies)) assert.equal(bytes, 2_000_000);
    assert.equal(await s.sh("echo on"), "on\n");
    await s.sh(`rm -r ${dir}`);
  },

  async "the sender reports unreadable files"(s, dir) {
    await s.sh(`cd ${dir}; mkdir -p t; head -c 200000 /dev/zero >t/a; mkfifo t/pipe`);
    assert.match((await refused(s.copy(`${dir}/t`, `${dir}/x`), "unsupported")).text, /t\/pipe/);
    await refused(s.copy(`${dir}/none`, `${dir}/x`), "not_found");
    await refused(s.copy("/proc/1/environ", `${dir}/x`), "permission_denied");
    await refused(s.copy(`${dir}/t/a`, `${dir}/t`), "already_exists");
    await refused(s.copy(`${dir}/t/a`, `${dir}/t/a/b`), "not_a_directory");
    await refused(s.copy("relative", `${dir}/x`), "invalid_input");
    await refused(s.copy(`${dir}/t/a`, "relative"), "invalid_input");
    assert.deepEqual(await left(s, dir), ["t"]);
    assert.equal((await s.stat(`${dir}/t/a`)).size, 200_000);
  },

  async "the sender reports a read error in the middle of a file"(s, dir) {
    // The kernel rejects reading it, because its first bytes are not mapped.
    await refused(s.copy("/proc/self/mem", `${dir}/x`), "permission_denied");
    assert.deepEqual(await left(s, dir), []);
  },

  async "a copy that does not fit leaves nothing"(s, dir) {
    await s.sh(`mkdir ${dir}/t; for n in 1 2 3; do head -c 600000 /dev/zero >${dir}/t/$n; done`);
    await refused(s.copy(`${dir}/t`, "/small/t"), "too_large");
    assert.equal(await s.sh("ls -A /small"), "");
    assert.deepEqual(await s.copy(`${dir}/t/1`, "/small/one"), { bytes: 600_000 });
    await s.sh("rm /small/one");
  },

  async "an untrusted stream does no harm"(s, dir) {
    const top = directory("");
    const hostile = {
      "a name that leads up": [top, file("../up", "x"), up, end],
      "a name that leads away": [top, file(`${dir}/away`, "x"), up, end],
      "the directory itself": [top, file(".", "x"), up, end],
      "the one above": [top, directory(".."), file("x", "x"), up, up, end],
      "no name": [top, file("", "x"), up, end],
      "a NUL": [top, file("a\0b", "x"), up, end],
      "a link above": [top, link("../l", "/"), up, end],
      "a name twice": [top, file("a", "1"), file("a", "2"), up, end],
      "a directory in the place of a link": [top, link("a", dir), directory("a"), file("away", "x"), up, up, end],
      "a file in the place of a link": [top, link("a", `${dir}/away`), file("a", "x"), up, end],
      "a directory twice": [top, directory("a"), up, directory("a"), file("x", "x"), up, up, end],
      "more than was opened is closed": [top, up, up, end],
      "a second beside the first": [top, up, file("away", "x"), end],
      "a second file": [file("", "1"), file("away", "2"), end],
      "no end": [top, file("a", "x"), up],
      "an end too early": [top, file("a", "x"), end],
      "nothing": [],
      "only an end": [end],
      "a piece that is too long": [top, record(1, text("a"), MODE), u32(1 << 20)],
      "a record that is too long": [top, u32(1 << 30)],
      "a record of no kind": [top, record(17)],
      "noise": [Buffer.alloc(5000, 0xa5)],
      "deeper than any": [...Array(401).fill(directory("d")), ...Array(401).fill(up), end],
    };
    for (const [what, parts] of Object.entries(hostile)) {
      const error = await s.unpack(Buffer.concat(parts), `${dir}/t/in`).then((value) => assert.fail(`${what}: ${JSON.stringify(value)}`), (error) => error);
      assert.match(String(error.code), /^(unavailable|already_exists|too_large)$/, `${what}: ${error}`);
      assert.deepEqual(await left(s, `${dir}/t`), [], what);
      assert.deepEqual(await left(s, dir), ["t"], what);
    }
    // A sender's error message is only text.
    const said = (why, words) => [top, record(5, why, text(words))];
    assert.equal((await refused(s.unpack(Buffer.concat(said(1, "no")), `${dir}/in`), "not_found")).text, "no");
    await refused(s.unpack(Buffer.concat([top, record(5, 99, text("no"))]), `${dir}/in`), "unavailable");
    // Bytes after the end are ignored.
    assert.deepEqual(await s.unpack(Buffer.concat([file("", "ab"), end, Buffer.alloc(500_000)]), `${dir}/in`), { bytes: 2 });
    assert.deepEqual(await left(s, dir), ["in", "t"]);
  },

  async "an endless stream ends"(s, dir) {
    // An endless number of names, until the disk is full: partial data is deleted.
    const many = Array.from({ length: 4000 }, (_, n) => directory(`${n}`)).flatMap((one) => [one, up]);
    const endless = Buffer.concat([directory("a"), ...many, up]);
    await s.sh("true");
    const top = [directory("")];
    await refused(s.unpack(Buffer.concat([...top, ...Array(3).fill(endless)]), `${dir}/in`), "already_exists");
    const zeros = Buffer.concat([u32(32 << 10), Buffer.alloc(32 << 10)]);
    await refused(s.unpack(zeros, `${dir}/in`, { times: 1e9 }), "unavailable");
    assert.deepEqual(await left(s, dir), []);
  },

  async "a canceled copy is removed"(s, dir) {
    await s.sh(`mkdir ${dir}/t; head -c 1000000 /dev/zero >${dir}/t/file`);
    const begun = Buffer.concat([directory(""), record(1, text("a"), MODE)]);
    const piece = Buffer.concat([u32(1000), Buffer.alloc(1000)]);
    const slow = refused(s.unpack(Buffer.concat([begun, piece]), `${dir}/in/to`, { times: 1000, pace: 3000, call: "slow" }), "unavailable");
    await eventually("its beginning", async () => (await s.list(`${dir}/in`).catch(() => [])).length === 1);
    await s.cancel("slow");
    assert.match((await slow).text, /canceled/);
    await eventually("its end", async () => (await s.list(`${dir}/in`)).length === 0);
    // A call that arrives after its cancellation is canceled immediately.
    await s.cancel("early");
    await refused(s.copy(`${dir}/t`, `${dir}/in/late`, { call: "early" }), "unavailable");
    assert.deepEqual(await left(s, `${dir}/in`), []);
    assert.deepEqual(await s.copy(`${dir}/t`, `${dir}/in/now`, { call: "other" }), { bytes: 1_000_000 });
  },
};

/** @type {Record<string, (sandbox: any, dir: string, stage: any) => Promise<void>>} */
export const lives = {
  async "a tree is copied to another sandbox"(s, _, stage) {
    await s.open();
    await s.sh("mkdir -p t/d; head -c 3000000 /dev/urandom >t/d/file; ln -s d t/l");
    const other = stage.sandbox("copies-to", { variant: s.variant });
    await refused(s.copy("/home/user/t", "/home/user/u", { other }), "unopened", true);
    await other.open();
    assert.deepEqual(await s.copy("/home/user/t", "/home/user/u", { other }), { bytes: 3_000_000 });
    const sum = "cat /home/user/?/d/file | md5sum; readlink /home/user/?/l";
    assert.equal(await other.sh(sum), await s.sh(sum));
    await other.destroy();
  },

  async "a copy whose source ends leaves nothing"(s, _, stage) {
    await s.open();
    const other = stage.sandbox("copies-from-the-dead", { variant: s.variant });
    await other.open();
    await other.makeDir("/home/user/in");
    for (const how of ["its container", "its object"]) {
      await s.sh("mkdir -p t; truncate -s 40G t/file");
      const copy = refused(s.copy("/home/user/t", "/home/user/in/to", { other, pace: 50 }), "unavailable");
      await eventually("its beginning", async () => (await other.list("/home/user/in")).length === 1);
      if (how === "its container") s.engine.kill(await s.id());
      else await s.abort();
      const { text } = await copy;
      // What the target learns first is a matter of chance: its stream ends early, or its caller is gone.
      assert.match(text, /incomplete|canceled/, `${how}: ${text}`);
      await eventually("its end", async () => (await other.list("/home/user/in")).length === 0);
    }
    assert.equal(await other.sh("echo on"), "on\n");
    assert.equal(await s.sh("echo on"), "on\n");
    await other.destroy();
  },

  async "a copy whose target ends fails"(s, _, stage) {
    await s.open();
    const id = await s.id();
    await s.sh("mkdir -p t; truncate -s 40G t/file");
    for (const how of ["its container", "its object"]) {
      const other = stage.sandbox(`copies-to-the-dead-${how}`, { variant: s.variant });
      await other.open();
      await other.makeDir("/home/user/in");
      const copy = s.copy("/home/user/t", "/home/user/in/to", { other, pace: 50 }).then(() => assert.fail(how), (error) => error);
      const reads = () => s.engine.open(id).some((path) => path.endsWith("/t/file"));
      await eventually("its beginning", async () => (await other.list("/home/user/in")).length === 1 && reads());
      if (how === "its container") s.engine.kill(await other.id());
      else await other.abort();
      await copy;
      // Nobody reads for it any more.
      await eventually("the end of its sender", () => !reads());
      assert.equal(await other.sh("ls -A /home/user/in"), "");
      await other.destroy();
    }
    assert.equal(await s.sh("echo on"), "on\n");
  },
};
