/** The files of a sandbox: a directory, and a preview of the selected file. */

import { useRef, useState } from "preact/hooks";
import { type FileEntry, filePath, readJson, type Session } from "./api";
import { Awake, NoSandboxes, Sandboxes } from "./awake";
import { useLoaded } from "./load";
import { page } from "./page";
import { Problem } from "./parts";
import { Preview } from "./preview";
import { href } from "./route";
import { useStore } from "./store";
import { bytes, clock, day, visibleLine } from "./text";
import { Upload } from "./upload";

const HOME = "/home/user";

export function Files({ session, rest }: { session: Session; rest: string[] }) {
  const sandbox = session.sandboxes.find((one) => one.name === rest[0]) ?? session.sandboxes[0];
  if (sandbox === undefined) return <NoSandboxes purpose="Files are in sandboxes." />;
  const directory = rest[1] ?? HOME;
  return (
    <div class="files-view">
      <Sandboxes session={session} selected={sandbox.name} hrefOf={(name) => href(session.name, "files", name, HOME)} />
      <Awake session={session} sandbox={sandbox} purpose="its files">
        <Directory place={{ session: session.name, sandbox: sandbox.name }} directory={directory} file={rest[2] ?? null} />
      </Awake>
    </div>
  );
}

interface Place {
  session: string;
  sandbox: string;
}

function join(directory: string, name: string): string {
  return directory === "/" ? `/${name}` : `${directory}/${name}`;
}

const ORDER: Record<FileEntry["kind"], number> = { directory: 0, link: 1, file: 2, other: 3 };

function Directory({ place, directory, file }: { place: Place; directory: string; file: string | null }) {
  // Reading keeps a sandbox awake, so the directory is read again only on request.
  const [version, setVersion] = useState(0);
  const list = useLoaded(JSON.stringify([place, directory, version]), async (signal) => {
    const url = `${filePath(place.session, place.sandbox, directory)}?list`;
    const { entries } = await readJson<{ entries: FileEntry[] }>(url, signal);
    return entries.sort((one, other) => ORDER[one.kind] - ORDER[other.kind]);
  });
  // While the same directory is read again, what was there stays.
  const before = useRef<{ directory: string; entries: FileEntry[] }>({ directory, entries: [] });
  if (list.state === "done") before.current = { directory, entries: list.value };
  const isAgain = list.state === "loading" && before.current.directory === directory;
  const entries = list.state === "done" || isAgain ? before.current.entries : [];
  const { read_only: isReadOnly } = useStore(page);
  const [problem, setProblem] = useState<string | null>(null);
  const readAgain = () => setVersion((version) => version + 1);
  const selected = entries.find((entry) => entry.name === file);
  return (
    <div class={selected ? "split has-details" : "split"}>
      <section class="directory" aria-label="Files">
        <div class="directory-head">
          <Crumbs place={place} directory={directory} />
          <div class="actions">
            {!isReadOnly && <Upload {...place} directory={directory} onDone={readAgain} onProblem={setProblem} />}
            <button type="button" class="button" onClick={readAgain}>
              Read again
            </button>
          </div>
        </div>
        {problem !== null && <Problem>{problem}</Problem>}
        {list.state === "loading" && entries.length === 0 && <p class="note">Reading the directory…</p>}
        {list.state === "failed" && <Problem>{list.message}</Problem>}
        {list.state === "done" && entries.length === 0 && <p class="note">This directory is empty.</p>}
        {entries.length > 0 && (
          <div class="scroll" tabIndex={0} role="region" aria-label="Entries">
            <table class="table">
              <thead>
                <tr>
                  <th>Name</th>
                  <th class="number">Size</th>
                  <th class="wide-only">Changed</th>
                </tr>
              </thead>
              <tbody>
                {entries.map((entry) => (
                  <Entry key={entry.name} place={place} directory={directory} entry={entry} isSelected={entry === selected} />
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
      {selected && (
        <Preview
          url={filePath(place.session, place.sandbox, join(directory, selected.name))}
          file={selected}
          onChanged={readAgain}
          closeHref={href(place.session, "files", place.sandbox, directory)}
        />
      )}
    </div>
  );
}

const SYMBOLS: Record<FileEntry["kind"], string> = { directory: "▸", link: "↗", file: "·", other: "?" };

interface EntryProps {
  place: Place;
  directory: string;
  entry: FileEntry;
  isSelected: boolean;
}

function Entry({ place, directory, entry, isSelected }: EntryProps) {
  const { session, sandbox } = place;
  const to =
    entry.kind === "directory"
      ? href(session, "files", sandbox, join(directory, entry.name))
      : href(session, "files", sandbox, directory, entry.name);
  return (
    <tr class={isSelected ? "is-selected" : undefined}>
      <td class="name">
        <span class="symbol" title={entry.kind}>
          {SYMBOLS[entry.kind]}
        </span>{" "}
        <a href={to} aria-current={isSelected ? "true" : undefined}>
          <bdi>{visibleLine(entry.name)}</bdi>
        </a>
        {entry.kind === "directory" && "/"}
        {entry.target !== undefined && <span class="quiet"> → {visibleLine(entry.target)}</span>}
      </td>
      <td class="number">{entry.kind === "file" ? bytes(entry.size) : ""}</td>
      <td class="wide-only time">{entry.modified === undefined ? "" : `${day(entry.modified)} ${clock(entry.modified)}`}</td>
    </tr>
  );
}

function Crumbs({ place, directory }: { place: Place; directory: string }) {
  const parts = directory.split("/").filter((part) => part !== "");
  const to = (length: number) => href(place.session, "files", place.sandbox, "/" + parts.slice(0, length).join("/"));
  return (
    <nav class="crumbs mono" aria-label="Directory">
      <a href={to(0)} aria-label="Root directory">
        /
      </a>
      {parts.map((part, index) => (
        <span key={index}>
          {index > 0 && " / "}
          <a href={to(index + 1)} aria-current={index === parts.length - 1 ? "location" : undefined}>
            <bdi>{visibleLine(part)}</bdi>
          </a>
        </span>
      ))}
    </nav>
  );
}
