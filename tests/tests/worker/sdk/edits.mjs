// Edits of files, lines of files, and searches. The rules are tested where they are implemented; these cases test the way there.

import assert from "node:assert/strict";
import { refused } from "./cases.mjs";

/** @type {Record<string, (sandbox: any, dir: string, stage: any) => Promise<void>>} */
export const edits = {
  async "a text in a file is replaced"(s, dir) {
    const [path, old] = [`${dir}/file`, Buffer.from([0xff, 0, 0x0a])];
    await s.write(path, Buffer.concat([Buffer.from("\ufeffone\r\n"), old, Buffer.from("end")]));
    await s.setMode(path, 0o750);
    await s.makeLink(`${dir}/link`, "file");
    assert.deepEqual(await s.edit(`${dir}/link`, old, "$& \\1 \u20ac"), { done: { size: 20, replaced: 1 } });
    assert.equal(String(await s.read(path)), "\ufeffone\r\n$& \\1 \u20acend");
    assert.equal((await s.stat(path)).mode, 0o750);
    assert.deepEqual(await s.edit(path, "n", "", { all: true }), { done: { size: 18, replaced: 2 } });
    assert.equal((await s.list(dir)).length, 2);
  },

  async "a text that is not there once is not replaced"(s, dir) {
    await s.write(`${dir}/file`, "a\n\tb c\na\n");
    assert.deepEqual(await s.edit(`${dir}/file`, "b  c", "d"), { not_found: { nearest: { number: 2, text: "\tb c" } } });
    assert.deepEqual(await s.edit(`${dir}/file`, "d", "e", { all: true }), { not_found: { nearest: null } });
    assert.deepEqual(await s.edit(`${dir}/file`, "a", "e"), { ambiguous: { occurrences: 2, lines: [1, 3] } });
    assert.equal(String(await s.read(`${dir}/file`)), "a\n\tb c\na\n");
  },

  async "edits that are refused change nothing"(s, dir) {
    const path = `${dir}/file`;
    await s.write(path, "one");
    const long = Buffer.alloc((4 << 20) + 1, "x");
    await refused(s.edit(path, "", "two"), "invalid_input");
    await refused(s.edit(path, "one", long), "too_large");
    await refused(s.edit(path, long, "two"), "too_large");
    await refused(s.edit(dir, "one", "two"), "is_directory");
    await refused(s.edit(`${dir}/nothing`, "one", "two"), "not_found");
    await refused(s.edit(path, "one", "two", { root: "/home/user/other" }), "not_found");
    await refused(s.edit(path, "one", "two", { root: "/tmp" }), "path_escape");
    await refused(s.edit("relative", "one", "two"), "invalid_input");
    await s.sh(`truncate -s 17M ${dir}/large`);
    await refused(s.edit(`${dir}/large`, "one", "two"), "too_large");
    assert.equal(String(await s.read(path)), "one");
  },

  async "edits and appends at once are all there"(s, dir) {
    const path = `${dir}/file`;
    const some = Array.from({ length: 100 }, (_, n) => n);
    await s.write(path, some.map((n) => `<${n}>\n`).join(""));
    await Promise.all([
      ...some.map((n) => s.edit(path, `<${n}>`, `[${n}]`).then((edited) => assert.equal(edited.done.replaced, 1))),
      ...some.map(() => s.write(path, "+\n", { append: true })),
    ]);
    assert.equal(String(await s.read(path)), some.map((n) => `[${n}]\n`).join("") + "+\n".repeat(100));
  },

  async "lines of a tree are found"(s, dir) {
    await s.write(`${dir}/b/file`, "one\r\ntw\u20ac\n");
    await s.write(`${dir}/a`, "\0");
    await s.write(`${dir}/c`, "x".repeat((1 << 20) + 1));
    const matches = [{ path: "b/file", number: 2, text: "tw\u20ac" }];
    const found = { matches, skipped: ["c"], binary: ["a"], end: "complete" };
    assert.deepEqual(await s.search(dir, "^TW", { ignoreCase: true }), found);
    const include = { regex: "^b/", byName: false };
    assert.deepEqual(await s.search(dir, "w", { include, maxMatches: 1 }), { ...found, skipped: [], binary: [], end: "full" });
    await refused(s.search(dir, "("), "invalid_input");
    await refused(s.search(`${dir}/nothing`, "x"), "not_found");
    await refused(s.search(dir, "x", { root: "/tmp" }), "path_escape");
  },

  async "lines of a file are read"(s, dir) {
    const path = `${dir}/file`;
    await s.write(path, "one\r\ntw\u20ac\n\nfour\n");
    const found = (text, chars, more) => ({ text: Buffer.from(text), chars, pastEnd: false, binary: false, size: 17, ...more });
    assert.deepEqual(await s.lines(path), found("one\ntw\u20ac\n\nfour", 13));
    assert.deepEqual(await s.lines(path, { first: 2, last: 3 }), found("tw\u20ac\n", 4));
    assert.deepEqual(await s.lines(path, { first: 2, maxChars: 3 }), found("tw\u20ac", 9));
    assert.deepEqual(await s.lines(path, { last: 1, verbatim: true }), found("one\r\n", 5));
    assert.deepEqual(await s.lines(path, { first: 5 }), found("", 0, { pastEnd: true }));
    await refused(s.lines(path, { first: 0 }), "invalid_input");
    await refused(s.lines(path, { first: 2, last: 1 }), "invalid_input");
    await refused(s.lines(path, { maxChars: 3 << 20 }), "invalid_input");
    await refused(s.lines(dir), "is_directory");
    await refused(s.lines(`${dir}/nothing`), "not_found");
    // As much as one call returns, in characters of every length.
    const text = "a\u00e9\u20ac\u{1f600}\n".repeat(400_000);
    await s.write(path, text.slice(0, text.length / 2));
    await s.write(path, text.slice(text.length / 2), { append: true });
    const { text: bytes, chars } = await s.lines(path, { maxChars: 2 << 20, verbatim: true });
    assert.equal(chars, 2_000_000);
    assert.ok(bytes.equals(Buffer.from(text)));
  },

  async "lines of a binary file are not returned"(s, dir) {
    await s.write(`${dir}/file`, Buffer.concat([Buffer.from("text\n".repeat(50_000)), Buffer.from([0xff])]));
    const { text, binary, size } = await s.lines(`${dir}/file`);
    assert.deepEqual([text.length, binary, size], [0, true, 250_001]);
    assert.equal(String((await s.lines(`${dir}/file`, { first: 49_999, last: 50_000 })).text), "text\ntext");
  },

  async "the first lines of a large file are read at once"(s, dir) {
    await s.sh(`printf 'one\\ntwo\\n' >${dir}/file; truncate -s 8T ${dir}/file`);
    const { text, size } = await s.lines(`${dir}/file`, { last: 2 });
    assert.deepEqual([String(text), size], ["one\ntwo", 8 * 2 ** 40]);
  },
};
