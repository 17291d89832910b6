// The Rust Worker as an entry point: each handler is called with the environment and context that the runtime gives
// an entry point, as worker-build's own shim does it. That one starts the module anew after a panic, too; a test
// that panics has failed.

import { WorkerEntrypoint } from "cloudflare:workers";
import * as rust from "./rust.js";

// The Durable Object classes that Rust has.
export * from "./rust.js";

export default class extends WorkerEntrypoint {
  /** @param {Request} request */
  fetch(request) {
    return rust.fetch.call(this, request, this.env, this.ctx);
  }
}
