// A Worker that runs the scripts that it is sent, with a host whose answers are fixed.

import engine from "./koze-script.wasm";
import { isolated } from "./isolated.mjs";
import * as here from "./scripts.mjs";

/** The functions of `scripts.mjs`, in this isolate. */
const local = { run: (...rest) => here.run(engine, ...rest), check: (source) => here.check(engine, source) };

/** A loader whose Workers the platform ends. @param {string} text */
const ending = (text) => ({ get: () => ({ getEntrypoint: () => ({ run: () => Promise.reject(new Error(text)) }) }) });

/** The signals of calls that have no answer. */
const slow = [];

/** @param {Map<string, unknown>} state */
const host = (state) => async (asked, signal) => {
  const [[call, fields]] = Object.entries(asked);
  switch (call) {
    case "state_get": return state.get(fields.key);
    case "state_set": return void state.set(fields.key, fields.value);
    case "state_keys": return { no: 1n };
    case "fetch":
      slow.push(signal);
      return new Promise(() => {});
    default: throw new Error("not in this test");
  }
};

export default {
  async fetch(request, env) {
    const { start, source, fuel, times, cancel, loaded, ends } = await request.json();
    const { check, run } = loaded || ends ? isolated(ends ? ending(ends) : env.LOADER, engine) : local;
    if (source) return Response.json(await check(source));
    const state = new Map();
    // Several in one request, to measure them: a request itself takes longer than most scripts.
    for (let left = times ?? 0; left > 1; left--) await run(start, host(state));
    const options = fuel === undefined ? {} : { fuel: BigInt(fuel) };
    if (cancel !== undefined) options.signal = AbortSignal.timeout(cancel);
    let ran;
    try {
      ran = await run(start, host(state), options);
    } catch (error) {
      ran = { thrown: error.name, message: error.message };
    }
    const aborted = slow.splice(0).every((signal) => signal.aborted);
    return Response.json({ ...ran, aborted });
  },
};
