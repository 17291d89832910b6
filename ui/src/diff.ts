/** What a call changed in a file, as far as its input says it. */

import type { Call } from "./api";
import { toolName } from "./summary";

/** A line of a unified diff. */
export interface DiffLine {
  sign: "+" | "-" | " ";
  text: string;
}

export interface FileChange {
  path: string;
  /** What the tool did, for people. */
  action: string;
  lines: DiffLine[];
  /** Whether only the beginning of the change was recorded. */
  isCut: boolean;
  /** The fields of the input that the diff shows. */
  shown: string[];
}

/** The tools that write files, of all families. */
const WRITES = ["write_file"];
const EDITS = ["edit_file", "str_replace"];
const FAMILIES = ["agent", "thread", "workspace"];

/** Returns the change of the file that a call wrote, or `null` if the call wrote none or its input does not say. */
export function fileChange(call: Call): FileChange | null {
  if (call.outcome !== "ok" || !FAMILIES.includes(call.family ?? "")) return null;
  const input = typeof call.input === "string" && call.input_cut ? parseCut(call.input) : call.input;
  if (typeof input !== "object" || input === null) return null;
  const fields = input as Record<string, unknown>;
  const text = (name: string) => (typeof fields[name] === "string" ? (fields[name] as string) : undefined);
  const path = text("path");
  const tool = toolName(call);
  if (path === undefined) return null;
  const isCut = call.input_cut ?? false;
  const all = fields.replace_all === true;
  if (WRITES.includes(tool)) {
    const content = text("content");
    // What is in base64 is not text.
    if (content === undefined || fields.encoding === "base64") return null;
    const action = fields.append === true ? "appended to" : "written";
    return { path, action, lines: linesOf(content).map(added), isCut, shown: ["path", "content"] };
  }
  if (!EDITS.includes(tool)) return null;
  for (const [before, after] of [["old_string", "new_string"], ["old_str", "new_str"]] as const) {
    const [old, replacement] = [text(before), text(after)];
    if (old === undefined || replacement === undefined) continue;
    const action = all ? "edited, every occurrence" : "edited";
    return { path, action, lines: diffLines(linesOf(old), linesOf(replacement)), isCut, shown: ["path", before, after] };
  }
  return null;
}

const added = (text: string): DiffLine => ({ sign: "+", text });
const removed = (text: string): DiffLine => ({ sign: "-", text });
const same = (text: string): DiffLine => ({ sign: " ", text });

/** Splits a text into lines. A newline at its end begins none. */
function linesOf(text: string): string[] {
  if (text === "") return [];
  return (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
}

/** Returns the shortest diff of two lists of lines. Both are as short as a recorded input. */
export function diffLines(old: string[], current: string[]): DiffLine[] {
  let start = 0;
  while (start < old.length && start < current.length && old[start] === current[start]) start += 1;
  let [oldEnd, end] = [old.length, current.length];
  while (oldEnd > start && end > start && old[oldEnd - 1] === current[end - 1]) {
    oldEnd -= 1;
    end -= 1;
  }
  const changed = diffMiddle(old.slice(start, oldEnd), current.slice(start, end));
  return [...old.slice(0, start).map(same), ...changed, ...old.slice(oldEnd).map(same)];
}

/** The longest common subsequence, by dynamic programming. */
function diffMiddle(old: string[], current: string[]): DiffLine[] {
  // `common[i][j]` is the number of lines that `old` from `i` and `current` from `j` have in common.
  const common = Array.from({ length: old.length + 1 }, () => new Uint16Array(current.length + 1));
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = current.length - 1; j >= 0; j -= 1) {
      const [row, below] = [common[i]!, common[i + 1]!];
      row[j] = old[i] === current[j] ? below[j + 1]! + 1 : Math.max(below[j]!, row[j + 1]!);
    }
  }
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < current.length) {
    if (i < old.length && j < current.length && old[i] === current[j]) {
      lines.push(same(old[i]!));
      i += 1;
      j += 1;
    } else if (i < old.length && (j === current.length || common[i + 1]![j]! >= common[i]![j + 1]!)) {
      lines.push(removed(old[i]!));
      i += 1;
    } else {
      lines.push(added(current[j]!));
      j += 1;
    }
  }
  return lines;
}

/** The longest part of an escape sequence in JSON that can be cut off: `\u12a`. */
const LONGEST_ESCAPE = 5;

/** Reads the beginning of a JSON object that ends within a string, where the journal cut it. Returns `null` if it ends elsewhere. */
export function parseCut(text: string): unknown {
  const beginning = text.replace(/…$/, "");
  for (let missing = 0; missing <= LONGEST_ESCAPE; missing += 1) {
    try {
      return JSON.parse(`${beginning.slice(0, beginning.length - missing)}"}`);
    } catch {
      // One character less.
    }
  }
  return null;
}
