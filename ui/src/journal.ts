/** The calls of a session as they end. The journal is read by its cursor, so a lost connection leaves no gap. */

import { type Call, path, readJson } from "./api";
import { poll } from "./connection";
import { Store } from "./store";

interface Page {
  calls: Call[];
  next: number;
}

export interface JournalState {
  /** The calls, the oldest first. A new array for each change. */
  calls: Call[];
  /** Whether the first page was read. */
  isLoaded: boolean;
  /** Whether older calls are still being read. */
  isReadingOlder: boolean;
  error?: string;
}

/** How many calls a request asks for: the most that the route returns. */
const LIMIT = 1000;
/** The pause between two requests for new calls, in milliseconds. */
const PAUSE = 1000;

export class Journal {
  readonly state = new Store<JournalState>({ calls: [], isLoaded: false, isReadingOlder: false });
  private cursor: number | null = null;
  private older: Call[] = [];
  /** Where to read older calls, up to the first one that was read. */
  private olderCursor = 0;

  constructor(private readonly session: string) {}

  /** Reads the journal until the returned function is called. */
  start(): () => void {
    const failed = (error: unknown) => this.change({ error: error instanceof Error ? error.message : String(error), isLoaded: true });
    return poll(PAUSE, (signal) => this.readAll(signal), failed);
  }

  private async readAll(signal: AbortSignal): Promise<void> {
    if (this.cursor === null) {
      const newest = await this.readPage(null, signal);
      this.cursor = newest.next;
      const mayHaveOlder = newest.calls.length === LIMIT;
      this.change({ calls: newest.calls, isLoaded: true, isReadingOlder: mayHaveOlder });
    }
    for (;;) {
      const { calls, next } = await this.readPage(this.cursor, signal);
      this.cursor = next;
      if (calls.length > 0) this.change({ calls: [...this.state.value.calls, ...calls] });
      if (this.state.value.isReadingOlder) await this.readOlder(signal);
      else if (calls.length < LIMIT) return;
    }
  }

  /** Reads the next page of the calls before the first one. They are shown once all are there. */
  private async readOlder(signal: AbortSignal): Promise<void> {
    const first = this.state.value.calls[0]?.id ?? 0;
    const { calls, next } = await this.readPage(this.olderCursor, signal);
    this.olderCursor = next;
    const before = calls.filter((call) => call.id < first);
    this.older.push(...before);
    if (before.length < LIMIT) {
      this.change({ calls: [...this.older, ...this.state.value.calls], isReadingOlder: false });
      this.older = [];
    }
  }

  private readPage(since: number | null, signal: AbortSignal): Promise<Page> {
    const from = since === null ? "" : `&since=${since}`;
    return readJson<Page>(`${path("sessions", this.session, "log")}?limit=${LIMIT}${from}`, signal);
  }

  private change(change: Partial<JournalState>): void {
    const { error: _, ...rest } = this.state.value;
    this.state.set({ ...rest, ...change });
  }
}
