// The Rust Worker, with the sandbox class of the benchmark.

import { Answers } from "./answers.mjs";

export { default } from "./build/index.js";
export * from "./build/index.js";

export class ShellSandbox extends Answers {}
