/** What the page can do. Until the server has answered, it changes nothing. */

import { readJson } from "./api";
import { poll } from "./connection";
import { type Tab, TABS } from "./route";
import { Store } from "./store";

export interface Page {
  read_only: boolean;
}

export const page = new Store<Page>({ read_only: true });

/** Asks once. */
export function watchPage(): () => void {
  let isKnown = false;
  const ask = async (signal: AbortSignal) => {
    if (isKnown) return;
    page.set(await readJson<Page>("/page", signal));
    isKnown = true;
  };
  return poll(60_000, ask, () => undefined);
}

/** Returns the views of a session. */
export function tabsOf({ read_only: isReadOnly }: Page): readonly Tab[] {
  return isReadOnly ? TABS.filter((tab) => tab !== "terminal") : TABS;
}
