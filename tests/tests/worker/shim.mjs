// Makes the Rust Worker an entry point: each handler is called with the environment and context of the runtime, as in
// worker-build's own shim. That one also restarts the module after a panic; here a test that panics has failed.

import { WorkerEntrypoint } from "cloudflare:workers";
import * as rust from "./rust.js";

// The Durable Object classes written in Rust.
export * from "./rust.js";

export default class extends WorkerEntrypoint {
  /** @param {Request} request */
  fetch(request) {
    return rust.fetch.call(this, request, this.env, this.ctx);
  }
}
