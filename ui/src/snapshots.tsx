/** The snapshots of workspaces as a tree: what was taken of which sandbox, and which sandboxes were created from it. */

import { useState } from "preact/hooks";
import { path, read, readJson } from "./api";
import { messageOf } from "./connection";
import { useLoaded } from "./load";
import { page } from "./page";
import { Empty, Problem } from "./parts";
import { href } from "./route";
import { type Snapshots as List, type Snapshot, type TreeRow, treeOf } from "./snapshot-tree";
import { useStore } from "./store";
import { bytes, clock, count, day, visibleLine } from "./text";

/** How far rows are indented at most, in levels. */
const MAX_DEPTH = 10;

export function Snapshots({ session }: { session: string }) {
  const base = path("sessions", session, "snapshots");
  const { read_only: isReadOnly } = useStore(page);
  const [version, setVersion] = useState(0);
  const [told, setTold] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const list = useLoaded(JSON.stringify([base, version]), (signal) => readJson<List>(base, signal));

  /** Sends a request that creates something, and reads the list again. */
  async function create<T>(url: string, body: object, tell: (created: T) => string) {
    setBusy(true);
    setProblem(null);
    try {
      const response = await read(url, { method: "POST", body: JSON.stringify(body) });
      setTold(tell((await response.json()) as T));
      setVersion((version) => version + 1);
    } catch (error) {
      setProblem(messageOf(error));
    } finally {
      setBusy(false);
    }
  }

  const take = (body: object) => void create<Snapshot>(base, body, ({ id }) => `Took the snapshot ${short(id)}.`);
  const derive = (id: string, how: string) =>
    void create<{ sandbox: string }>(`${base}/${encodeURIComponent(id)}/${how}`, {}, ({ sandbox }) => `Created the sandbox ${visibleLine(sandbox)}.`);

  if (list.state === "failed") {
    return (
      <Empty title="No snapshots">
        <Problem>{list.message}</Problem>
      </Empty>
    );
  }
  const rows = list.state === "done" ? treeOf(list.value) : [];
  return (
    <section class="directory" aria-label="Snapshots">
      <div class="directory-head spaced">
        <p class="quiet" role="status">
          {isBusy ? "Working…" : list.state === "loading" ? "Reading the snapshots…" : (told ?? count(list.value.snapshots.length, "snapshot"))}
        </p>
        <div class="actions">
          {!isReadOnly && (
            <button type="button" class="button" disabled={isBusy} onClick={() => take({})}>
              Take a snapshot
            </button>
          )}
          <button type="button" class="button" onClick={() => setVersion(version + 1)}>
            Read again
          </button>
        </div>
      </div>
      {problem !== null && <Problem>{problem}</Problem>}
      {list.state === "done" && rows.length === 0 && (
        <p class="note indented">A snapshot keeps the directory of a workspace. Restore or branch it to get a new sandbox with its content.</p>
      )}
      <div class="scroll" tabIndex={0} role="region" aria-label="Tree of snapshots">
        <ul class="tree">
          {rows.map((row) => (
            <li key={row.key} style={{ paddingInlineStart: `${16 + Math.min(row.depth, MAX_DEPTH) * 20}px` }}>
              {row.kind === "snapshot" ? (
                <SnapshotRow row={row} canChange={!isReadOnly} isBusy={isBusy} onDerive={derive} />
              ) : (
                <SandboxRow session={session} row={row} canChange={!isReadOnly} isBusy={isBusy} onTake={take} />
              )}
            </li>
          ))}
        </ul>
      </div>
    </section>
  );
}

/** The beginning of an ID, which tells the snapshots of a session apart. */
function short(id: string): string {
  return visibleLine(id.slice(0, 13));
}

interface Changes {
  canChange: boolean;
  isBusy: boolean;
}

interface SnapshotRowProps extends Changes {
  row: TreeRow & { kind: "snapshot" };
  onDerive: (id: string, how: string) => void;
}

function SnapshotRow({ row, canChange, isBusy, onDerive }: SnapshotRowProps) {
  const { snapshot, isOrphan } = row;
  const { id, workspace, created, expired, parent, contents } = snapshot;
  return (
    <>
      <span class="symbol" aria-hidden="true">
        ◆
      </span>{" "}
      <span class="tree-about">
        <strong class="mono" title={visibleLine(id)}>
          {short(id)}
        </strong>{" "}
        <bdi>{visibleLine(workspace)}</bdi>{" "}
        <span class="quiet">
          {day(created)} {clock(created)} · {count(contents.entries, "entry").replace("entrys", "entries")} · {bytes(contents.bytes)}
          {parent !== undefined && (isOrphan ? ` · after ${short(parent)}, which was removed` : ` · after ${short(parent)}`)}
        </span>
        {expired && <span class="outcome failed"> ✕ expired</span>}
      </span>
      {canChange && !expired && (
        <span class="actions">
          {["branch", "restore"].map((how) => (
            <button
              key={how}
              type="button"
              class="button"
              disabled={isBusy}
              aria-label={`${how === "branch" ? "Branch" : "Restore"} ${short(id)}`}
              onClick={() => onDerive(id, how)}
            >
              {how === "branch" ? "Branch" : "Restore"}
            </button>
          ))}
        </span>
      )}
    </>
  );
}

interface SandboxRowProps extends Changes {
  session: string;
  row: TreeRow & { kind: "sandbox" };
  onTake: (body: object) => void;
}

function SandboxRow({ session, row, canChange, isBusy, onTake }: SandboxRowProps) {
  const { name, workspace } = row.sandbox;
  return (
    <>
      <span class="symbol" aria-hidden="true">
        ▸
      </span>{" "}
      <span class="tree-about">
        <a href={href(session, "files", name, "/home/user")}>
          <bdi>{visibleLine(name)}</bdi>
        </a>{" "}
        <span class="quiet">sandbox</span>
      </span>
      {canChange && (
        <span class="actions">
          <button
            type="button"
            class="button"
            disabled={isBusy}
            aria-label={`Take a snapshot of ${visibleLine(name)}`}
            onClick={() => onTake({ workspace, sandbox: name })}
          >
            Take a snapshot
          </button>
        </span>
      )}
    </>
  );
}
