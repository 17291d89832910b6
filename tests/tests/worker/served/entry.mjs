// The Worker's entry as `koze build` writes it, with sandboxes in memory: the Rust Worker and one class for each sandbox.

import { Memory, Plain } from "./memory.mjs";

export { default } from "./index.js";
export * from "./index.js";

export class ShellSandbox extends Memory {}
export class PythonSandbox extends Plain {}
