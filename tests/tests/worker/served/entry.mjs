// The Worker's entry point as `koze build` generates it, with sandboxes in memory: the Rust Worker and the sandbox
// classes.

import { Memory, Plain } from "./memory.mjs";

export { default } from "./index.js";
export * from "./index.js";
export { KozeSessions } from "./sessions.mjs";

export class ShellSandbox extends Memory {}
export class PythonSandbox extends Plain {}
