/** The URLs that `browse` returned. */

import type { Call } from "./api";

/** Returns whether a URL is one of a preview on this machine, and not of the page. */
export function isPreviewUrl(url: string, ownHost: string): boolean {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    return false;
  }
  const isPreview = /^\d+-[a-z0-9-]+\.localhost$/.test(parsed.hostname);
  return isPreview && parsed.protocol === "http:" && parsed.host !== ownHost && parsed.username === "" && parsed.password === "";
}

/** Returns the previews of a sandbox by their ports, as the journal has them. A later call replaces an earlier one. */
export function previewsOf(calls: Call[], sandbox: string): Map<number, string> {
  const found = new Map<number, string>();
  for (const { family, tool, outcome, input, result, sandboxes } of calls) {
    if (family !== "agent" || tool !== "browse" || outcome !== "ok" || !sandboxes?.includes(sandbox)) continue;
    const port = (input as { port?: unknown } | undefined)?.port;
    const url = (result as { url?: unknown } | undefined)?.url;
    if (typeof port === "number" && typeof url === "string") found.set(port, url);
  }
  return found;
}
