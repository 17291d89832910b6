/** A preview of a file: a text, a table, JSON or a picture. */

import { useEffect, useState } from "preact/hooks";
import { type FileEntry, read } from "./api";
import { parseCsv } from "./csv";
import { messageOf } from "./connection";
import { drafts, MAX_EDIT } from "./edit";
import { Editor } from "./editor";
import { Json } from "./json";
import { useLoaded } from "./load";
import { page } from "./page";
import { Details, Problem } from "./parts";
import { pictureType } from "./pictures";
import { Question } from "./question";
import { go } from "./route";
import { useStore } from "./store";
import { bytes, count, visible, visibleLine } from "./text";

/** The longest text that is shown, in bytes. */
const MAX_TEXT = 512 * 1024;
/** The largest picture that is shown, in bytes. */
const MAX_PICTURE = 16 * 1024 * 1024;
/** The most rows and columns of a table that are shown. */
const MAX_ROWS = 500;
const MAX_COLUMNS = 50;

type Content =
  | { kind: "empty" | "binary" }
  | { kind: "picture"; blob: Blob }
  | { kind: "large picture" }
  | { kind: "text"; text: string; isCut: boolean };

async function load(url: string, file: FileEntry, signal: AbortSignal): Promise<Content> {
  // A server refuses a range of an empty file.
  if (file.size === 0 && file.kind === "file") return { kind: "empty" };
  const headers = { range: `bytes=0-${MAX_TEXT - 1}` };
  const start = new Uint8Array(await (await read(url, { headers, signal })).arrayBuffer());
  const type = pictureType(start);
  if (type !== null) {
    if (file.size > MAX_PICTURE) return { kind: "large picture" };
    const whole = file.size > start.length ? await (await read(url, { signal })).arrayBuffer() : start;
    return { kind: "picture", blob: new Blob([whole], { type }) };
  }
  if (start.includes(0)) return { kind: "binary" };
  const isCut = file.size > start.length;
  try {
    // With `stream`, a character that the end cuts off is left out.
    const text = new TextDecoder("utf-8", { fatal: true }).decode(start, { stream: isCut });
    return { kind: "text", text, isCut };
  } catch {
    return { kind: "binary" };
  }
}

interface Props {
  url: string;
  file: FileEntry;
  closeHref: string;
  /** The file was written or removed. */
  onChanged: () => void;
}

export function Preview({ url, file, closeHref, onChanged }: Props) {
  const { read_only: isReadOnly } = useStore(page);
  // A draft is opened again.
  const [edited, setEdited] = useState<string | null>(drafts.has(url) ? url : null);
  const isEditing = edited === url;
  const [isAsking, setAsking] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    setEdited(drafts.has(url) ? url : null);
    setProblem(null);
  }, [url]);
  const isReadable = file.kind === "file" || file.kind === "link";
  const content = useLoaded(isReadable ? `${url} ${file.size} ${file.modified}` : null, (signal) => load(url, file, signal));
  async function remove() {
    setAsking(false);
    try {
      await read(url, { method: "DELETE" });
      drafts.delete(url);
      go(closeHref);
      onChanged();
    } catch (error) {
      setProblem(messageOf(error));
    }
  }
  return (
    <Details label="Preview" about={url} isFilling={isEditing} onClose={() => go(closeHref)}>
      <header class="details-head named">
        <h2 class="mono">
          <bdi>{visibleLine(file.name)}</bdi>
        </h2>
        <span class="quiet">{bytes(file.size)}</span>
        {!isReadOnly && !isEditing && content.state === "done" && isEditable(file, content.value) && (
          <button type="button" class="button" onClick={() => setEdited(url)}>
            Edit
          </button>
        )}
        {!isReadOnly && !isEditing && (
          <button type="button" class="button danger" onClick={() => setAsking(true)}>
            Delete
          </button>
        )}
        {isReadable && (
          <a class="button" href={url} download={file.name}>
            Download
          </a>
        )}
        <a class="button" href={closeHref} aria-label="Close the preview">
          ✕
        </a>
      </header>
      {!isReadable && <p class="note">This is neither a file nor a directory, so it cannot be read.</p>}
      {isReadable && content.state === "loading" && <p class="note">Reading the file…</p>}
      {content.state === "failed" && <Problem>{content.message}</Problem>}
      {problem !== null && <Problem>{problem}</Problem>}
      {isEditing ? (
        <Editor
          key={url}
          url={url}
          onSaved={() => {
            setEdited(null);
            onChanged();
          }}
          onClose={() => {
            setEdited(null);
            onChanged();
          }}
        />
      ) : (
        content.state === "done" && <Shown name={file.name} content={content.value} />
      )}
      {isAsking && (
        <Question title={`Delete ${visibleLine(file.name)}?`} yes="Delete" onYes={() => void remove()} onNo={() => setAsking(false)}>
          <p>It is removed from the sandbox, and cannot be restored.</p>
        </Question>
      )}
    </Details>
  );
}

/** Returns whether a file can be edited. The editor decides about its text. */
function isEditable(file: FileEntry, { kind }: Content): boolean {
  return file.kind === "file" && file.size <= MAX_EDIT && (kind === "text" || kind === "empty");
}

function Shown({ name, content }: { name: string; content: Content }) {
  switch (content.kind) {
    case "empty":
      return <p class="note">This file is empty.</p>;
    case "binary":
      return <p class="note">This file is not text. Download it to look at it.</p>;
    case "large picture":
      return <p class="note">This picture is larger than {bytes(MAX_PICTURE)}. Download it to look at it.</p>;
    case "picture":
      return <Picture blob={content.blob} name={name} />;
    case "text":
      return (
        <>
          {content.isCut && <p class="note">The first {bytes(MAX_TEXT)}:</p>}
          <Text name={name.toLowerCase()} text={content.text} isCut={content.isCut} />
        </>
      );
  }
}

function Text({ name, text, isCut }: { name: string; text: string; isCut: boolean }) {
  if (name.endsWith(".csv")) return <Table text={text} separator="," />;
  if (name.endsWith(".tsv")) return <Table text={text} separator={"\t"} />;
  if (name.endsWith(".json") && !isCut) {
    try {
      const value: unknown = JSON.parse(text);
      return <Json value={value} />;
    } catch {
      // Shown as the text that it is.
    }
  }
  return (
    <pre class="code" tabIndex={0}>
      {visible(text)}
    </pre>
  );
}

function Table({ text, separator }: { text: string; separator: string }) {
  const rows = parseCsv(text, separator, MAX_ROWS + 1);
  const [head = [], ...body] = rows;
  const columns = Math.max(...rows.map((row) => row.length));
  const cells = (row: string[]) => row.slice(0, MAX_COLUMNS);
  const isNumber = (cell: string | undefined) => cell === undefined || /^-?[\d.,]*$/.test(cell);
  const classes = head.map((_, column) => (body.every((row) => isNumber(row[column])) ? "number" : undefined));
  return (
    <>
      {(body.length >= MAX_ROWS || columns > MAX_COLUMNS) && (
        <p class="note">
          The first {count(Math.min(body.length, MAX_ROWS), "row")} and {count(Math.min(columns, MAX_COLUMNS), "column")}:
        </p>
      )}
      <div class="scroll" tabIndex={0} role="region" aria-label="Table">
        <table class="table">
          <thead>
            <tr>
              {cells(head).map((cell, index) => (
                <th key={index} class={classes[index]}>
                  {visibleLine(cell)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {body.map((row, index) => (
              <tr key={index}>
                {cells(row).map((cell, column) => (
                  <td key={column} class={classes[column]}>
                    {visible(cell)}
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

function Picture({ blob, name }: { blob: Blob; name: string }) {
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    const made = URL.createObjectURL(blob);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [blob]);
  if (url === null) return null;
  return <img class="picture" src={url} alt={`The picture ${visibleLine(name)}`} />;
}
