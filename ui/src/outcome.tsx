/** How a call ended: a symbol, a word and a color say the same. */

import type { Call } from "./api";
import { isOk, outcome } from "./summary";
import { visibleLine } from "./text";

export function Outcome({ call }: { call: Call }) {
  const kind = isOk(call) ? "ok" : call.outcome === "canceled" ? "canceled" : "failed";
  const symbol = { ok: "✓", canceled: "–", failed: "✕" }[kind];
  return (
    <span class={`outcome ${kind}`}>
      <span aria-hidden="true">{symbol}</span> {visibleLine(outcome(call))}
    </span>
  );
}
