/** Small parts that several views use. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

/** A button that copies a text, and says so. */
export function Copy({ text, label }: { text: string; label: string }) {
  const [isDone, setDone] = useState(false);
  useEffect(() => {
    if (!isDone) return;
    const timer = setTimeout(() => setDone(false), 2000);
    return () => clearTimeout(timer);
  }, [isDone]);
  return (
    <button type="button" class="button" onClick={() => void navigator.clipboard.writeText(text).then(() => setDone(true))}>
      <span aria-live="polite">{isDone ? "Copied" : label}</span>
    </button>
  );
}

/** What is shown in place of content that is not there. `isPage` if it is all that the page shows. */
export function Empty({ title, isPage = false, children }: { title: string; isPage?: boolean; children?: ComponentChildren }) {
  const Heading = isPage ? "h1" : "h2";
  return (
    <div class="empty">
      <Heading>{title}</Heading>
      {children}
    </div>
  );
}

/** A command to run next. */
export function Command({ children }: { children: string }) {
  return (
    <div class="command">
      <code>{children}</code>
      <Copy text={children} label="Copy" />
    </div>
  );
}

export function Problem({ children }: { children: ComponentChildren }) {
  return (
    <p class="problem" role="alert">
      <span aria-hidden="true">▲ </span>
      {children}
    </p>
  );
}

/** Whether a sandbox runs. The symbol says the same as the color. */
export function Status({ status }: { status: "running" | "sleeping" }) {
  return (
    <span class={`status ${status}`}>
      <span aria-hidden="true">{status === "running" ? "●" : "○"}</span> {status}
    </span>
  );
}

/** Returns whether a media query matches. */
export function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const change = () => setMatches(media.matches);
    change();
    media.addEventListener("change", change);
    return () => media.removeEventListener("change", change);
  }, [query]);
  return matches;
}
