// Archives of directories, and directories from archives: one call of the object each, whatever the number of files, and
// whatever happens to either side.

import assert from "node:assert/strict";
import { eventually, refused } from "./cases.mjs";

const BLOCK = 512;

/** Lists a tree as text: kinds, modes, names, targets, and file contents. */
const listing = (path) => `cd "${path}" && find . -printf '%y %m %P %l\\n' | LC_ALL=C sort; find . -type f -exec md5sum {} + | LC_ALL=C sort`;

/** Splits what `kozeArchive` returns into the archive and its end; without an end, it is not whole. */
export function taken(bytes) {
  const parts = [];
  for (let at = 0; at + 4 <= bytes.length; ) {
    const length = bytes.readUInt32LE(at);
    if (length > 0) {
      parts.push(bytes.subarray(at + 4, at + 4 + length));
      at += 4 + length;
      continue;
    }
    const last = bytes.subarray(at + 8);
    assert.equal(last.length, bytes.readUInt32LE(at + 4));
    return { tar: Buffer.concat(parts), ...JSON.parse(last) };
  }
  return { tar: Buffer.concat(parts) };
}

/** Returns the header of a file, whose name koze writes relative to the directory. */
function header(name, size) {
  const block = Buffer.alloc(BLOCK);
  const field = (at, text) => block.write(text, at);
  field(0, `./${name}`);
  field(100, "0000644\0");
  field(108, "0000000\0");
  field(116, "0000000\0");
  field(124, `${size.toString(8).padStart(11, "0")}\0`);
  field(136, "00000000000\0");
  field(148, " ".repeat(8));
  field(156, "0");
  field(257, "ustar  \0");
  const sum = block.reduce((sum, byte) => sum + byte, 0);
  field(148, `${sum.toString(8).padStart(6, "0")}\0 `);
  return block;
}

/** @type {Record<string, (sandbox: any, dir: string, stage: any) => Promise<void>>} */
export const cases = {
  async "a directory is archived as it is, and created again"(s, dir) {
    await s.sh(`cd ${dir}; mkdir -p a/empty a/b/c to; head -c 300000 /dev/urandom >a/b/big; printf x >a/b/c/small; : >a/none
      ln -s ../nowhere a/link; ln -s / a/root; printf u >'a/日本 ü'; printf s >"a/ ' \\" -rf"; mkfifo a/pipe
      chmod 4750 a/b/big; chmod 500 a/b/c; chmod 1777 a/empty; chmod 600 a/none; chmod 750 a`);
    const { tar, ok } = taken(await s.archive(`${dir}/a`));
    assert.deepEqual(ok, { entries: 10, bytes: 300_003, skipped: 1 });
    await s.sh(`rm ${dir}/a/pipe`);
    assert.deepEqual(await s.extract(tar, `${dir}/to`), { entries: 10, bytes: 300_003 });
    const before = await s.sh(listing(`${dir}/a`));
    assert.match(before, /^d 1777 empty.*^f 4750 b\/big/ms);
    const kept = before.replace("d 1777 ", "d 777 ").replace("f 4750 ", "f 750 ");
    const sorted = (/** @type {string} */ text) => text.split("\n").sort();
    assert.deepEqual(sorted(await s.sh(listing(`${dir}/to`))), sorted(kept));
  },

  async "three thousand files are one archive, of one call"(s, dir) {
    await s.sh(`mkdir ${dir}/t ${dir}/u; cd ${dir}/t
      for d in {1..30}; do mkdir $d; for f in {1..97}; do : >$d/$f; done; for f in {98..100}; do echo $d/$f >$d/$f; done; done`);
    const { tar, ok } = taken(await s.archive(`${dir}/t`));
    assert.equal(ok.entries, 3030);
    assert.deepEqual(await s.extract(tar, `${dir}/u`), { entries: 3030, bytes: ok.bytes });
    assert.equal(await s.sh(`diff -r ${dir}/t ${dir}/u && find ${dir}/u -type f | wc -l`), "3000\n");
    // The disk is small, and shared with other cases.
    await s.sh(`rm -r ${dir}/t ${dir}/u`);
  },

  async "an archive that cannot be made says why"(s, dir) {
    await s.sh(`cd ${dir}; mkdir t; echo 1 >t/a; printf x >$'t/\\xff'`);
    for (const [path, why] of [[`${dir}/none`, "not_found"], [`${dir}/t/a`, "not_a_directory"], ["/proc", "permission_denied"], [`${dir}/t`, "unsupported"]]) {
      assert.equal(taken(await s.archive(path)).failed.why, why, path);
    }
    await refused(s.archive("relative"), "invalid_input");
    assert.equal(taken(await s.archive(`${dir}/t/..`, { root: `${dir}/t` })).failed.why, "path_escape");
  },

  async "an archive that is not whole, or leads outside, is refused"(s, dir) {
    const whole = Buffer.concat([header("a", 1), Buffer.alloc(BLOCK, "x"), Buffer.alloc(2 * BLOCK)]);
    const hostile = {
      "no end": [whole.subarray(0, 2 * BLOCK), "unavailable"],
      "the middle of a file": [whole.subarray(0, BLOCK + 1), "unavailable"],
      nothing: [Buffer.alloc(0), "unavailable"],
      noise: [Buffer.alloc(5000, 0xa5), "invalid_input"],
      up: [Buffer.concat([header("../up", 0), Buffer.alloc(2 * BLOCK)]), "invalid_input"],
      away: [Buffer.concat([header(`${dir}/away`, 0), Buffer.alloc(2 * BLOCK)]), "invalid_input"],
    };
    for (const [what, [tar, code]] of Object.entries(hostile)) {
      await s.sh(`rm -rf ${dir}/in; mkdir ${dir}/in`);
      const error = await s.extract(tar, `${dir}/in`).then(() => assert.fail(what), (error) => error);
      assert.equal(error.code, code, `${what}: ${error}`);
      assert.equal(await s.sh(`ls -A ${dir}`), "in\n", what);
    }
    await refused(s.extract(whole, `${dir}/none`), "not_found");
    await refused(s.extract(whole, "relative"), "invalid_input");
    assert.deepEqual(await s.extract(whole, `${dir}/in`), { entries: 1, bytes: 1 });
    await refused(s.extract(whole, `${dir}/in`), "already_exists");
  },

  async "an archive that nobody reads on, or sends on, ends"(s, dir) {
    await s.sh(`mkdir ${dir}/t ${dir}/in; truncate -s 40G ${dir}/t/file`);
    const begun = await s.archive(`${dir}/t`, { most: 100_000 });
    assert.equal(taken(begun).ok, undefined);
    const begin = Buffer.concat([header("file", 8 ** 10), Buffer.alloc(BLOCK)]);
    const slow = refused(s.extract(begin, `${dir}/in`, { times: 1e6, pace: 100, call: "slow" }), "unavailable");
    await eventually("its beginning", async () => (await s.list(`${dir}/in`)).length === 1);
    await s.cancel("slow");
    assert.match((await slow).text, /canceled/);
    // Only the stand-in for native containers knows what the guest has open.
    const id = await s.id();
    const isOpen = () => s.engine.open?.(id).some((path) => path.startsWith(dir));
    await eventually("their end", () => !isOpen());
    await s.cancel("early");
    await refused(s.extract(begin, `${dir}/in`, { call: "early" }), "unavailable");
  },
};

/** @type {Record<string, (sandbox: any, dir: string, stage: any) => Promise<void>>} */
export const lives = {
  async "an archive whose container ends is not whole"(s) {
    await refused(s.archive("/home/user"), "unopened", true);
    await refused(s.extract(Buffer.alloc(1 << 20), "/home/user"), "unopened", true);
    await s.open();
    await s.sh("mkdir t in; truncate -s 40G t/file");
    const archive = s.archive("/home/user/t", { pace: 20 });
    const extract = refused(s.extract(Buffer.concat([header("file", 8 ** 10), Buffer.alloc(BLOCK)]), "/home/user/in", { times: 1e6, pace: 100 }), "unavailable");
    await eventually("its beginning", async () => (await s.list("/home/user/in")).length === 1);
    s.engine.kill(await s.id());
    await assert.rejects(archive, /thrown|broken/);
    await extract;
    assert.equal(await s.sh("echo on"), "on\n");
  },
};
