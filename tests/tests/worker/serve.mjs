// Serves a bundle of `wrangler deploy --dry-run` in workerd on a free port, sends one request, prints the answer and
// stops workerd: `node serve.mjs BUNDLE PATH`, in the project's directory. The bindings come from the wrangler
// configuration, as with `wrangler dev`. There is no Docker, so the classes have no containers, and no network, so
// Cloudflare's remote services are not bound. There is another Worker, `elsewhere`.

import { readdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";
import wrangler from "wrangler";

// Bindings that are simulated on this machine.
const LOCAL = [
  "analyticsEngineDatasets",
  "assets",
  "bindings",
  "compatibilityDate",
  "compatibilityFlags",
  "d1Databases",
  "durableObjects",
  "email",
  "helloWorld",
  "hyperdrives",
  "kvNamespaces",
  "queueProducers",
  "r2Buckets",
  "ratelimits",
  "secretsStoreSecrets",
  "serviceBindings",
  "versionMetadata",
  "workerLoaders",
];

const ELSEWHERE = `
import { DurableObject, WorkerEntrypoint } from "cloudflare:workers";
export default { fetch: (request) => new Response("elsewhere got " + new URL(request.url).pathname) };
export class Admin extends WorkerEntrypoint {
  fetch() { return new Response("the administrator"); }
}
export class Counter extends DurableObject {
  fetch() { return new Response("counted"); }
}`;

const [bundle, path] = process.argv.slice(2);
const directory = dirname(resolve(bundle));
const config = wrangler.unstable_readConfig({ env: "" }, { hideWarnings: true });
const { workerOptions } = wrangler.unstable_getMiniflareWorkerOptions({ ...config, containers: [] }, "", {
  remoteBindingsEnabled: false,
});
const wasm = readdirSync(directory).filter((name) => name.endsWith(".wasm"));
// The flat options, as wrangler passes them.
const options = convertV4MiniflareOptions({
  host: "127.0.0.1",
  port: 0,
  // Otherwise workerd asks Cloudflare for this machine's location.
  cf: false,
  workers: [
    {
      ...Object.fromEntries(LOCAL.map((key) => [key, workerOptions[key]])),
      name: config.name,
      modulesRoot: directory,
      modules: [
        { type: "ESModule", path: resolve(bundle) },
        ...wasm.map((name) => ({ type: "CompiledWasm", path: join(directory, name) })),
      ],
    },
    {
      name: "elsewhere",
      compatibilityDate: config.compatibility_date,
      modules: true,
      script: ELSEWHERE,
      durableObjects: { COUNTER: "Counter" },
    },
  ],
});
const miniflare = new Miniflare(options);
try {
  const response = await fetch(new URL(path, await miniflare.ready));
  console.log(JSON.stringify({ status: response.status, body: await response.text() }));
} finally {
  await miniflare.dispose();
}
