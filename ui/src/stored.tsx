/** One thing that scripts keep: the value of a key, the columns and first rows of a table, the code of a library or a tool. */

import { useState } from "preact/hooks";
import { messageOf } from "./connection";
import { Json } from "./json";
import { useLoaded } from "./load";
import { page } from "./page";
import { Details, Problem } from "./parts";
import { go, href } from "./route";
import type { Kept, Table } from "./scripts";
import { useStore } from "./store";
import { count, visible, visibleLine } from "./text";
import { callTool } from "./tools";

/** How many rows of a table are read. */
const ROWS = 50;

interface Props {
  session: string;
  kind: string;
  name: string;
  kept: Kept;
}

export function StoredDetails({ session, kind, name, kept }: Props) {
  const closeHref = href(session, "scripts");
  const table = kept.tables.find((table) => table.name === name);
  return (
    <Details label="Content" about={`${kind} ${name}`} onClose={() => go(closeHref)}>
      <header class="details-head">
        <h2 class="mono">
          <bdi>{visibleLine(name)}</bdi>
        </h2>
        <a class="button" href={closeHref} aria-label="Close the content">
          ✕
        </a>
      </header>
      {kind === "state" && <Value session={session} name={name} />}
      {kind === "table" && (table === undefined ? <Gone /> : <TableDetails session={session} table={table} />)}
      {kind === "library" && <Code session={session} tool="read_library" name={name} />}
      {kind === "tool" && <Code session={session} tool="read_tool" name={name} />}
    </Details>
  );
}

function Gone() {
  return <p class="note">It is not there any more.</p>;
}

function Value({ session, name }: { session: string; name: string }) {
  const loaded = useLoaded(JSON.stringify([session, name]), (signal) =>
    callTool<{ value: unknown; exists: boolean }>(session, "script", "get_state", { key: name }, signal),
  );
  if (loaded.state === "loading") return <p class="note">Reading the value…</p>;
  if (loaded.state === "failed") return <Problem>{loaded.message}</Problem>;
  return loaded.value.exists ? <Json value={loaded.value.value} /> : <Gone />;
}

interface Program {
  version: number;
  description: string;
  code: string;
  parameter_schema?: unknown;
}

function Code({ session, tool, name }: { session: string; tool: string; name: string }) {
  const loaded = useLoaded(JSON.stringify([session, tool, name]), (signal) =>
    callTool<Program>(session, "script", tool, { name }, signal),
  );
  if (loaded.state === "loading") return <p class="note">Reading the code…</p>;
  if (loaded.state === "failed") return <Problem>{loaded.message}</Problem>;
  const { version, description, code, parameter_schema: schema } = loaded.value;
  return (
    <>
      <p class="quiet">Version {version}</p>
      {description !== "" && <p>{visible(description)}</p>}
      {schema !== undefined && (
        <>
          <h3>Parameters</h3>
          <Json value={schema} />
        </>
      )}
      <h3>Code</h3>
      <pre class="code" tabIndex={0}>
        {visible(code)}
      </pre>
    </>
  );
}

interface Rows {
  columns: string[];
  rows: unknown[][];
}

/** Quotes a name for SQL. */
function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function TableDetails({ session, table }: { session: string; table: Table }) {
  const { read_only: isReadOnly } = useStore(page);
  const [rows, setRows] = useState<Rows | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  async function readRows() {
    try {
      setRows(await callTool<Rows>(session, "script", "db_sql", { sql: `select * from ${quote(table.name)} limit ${ROWS}` }));
      setProblem(null);
    } catch (error) {
      setProblem(messageOf(error));
    }
  }
  return (
    <>
      <h3>Columns</h3>
      <ul class="columns">
        {table.columns.map((column) => (
          <li key={column.name}>
            <bdi class="mono">{visibleLine(column.name)}</bdi>{" "}
            <span class="quiet">
              {visibleLine(column.type)}
              {column.primary_key ? ", primary key" : ""}
              {column.not_null ? ", not null" : ""}
            </span>
          </li>
        ))}
      </ul>
      <h3>Rows</h3>
      {problem !== null && <Problem>{problem}</Problem>}
      {isReadOnly && <p class="note">A page with --read-only runs no SQL.</p>}
      {!isReadOnly && rows === null && (
        <button type="button" class="button" onClick={() => void readRows()}>
          Read the first rows
        </button>
      )}
      {rows !== null && <RowsTable {...rows} />}
    </>
  );
}

function RowsTable({ columns, rows }: Rows) {
  const text = (value: unknown) => (typeof value === "string" ? value : value === null ? "NULL" : JSON.stringify(value));
  if (rows.length === 0) return <p class="note">The table is empty.</p>;
  const isNumber = (column: number) => rows.every((row) => row[column] === null || typeof row[column] === "number");
  const classOf = (column: number) => (isNumber(column) ? "number" : undefined);
  return (
    <>
      <p class="note">{rows.length === ROWS ? `The first ${ROWS} rows:` : count(rows.length, "row")}</p>
      <div class="scroll" tabIndex={0} role="region" aria-label="Rows">
        <table class="table">
          <thead>
            <tr>
              {columns.map((column, index) => (
                <th key={index} class={classOf(index)}>
                  {visibleLine(column)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, index) => (
              <tr key={index}>
                {row.map((value, column) => (
                  <td key={column} class={value === null ? "quiet" : classOf(column)}>
                    {visible(text(value))}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
