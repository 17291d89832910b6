// Builds the page into the directory that is given. The same sources and the same esbuild build the same bytes.

import { copyFile, readFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";

const out = process.argv[2];
if (out === undefined) {
  console.error("usage: node build.mjs DIRECTORY");
  process.exit(2);
}
// The license of Preact requires its notice in every copy.
const license = await readFile(join(import.meta.dirname, "node_modules/preact/LICENSE"), "utf8");
await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: [
    { in: "src/main.tsx", out: "app" },
    { in: "src/styles/app.css", out: "app" },
  ],
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  // The oldest browsers with `light-dark()`.
  target: ["chrome123", "firefox120", "safari17.5"],
  charset: "utf8",
  legalComments: "none",
  banner: { js: `/*! Contains Preact.\n\n${license.trim()}\n*/` },
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) await copyFile(join(import.meta.dirname, "src", name), join(out, name));
