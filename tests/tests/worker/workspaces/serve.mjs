// Serves the Rust Worker of a project in workerd, with the classes that `koze build` generated and stand-ins for their
// containers, until its standard input ends: `node serve.mjs PROJECT BUILD OPTIONS`. BUILD contains the Rust Worker.
// OPTIONS is JSON: the variables, `vars`; the `classes` by binding; the `guest` where containers run it as their first
// process; and the `settings` of the SDK's containers. The first line of output is the URL.

import { readFileSync, readdirSync, realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";
import { NativeEngine } from "../native/engine.mjs";
import { Engine } from "../sdk/engine.mjs";
import { bundledSdk, generatedFiles, withBundle } from "../sdk/stage.mjs";

const IMAGE = "docker.io/cloudflare/sandbox:0.12.10";

const [project, build, text] = process.argv.slice(2);
const { vars, classes, guest, settings } = JSON.parse(text);
const node_modules = realpathSync(join(project, "node_modules"));
const engine = guest ? new NativeEngine(node_modules, guest) : new Engine(node_modules);
engine.settings = settings;
await engine.listen();
// Never query a real Docker.
process.env.WRANGLER_DOCKER_BIN = "/bin/false";

const entry = `export { default } from "./project/src/generated/worker.mjs"; export * from "./project/src/generated/worker.mjs";`;
const module = (path, contents) => ({ type: path.endsWith(".wasm") ? "CompiledWasm" : "ESModule", path, contents });
const built = readdirSync(build, { recursive: true }).filter((name) => statSync(join(build, name)).isFile() && /\.(m?js|wasm)$/.test(name));
const object = (className) => ({ className, useSQLite: true });
const miniflare = new Miniflare(
  convertV4MiniflareOptions({
    host: "127.0.0.1",
    port: 0,
    cf: false,
    handleStructuredLogs: ({ message }) => process.env.KOZE_TEST_LOGS && console.error(message),
    containerEngine: {
      localDocker: { socketPath: `unix://${engine.socket}`, containerEgressInterceptorImage: "sidecar" },
    },
    workers: [
      {
        name: "w",
        modulesRoot: "/",
        modules: [
          module("/entry.mjs", entry),
          module("/sdk-bundle.mjs", await bundledSdk(project)),
          ...Object.entries(generatedFiles(project)).map(([name, text]) => module(`/project/src/generated/${name}`, withBundle(text))),
          ...built.map((name) => module(`/project/build/${name}`, readFileSync(join(build, name), name.endsWith(".wasm") ? undefined : "utf8"))),
        ],
        compatibilityDate: "2026-04-21",
        compatibilityFlags: ["nodejs_compat"],
        bindings: { SANDBOX_LOG_LEVEL: "error", ...vars },
        r2Buckets: ["SNAPSHOTS"],
        durableObjects: {
          KOZE_SESSIONS: object("KozeSessions"),
          ...Object.fromEntries(
            Object.entries(classes).map(([binding, name]) => [binding, { ...object(name), container: { imageName: IMAGE } }]),
          ),
        },
      },
    ],
  }),
);
console.log(String(await miniflare.ready));
process.stdin
  .on("end", async () => {
    await miniflare.dispose();
    await engine.close();
  })
  .resume();
