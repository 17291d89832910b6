// Builds the page into the directory that is given. The same sources and the same esbuild build the same bytes.

import { createHash } from "node:crypto";
import { copyFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";

const out = process.argv[2];
if (out === undefined) {
  console.error("usage: node build.mjs DIRECTORY");
  process.exit(2);
}

/**
 * What of xterm.js the policy of the page forbids, and what takes its place: `<style>` elements become those of `src/sheet.ts`, and the
 * attribute `style` is set as a property.
 */
const REPLACED = [
  { from: 'createElement("style")', to: 'createElement("koze-sheet")', count: 3 },
  {
    from: 't.setAttribute("style",`${t.getAttribute("style")||""}${e};`)',
    to: 't.style.cssText+=`;${e};`',
    count: 1,
  },
];

const xterm = {
  name: "xterm",
  setup(build) {
    build.onLoad({ filter: /@xterm\/xterm\/lib\/xterm\.mjs$/ }, async ({ path }) => {
      let contents = await readFile(path, "utf8");
      for (const { from, to, count } of REPLACED) {
        const found = contents.split(from).length - 1;
        if (found !== count) throw new Error(`xterm.js contains \`${from}\` ${found} times instead of ${count}: see build.mjs`);
        contents = contents.replaceAll(from, to);
      }
      return { contents, loader: "js" };
    });
  },
};

/** The part of xterm.js that is from Visual Studio Code has the same license. */
const XTERM = "xterm.js, and in it parts of Visual Studio Code, Copyright (c) Microsoft Corporation";

/** Returns the license of a package, which requires its notice in every copy. */
async function notice(name, directory) {
  const license = await readFile(join(import.meta.dirname, "node_modules", directory, "LICENSE"), "utf8");
  return `/*! Contains ${name}.\n\n${license.trim()}\n*/`;
}

const options = {
  absWorkingDir: import.meta.dirname,
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  // The oldest browsers with `light-dark()`.
  target: ["chrome123", "firefox120", "safari17.5"],
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
};
await build({
  ...options,
  entryPoints: [
    { in: "src/main.tsx", out: "app" },
    { in: "src/styles/app.css", out: "app" },
  ],
  // The page loads it when a terminal is opened.
  external: ["/xterm.js"],
  banner: { js: await notice("Preact", "preact") },
});
await build({
  ...options,
  entryPoints: [
    { in: "src/xterm.ts", out: "xterm" },
    { in: "node_modules/@xterm/xterm/css/xterm.css", out: "xterm" },
  ],
  plugins: [xterm],
  banner: { js: await notice(XTERM, "@xterm/xterm"), css: await notice(XTERM, "@xterm/xterm") },
});
for (const name of ["index.html", "icon.svg"]) await copyFile(join(import.meta.dirname, "src", name), join(out, name));

/** Builds the page for chats as one document: it has no server. Its policy permits its own script and style by their hashes. */
async function buildTimeline() {
  const source = join(import.meta.dirname, "src/chat");
  const { outputFiles } = await build({
    ...options,
    entryPoints: [
      { in: "src/chat/main.tsx", out: "timeline" },
      { in: "src/chat/chat.css", out: "timeline" },
    ],
    write: false,
    banner: { js: await notice("Preact", "preact") },
  });
  const textOf = (end) => outputFiles.find(({ path }) => path.endsWith(end)).text.trim();
  const [script, style] = [textOf(".js"), textOf(".css")];
  if (/<!--|<\/?script/i.test(script) || /<\/style/i.test(style)) throw new Error("the timeline cannot be written into its document");
  const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
  const policy = [
    "default-src 'none'",
    `script-src ${hash(script)}`,
    `style-src ${hash(style)}`,
    "base-uri 'none'",
    "form-action 'none'",
    // No text becomes markup.
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; ");
  const parts = { POLICY: policy, STYLE: style, SCRIPT: script };
  const html = await readFile(join(source, "timeline.html"), "utf8");
  await writeFile(join(out, "timeline.html"), html.replace(/POLICY|STYLE|SCRIPT/g, (name) => parts[name]));
}
await buildTimeline();
