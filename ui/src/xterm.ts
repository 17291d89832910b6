/** The terminal emulator. It is a file of its own, which the page loads when a terminal is opened. */

import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { defineSheet } from "./sheet";

/** The key that leaves the terminal. All others belong to the programs in it. */
const LEAVE = "F6";

/** Sequences that set the title or the clipboard, or make links, do nothing: 0, 1, 2, 8, 9, 52, 777 and 1337. */
const REFUSED = [0, 1, 2, 8, 9, 52, 777, 1337];

export interface Handlers {
  typed(bytes: Uint8Array): void;
  resized(cols: number, rows: number): void;
  left(): void;
}

export interface Screen {
  cols: number;
  rows: number;
  /** Shows output, and then calls `shown`. */
  write(bytes: Uint8Array, shown: () => void): void;
  focus(): void;
  /** Ends input: the text remains. */
  freeze(): void;
  close(): void;
}

/** Returns the colors of the page's theme. */
function theme(box: HTMLElement) {
  const styles = getComputedStyle(box);
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  return {
    background: styles.backgroundColor,
    foreground: styles.color,
    cursor: styles.color,
    cursorAccent: styles.backgroundColor,
    selectionBackground: isDark ? "#2f5f5b" : "#b9d9d5",
    ...(isDark ? {} : LIGHT),
  };
}

/** The colors of programs that are legible on white. */
const LIGHT = {
  black: "#1b2126",
  red: "#b3261e",
  green: "#17693a",
  yellow: "#7a5900",
  blue: "#1f5fbf",
  magenta: "#8a3ab9",
  cyan: "#0b665e",
  white: "#56616a",
  brightBlack: "#56616a",
  brightRed: "#b3261e",
  brightGreen: "#17693a",
  brightYellow: "#7a5900",
  brightBlue: "#1f5fbf",
  brightMagenta: "#8a3ab9",
  brightCyan: "#0b665e",
  brightWhite: "#1b2126",
};

/** Opens a terminal in a box. */
export function openScreen(box: HTMLElement, handlers: Handlers): Screen {
  defineSheet();
  const styles = getComputedStyle(box);
  const terminal = new Terminal({
    fontFamily: styles.fontFamily,
    fontSize: parseFloat(styles.fontSize),
    theme: theme(box),
    minimumContrastRatio: 4.5,
    scrollback: 10_000,
    screenReaderMode: true,
  });
  for (const number of REFUSED) terminal.parser.registerOscHandler(number, () => true);
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(box);
  fit.fit();
  const encoder = new TextEncoder();
  terminal.onData((text) => handlers.typed(encoder.encode(text)));
  terminal.onBinary((text) => handlers.typed(Uint8Array.from(text, (character) => character.charCodeAt(0))));
  terminal.onResize(({ cols, rows }) => handlers.resized(cols, rows));
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.key === LEAVE) {
      if (event.type === "keydown") handlers.left();
      event.preventDefault();
      return false;
    }
    if (event.ctrlKey && event.shiftKey && event.key === "C" && terminal.hasSelection()) {
      event.preventDefault();
      if (event.type === "keydown") void navigator.clipboard.writeText(terminal.getSelection());
      return false;
    }
    return true;
  });
  const watcher = new ResizeObserver(() => fit.fit());
  watcher.observe(box);
  const media = matchMedia("(prefers-color-scheme: dark)");
  const repaint = () => (terminal.options.theme = theme(box));
  media.addEventListener("change", repaint);
  return {
    cols: terminal.cols,
    rows: terminal.rows,
    write: (bytes, shown) => terminal.write(bytes, shown),
    focus: () => terminal.focus(),
    freeze() {
      terminal.options.disableStdin = true;
      terminal.options.cursorBlink = false;
      terminal.write("\u001b[?25l");
    },
    close() {
      media.removeEventListener("change", repaint);
      watcher.disconnect();
      terminal.dispose();
    },
  };
}
