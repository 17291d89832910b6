/** A terminal in a sandbox. */

import { useEffect, useRef, useState } from "preact/hooks";
import { path, read, type Sandbox, type Session } from "./api";
import { Awake, NoSandboxes, Sandboxes } from "./awake";
import { messageOf } from "./connection";
import { Empty, Problem } from "./parts";
import { href } from "./route";
import { Shell } from "./shell";
import { visibleLine } from "./text";
import type { Screen } from "./xterm";

type Emulator = typeof import("./xterm");

let emulator: Promise<Emulator> | null = null;

/** Loads the emulator and its style sheet once. */
function loadEmulator(): Promise<Emulator> {
  emulator ??= Promise.all([import("/xterm.js" as string) as Promise<Emulator>, loadStyles("/xterm.css")])
    .then(([module]) => module)
    .catch((error: unknown) => {
      emulator = null;
      throw error;
    });
  return emulator;
}

function loadStyles(url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = url;
    link.onload = () => resolve();
    link.onerror = () => reject(new TypeError(`${url} cannot be loaded`));
    document.head.append(link);
  });
}

export function TerminalView({ session, rest }: { session: Session; rest: string[] }) {
  const sandbox = session.sandboxes.find((one) => one.name === rest[0]) ?? session.sandboxes[0];
  if (sandbox === undefined) return <NoSandboxes purpose="Terminals are in sandboxes." />;
  return (
    <div class="files-view">
      <Sandboxes session={session} selected={sandbox.name} hrefOf={(name) => href(session.name, "terminal", name)} />
      <Awake session={session} sandbox={sandbox} purpose="a terminal">
        <Opened key={sandbox.name} session={session.name} sandbox={sandbox} />
      </Awake>
    </div>
  );
}

/** A terminal is opened on request: it keeps its sandbox awake. */
function Opened({ session, sandbox }: { session: string; sandbox: Sandbox }) {
  const [number, setNumber] = useState(0);
  if (number === 0) {
    return (
      <Empty title={`A terminal in ${visibleLine(sandbox.name)}`}>
        <p>
          It has the sandbox's login shell. What you type runs there, and the sandbox stays awake until you close the terminal or leave
          this view.
        </p>
        <button type="button" class="button primary" onClick={() => setNumber(1)}>
          Open a terminal
        </button>
      </Empty>
    );
  }
  return <Terminal key={number} session={session} sandbox={sandbox.name} onAgain={() => setNumber(number + 1)} onClose={() => setNumber(0)} />;
}

interface Props {
  session: string;
  sandbox: string;
  onAgain: () => void;
  onClose: () => void;
}

function Terminal({ session, sandbox, onAgain, onClose }: Props) {
  const [problem, setProblem] = useState<string | null>(null);
  const [ended, setEnded] = useState<string | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const closing = useRef<HTMLButtonElement>(null);
  const again = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    let shell: Shell | null = null;
    let screen: Screen | null = null;
    let isClosed = false;
    const start = async () => {
      const { openScreen } = await loadEmulator();
      const place = path("sessions", session, "sandboxes", sandbox);
      // A WebSocket hides why it was refused. This also wakes the sandbox.
      await read(`${place}/processes`);
      if (isClosed) return;
      screen = openScreen(box.current!, {
        typed: (bytes) => shell?.type(bytes),
        resized: (cols, rows) => shell?.resize(cols, rows),
        left: () => closing.current?.focus(),
      });
      shell = new Shell(`${place}/terminal`, screen, {
        printed: (bytes, shown) => screen?.write(bytes, shown),
        ended: (why) => {
          screen?.freeze();
          setEnded(why);
        },
      });
      screen.focus();
    };
    start().catch((error: unknown) => isClosed || setProblem(messageOf(error)));
    return () => {
      isClosed = true;
      shell?.close();
      screen?.close();
    };
  }, [session, sandbox]);
  useEffect(() => {
    // Only if the focus was in the terminal.
    if (ended !== null && box.current?.contains(document.activeElement)) again.current?.focus();
  }, [ended]);
  return (
    <section class="terminal-pane" aria-label="Terminal">
      <header class="terminal-head">
        <p class="quiet" role="status">
          {ended ?? (
            <>
              <kbd>F6</kbd> leaves the terminal <span class="wide-only">· <kbd>Ctrl</kbd> <kbd>Shift</kbd> <kbd>C</kbd> copies</span>
            </>
          )}
        </p>
        {ended !== null && (
          <button type="button" class="button primary" ref={again} onClick={onAgain}>
            Open another one
          </button>
        )}
        <button type="button" class="button" ref={closing} onClick={onClose}>
          Close
        </button>
      </header>
      {problem !== null && <Problem>{problem}</Problem>}
      <div class="screen">
        <div ref={box} />
      </div>
    </section>
  );
}
