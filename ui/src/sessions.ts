/** The sessions on this machine. */

import { readJson, type Session } from "./api";
import { messageOf, poll } from "./connection";
import { Store } from "./store";

export interface SessionsState {
  sessions: Session[];
  isLoaded: boolean;
  /** When the list was read. */
  now: number;
  error?: string;
}

export const sessions = new Store<SessionsState>({ sessions: [], isLoaded: false, now: Date.now() });

/** Reads the list until the returned function is called. */
export function watchSessions(): () => void {
  const read = async (signal: AbortSignal) => {
    const list = await readJson<{ sessions: Session[] }>("/sessions", signal);
    sessions.set({ sessions: list.sessions, isLoaded: true, now: Date.now() });
  };
  const failed = (error: unknown) => sessions.set({ ...sessions.value, isLoaded: true, error: messageOf(error) });
  return poll(2000, read, failed);
}
