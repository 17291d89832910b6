/** Sandboxes that sleep are not woken without a question. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Sandbox, Session } from "./api";
import { Command, Empty, Status } from "./parts";
import { visibleLine } from "./text";

/** The sandboxes that someone has agreed to wake, until the page is closed. */
const agreed = new Set<string>();

interface Props {
  session: Session;
  sandbox: Sandbox;
  /** What waking it is for, such as "its files". */
  purpose: string;
  children: ComponentChildren;
}

export function Awake({ session, sandbox, purpose, children }: Props) {
  const key = JSON.stringify([session.name, sandbox.name]);
  const [, render] = useState({});
  if (sandbox.status === "running" || agreed.has(key)) return <>{children}</>;
  return (
    <Empty title={`${visibleLine(sandbox.name)} sleeps`}>
      <p>Its files are kept, and its programs have ended. It has to wake to show {purpose}.</p>
      <button
        type="button"
        class="button primary"
        onClick={() => {
          agreed.add(key);
          render({});
        }}
      >
        Wake it
      </button>
    </Empty>
  );
}

/** A choice among the sandboxes of a session, as links. */
export function Sandboxes({ session, selected, hrefOf }: { session: Session; selected: string; hrefOf: (name: string) => string }) {
  return (
    <nav class="sandboxes" aria-label="Sandboxes">
      {session.sandboxes.map((sandbox) => (
        <a key={sandbox.name} href={hrefOf(sandbox.name)} aria-current={sandbox.name === selected ? "true" : undefined}>
          <strong>{visibleLine(sandbox.name)}</strong> <span class="quiet">{visibleLine(sandbox.image)}</span>{" "}
          <Status status={sandbox.status} />
        </a>
      ))}
    </nav>
  );
}

export function NoSandboxes({ purpose }: { purpose: string }) {
  return (
    <Empty title="No sandboxes">
      <p>{purpose} The first call of a tool creates one:</p>
      <Command>{`koze call shell '{"command": "uname -a"}'`}</Command>
    </Empty>
  );
}
