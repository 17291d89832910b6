/** The place in the page: the fragment of the URL, which the server never sees. */

import { Store } from "./store";

export const TABS = ["calls", "files", "processes", "terminal", "previews", "scripts", "snapshots", "egress"] as const;
export type Tab = (typeof TABS)[number];

export interface Route {
  session: string | null;
  tab: Tab;
  /** The call, or the sandbox with a path or a process. */
  rest: string[];
}

/** Returns the fragment of a place. */
export function href(session: string | null, tab: Tab = "calls", ...rest: string[]): string {
  if (session === null) return "#/";
  return "#/" + [session, tab, ...rest].map(encodeURIComponent).join("/");
}

export function parse(hash: string): Route {
  const parts = hash.replace(/^#\/?/, "").split("/").filter((part) => part !== "");
  let decoded: string[];
  try {
    decoded = parts.map(decodeURIComponent);
  } catch {
    decoded = [];
  }
  const [session, tab, ...rest] = decoded;
  const found = TABS.find((one) => one === tab) ?? "calls";
  return { session: session ?? null, tab: found, rest };
}

export const route = new Store<Route>(parse(location.hash));

window.addEventListener("hashchange", () => route.set(parse(location.hash)));

export function go(to: string): void {
  location.hash = to;
}
