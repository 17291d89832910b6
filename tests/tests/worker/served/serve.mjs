// Serves a Worker in workerd on a free port until its standard input ends: `node serve.mjs DIRECTORY OPTIONS`. The
// directory contains the Rust Worker and `entry.mjs`. OPTIONS is JSON: the `bindings`, whether there is a `registry`,
// the binding of a `bucket`, and the directory in which objects `persist`. The first line of output is the URL.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";

const [directory, text] = process.argv.slice(2);
const { bindings, registry, bucket, persist } = JSON.parse(text);
const object = (className) => ({ className, useSQLite: true });
const scripts = readdirSync(directory, { recursive: true }).filter((name) => /\.m?js$/.test(name) && name !== "entry.mjs");
const options = convertV4MiniflareOptions({
  host: "127.0.0.1",
  port: 0,
  // Otherwise workerd asks Cloudflare for this machine's location.
  cf: false,
  modulesRoot: directory,
  modules: [
    ...["entry.mjs", ...scripts].map((name) => ({ type: "ESModule", path: join(directory, name) })),
    { type: "CompiledWasm", path: join(directory, "rust_bg.wasm") },
  ],
  compatibilityDate: "2026-04-21",
  compatibilityFlags: ["nodejs_compat"],
  bindings,
  r2Buckets: bucket ? [bucket] : [],
  durableObjects: {
    SHELL_SANDBOX: object("ShellSandbox"),
    PYTHON_SANDBOX: object("PythonSandbox"),
    ...(registry ? { KOZE_SESSIONS: object("KozeSessions") } : {}),
  },
});
const miniflare = new Miniflare({ ...options, resourcePersistencePath: persist });
console.log(String(await miniflare.ready));
process.stdin.on("end", () => miniflare.dispose()).resume();
