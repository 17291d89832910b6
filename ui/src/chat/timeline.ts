/** The calls that the page shows: those of the tool's result that opened it, and then what is new. */

import type { Call } from "../api";
import { Store } from "../store";
import { Host, type ToolResult } from "./host";
import { whenSeen } from "./seen";

/** The tool that opened the page. */
const TOOL = "session_timeline";
/** The pause between two requests for new calls, in milliseconds. */
const PAUSE = 3000;
/** The pause after a request that failed. */
const PAUSE_AFTER_ERROR = 15_000;
/** How many calls are kept. `koze log` has all of them. */
const KEPT = 500;

export interface State {
  /** The session, once it is known. */
  session: string | null;
  /** The calls, the oldest first. */
  calls: Call[];
  /** Whether the journal records calls. */
  isRecording: boolean;
  /** Whether the list stays as it is, because the host passes no calls of tools on. */
  isFixed: boolean;
  error: string | null;
}

/** The structured content of the tool's result. */
interface Page {
  session: string;
  calls: Call[];
  next: number;
  has_more: boolean;
  is_recording: boolean;
}

export class Timeline {
  readonly state = new Store<State>({ session: null, calls: [], isRecording: true, isFixed: false, error: null });
  private cursor: number | null = null;
  private isEnded = false;

  /** Shows the result of the tool. */
  show(result: ToolResult): void {
    try {
      this.add(read(result));
    } catch (error) {
      this.fail(error);
    }
  }

  fail(error: unknown): void {
    this.change({ error: error instanceof Error ? error.message : String(error) });
  }

  end(): void {
    this.isEnded = true;
  }

  /** Asks for new calls while someone sees the page. */
  async follow(host: Host): Promise<void> {
    if (!host.callsTools) {
      this.change({ isFixed: true });
      return;
    }
    let pause = PAUSE;
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, pause));
      await whenSeen();
      if (this.isEnded) return;
      try {
        await this.refresh(host);
        pause = PAUSE;
      } catch (error) {
        this.fail(error);
        pause = PAUSE_AFTER_ERROR;
      }
    }
  }

  private async refresh(host: Host): Promise<void> {
    const page = read(await host.callTool(TOOL, this.cursor === null ? {} : { since: this.cursor }));
    if (!page.has_more) return this.add(page);
    // The page is far behind, so it begins again with the newest calls.
    const newest = read(await host.callTool(TOOL, {}));
    this.change({ calls: [] });
    this.add(newest);
  }

  private add({ session, calls, next, is_recording: isRecording }: Page): void {
    // A page of an earlier chat may be shown again, with a server of another session.
    const before = session === this.state.value.session ? this.state.value.calls : [];
    const last = before.at(-1)?.id ?? -1;
    const fresh = calls.filter((call) => call.id > last);
    this.cursor = next;
    const all = fresh.length > 0 ? [...before, ...fresh].slice(-KEPT) : before;
    this.change({ session, calls: all, isRecording, error: null });
  }

  private change(change: Partial<State>): void {
    const state = { ...this.state.value, ...change };
    const names = Object.keys(change) as (keyof State)[];
    // Most requests find nothing new, and then nothing is rendered.
    if (names.some((name) => !Object.is(state[name], this.state.value[name]))) this.state.set(state);
  }
}

function read(result: ToolResult): Page {
  if (result.isError) throw new Error(result.content?.find(({ type }) => type === "text")?.text ?? "The tool failed.");
  const page = result.structuredContent as Page | undefined;
  if (!Array.isArray(page?.calls)) throw new Error("The chat client left out the calls of the result.");
  return page;
}
