// Other engines: for each line of input, which names one, runs `1+1` in a new isolate of it, and prints the microseconds.

import { createInterface } from "node:readline";
import ivm from "isolated-vm";
import { getQuickJS } from "quickjs-emscripten";

/** As much as a script of koze has. */
const MEMORY_MIB = 128;

// The module is compiled once, as koze's own program is loaded once.
const quickjs = await getQuickJS();

const ENGINES = {
  "quickjs-emscripten"() {
    const runtime = quickjs.newRuntime();
    runtime.setMemoryLimit(MEMORY_MIB << 20);
    const context = runtime.newContext();
    const result = context.unwrapResult(context.evalCode("1+1"));
    const value = context.getNumber(result);
    result.dispose();
    context.dispose();
    runtime.dispose();
    return value;
  },
  async "isolated-vm"() {
    const isolate = new ivm.Isolate({ memoryLimit: MEMORY_MIB });
    const context = await isolate.createContext();
    const script = await isolate.compileScript("1+1");
    const value = await script.run(context);
    isolate.dispose();
    return value;
  },
};

for await (const name of createInterface({ input: process.stdin })) {
  const start = performance.now();
  const value = await ENGINES[name]();
  const micros = (performance.now() - start) * 1000;
  if (value !== 2) throw new Error(`${name} computes ${value}`);
  console.log(micros);
}
