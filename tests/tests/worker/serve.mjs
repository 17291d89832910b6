// Serves a bundle of `wrangler deploy --dry-run` in workerd on a free port, asks it once, prints the answer and ends
// workerd: `node serve.mjs BUNDLE PATH`, in the project's directory. The bindings are those of the wrangler
// configuration. There is no Docker here, so the classes have no container behind them.

import { readdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";
import wrangler from "wrangler";

const [bundle, path] = process.argv.slice(2);
const directory = dirname(resolve(bundle));
const config = wrangler.unstable_readConfig({ env: "" });
const classes = config.durable_objects.bindings.map((binding) => [
  binding.name,
  { className: binding.class_name, useSQLite: true },
]);
const wasm = readdirSync(directory).filter((name) => name.endsWith(".wasm"));
// The flat options, as wrangler itself hands them over.
const options = convertV4MiniflareOptions({
  name: config.name,
  host: "127.0.0.1",
  port: 0,
  // Else it asks Cloudflare where this machine is.
  cf: false,
  compatibilityDate: config.compatibility_date,
  compatibilityFlags: config.compatibility_flags,
  modulesRoot: directory,
  modules: [
    { type: "ESModule", path: resolve(bundle) },
    ...wasm.map((name) => ({ type: "CompiledWasm", path: join(directory, name) })),
  ],
  durableObjects: Object.fromEntries(classes),
});
const miniflare = new Miniflare(options);
try {
  const response = await fetch(new URL(path, await miniflare.ready));
  console.log(JSON.stringify({ status: response.status, body: await response.text() }));
} finally {
  await miniflare.dispose();
}
