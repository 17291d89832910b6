// Takes the sample of test262, as README.md says: `node sample.mjs PACKAGE > sample.txt`.

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** One file of so many is taken. */
const EVERY = 600;

/** What the engine of scripts lacks on purpose, and what only hosts made for test262 have. */
const LACKING = /\$262|\$DETACHBUFFER|assert\.throws\.early|\b(eval|Function|SharedArrayBuffer|Atomics)\b/;

const FLAGS = ["module", "raw", "CanBlockIsFalse", "CanBlockIsTrue"];

const [root] = process.argv.slice(2);

/** The package was packed with the ends of lines of Windows. Where the file itself has others, its bytes are unknown. */
function text(path) {
  const packed = readFileSync(join(root, path), "utf8");
  const source = packed.replaceAll("\r\n", "\n");
  return source.includes("\r") || packed.match(/(?<!\r)\n/) ? null : source;
}

/** A list of the description in the comment of a file. */
function list(key, source) {
  const items = source.match(new RegExp(`^${key}: *\\[(.*)\\]`, "m"))?.[1] ?? "";
  return items.split(",").map((item) => item.trim()).filter(Boolean);
}

const helpers = (source) => list("includes", source).map((name) => `harness/${name}`);

function fits(path) {
  const source = path.endsWith(".js") && !path.includes("_FIXTURE") ? text(path) : null;
  // Lists over several lines are rare.
  if (source === null || /^(includes|flags): *$/m.test(source)) return false;
  if (list("flags", source).some((flag) => FLAGS.includes(flag))) return false;
  return [source, ...helpers(source).map(text)].every((part) => part !== null && !LACKING.test(part));
}

const all = ["test/built-ins", "test/language"].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true }).map((path) => `${folder}/${path.replaceAll("\\", "/")}`),
);
// Sorted by code units, so that the order is the same on every machine.
const fitting = all.filter(fits).sort();
const taken = fitting.filter((_, index) => index % EVERY === 0);
const shared = new Set(["harness/assert.js", "harness/sta.js", ...taken.flatMap((path) => helpers(text(path)))]);
for (const path of [...[...shared].sort(), ...taken]) {
  process.stdout.write(`\n==== ${path}\n${text(path)}`);
}
console.error(`${taken.length} of ${fitting.length} files that fit`);
