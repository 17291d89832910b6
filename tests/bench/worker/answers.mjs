// A class of sandboxes that does nothing but answer: what the two Workers of the benchmark call.

import { DurableObject } from "cloudflare:workers";

/** @import * as koze from "./contract.js" */

const NOTHING = new Uint8Array();
const FILE = new TextEncoder().encode("x".repeat(1023) + "\n");
const encoder = new TextEncoder();

/** @template T @param {T} value @returns {{ ok: true, value: T }} */
const done = (value) => ({ ok: true, value });

export class Answers extends DurableObject {
  /** @param {koze.Open} _input @returns {koze.Reply<koze.Opened>} */
  kozeOpen(_input) {
    return done({ created: true });
  }

  /** @returns {koze.Reply<koze.State>} */
  kozeStatus() {
    return done({ opened: true, status: "running" });
  }

  /** Says the command. @param {koze.Exec} input @returns {koze.Reply<koze.Output>} */
  kozeExec(input) {
    return done({ stdout: encoder.encode(input.argv.at(-1)), stderr: NOTHING, exitCode: 0, timedOut: false });
  }

  /** A file of 1 kB. @param {koze.Read} input @returns {koze.Reply<koze.Piece>} */
  kozeRead(input) {
    return done({ bytes: FILE.subarray(input.offset, input.offset + input.limit), size: FILE.length });
  }
}
