/** The sessions with their sandboxes: next to a session, and as the first view. */

import type { Session } from "./api";
import { Command, Empty, Problem, Status } from "./parts";
import { href } from "./route";
import type { SessionsState } from "./sessions";
import { ago, count, visibleLine } from "./text";
import { UsageText, useUsage } from "./usage";

export function SessionList({ state, current }: { state: SessionsState; current: string | null }) {
  return (
    <ul class="sessions">
      {state.sessions.map((session) => (
        <li key={session.name}>
          <a class="session" href={href(session.name)} aria-current={session.name === current ? "page" : undefined}>
            <span class="session-name">
              <bdi>{visibleLine(session.name)}</bdi>
            </span>
            <span class="quiet">
              {count(session.calls, "call")}
              {session.last_call !== undefined && `, ${ago(session.last_call, state.now)}`}
            </span>
          </a>
          <SandboxList session={session} now={null} />
        </li>
      ))}
    </ul>
  );
}

/** The sandboxes of a session, with their age and usage unless `now` is `null`. */
function SandboxList({ session, now }: { session: Session; now: number | null }) {
  const isAddressable = session.name !== "." && session.name !== "..";
  const isRunning = session.sandboxes.some((sandbox) => sandbox.status === "running");
  const usage = useUsage(session.name, now !== null && isRunning && isAddressable);
  return (
    <ul>
      {session.sandboxes.map((sandbox) => (
        <li key={sandbox.name} class="sandbox">
          <a href={href(session.name, "files", sandbox.name, "/home/user")}>
            <bdi>{visibleLine(sandbox.name)}</bdi>
          </a>{" "}
          <span class="quiet">{visibleLine(sandbox.image)}</span> <Status status={sandbox.status} />
          {now !== null && sandbox.created !== undefined && <span class="quiet">created {ago(sandbox.created, now)}</span>}
          {usage.has(sandbox.name) && <UsageText usage={usage.get(sandbox.name)!} />}
        </li>
      ))}
    </ul>
  );
}

function byNewest(one: Session, other: Session): number {
  return (other.last_call ?? 0) - (one.last_call ?? 0) || (one.name < other.name ? -1 : 1);
}

/** What is shown while no session is selected. */
export function Overview({ state }: { state: SessionsState }) {
  if (!state.isLoaded) return <p class="note">Reading the sessions…</p>;
  if (state.error !== undefined) return <Problem>{state.error}</Problem>;
  if (state.sessions.length === 0) {
    return (
      <Empty title="No sessions yet" isPage>
        <p>A session appears here with its first call. Make one in the project:</p>
        <Command>{`koze call shell '{"command": "uname -a"}'`}</Command>
        <p>Or let an agent use the tools of sandboxes on this machine:</p>
        <Command>koze run -- claude</Command>
      </Empty>
    );
  }
  return (
    <section class="overview" aria-labelledby="overview">
      <h1 id="overview">Sessions</h1>
      <table class="table">
        <thead>
          <tr>
            <th>Session</th>
            <th>Sandboxes</th>
            <th class="number">Calls</th>
            <th class="wide-only">Last call</th>
          </tr>
        </thead>
        <tbody>
          {[...state.sessions].sort(byNewest).map((session) => (
            <tr key={session.name}>
              <td>
                <a href={href(session.name)}>
                  <bdi>{visibleLine(session.name)}</bdi>
                </a>
              </td>
              <td>
                <SandboxList session={session} now={state.now} />
              </td>
              <td class="number">{session.calls.toLocaleString("en")}</td>
              <td class="wide-only time">{session.last_call === undefined ? "" : ago(session.last_call, state.now)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
