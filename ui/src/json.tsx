/** JSON that can be folded. */

import { useState } from "preact/hooks";
import { count, visible, visibleLine } from "./text";

/** How many entries of an object or array are shown at once. */
const SHOWN = 100;

export function Json({ value, name, depth = 0 }: { value: unknown; name?: string; depth?: number }) {
  const [shown, setShown] = useState(SHOWN);
  const label = name === undefined ? null : <span class="json-name">{visibleLine(name)}: </span>;
  if (typeof value !== "object" || value === null) {
    return (
      <div class="json-leaf">
        {label}
        <Leaf value={value} />
      </div>
    );
  }
  const entries = Object.entries(value);
  const isArray = Array.isArray(value);
  if (entries.length === 0) {
    return (
      <div class="json-leaf">
        {label}
        {isArray ? "[]" : "{}"}
      </div>
    );
  }
  return (
    <details class="json" open={depth < 2}>
      <summary>
        {label}
        <span class="quiet">{count(entries.length, isArray ? "item" : "field")}</span>
      </summary>
      <div class="json-inside">
        {entries.slice(0, shown).map(([key, inner]) => (
          <Json key={key} name={key} value={inner} depth={depth + 1} />
        ))}
        {entries.length > shown && (
          <button type="button" class="button" onClick={() => setShown(shown + SHOWN * 10)}>
            Show more of {count(entries.length, "entry").replace("entrys", "entries")}
          </button>
        )}
      </div>
    </details>
  );
}

function Leaf({ value }: { value: unknown }) {
  if (typeof value !== "string") return <span class="json-value">{String(value)}</span>;
  if (value.includes("\n")) return <pre class="json-text">{visible(value)}</pre>;
  return <span class="json-string">"{visible(value)}"</span>;
}
