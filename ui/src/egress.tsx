/** The hosts that a session reached and was refused, with the rule that decided. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { type Egress, path, readJson } from "./api";
import { messageOf, poll } from "./connection";
import { Command, Empty, Problem } from "./parts";
import { clock, count, day, target, visibleLine } from "./text";

/** How many entries are read: the most that the route returns. */
const LIMIT = 1000;

export function EgressView({ session }: { session: string }) {
  const [entries, setEntries] = useState<Egress[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [text, setText] = useState("");
  const [onlyRefused, setOnlyRefused] = useState(false);
  useEffect(() => {
    const load = async (signal: AbortSignal) => {
      const list = await readJson<{ egress: Egress[] }>(`${path("sessions", session, "egress")}?limit=${LIMIT}`, signal);
      setEntries(list.egress.reverse());
      setProblem(null);
    };
    return poll(2000, load, (error) => setProblem(messageOf(error)));
  }, [session]);
  const shown = useMemo(() => {
    const wanted = text.toLowerCase();
    const isFound = (entry: Egress) =>
      [entry.host, entry.rule, entry.sandbox, entry.requested_within ?? ""].some((field) => field.toLowerCase().includes(wanted));
    return (entries ?? []).filter((entry) => (!onlyRefused || !entry.allowed) && isFound(entry));
  }, [entries, text, onlyRefused]);
  if (problem !== null) return <Problem>{problem}</Problem>;
  if (entries === null) return <p class="note">Reading the egress journal…</p>;
  if (entries.length === 0) {
    return (
      <Empty title="No hosts">
        <p>No sandbox of this session has tried to reach a host. To see what its egress policy makes of a request:</p>
        <Command>koze egress explain https://example.com/</Command>
      </Empty>
    );
  }
  return (
    <section class="directory" aria-label="Egress">
      <search class="filters">
        <input
          type="search"
          class="field grow"
          placeholder="Search hosts and rules"
          aria-label="Search hosts and rules"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <label class="check">
          <input type="checkbox" checked={onlyRefused} onChange={(event) => setOnlyRefused(event.currentTarget.checked)} />
          Refused only
        </label>
      </search>
      <p class="found" role="status">
        {entries.length === LIMIT ? `The newest ${LIMIT}: ` : ""}
        {count(shown.length, "attempt")}
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label="Attempts, the newest first">
        <table class="table">
          <thead>
            <tr>
              <th>Time</th>
              <th>Decision</th>
              <th>Host</th>
              <th>Rule</th>
              <th class="wide-only">Sandbox</th>
              <th class="wide-only">Address</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((entry, index) => (
              <tr key={index}>
                <td class="time" title={day(entry.time)}>
                  {clock(entry.time)}
                </td>
                <td>
                  <span class={`outcome ${entry.allowed ? "ok" : "failed"}`}>{entry.allowed ? "✓ reached" : "✕ refused"}</span>
                </td>
                <td class="mono">
                  {target(entry)}
                  {entry.requested_within !== undefined && (
                    <span class="problem"> ▲ {visibleLine(entry.requested_within)} was requested</span>
                  )}
                </td>
                <td>{visibleLine(entry.rule)}</td>
                <td class="wide-only">{visibleLine(entry.sandbox)}</td>
                <td class="wide-only mono quiet">{entry.address ?? ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
