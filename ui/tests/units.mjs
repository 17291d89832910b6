// The functions of the page that need no browser: what is copied into a shell, and what is shown of hostile texts.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { build } from "esbuild";

/** Imports a module of the page. */
async function load(name) {
  const entry = new URL(`../src/${name}`, import.meta.url).pathname;
  const { outputFiles } = await build({ entryPoints: [entry], bundle: true, format: "esm", write: false });
  return import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);
}

const { repeat } = await load("repeat.ts");
const { parseCsv } = await load("csv.ts");
const { bytes, duration, target, terminalText, visible, visibleLine } = await load("text.ts");
const { pictureType } = await load("pictures.ts");
const { matcher, summary, EVERYTHING } = await load("summary.ts");
const { path } = await load("api.ts");
const { isPreviewUrl, previewsOf } = await load("preview-url.ts");
const { treeOf } = await load("snapshot-tree.ts");
const { diffLines, fileChange, parseCut } = await load("diff.ts");

const CALL = { id: 7, session: "default", family: "agent", tool: "shell", input: {}, outcome: "ok" };

/** Returns the words that a shell reads. */
function wordsOf(command) {
  const printed = execFileSync("sh", ["-c", command.replace("koze", "printf '%s\\0'")], { encoding: "utf8" });
  return printed.split("\0").slice(0, -1);
}

// The shell is the judge: nothing in an input is a command.
for (const text of [
  "$(touch x)",
  "`id`",
  "a'b",
  "''; touch x; '",
  "\\",
  '"',
  "!x",
  "-rf",
  "a\u009bb\u007f\u0000\u001b[2J",
  "\u202etxt.exe",
  "ü\n\t;&|<>*?[]{}~#",
]) {
  const { command } = repeat({ ...CALL, tool: "-t", session: "it's $HOME", family: "thread", input: { command: text } });
  const words = wordsOf(command);
  assert.deepEqual(words.slice(0, 5), ["call", "--tools=thread", "--session=it's $HOME", "--", "-t"]);
  assert.deepEqual(JSON.parse(words[5]), { command: text });
  // A terminal would act on these when the command is pasted.
  assert.doesNotMatch(command, /[\u0000-\u001f\u007f-\u009f\u202e]/);
}
assert.deepEqual(repeat(CALL), { command: "koze call -- shell '{}'" });
for (const [change, why] of [
  [{ input: undefined }, /not recorded/],
  [{ input_cut: true }, /truncated/],
  [{ input_masked: true }, /masked/],
  [{ family: undefined }, /no such tool/],
  [{ session: "a\nb" }, /control characters/],
  [{ input: { size: [2 ** 60] } }, /koze log show 7/],
]) {
  assert.match(repeat({ ...CALL, ...change }).why, why);
}

assert.equal(target({ host: "a.example", port: 443 }), "a.example:443");
assert.equal(target({ host: "a.example", port: 0 }), "a.example");

for (const [output, text] of [
  ["\u001b[1;32mgreen\u001b[0m", "green"],
  ["\u001b]0;title\u0007a\u001b]8;;http://x\u001b\\link", "alink"],
  ["10%\r50%\r100%\ndone\r\n", "100%\ndone\n"],
  ["a\u0008b\u009b2Jc", "a\\u{8}bc"],
  ["\u001bPq#0\u001b\\after", "after"],
  ["\u202eabc", "\\u{202e}abc"],
]) {
  assert.equal(terminalText(output), text);
}
assert.equal(visible("a\tb\nc\u200bd"), "a\tb\nc\\u{200b}d");
assert.equal(visibleLine("a\nb\u0000"), "a\\u{a}b\\u{0}");

assert.deepEqual(parseCsv('a,"b,""c""\nd",e\r\n1,,x"y\n', ",", 10), [["a", 'b,"c"\nd', "e"], ["1", "", 'x"y']]);
assert.deepEqual(parseCsv("a\tb\n", "\t", 10), [["a", "b"]]);
assert.deepEqual(parseCsv("1\n2\n3\n", ",", 2), [["1"], ["2"]]);
assert.deepEqual(parseCsv('"unfinished', ",", 10), [["unfinished"]]);

const start = (text) => Uint8Array.from(text, (character) => character.charCodeAt(0));
assert.equal(pictureType(start("\u0089PNG\r\n\u001a\n rest")), "image/png");
assert.equal(pictureType(start("GIF89a rest")), "image/gif");
assert.equal(pictureType(start("RIFF\0\0\0\0WEBP")), "image/webp");
for (const text of ["", "GIF", "<svg/>", "<!doctype html>", "%PDF-1.7", "RIFF\0\0\0\0WAVE"]) assert.equal(pictureType(start(text)), null);

const found = (change, filter) => matcher({ ...EVERYTHING, ...filter })({ ...CALL, sandboxes: ["a"], ...change });
assert.ok(found({ input: { command: "Cargo TEST" } }, { text: "test cargo" }));
assert.ok(!found({ input: { command: "cargo" } }, { text: "test cargo" }));
assert.ok(found({ exit_code: 1 }, { onlyErrors: true }) && found({ outcome: "canceled" }, { onlyErrors: true }));
assert.ok(!found({ exit_code: 0 }, { onlyErrors: true }) && !found({}, { sandbox: "b" }) && !found({}, { tool: "glob" }));
assert.equal(summary({ ...CALL, input: { path: "x", command: "one\n  two" } }), "one two");
assert.equal(summary({ ...CALL, input: {} }), "");

assert.equal(path("sessions", "a/b ü"), "/sessions/a%2Fb%20%C3%BC");
for (const odd of [".", ".."]) assert.throws(() => path("sessions", odd), /cannot address/);
assert.deepEqual([0, 999, 1460, 61_000, 3_720_000].map(duration), ["0 ms", "999 ms", "1.46 s", "1 min 1 s", "1 h 2 min"]);
assert.deepEqual([0, 999, 1500, 12_000_000].map(bytes), ["0 B", "999 B", "1.5 kB", "12 MB"]);

const diff = (old, current) => diffLines([...old], [...current]).map(({ sign, text }) => sign + text).join("|");
assert.equal(diff("abc", "abc"), " a| b| c");
assert.equal(diff("", "ab"), "+a|+b");
assert.equal(diff("ab", ""), "-a|-b");
assert.equal(diff("abcd", "axcy"), " a|-b|+x| c|-d|+y");
assert.equal(diff("xabcy", "xcaby"), " x|+c| a| b|-c| y");

const change = (tool, input, rest) => fileChange({ ...CALL, tool, input, ...rest });
assert.deepEqual(change("write_file", { path: "a", content: "x\n" }).lines, [{ sign: "+", text: "x" }]);
assert.equal(change("write_file", { path: "a", content: "x", append: true }).action, "appended to");
assert.deepEqual(change("workspace__lab__edit_file", { path: "a", old_string: "x", new_string: "y" }, { family: "workspace" }).lines, [
  { sign: "-", text: "x" },
  { sign: "+", text: "y" },
]);
assert.equal(change("str_replace", { path: "a", old_str: "x", new_str: "", replace_all: true }, { family: "thread" }).lines.length, 1);
for (const [tool, input, rest] of [
  ["write_file", { path: "a", content: "eA==", encoding: "base64" }],
  ["write_file", { path: "a", content: "x" }, { outcome: "canceled" }],
  // A created tool can have any name that no other has.
  ["write_file", { path: "a", content: "x" }, { family: "script" }],
  ["write_file", { path: "a" }],
  ["write_file", { content: "x" }],
  ["write_file", undefined],
  ["edit_file", { path: "a", old_string: "x" }],
  ["shell", { path: "a", content: "x" }],
]) {
  assert.equal(change(tool, input, rest), null, JSON.stringify([tool, input, rest]));
}
// The journal cuts an input after any character of its JSON.
const long = JSON.stringify({ path: "a", content: 'ü"\n\u0001🦀' });
for (let end = long.indexOf("ü"); end < long.length - 1; end += 1) {
  const { path, content } = parseCut(`${long.slice(0, end)}…`);
  assert.ok(path === "a" && 'ü"\n\u0001🦀'.startsWith(content), content);
}
assert.equal(parseCut('{"path":"a","con…'), null);
assert.ok(change("write_file", `${long.slice(0, -2)}…`, { input_cut: true }).isCut);

const OWN = "koze-ui.localhost:4000";
assert.ok(isPreviewUrl("http://8000-default-0a1b.localhost:5000/", OWN));
for (const url of [
  "javascript:alert(1)",
  "data:text/html,x",
  "https://8000-a-b.localhost:5000/",
  "http://8000-a-b.localhost.evil.example/",
  "http://koze-ui.localhost:4000/",
  "http://127.0.0.1:5000/",
  "http://a:b@8000-a-b.localhost:5000/",
  "not a URL",
]) {
  assert.ok(!isPreviewUrl(url, OWN), url);
}
const browse = (port, url, change) => ({ ...CALL, tool: "browse", input: { port }, result: { url }, sandboxes: ["a"], ...change });
const previews = previewsOf(
  [
    browse(1, "old"),
    browse(1, "new"),
    browse(2, "x", { outcome: "failed" }),
    browse(3, "x", { sandboxes: ["b"] }),
    // A tool that an agent created can return anything.
    browse(4, "x", { family: "script" }),
    browse(5, 5),
    browse(6, "x", { input: undefined, result: undefined }),
  ],
  "a",
);
assert.deepEqual([...previews], [[1, "new"]]);

const snapshot = (id, parent) => ({ id, workspace: "w", created: 0, expired: false, parent, contents: { entries: 0, bytes: 0 } });
const rows = treeOf({
  snapshots: [snapshot("a"), snapshot("b", "a"), snapshot("c", "removed"), snapshot("d", "b"), snapshot("e", "a")],
  sandboxes: [
    { name: "one", workspace: "w", snapshot: "a" },
    { name: "two", workspace: "w", snapshot: "removed" },
  ],
});
assert.deepEqual(
  rows.map((row) => `${row.depth} ${row.key}${row.isOrphan ? " orphan" : ""}`),
  ["0 a", "1 sandbox one", "1 b", "2 d", "1 e", "0 c orphan", "0 sandbox two"],
);
const chain = Array.from({ length: 1000 }, (_, index) => snapshot(`s${index}`, index === 0 ? undefined : `s${index - 1}`));
assert.equal(treeOf({ snapshots: chain, sandboxes: [] }).at(-1).depth, 999);
