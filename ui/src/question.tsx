/** A question before something is changed that cannot be undone. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Props {
  title: string;
  /** What the button for yes says. */
  yes: string;
  onYes: () => void;
  onNo: () => void;
  children?: ComponentChildren;
}

export function Question({ title, yes, onYes, onNo, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const isYes = useRef(false);
  useEffect(() => dialog.current!.showModal(), []);
  function end() {
    if (isYes.current) onYes();
    else onNo();
  }
  return (
    <dialog ref={dialog} class="question" aria-labelledby="question-title" onClose={end} onKeyDown={(event) => event.stopPropagation()}>
      <h2 id="question-title">{title}</h2>
      {children}
      <div class="actions">
        <button type="button" class="button" autofocus onClick={() => dialog.current!.close()}>
          Cancel
        </button>
        <button
          type="button"
          class="button danger"
          onClick={() => {
            isYes.current = true;
            dialog.current!.close();
          }}
        >
          {yes}
        </button>
      </div>
    </dialog>
  );
}
