/** The command palette: goes to any session, view or sandbox by its name. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Session } from "./api";
import { page, tabsOf } from "./page";
import { go, href } from "./route";
import { visibleLine } from "./text";

interface Target {
  name: string;
  kind: string;
  to: string;
}

/** How many targets are shown. */
const SHOWN = 50;

function targetsOf(sessions: Session[], current: string | null): Target[] {
  const own = current === null ? [] : tabsOf(page.value).map((tab) => ({ name: `${title(tab)} of ${current}`, kind: "view", to: href(current, tab) }));
  const rest = sessions.flatMap(({ name, sandboxes }) => [
    { name, kind: "session", to: href(name) },
    ...sandboxes.map((sandbox) => ({
      name: `${sandbox.name} in ${name}`,
      kind: "sandbox",
      to: href(name, "files", sandbox.name, "/home/user"),
    })),
  ]);
  return [...own, { name: "All sessions", kind: "view", to: href(null) }, ...rest];
}

export function title(tab: string): string {
  return tab[0]!.toUpperCase() + tab.slice(1);
}

export function Palette({ sessions, current, onClose }: { sessions: Session[]; current: string | null; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  useEffect(() => dialog.current!.showModal(), []);
  const found = useMemo(() => {
    const words = text.toLowerCase().split(/\s+/);
    const isFound = ({ name, kind }: Target) => words.every((word) => `${kind} ${name}`.toLowerCase().includes(word));
    return targetsOf(sessions, current).filter(isFound).slice(0, SHOWN);
  }, [sessions, current, text]);
  const active = Math.min(at, found.length - 1);
  useEffect(() => document.getElementById(`target-${active}`)?.scrollIntoView({ block: "nearest" }), [active]);

  function choose(target: Target | undefined) {
    if (target === undefined) return;
    dialog.current!.close();
    go(target.to);
  }

  function key(event: KeyboardEvent) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setAt((active + step + found.length) % Math.max(1, found.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      choose(found[active]);
    }
  }

  return (
    <dialog
      ref={dialog}
      class="palette"
      aria-label="Go to"
      onClose={onClose}
      onClick={(event) => {
        if (event.target === dialog.current) dialog.current?.close();
      }}
    >
      <input
        class="field"
        type="text"
        role="combobox"
        aria-label="Go to a session, a view or a sandbox"
        aria-expanded="true"
        aria-controls="targets"
        aria-activedescendant={found.length > 0 ? `target-${active}` : undefined}
        placeholder="Go to a session, a view or a sandbox"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={key}
      />
      <ul id="targets" role="listbox" aria-label="Places">
        {found.map((target, index) => (
          <li
            key={target.kind + target.name}
            id={`target-${index}`}
            role="option"
            aria-selected={index === active}
            onClick={() => choose(target)}
          >
            <bdi>{visibleLine(target.name)}</bdi> <span class="quiet">{target.kind}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p class="note">Nothing has this name.</p>}
      <p class="keys quiet">
        <kbd>↑</kbd> <kbd>↓</kbd> choose <kbd>Enter</kbd> go <kbd>Esc</kbd> close <kbd>/</kbd> search calls
      </p>
    </dialog>
  );
}
