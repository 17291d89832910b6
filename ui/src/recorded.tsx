/** The input and the result of a call, as they are recorded. */

import type { ComponentChildren } from "preact";
import type { Call } from "./api";
import { parseCut } from "./diff";
import { Json } from "./json";
import { bytes, clock, count, day, duration, visible, visibleLine } from "./text";

/** Returns the input with its fields, if what is recorded of it has some. */
export function inputOf({ input, input_cut: isCut }: Call): unknown {
  return typeof input === "string" && isCut ? (parseCut(input) ?? input) : input;
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** When a call started, who called, and how it ended. The children are its sandboxes. */
export function Facts({ call, children }: { call: Call; children: ComponentChildren }) {
  return (
    <>
      <dl class="facts">
        <Fact name="Started">
          {day(call.time)} {clock(call.time)}
        </Fact>
        <Fact name="Took">{duration(call.duration_ms)}</Fact>
        <Fact name="Client">{call.client === undefined ? "unknown" : visibleLine(call.client)}</Fact>
        <Fact name="Sandbox">{(call.sandboxes ?? []).length === 0 ? "none" : children}</Fact>
        {call.exit_code !== undefined && <Fact name="Exit code">{call.exit_code}</Fact>}
        <Fact name="Call">
          {call.family ? `${call.family}, ` : ""}number {call.id}
        </Fact>
      </dl>
      {call.lost !== undefined && <p class="note">{count(call.lost, "call")} before this one could not be recorded.</p>}
    </>
  );
}

interface RecordedProps {
  value: unknown;
  isCut: boolean | undefined;
  size: number;
  /** The fields that are shown elsewhere. */
  without?: string[] | undefined;
}

/** The input or the result of a call. The fields that are programs or texts are shown as such, and the others as JSON. */
export function Recorded({ value, isCut, size, without = [] }: RecordedProps) {
  if (value === undefined || value === null) return <p class="note">Not recorded ({bytes(size)}).</p>;
  const truncated = isCut && <p class="note">Truncated: the whole had {bytes(size)}.</p>;
  if (typeof value !== "object" || Array.isArray(value)) {
    return (
      <>
        <pre class="code">{visible(typeof value === "string" ? value : JSON.stringify(value, null, 2))}</pre>
        {truncated}
      </>
    );
  }
  const fields = Object.entries(value).filter(([name]) => !without.includes(name));
  if (fields.length === 0 && without.length > 0) return truncated || null;
  if (fields.length === 0) return <p class="note">Empty.</p>;
  const isText = ([, field]: [string, unknown]) => typeof field === "string" && (field.includes("\n") || field.length > 40);
  const isProgram = ([name, field]: [string, unknown]) => typeof field === "string" && ["command", "script", "code"].includes(name);
  const texts = fields.filter((field) => isText(field) || isProgram(field));
  const rest = fields.filter((field) => !texts.includes(field));
  return (
    <>
      {rest.map(([name, field]) => (
        <Json key={name} name={name} value={field} />
      ))}
      {texts.map(([name, field]) => (
        <figure key={name} class="text-field">
          <figcaption>{visibleLine(name)}</figcaption>
          <pre class="code">{visible(String(field))}</pre>
        </figure>
      ))}
      {truncated}
    </>
  );
}
