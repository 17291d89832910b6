/** The `koze call` that repeats a call, quoted for a POSIX shell. As `koze log show` prints it. */

import type { Call } from "./api";

export type Repeat = { command: string } | { why: string };

/** Characters that a terminal does not show. In JSON, an escape means the same. */
const HIDDEN = /[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function repeat(call: Call): Repeat {
  if (call.input === undefined || call.input === null) return { why: "its input was not recorded" };
  if (call.input_cut) return { why: "its input was truncated" };
  if (call.input_masked) return { why: "secrets in its input were masked" };
  if (call.family === undefined) return { why: "there is no such tool" };
  if (hasInexactNumber(call.input)) {
    return { why: `the page cannot show a number in its input exactly: run \`koze log show ${call.id}\`` };
  }
  const words = ["koze", "call"];
  if (call.family !== "agent") words.push(`--tools=${call.family}`);
  if (call.session !== "default") words.push(`--session=${call.session}`);
  const escape = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  // Names and inputs may begin with a hyphen.
  words.push("--", call.tool, JSON.stringify(call.input).replace(HIDDEN, escape));
  if (words.some((word) => /[\u0000-\u001f\u007f-\u009f]/.test(word))) return { why: "a name contains control characters" };
  return { command: words.map(quote).join(" ") };
}

/** Quotes a word for a POSIX shell, unless it needs none. */
function quote(word: string): string {
  if (/^[A-Za-z0-9\-_./=,:@%+]+$/.test(word)) return word;
  return `'${word.replaceAll("'", "'\\''")}'`;
}

function hasInexactNumber(value: unknown): boolean {
  if (typeof value === "number") return Number.isInteger(value) && !Number.isSafeInteger(value);
  return typeof value === "object" && value !== null && Object.values(value).some(hasInexactNumber);
}
