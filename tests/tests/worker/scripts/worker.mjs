// A Worker that runs the scripts that it is sent, with a host whose answers are fixed.

import engine from "./koze-script.wasm";
import { check, run } from "./scripts.mjs";

/** The signals of calls that have no answer. */
const slow = [];

/** @param {Map<string, unknown>} state */
const host = (state) => async ({ call, ...fields }, signal) => {
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
  async fetch(request) {
    const { start, source, fuel, times, cancel } = await request.json();
    if (source) return Response.json(check(engine, source));
    const state = new Map();
    // Several in one request, to measure them: a request itself takes longer than most scripts.
    for (let left = times ?? 0; left > 1; left--) await run(engine, start, host(state));
    const options = fuel === undefined ? {} : { fuel: BigInt(fuel) };
    if (cancel !== undefined) options.signal = AbortSignal.timeout(cancel);
    let ran;
    try {
      ran = await run(engine, start, host(state), options);
    } catch (error) {
      ran = { thrown: error.name };
    }
    const aborted = slow.splice(0).every((signal) => signal.aborted);
    return Response.json({ ...ran, aborted });
  },
};
