// Serves a bundle of `wrangler deploy --dry-run` in workerd on a free port, asks it once, prints the answer and ends
// workerd: `node serve.mjs BUNDLE PATH`, in the project's directory. The bindings are those of the wrangler
// configuration, as `wrangler dev` makes them of it. There is no Docker here, so the classes have no container behind
// them, and no network, so what Cloudflare alone has is not bound. Another Worker is there, too, `elsewhere`.

import { readdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";
import wrangler from "wrangler";

// What is simulated on this machine.
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
// The flat options, as wrangler itself hands them over.
const options = convertV4MiniflareOptions({
  host: "127.0.0.1",
  port: 0,
  // Else it asks Cloudflare where this machine is.
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
