/** How a call is shown in a line, and found by a search. */

import type { Call } from "./api";
import { visible } from "./text";

/** The fields that say best what a call does, the first one first. */
const FIELDS = ["command", "script", "code", "path", "pattern", "url", "argv", "name", "id"];
/** The longest summary, in characters. The list cuts it off where the line ends. */
const LONGEST = 300;

const summaries = new WeakMap<Call, string>();
const haystacks = new WeakMap<Call, string>();

/** Returns the part of the input that says best what a call does. */
export function summary(call: Call): string {
  let text = summaries.get(call);
  if (text === undefined) {
    text = visible(choose(call.input).slice(0, LONGEST).replace(/\s+/g, " ").trim());
    summaries.set(call, text);
  }
  return text;
}

function choose(input: unknown): string {
  if (input === undefined || input === null) return "";
  if (typeof input === "string") return input;
  const fields = input as Record<string, unknown>;
  for (const name of FIELDS) {
    const value = fields[name];
    if (typeof value === "string" && value !== "") return value;
    if (Array.isArray(value)) return value.join(" ");
  }
  const text = JSON.stringify(input);
  return text === "{}" ? "" : text;
}

/** Returns the name of a tool without the workspace to which it is bound: `run_code` of `workspace__lab__run_code`. */
export function toolName(call: Call): string {
  return call.family === "workspace" ? call.tool.split("__").at(-1)! : call.tool;
}

/** Returns whether a call ended without an error. */
export function isOk(call: Call): boolean {
  return call.outcome === "ok" && (call.exit_code ?? 0) === 0;
}

/** Returns how a call ended, in a word. */
export function outcome(call: Call): string {
  return call.exit_code === undefined || call.exit_code === 0 ? call.outcome : `exit ${call.exit_code}`;
}

export interface Filter {
  /** Words that must all be found. */
  text: string;
  onlyErrors: boolean;
  tool: string;
  sandbox: string;
}

export const EVERYTHING: Filter = { text: "", onlyErrors: false, tool: "", sandbox: "" };

/** Returns a function that decides which calls are shown. */
export function matcher(filter: Filter): (call: Call) => boolean {
  const words = filter.text.toLowerCase().split(/\s+/).filter((word) => word !== "");
  return (call) =>
    (!filter.onlyErrors || !isOk(call)) &&
    (filter.tool === "" || call.tool === filter.tool) &&
    (filter.sandbox === "" || (call.sandboxes ?? []).includes(filter.sandbox)) &&
    words.every((word) => haystack(call).includes(word));
}

function haystack(call: Call): string {
  let text = haystacks.get(call);
  if (text === undefined) {
    const input = typeof call.input === "string" ? call.input : JSON.stringify(call.input ?? "");
    text = [call.id, call.tool, call.client, outcome(call), ...(call.sandboxes ?? []), input].join(" ").toLowerCase();
    haystacks.set(call, text);
  }
  return text;
}
