/** Texts for people: what a sandbox or a model wrote, made visible; times, durations and sizes. */

/** Control characters except tab and newline, and characters that are invisible or change the direction of text. */
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

function symbol(character: string): string {
  return `\\u{${character.charCodeAt(0).toString(16)}}`;
}

/** Makes hidden characters visible. Tabs and newlines stay. */
export function visible(text: string): string {
  return text.replace(HIDDEN, symbol);
}

/** Makes hidden characters visible, tabs and newlines too. For names, which have one line. */
export function visibleLine(text: string): string {
  return visible(text).replace(/[\t\n]/g, symbol);
}

const ESCAPE_SEQUENCE =
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\u001b\]|\u009d)[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)?|\u001b[PX^_][^\u001b]*(?:\u001b\\)?|\u001b[ -/]*[0-Z\\^-~]/g;

/** Returns what a terminal would show of an output: without escape sequences, and without what a carriage return overwrote. */
export function terminalText(output: string): string {
  const plain = output.replace(ESCAPE_SEQUENCE, "").replace(/\r+\n/g, "\n");
  return visible(plain.replace(/[^\n]*\r(?=[^\n])/g, ""));
}

/** Returns an enumeration such as `3 calls`. */
export function count(number: number, noun: string): string {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** Says how many of all calls are shown. */
export function countOf(shown: number, all: number): string {
  return shown === all ? count(all, "call") : `${shown.toLocaleString("en")} of ${count(all, "call")}`;
}

/** Formats a duration in milliseconds. */
export function duration(ms: number): string {
  if (ms < 1000) return `${ms} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Formats a size in bytes. */
export function bytes(size: number): string {
  if (size < 1000) return `${size} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let value = size / 1000;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[unit]}`;
}

const pad = (number: number) => String(number).padStart(2, "0");

/** Formats the time of day, with seconds. */
export function clock(ms: number): string {
  const at = new Date(ms);
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

/** Formats the day. */
export function day(ms: number): string {
  const at = new Date(ms);
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
}

/** Formats how long ago something was. */
export function ago(ms: number, now: number): string {
  const seconds = Math.max(0, Math.floor((now - ms) / 1000));
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return count(Math.floor(seconds / 86_400), "day") + " ago";
}

/** Returns a host of the journal with its port. A port of 0 stands for a lookup of the name, which has none. */
export function target(entry: { host: string; port: number }): string {
  return entry.port === 0 ? visibleLine(entry.host) : `${visibleLine(entry.host)}:${entry.port}`;
}
