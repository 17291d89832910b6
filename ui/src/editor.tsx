/** An editor of a text file. It saves only over the version that it has read: a conflict is shown, and nothing is lost. */

import { useEffect, useRef, useState } from "preact/hooks";
import { Refused, read } from "./api";
import { messageOf } from "./connection";
import { decode, type Draft, drafts, encode } from "./edit";
import { Copy, Problem } from "./parts";
import { visible } from "./text";

/** The file as it is now. */
interface Current {
  /** Its text, or why it cannot be shown. */
  text: string | null;
  tag: string | null;
}

async function readCurrent(url: string): Promise<Current & { lineEnd: Draft["lineEnd"]; why?: string }> {
  const response = await read(url, { cache: "no-store" });
  const decoded = decode(new Uint8Array(await response.arrayBuffer()));
  const tag = response.headers.get("etag");
  if ("why" in decoded) return { text: null, tag, lineEnd: "\n", why: decoded.why };
  return { text: decoded.text, tag, lineEnd: decoded.lineEnd };
}

interface Props {
  url: string;
  onSaved: () => void;
  onClose: () => void;
}

export function Editor({ url, onSaved, onClose }: Props) {
  const [draft, setDraft] = useState<Draft | null>(drafts.get(url) ?? null);
  const [problem, setProblem] = useState<string | null>(null);
  const [conflict, setConflict] = useState<Current | null>(null);
  const [isSaving, setSaving] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (draft !== null) return;
    readCurrent(url).then(
      ({ text, tag, lineEnd, why }) => {
        if (text === null) setProblem(`This file cannot be edited. ${why}`);
        else if (tag === null) setProblem("This file cannot be edited: its sandbox does not tell its versions apart.");
        else setDraft({ text, original: text, tag, lineEnd });
      },
      (error: unknown) => setProblem(messageOf(error)),
    );
  }, [url]);
  const isOpen = draft !== null;
  useEffect(() => field.current?.focus(), [isOpen]);

  function change(text: string) {
    const next = { ...draft!, text };
    drafts.set(url, next);
    setDraft(next);
  }

  /** Saves over a version, and over none if it is `null`. */
  async function save(tag: string | null) {
    setSaving(true);
    setProblem(null);
    try {
      const condition: Record<string, string> = tag === null ? { "if-none-match": "*" } : { "if-match": tag };
      await read(url, { method: "PUT", headers: condition, body: encode(draft!.text, draft!.lineEnd) });
      drafts.delete(url);
      onSaved();
    } catch (error) {
      setSaving(false);
      if (error instanceof Refused && error.status === 412) await showConflict();
      else setProblem(`Nothing was saved. ${messageOf(error)}`);
    }
  }

  async function showConflict() {
    try {
      setConflict(await readCurrent(url));
    } catch (error) {
      const isGone = error instanceof Refused && error.status === 404;
      if (isGone) setConflict({ text: null, tag: null });
      else setProblem(`Nothing was saved: the file was changed meanwhile. ${messageOf(error)}`);
    }
  }

  function discard() {
    drafts.delete(url);
    onClose();
  }

  if (draft === null) return problem === null ? <p class="note">Reading the file…</p> : <Problem>{problem}</Problem>;
  const isChanged = draft.text !== draft.original;
  return (
    <form
      class="editor"
      onSubmit={(event) => {
        event.preventDefault();
        void save(draft.tag);
      }}
    >
      {problem !== null && <Problem>{problem}</Problem>}
      {conflict !== null && (
        <Conflict conflict={conflict} text={draft.text} onOverwrite={() => void save(conflict.tag)} onDiscard={discard} />
      )}
      {visible(draft.original) !== draft.original && (
        <p class="note">This text contains characters that are invisible or change the direction of text.</p>
      )}
      <textarea
        ref={field}
        class="field mono"
        aria-label="Text of the file"
        spellcheck={false}
        autocapitalize="off"
        wrap="off"
        value={draft.text}
        onInput={(event) => change(event.currentTarget.value)}
        onKeyDown={(event) => {
          // The preview would close.
          if (event.key === "Escape") event.stopPropagation();
          if (event.key.toLowerCase() === "s" && (event.ctrlKey || event.metaKey)) {
            event.preventDefault();
            event.currentTarget.form?.requestSubmit();
          }
        }}
      />
      <div class="actions">
        <span class="quiet grow" role="status">
          {isSaving ? "Saving…" : isChanged ? "Not saved." : "No changes."}
        </span>
        <button type="button" class="button" onClick={discard}>
          {isChanged ? "Discard" : "Close"}
        </button>
        <button type="submit" class="button primary" disabled={isSaving || !isChanged || conflict !== null}>
          Save
        </button>
      </div>
    </form>
  );
}

interface ConflictProps {
  conflict: Current;
  text: string;
  onOverwrite: () => void;
  onDiscard: () => void;
}

function Conflict({ conflict, text, onOverwrite, onDiscard }: ConflictProps) {
  const isGone = conflict.tag === null;
  return (
    <section class="conflict" role="alert" aria-label="Conflict">
      <p>
        <span aria-hidden="true">▲ </span>
        {isGone ? "The file was removed" : "The file was changed"} after you opened it. Nothing was saved, and your text is below.
      </p>
      {conflict.text !== null && (
        <details>
          <summary>What the file contains now</summary>
          <pre class="code" tabIndex={0}>
            {visible(conflict.text)}
          </pre>
        </details>
      )}
      <div class="actions">
        <Copy text={text} label="Copy my text" />
        <button type="button" class="button" onClick={onDiscard}>
          Discard my text
        </button>
        <button type="button" class="button danger" onClick={onOverwrite}>
          {isGone ? "Create it again" : "Overwrite the file"}
        </button>
      </div>
    </section>
  );
}
