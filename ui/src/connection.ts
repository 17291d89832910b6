/** Whether the server answers, and requests that are repeated until it does. */

import { Refused } from "./api";
import { Store } from "./store";

export type Connection = "connected" | "lost" | "signed-out";

export const connection = new Store<Connection>("connected");

/** The longest pause between two attempts, in milliseconds. */
const LONGEST = 5000;

/** Returns whether a request failed because nothing answered. */
export function isUnanswered(error: unknown): boolean {
  return error instanceof TypeError;
}

/** Returns the message of an error for people. */
export function messageOf(error: unknown): string {
  if (isUnanswered(error)) return "The server does not answer.";
  return error instanceof Error ? error.message : String(error);
}

function waitUntil(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(end, ms);
    function end() {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
      window.removeEventListener("online", end);
      signal.removeEventListener("abort", end);
      resolve();
    }
    function seen() {
      if (!document.hidden) end();
    }
    document.addEventListener("visibilitychange", seen);
    window.addEventListener("online", end);
    signal.addEventListener("abort", end);
  });
}

/**
 * Repeats a request until it is aborted: `ms` after each response, and with growing pauses while nothing answers. `failed` gets the
 * errors of the server.
 */
export function poll(ms: number, request: (signal: AbortSignal) => Promise<void>, failed: (error: unknown) => void): () => void {
  const abort = new AbortController();
  const { signal } = abort;
  void (async () => {
    let pause = ms;
    while (!signal.aborted) {
      try {
        await request(signal);
        connection.set("connected");
        pause = ms;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Refused && error.status === 401) {
          connection.set("signed-out");
          return;
        }
        if (isUnanswered(error)) {
          connection.set("lost");
          pause = Math.min(Math.max(pause, 250) * 2, LONGEST);
        } else {
          connection.set("connected");
          failed(error);
          pause = LONGEST;
        }
      }
      // A page that nobody sees asks rarely.
      await waitUntil(document.hidden ? Math.max(pause, 30_000) : pause, signal);
    }
  })();
  return () => abort.abort();
}
