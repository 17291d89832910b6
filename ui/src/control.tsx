/** Stops a process, and writes to its standard input. */

import { useState } from "preact/hooks";
import { read } from "./api";
import { messageOf } from "./connection";
import { Problem } from "./parts";

const ENCODER = new TextEncoder();

interface Props {
  /** The URL of the process. */
  url: string;
}

/** Sends `TERM` first, and then `KILL`, which no process can ignore. */
export function Stop({ url }: Props) {
  const [sent, setSent] = useState(0);
  const [problem, setProblem] = useState<string | null>(null);
  async function stop() {
    setProblem(null);
    try {
      await read(`${url}/signal`, { method: "POST", body: JSON.stringify({ signal: sent === 0 ? "TERM" : "KILL" }) });
      setSent(sent + 1);
    } catch (error) {
      setProblem(messageOf(error));
    }
  }
  return (
    <>
      <button type="button" class="button danger" onClick={() => void stop()}>
        {sent === 0 ? "Stop" : "Kill"}
      </button>
      {problem !== null && <Problem>{problem}</Problem>}
    </>
  );
}

/** A line for the standard input of a process. */
export function Input({ url, hasTerminal }: Props & { hasTerminal: boolean }) {
  const [text, setText] = useState("");
  const [said, setSaid] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  async function write(body: string, isClosing: boolean) {
    setProblem(null);
    setSaid("Sending…");
    try {
      const response = await read(`${url}/stdin${isClosing ? "?close" : ""}`, { method: "POST", body });
      const { written } = (await response.json()) as { written: number };
      const length = ENCODER.encode(body).length;
      if (written < length) {
        setProblem(`It has read ${written} of ${length} bytes. The rest was not sent.`);
        setSaid("");
        return;
      }
      setText("");
      setSaid(isClosing ? "The input is closed." : "Sent.");
    } catch (error) {
      setSaid("");
      setProblem(messageOf(error));
    }
  }
  return (
    <form
      class="input"
      onSubmit={(event) => {
        event.preventDefault();
        // A terminal sends a carriage return for Enter.
        void write(text + (hasTerminal ? "\r" : "\n"), false);
      }}
    >
      {problem !== null && <Problem>{problem}</Problem>}
      <div class="actions">
        <input
          class="field grow mono"
          type="text"
          aria-label="A line for its standard input"
          placeholder="A line for its standard input"
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <button type="submit" class="button">
          Send
        </button>
        <button type="button" class="button" onClick={() => void write("", true)}>
          End input
        </button>
      </div>
      <p class="note" role="status">
        {said}
      </p>
    </form>
  );
}
