/** The calls of a session: a timeline with a search, and the selected call next to it. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Call } from "./api";
import { CallDetails } from "./call";
import { Journal } from "./journal";
import { Command, Empty, IS_SINGLE, Problem, useMedia } from "./parts";
import { go, href } from "./route";
import { Row } from "./row";
import { useStore } from "./store";
import { EVERYTHING, type Filter, matcher } from "./summary";
import { countOf, visibleLine } from "./text";
import { VirtualList } from "./virtual";

export function Calls({ session, id }: { session: string; id: string | null }) {
  const journal = useMemo(() => new Journal(session), [session]);
  useEffect(() => journal.start(), [journal]);
  const { calls, isLoaded, isReadingOlder, error } = useStore(journal.state);
  const [filter, setFilter] = useState<Filter>(EVERYTHING);
  const shown = useMemo(() => calls.filter(matcher(filter)).reverse(), [calls, filter]);
  const selected = useMemo(() => calls.find((call) => String(call.id) === id) ?? null, [calls, id]);
  const isNarrow = useMedia("(max-width: 719px)");
  const isSingle = useMedia(IS_SINGLE);

  if (isLoaded && calls.length === 0) {
    return (
      <Empty title="No calls yet">
        {error ? <Problem>{error}</Problem> : <p>Calls appear here as they end. Make the first one:</p>}
        <Command>{exampleCall(session)}</Command>
      </Empty>
    );
  }
  return (
    <div class={selected ? "split has-details" : "split"}>
      <section class="timeline" aria-label="Calls">
        <Filters calls={calls} filter={filter} onChange={setFilter} />
        {error && <Problem>{error}</Problem>}
        <p class="found" role="status">
          {isLoaded ? countOf(shown.length, calls.length) : "Reading the journal…"}
          {isReadingOlder && ", reading older ones…"}
        </p>
        <VirtualList
          items={shown}
          keyOf={(call) => String(call.id)}
          rowHeight={isNarrow ? 56 : 32}
          label="Calls, the newest first"
          selected={id}
          selectsOnMove={!isSingle}
          onSelect={(call) => go(href(session, "calls", String(call.id)))}
          render={(call) => <Row call={call} />}
        />
      </section>
      {selected && <CallDetails call={selected} onClose={() => go(href(session, "calls"))} />}
    </div>
  );
}

function exampleCall(session: string): string {
  const option = /^[A-Za-z0-9._-]+$/.test(session) && session !== "default" ? `--session=${session} ` : "";
  return `koze call ${option}shell '{"command": "uname -a"}'`;
}

function Filters({ calls, filter, onChange }: { calls: Call[]; filter: Filter; onChange: (filter: Filter) => void }) {
  const search = useRef<HTMLInputElement>(null);
  const tools = useMemo(() => [...new Set(calls.map((call) => call.tool))].sort(), [calls]);
  const sandboxes = useMemo(() => [...new Set(calls.flatMap((call) => call.sandboxes ?? []))].sort(), [calls]);
  useEffect(() => {
    function focus(event: KeyboardEvent) {
      const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
      if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      search.current?.focus();
    }
    document.addEventListener("keydown", focus);
    return () => document.removeEventListener("keydown", focus);
  }, []);
  return (
    <search class="filters">
      <input
        ref={search}
        type="search"
        class="field grow"
        placeholder="Search calls  ( / )"
        aria-label="Search calls"
        value={filter.text}
        onInput={(event) => onChange({ ...filter, text: event.currentTarget.value })}
      />
      <Choice label="Tool" all="All tools" values={tools} value={filter.tool} onChange={(tool) => onChange({ ...filter, tool })} />
      <Choice
        label="Sandbox"
        all="All sandboxes"
        values={sandboxes}
        value={filter.sandbox}
        onChange={(sandbox) => onChange({ ...filter, sandbox })}
      />
      <label class="check">
        <input
          type="checkbox"
          checked={filter.onlyErrors}
          onChange={(event) => onChange({ ...filter, onlyErrors: event.currentTarget.checked })}
        />
        Errors only
      </label>
    </search>
  );
}

interface ChoiceProps {
  label: string;
  all: string;
  values: string[];
  value: string;
  onChange: (value: string) => void;
}

function Choice({ label, all, values, value, onChange }: ChoiceProps) {
  return (
    <select class="field" aria-label={label} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      <option value="">{all}</option>
      {values.map((name) => (
        <option key={name} value={name}>
          {visibleLine(name)}
        </option>
      ))}
    </select>
  );
}
