// Serves the Rust Worker of a project with scripts in workerd until its standard input ends: `node serve.mjs PROJECT BUILD
// OPTIONS`. BUILD contains the Rust Worker. OPTIONS is JSON: the variables, `vars`; the URL of the `origin` that answers for
// every host, or `site` for that of `site.mjs`; the binding of a `loader` of dynamic Workers, and that of a `browser`, if there are
// any; and the directory in which objects `persist`. The first line of output is the URL.

import { once } from "node:events";
import { readFileSync, readdirSync, statSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { Miniflare, Response, convertV4MiniflareOptions } from "miniflare";
import { Browsers } from "./browsers.mjs";
import { site } from "./site.mjs";

const [project, build, text] = process.argv.slice(2);
const { vars, loader, browser, persist, ...given } = JSON.parse(text);
let browsers;
const origin = given.site ? await site(() => browsers) : given.origin;
browsers = browser && new Browsers(new URL(origin).port);
const TYPES = { mjs: "ESModule", js: "ESModule", wasm: "CompiledWasm" };
const modules = (from, to) =>
  readdirSync(from, { recursive: true })
    .filter((name) => statSync(join(from, name)).isFile() && TYPES[name.split(".").at(-1)])
    .map((name) => ({ type: TYPES[name.split(".").at(-1)], path: `${to}/${name}`, contents: readFileSync(join(from, name)) }));
const generated = "/project/src/generated";
const entry = `export { default } from ".${generated}/worker.mjs"; export * from ".${generated}/worker.mjs";`;
const object = (className) => ({ className, useSQLite: true });

/** Sends what a Worker fetches to the origin, whatever its host is. @param {Request} asked */
async function toTheOrigin(asked) {
  const { pathname, search, host } = new URL(asked.url);
  const headers = { ...Object.fromEntries(asked.headers), host };
  const body = Buffer.from(await asked.arrayBuffer());
  const sent = request(new URL(pathname + search, origin), { method: asked.method, headers, setHost: false });
  sent.end(body);
  const [got] = await once(sent, "response");
  const names = new Headers();
  for (let at = 0; at < got.rawHeaders.length; at += 2) names.append(got.rawHeaders[at], got.rawHeaders[at + 1]);
  const empty = asked.method === "HEAD" || got.statusCode === 204;
  return new Response(empty ? null : await buffer(got), { status: got.statusCode, headers: names });
}

const options = convertV4MiniflareOptions({
  host: "127.0.0.1",
  port: 0,
  cf: false,
  handleStructuredLogs: ({ message }) => process.env.KOZE_TEST_LOGS && console.error(message),
  modulesRoot: "/",
  modules: [
    { type: "ESModule", path: "/entry.mjs", contents: entry },
    ...modules(join(project, "src/generated"), generated),
    ...modules(build, "/project/build"),
  ],
  compatibilityDate: "2026-04-21",
  compatibilityFlags: ["nodejs_compat"],
  bindings: vars,
  ...(origin ? { outboundService: toTheOrigin } : {}),
  ...(browser ? { serviceBindings: { [browser]: (request) => browsers.fetch(request) } } : {}),
  ...(loader ? { workerLoaders: { [loader]: {} } } : {}),
  durableObjects: { KOZE_SESSIONS: object("KozeSessions"), KOZE_SCRIPTS: object("KozeScripts") },
});
const miniflare = new Miniflare({ ...options, resourcePersistencePath: persist });
console.log(String(await miniflare.ready));
process.stdin
  .on("end", async () => {
    browsers?.end();
    await miniflare.dispose();
    // Its server may still have connections.
    process.exit();
  })
  .resume();
