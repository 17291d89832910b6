/** Small parts that several views use. */

import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

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

/** Where details take the place of the list next to them. */
export const IS_SINGLE = "(max-width: 1099px)";

/** Moves the focus to details that take the place of their list, and back to the list when they are closed. */
function useDetailsFocus(details: RefObject<HTMLElement | null>, key: string): void {
  useEffect(() => {
    if (matchMedia(IS_SINGLE).matches) details.current?.focus();
  }, [key]);
  useEffect(
    () => () => {
      requestAnimationFrame(() => {
        // Only if the focus was in what is gone.
        if (document.activeElement === document.body) document.querySelector<HTMLElement>(".main .virtual, .main .scroll")?.focus();
      });
    },
    [],
  );
}

interface DetailsProps {
  label: string;
  /** What the details are of. */
  about: string;
  /** Whether they take all of the height. */
  isFilling?: boolean;
  onClose: () => void;
  children: ComponentChildren;
}

/** Details beside a list, or in its place. Escape closes them. */
export function Details({ label, about, isFilling = false, onClose, children }: DetailsProps) {
  const pane = useRef<HTMLElement>(null);
  useDetailsFocus(pane, about);
  return (
    <article
      ref={pane}
      class={isFilling ? "details fill" : "details"}
      tabIndex={-1}
      aria-label={label}
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
      }}
    >
      {children}
    </article>
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
