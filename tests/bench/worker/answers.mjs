// A class of sandboxes that does nothing but answer: what the two Workers of the benchmark call.

import { DurableObject } from "cloudflare:workers";

/** @import * as koze from "./contract.js" */

const NOTHING = new Uint8Array();
const encoder = new TextEncoder();
const SMALL = encoder.encode("x".repeat(1023) + "\n");
/** As a program's source: what JSON escapes is in each line. */
const LARGE = encoder.encode('const answer = "forty-two, 42";\n'.repeat(2048));

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

  /** A file of 1 kB, or `large.txt` of 64 KiB. @param {koze.Read} input @returns {koze.Reply<koze.Piece>} */
  kozeRead(input) {
    const file = input.path.endsWith("/large.txt") ? LARGE : SMALL;
    return done({ bytes: file.subarray(input.offset, input.offset + input.limit), size: file.length });
  }
}
