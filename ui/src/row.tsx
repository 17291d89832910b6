/** A call in a line. */

import type { Call } from "./api";
import { Outcome } from "./outcome";
import { summary, toolName } from "./summary";
import { clock, day, duration, visibleLine } from "./text";

/** The width of the bar of a duration, in percent: from a millisecond to a minute, logarithmic. */
function share(ms: number): number {
  return Math.round(Math.min(1, Math.log10(Math.max(1, ms)) / Math.log10(60_000)) * 100);
}

export function Row({ call }: { call: Call }) {
  return (
    <>
      <time class="row-time" dateTime={new Date(call.time).toISOString()} title={`${day(call.time)} ${clock(call.time)}`}>
        {clock(call.time)}
      </time>
      <span class="row-tool" title={visibleLine(call.tool)}>
        {visibleLine(toolName(call))}
      </span>
      <span class="row-summary">{summary(call)}</span>
      <span class="row-sandbox">{visibleLine((call.sandboxes ?? []).join(", "))}</span>
      <span class="row-outcome">
        <Outcome call={call} />
      </span>
      <span class="row-duration">
        <span class="bar" aria-hidden="true">
          <span style={{ width: `${share(call.duration_ms)}%` }} />
        </span>
        {duration(call.duration_ms)}
      </span>
    </>
  );
}
