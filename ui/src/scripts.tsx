/** What scripts keep: state, the tables of their database, libraries, and the tools that agents created. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { useLoaded } from "./load";
import { Command, Empty, Problem } from "./parts";
import { href } from "./route";
import { StoredDetails } from "./stored";
import { callTool } from "./tools";
import { count, visibleLine } from "./text";

export interface Column {
  name: string;
  type: string;
  not_null: boolean;
  primary_key: boolean;
}

export interface Table {
  name: string;
  type: string;
  columns: Column[];
}

/** A library or a created tool. */
interface Stored {
  name: string;
  version: number;
  description: string;
  /** Only of tools. */
  enabled?: boolean;
}

/** What is kept, without its contents. */
export interface Kept {
  keys: string[];
  tables: Table[];
  truncated: boolean;
  libraries: Stored[];
  tools: Stored[];
}

async function load(session: string, signal: AbortSignal): Promise<Kept> {
  const call = <T,>(tool: string, input: object) => callTool<T>(session, "script", tool, input, signal);
  const [{ keys }, { tables, truncated }, { libraries }, { tools }] = await Promise.all([
    call<{ keys: string[] }>("list_state_keys", {}),
    call<{ tables: Table[]; truncated: boolean }>("db_schema", {}),
    call<{ libraries: Stored[] }>("list_libraries", {}),
    call<{ tools: Stored[] }>("list_tools", { include_disabled: true }),
  ]);
  return { keys, tables, truncated, libraries, tools };
}

export function Scripts({ session, rest }: { session: string; rest: string[] }) {
  // Each reading is four calls in the journal, so it happens again only on request.
  const [version, setVersion] = useState(0);
  const kept = useLoaded(JSON.stringify([session, version]), (signal) => load(session, signal));
  if (kept.state === "loading") return <p class="note">Asking the tools of scripts…</p>;
  if (kept.state === "failed") {
    return (
      <Empty title="No scripts">
        <Problem>{kept.message}</Problem>
        <p>
          The table <code>[package.metadata.koze.script]</code> in <code>Cargo.toml</code> enables scripts. Then run one:
        </p>
        <Command>{`koze call --tools script run_sandbox_code '{"code": "await state.set(\\"a\\", 1)"}'`}</Command>
      </Empty>
    );
  }
  const [kind, name] = rest;
  const to = (kind: string) => (name: string) => href(session, "scripts", kind, name);
  const isCurrent = (one: string) => (other: string) => kind === one && name === other;
  const { keys, tables, truncated, libraries, tools } = kept.value;
  return (
    <div class={kind !== undefined && name !== undefined ? "split has-details" : "split"}>
      <section class="directory" aria-label="What scripts keep">
        <div class="directory-head spaced">
          <p class="quiet">The page reads it with the tools of agents, so its calls are in the journal.</p>
          <button type="button" class="button" onClick={() => setVersion(version + 1)}>
            Read again
          </button>
        </div>
        <div class="scroll padded" tabIndex={0} role="region" aria-label="Entries">
          <Group title="State" noun="key" names={keys} hrefOf={to("state")} isCurrent={isCurrent("state")} />
          <Group
            title="Tables"
            noun="table"
            names={tables.map((table) => table.name)}
            hrefOf={to("table")}
            isCurrent={isCurrent("table")}
            about={(name) => describeTable(tables.find((table) => table.name === name)!)}
          />
          {truncated && <p class="note">There are more tables.</p>}
          <StoredGroup title="Libraries" noun="library" stored={libraries} hrefOf={to("library")} isCurrent={isCurrent("library")} />
          <StoredGroup title="Created tools" noun="tool" stored={tools} hrefOf={to("tool")} isCurrent={isCurrent("tool")} />
        </div>
      </section>
      {kind !== undefined && name !== undefined && (
        <StoredDetails key={`${kind} ${name} ${version}`} session={session} kind={kind} name={name} kept={kept.value} />
      )}
    </div>
  );
}

function describeTable(table: Table): string {
  return `${table.type}, ${count(table.columns.length, "column")}`;
}

interface GroupProps {
  title: string;
  noun: string;
  names: string[];
  hrefOf: (name: string) => string;
  isCurrent: (name: string) => boolean;
  about?: (name: string) => ComponentChildren;
}

function Group({ title, noun, names, hrefOf, isCurrent, about }: GroupProps) {
  const amount = count(names.length, noun).replace("librarys", "libraries");
  return (
    <section class="group" aria-label={title}>
      <h2>
        {title} <span class="quiet">{amount}</span>
      </h2>
      <ul>
        {names.map((name) => (
          <li key={name}>
            <a href={hrefOf(name)} aria-current={isCurrent(name) ? "true" : undefined}>
              <bdi class="mono">{visibleLine(name)}</bdi>
            </a>{" "}
            {about && <span class="quiet">{about(name)}</span>}
          </li>
        ))}
      </ul>
    </section>
  );
}

function StoredGroup({ stored, ...props }: Omit<GroupProps, "names" | "about"> & { stored: Stored[] }) {
  const about = (name: string) => {
    const { version, description, enabled } = stored.find((one) => one.name === name)!;
    return `version ${version}${enabled === false ? ", disabled" : ""}${description === "" ? "" : ` · ${visibleLine(description)}`}`;
  };
  return <Group {...props} names={stored.map((one) => one.name)} about={about} />;
}
