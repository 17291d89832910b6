// A sandbox class that only returns fixed answers, for both Workers of the benchmark.

import { DurableObject } from "cloudflare:workers";

/** @import * as koze from "./contract.js" */

const NOTHING = new Uint8Array();
const encoder = new TextEncoder();
const SMALL = encoder.encode("x".repeat(1023) + "\n");
/** Resembles source code: each line contains characters that JSON escapes. */
const LARGE = encoder.encode('const answer = "forty-two, 42";\n'.repeat(2048));

/** @template T @param {T} value @returns {{ ok: true, value: T }} */
const done = (value) => ({ ok: true, value });

export class Answers extends DurableObject {
  /**
   * @param {koze.Request} request
   * @returns {koze.Reply<any>}
   */
  koze(request) {
    const [name] = Object.keys(request);
    return OPERATIONS[/** @type {keyof typeof OPERATIONS} */ (name)](/** @type {any} */ (Object.values(request)[0]));
  }
}

const OPERATIONS = {
  open: () => done({ created: true }),
  status: () => done({ opened: true, status: "running" }),

  /** Echoes the command. @param {koze.Exec} input */
  exec: (input) => done({ stdout: encoder.encode(input.argv.at(-1)), stderr: NOTHING, exitCode: 0, timedOut: false }),

  /** Returns a file of 1 kB, or `large.txt` of 64 KiB. @param {koze.Read} input */
  read: (input) => {
    const file = input.path.endsWith("/large.txt") ? LARGE : SMALL;
    return done({ bytes: file.subarray(input.offset, input.offset + input.limit), size: file.length });
  },
};
