// Runs scripts as a Worker does, with a host whose answers are fixed: `node host.mjs TEMPLATES`. Each line of the input is
// a message with options, each line of the output what the script did.
//
// Options: `fuel`, and `frozen` for a clock that stands still while the engine computes.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [templates] = process.argv.slice(2);
const { run, check } = await import(pathToFileURL(join(templates, "generated/koze/scripts.mjs")).href);
const module = new WebAssembly.Module(readFileSync(join(templates, "script/koze-script.wasm")));

/** The answers of `script/tests/native`. */
function host() {
  const state = new Map();
  const keys = (prefix) => [...state.keys()].filter((key) => key.startsWith(prefix)).sort();
  return async (asked) => {
    const [[call, fields]] = Object.entries(asked);
    switch (call) {
      case "state_get": return state.get(fields.key);
      case "state_set": return void state.set(fields.key, fields.value);
      case "state_delete": return state.delete(fields.key);
      case "state_keys": return keys(fields.prefix);
      case "fetch": {
        const { url } = fields;
        if (url === "http://never") return new Promise(() => {});
        if (url === "http://text") return { status: 200, url, headers: {}, body: "text" };
        const { method = "GET", headers = {}, body, timeout = 30_000 } = fields;
        const sent = JSON.stringify({ url, method, headers, body, timeout });
        return { status: 200, url, headers: { "content-type": "application/json" }, body: sent };
      }
      case "browser": return ["click", "type", "close"].some((action) => action in fields) ? null : fields;
      default: throw new Error("no database");
    }
  };
}

/** @param {{ message: any, options: { fuel?: number, frozen?: boolean } }} line */
async function answer({ message, options: { fuel, frozen } }) {
  if (message.check) {
    const failure = check(module, message.check);
    return { result: failure ? { Err: failure } : { Ok: null }, logs: [] };
  }
  const { now } = Date;
  const stopped = now();
  if (frozen) Date.now = () => stopped;
  try {
    return await run(module, message.start, host(), fuel === undefined ? {} : { fuel: BigInt(fuel) });
  } finally {
    Date.now = now;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify(await answer(JSON.parse(line))) + "\n");
}
