/** Texts that are edited, and what a text field cannot show of them. */

/** The largest text that can be edited, in bytes. */
export const MAX_EDIT = 512 * 1024;

/** A text with changes that were not saved. They are kept until the page is closed. */
export interface Draft {
  text: string;
  /** What the file contained. */
  original: string;
  /** The version of the file; `null` if the file was deleted. */
  tag: string | null;
  /** The ends of its lines. A text field has only `\n`. */
  lineEnd: "\n" | "\r\n";
}

export type Decoded = { text: string; lineEnd: Draft["lineEnd"] } | { why: string };

/** Decodes a file. What a text field would change cannot be edited. */
export function decode(bytes: Uint8Array): Decoded {
  if (bytes.length > MAX_EDIT) return { why: "It is too large to be edited here." };
  if (bytes.includes(0)) return { why: "It is not text." };
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return { why: "It is not UTF-8." };
  }
  const unified = text.replaceAll("\r\n", "\n");
  if (unified.includes("\r") || (unified !== text && encode(unified, "\r\n") !== text)) {
    return { why: "Its lines end in different ways, which an editor in a page would change." };
  }
  return { text: unified, lineEnd: unified === text ? "\n" : "\r\n" };
}

/** Returns what a file with this text contains. */
export function encode(text: string, lineEnd: Draft["lineEnd"]): string {
  return lineEnd === "\n" ? text : text.replaceAll("\n", "\r\n");
}

/** The drafts by the URLs of their files. */
export const drafts = new Map<string, Draft>();

window.addEventListener("beforeunload", (event) => {
  const isChanged = [...drafts.values()].some(({ text, original }) => text !== original);
  if (isChanged) event.preventDefault();
});
