/** All that is recorded of a call. */

import { useEffect, useState } from "preact/hooks";
import { type Call, type Egress, path, readJson } from "./api";
import { Change } from "./change";
import { fileChange } from "./diff";
import { Outcome } from "./outcome";
import { Copy, Details } from "./parts";
import { Facts, inputOf, Recorded } from "./recorded";
import { repeat } from "./repeat";
import { href } from "./route";
import { Pictures } from "./gallery";
import { target, visibleLine } from "./text";

export function CallDetails({ call, onClose }: { call: Call; onClose: () => void }) {
  const again = repeat(call);
  const change = fileChange(call);
  return (
    <Details label={`Call ${call.id}`} about={String(call.id)} onClose={onClose}>
      <header class="details-head">
        <h2>
          <span class="mono">{visibleLine(call.tool)}</span> <Outcome call={call} />
        </h2>
        {"command" in again && <Copy text={again.command} label="Copy as koze call" />}
        <button type="button" class="button" onClick={onClose} aria-label="Close the call">
          ✕
        </button>
      </header>
      <Facts call={call}>
        {call.sandboxes?.map((name) => (
          <a key={name} href={href(call.session, "files", name, "/home/user")}>
            {visibleLine(name)}
          </a>
        ))}
      </Facts>
      <h3>Input</h3>
      <Recorded value={inputOf(call)} isCut={call.input_cut} size={call.input_bytes} without={change?.shown} />
      {change !== null && <Change change={change} />}
      {"why" in again && <p class="note">This call cannot be copied: {again.why}.</p>}
      <h3>Result</h3>
      <Pictures call={call} />
      <Recorded value={call.result} isCut={call.result_cut} size={call.result_bytes} />
      <Reached call={call} />
    </Details>
  );
}

/** The names under which the egress journal records scripts and their browser. */
const OF_SCRIPTS = ["(scripts)", "(browser)"];

/** The hosts that the call's sandboxes reached while it ran. */
function Reached({ call }: { call: Call }) {
  const [entries, setEntries] = useState<Egress[]>([]);
  useEffect(() => {
    const abort = new AbortController();
    setEntries([]);
    const url = `${path("sessions", call.session, "egress")}?limit=1000`;
    const used = [...(call.sandboxes ?? []), ...(call.family === "script" ? OF_SCRIPTS : [])];
    const isDuring = (entry: Egress) =>
      used.includes(entry.sandbox) && entry.time >= call.time && entry.time <= call.time + call.duration_ms;
    // The view of the egress journal shows why it cannot be read.
    readJson<{ egress: Egress[] }>(url, abort.signal).then(
      ({ egress }) => setEntries(egress.filter(isDuring)),
      () => undefined,
    );
    return () => abort.abort();
  }, [call]);
  if (entries.length === 0) return null;
  return (
    <>
      <h3>Hosts</h3>
      <ul class="hosts">
        {entries.map((entry, index) => (
          <li key={index}>
            <span class={`outcome ${entry.allowed ? "ok" : "failed"}`}>{entry.allowed ? "✓ reached" : "✕ refused"}</span>{" "}
            <span class="mono">{target(entry)}</span>{" "}
            <span class="quiet">{visibleLine(entry.rule)}</span>
          </li>
        ))}
      </ul>
    </>
  );
}
