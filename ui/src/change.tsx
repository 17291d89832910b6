/** The file that a call changed, as a unified diff. The signs say the same as the colors. */

import type { FileChange } from "./diff";
import { visible, visibleLine } from "./text";

export function Change({ change }: { change: FileChange }) {
  const { path, action, lines, isCut } = change;
  const count = (sign: string) => lines.filter((line) => line.sign === sign).length;
  return (
    <figure class="text-field">
      <figcaption class="change-head">
        <span class="mono">
          <bdi>{visibleLine(path)}</bdi>
        </span>{" "}
        <span>{action}</span>{" "}
        <span class="outcome ok">+{count("+")}</span> <span class="outcome failed">−{count("-")}</span>
      </figcaption>
      {lines.length === 0 ? (
        <p class="note">The text is empty.</p>
      ) : (
        <div class="diff" tabIndex={0} role="group" aria-label="Diff">
          {lines.map(({ sign, text }, index) => {
            const Line = sign === "+" ? "ins" : sign === "-" ? "del" : "span";
            return (
              <Line key={index} class="diff-line">
                <span class="diff-sign">{sign === "-" ? "−" : sign}</span>
                <span class="diff-text">{visible(text) || "\u00a0"}</span>
              </Line>
            );
          })}
        </div>
      )}
      {isCut && <p class="note">Only the beginning was recorded.</p>}
    </figure>
  );
}
