/** The output of a process as it is printed. It is text: escape sequences are left out. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { poll, messageOf } from "./connection";
import { Input, Stop } from "./control";
import { readEvents, type ServerEvent } from "./events";
import { page } from "./page";
import { Copy, Details, Problem } from "./parts";
import { go } from "./route";
import { useStore } from "./store";
import { bytes, terminalText, visibleLine } from "./text";

/** How much of the output is kept, in characters. */
const KEPT = 256 * 1024;

interface Shown {
  text: string;
  isCut: boolean;
  ended: string | null;
}

/** Returns the output with an event. */
function withEvent(shown: Shown, { name, data }: ServerEvent): Shown {
  const fields = data as { text?: string; base64?: string; bytes?: number; exit_code?: number; message?: string };
  switch (name) {
    case "stdout":
    case "stderr": {
      const part = fields.text ?? decodeBase64(fields.base64 ?? "");
      const text = shown.text + part;
      return { ...shown, text: text.slice(-KEPT), isCut: shown.isCut || text.length > KEPT };
    }
    case "dropped":
      return { ...shown, isCut: true };
    case "exit":
      return { ...shown, ended: `Ended with exit code ${fields.exit_code}.` };
    case "error":
      return { ...shown, ended: fields.message ?? "The output cannot be read." };
    default:
      return shown;
  }
}

function decodeBase64(text: string): string {
  return new TextDecoder().decode(Uint8Array.from(atob(text), (character) => character.charCodeAt(0)));
}

interface Props {
  /** The URL of the process. */
  base: string;
  title: string;
  hasTerminal: boolean;
  closeHref: string;
}

export function Output({ base, title, hasTerminal, closeHref }: Props) {
  const url = `${base}/events`;
  const { read_only: isReadOnly } = useStore(page);
  const [shown, setShown] = useState<Shown>({ text: "", isCut: false, ended: null });
  const [problem, setProblem] = useState<string | null>(null);
  const box = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    // Where to go on after a lost connection.
    let since: string | null = null;
    let hasEnded = false;
    const follow = async (signal: AbortSignal) => {
      if (hasEnded) return;
      await readEvents(since === null ? url : `${url}?since=${since}`, signal, (event) => {
        since = event.id ?? since;
        hasEnded ||= event.name === "exit" || event.name === "error";
        setShown((before) => withEvent(before, event));
        setProblem(null);
      });
    };
    return poll(500, follow, (error) => setProblem(messageOf(error)));
  }, [url]);
  useLayoutEffect(() => {
    if (isAtEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [shown.text]);
  const text = terminalText(shown.text);
  return (
    <Details label="Output" about={url} isFilling onClose={() => go(closeHref)}>
      <header class="details-head">
        <h2 class="mono">{visibleLine(title)}</h2>
        {!isReadOnly && shown.ended === null && <Stop url={base} />}
        <Copy text={text} label="Copy output" />
        <a class="button" href={closeHref} aria-label="Close the output">
          ✕
        </a>
      </header>
      {shown.isCut && <p class="note">Only the last {bytes(KEPT)} of the output are kept.</p>}
      {problem !== null && <Problem>{problem}</Problem>}
      <pre
        ref={box}
        class="code terminal"
        tabIndex={0}
        aria-label="Text of the output"
        onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
          isAtEnd.current = scrollTop + clientHeight >= scrollHeight - 8;
        }}
      >
        {text === "" ? <span class="quiet">No output yet.</span> : text}
      </pre>
      {!isReadOnly && shown.ended === null && <Input url={base} hasTerminal={hasTerminal} />}
      <p class="note" role="status">
        {shown.ended ?? "Running."}
      </p>
    </Details>
  );
}
