/** The calls as a list, the newest first. A call opens below its line. */

import { useMemo, useRef, useState } from "preact/hooks";
import type { Call } from "../api";
import { Change } from "../change";
import { fileChange } from "../diff";
import { Empty, Problem } from "../parts";
import { Facts, inputOf, Recorded } from "../recorded";
import { Row } from "../row";
import { useStore } from "../store";
import { EVERYTHING, matcher } from "../summary";
import { bytes, countOf, visible, visibleLine } from "../text";
import type { Timeline } from "./timeline";

export function TimelineView({ timeline }: { timeline: Timeline }) {
  const { session, calls, isRecording, isFixed, error } = useStore(timeline.state);
  const [filter, setFilter] = useState(EVERYTHING);
  const shown = useMemo(() => calls.filter(matcher(filter)).reverse(), [calls, filter]);
  return (
    <main>
      <header class="chat-head">
        <h1>{session === null ? "Calls" : `Calls of ${visibleLine(session)}`}</h1>
        <p class="quiet" role="status">
          {session === null ? "Waiting for the result…" : countOf(shown.length, calls.length)}
          {isFixed && ", not refreshed by this chat client"}
        </p>
        <search class="chat-search">
          <input
            type="search"
            class="field grow"
            placeholder="Search calls"
            aria-label="Search calls"
            value={filter.text}
            onInput={(event) => setFilter({ ...filter, text: event.currentTarget.value })}
          />
          <label class="check">
            <input
              type="checkbox"
              checked={filter.onlyErrors}
              onChange={(event) => setFilter({ ...filter, onlyErrors: event.currentTarget.checked })}
            />
            Errors only
          </label>
        </search>
      </header>
      {error !== null && <Problem>{visible(error)}</Problem>}
      {session !== null && calls.length === 0 && error === null && (
        <Empty title={isRecording ? "No calls yet" : "Calls are not recorded"}>
          <p>
            {isRecording
              ? "Calls appear here as they end."
              : "The journal is off: set `enabled = true` in [package.metadata.koze.journal] of Cargo.toml, and restart the server."}
          </p>
        </Empty>
      )}
      {shown.length > 0 && <List calls={shown} />}
    </main>
  );
}

function List({ calls }: { calls: Call[] }) {
  const list = useRef<HTMLUListElement>(null);
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  function toggle(id: number, isOpen: boolean) {
    const changed = new Set(open);
    if (isOpen) changed.add(id);
    else changed.delete(id);
    setOpen(changed);
  }
  function move(event: KeyboardEvent) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const rows = [...list.current!.querySelectorAll<HTMLElement>(".chat-row")];
    const at = rows.indexOf(document.activeElement as HTMLElement);
    if (at < 0) return;
    const targets: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 };
    const target = targets[event.key];
    if (target === undefined) return;
    event.preventDefault();
    rows[Math.min(Math.max(target, 0), rows.length - 1)]!.focus();
  }
  return (
    <ul ref={list} class="chat-calls" aria-label="Calls, the newest first" onKeyDown={move}>
      {calls.map((call) => (
        <Item key={call.id} call={call} isOpen={open.has(call.id)} onToggle={toggle} />
      ))}
    </ul>
  );
}

interface ItemProps {
  call: Call;
  isOpen: boolean;
  onToggle: (id: number, isOpen: boolean) => void;
}

function Item({ call, isOpen, onToggle }: ItemProps) {
  const row = useRef<HTMLButtonElement>(null);
  const details = `call-${call.id}`;
  return (
    <li
      onKeyDown={(event) => {
        if (event.key !== "Escape" || !isOpen) return;
        onToggle(call.id, false);
        row.current!.focus();
      }}
    >
      <button
        ref={row}
        type="button"
        class="row chat-row"
        aria-expanded={isOpen}
        aria-controls={isOpen ? details : undefined}
        onClick={() => onToggle(call.id, !isOpen)}
      >
        <Row call={call} />
      </button>
      {isOpen && <Details id={details} call={call} />}
    </li>
  );
}

function Details({ id, call }: { id: string; call: Call }) {
  const change = fileChange(call);
  return (
    <section id={id} class="chat-call" aria-label={`Call ${call.id}`}>
      <Facts call={call}>{call.sandboxes?.map(visibleLine).join(", ")}</Facts>
      <h2>Input</h2>
      <Recorded value={inputOf(call)} isCut={call.input_cut} size={call.input_bytes} without={change?.shown} />
      {change !== null && <Change change={change} />}
      <h2>Result</h2>
      {(call.pictures ?? []).map((picture, index) => (
        <p key={index} class="note">
          Picture {index + 1}, {visibleLine(picture.media_type)}, {bytes(picture.bytes)}: run `koze ui` to see it.
        </p>
      ))}
      <Recorded value={call.result} isCut={call.result_cut} size={call.result_bytes} />
    </section>
  );
}
