/** Loads what a view shows once, and again when its key changes. */

import { useEffect, useState } from "preact/hooks";
import { isUnanswered, messageOf } from "./connection";

export type Loaded<T> = { state: "loading" } | { state: "done"; value: T } | { state: "failed"; message: string };

/** How long to wait before a request that nothing answered is sent again, in milliseconds. */
const RETRY = 1000;

/** Loads what `load` returns. Waits while nothing answers; errors of the server are final. `null` as the key loads nothing. */
export function useLoaded<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [{ of, loaded }, set] = useState<{ of: string | null; loaded: Loaded<T> }>({ of: null, loaded: { state: "loading" } });
  useEffect(() => {
    if (key === null) return;
    const setLoaded = (loaded: Loaded<T>) => set({ of: key, loaded });
    const abort = new AbortController();
    const attempt = () => {
      load(abort.signal).then(
        (value) => setLoaded({ state: "done", value }),
        (error: unknown) => {
          if (abort.signal.aborted) return;
          if (isUnanswered(error)) setTimeout(() => abort.signal.aborted || attempt(), RETRY);
          else setLoaded({ state: "failed", message: messageOf(error) });
        },
      );
    };
    attempt();
    return () => abort.abort();
  }, [key]);
  // What was loaded for another key is never shown.
  return of === key ? loaded : { state: "loading" };
}
