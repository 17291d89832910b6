// The Rust Worker, with the class that answers for its sandboxes.

import { Answers } from "./answers.mjs";

export { default } from "./build/index.js";
export * from "./build/index.js";

export class ShellSandbox extends Answers {}
