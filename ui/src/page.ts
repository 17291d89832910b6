/** What the page can do. Until the server has answered, it changes nothing. */

import { readJson } from "./api";
import { poll } from "./connection";
import { type Tab, TABS } from "./route";
import { Store } from "./store";

export interface Page {
  read_only: boolean;
  /** Whether it shows previews. */
  previews: boolean;
}

export const page = new Store<Page>({ read_only: true, previews: false });

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
export function tabsOf({ read_only: isReadOnly, previews: hasPreviews }: Page): readonly Tab[] {
  return TABS.filter((tab) => !(isReadOnly && tab === "terminal") && (hasPreviews || tab !== "previews"));
}
