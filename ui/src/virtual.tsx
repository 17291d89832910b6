/** A list of rows of the same height, of which only those in view are in the document. */

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

interface Props<T> {
  items: T[];
  keyOf: (item: T) => string;
  rowHeight: number;
  label: string;
  selected: string | null;
  /** Whether moving to a row by keyboard selects it, because it is shown next to the list. Enter always does. */
  selectsOnMove: boolean;
  onSelect: (item: T) => void;
  render: (item: T) => ComponentChildren;
}

/** How many rows are rendered beyond each end of the view. */
const BEYOND = 8;

export function VirtualList<T>({ items, keyOf, rowHeight, label, selected, selectsOnMove, onSelect, render }: Props<T>) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const first = useRef<string | null>(null);
  const [cursor, setCursor] = useState(selected);
  useEffect(() => {
    if (selected !== null) setCursor(selected);
  }, [selected]);
  const index = useMemo(() => (cursor === null ? -1 : items.findIndex((item) => keyOf(item) === cursor)), [items, cursor]);

  useLayoutEffect(() => {
    const element = box.current!;
    const observer = new ResizeObserver(() => setView({ top: element.scrollTop, height: element.clientHeight }));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  // Rows that are added above must not move what someone reads.
  useLayoutEffect(() => {
    const element = box.current!;
    if (first.current !== null && element.scrollTop > 0) {
      const added = items.findIndex((item) => keyOf(item) === first.current);
      if (added > 0) element.scrollTop += added * rowHeight;
    }
    first.current = items[0] === undefined ? null : keyOf(items[0]);
  }, [items, rowHeight]);

  useEffect(() => {
    if (index < 0) return;
    const element = box.current!;
    const top = index * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + element.clientHeight) {
      element.scrollTop = top + rowHeight - element.clientHeight;
    }
  }, [cursor, rowHeight]);

  function move(event: KeyboardEvent) {
    if (event.ctrlKey || event.metaKey || event.altKey || items.length === 0) return;
    const page = Math.max(1, Math.floor(view.height / rowHeight) - 1);
    const at = Math.max(index, 0);
    const targets: Record<string, number> = {
      ArrowDown: index < 0 ? 0 : at + 1,
      ArrowUp: at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: items.length - 1,
    };
    if (event.key === "Enter" && index >= 0) onSelect(items[index]!);
    const target = targets[event.key];
    if (target === undefined) return;
    event.preventDefault();
    const item = items[Math.min(Math.max(target, 0), items.length - 1)]!;
    setCursor(keyOf(item));
    if (selectsOnMove) onSelect(item);
  }

  const from = Math.max(0, Math.floor(view.top / rowHeight) - BEYOND);
  const to = Math.min(items.length, Math.ceil((view.top + view.height) / rowHeight) + BEYOND);
  const isRendered = index >= from && index < to;
  return (
    <div
      ref={box}
      class="virtual"
      role="listbox"
      tabIndex={0}
      aria-label={label}
      aria-activedescendant={isRendered ? `row-${cursor}` : undefined}
      onKeyDown={move}
      onScroll={(event) => setView({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })}
    >
      <div class="virtual-all" role="presentation" style={{ height: `${items.length * rowHeight}px` }}>
        {items.slice(from, to).map((item, offset) => (
          <div
            key={keyOf(item)}
            id={`row-${keyOf(item)}`}
            class={keyOf(item) === cursor ? "row is-active" : "row"}
            role="option"
            aria-selected={keyOf(item) === selected}
            aria-setsize={items.length}
            aria-posinset={from + offset + 1}
            style={{ transform: `translateY(${(from + offset) * rowHeight}px)`, height: `${rowHeight}px` }}
            onClick={() => onSelect(item)}
          >
            {render(item)}
          </div>
        ))}
      </div>
    </div>
  );
}
