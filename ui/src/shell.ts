/** The connection of a terminal: a WebSocket. `docs/http.md` describes its messages. */

/** How much input a message has at most, in bytes. */
const PIECE = 32 * 1024;
/** How much output may wait to be shown, in bytes, before the server is asked to pause; and when it goes on. */
const HIGH = 512 * 1024;
const LOW = 64 * 1024;

export interface Events {
  /** Shows output, and then calls `shown`. */
  printed(bytes: Uint8Array, shown: () => void): void;
  /** The terminal is closed; why. */
  ended(why: string): void;
}

export class Shell {
  private readonly socket: WebSocket;
  private waiting = 0;
  private isPaused = false;
  private last: string | null = null;

  constructor(path: string, size: { cols: number; rows: number }, events: Events) {
    const url = new URL(`${path}?cols=${size.cols}&rows=${size.rows}`, location.href);
    url.protocol = "ws:";
    this.socket = new WebSocket(url);
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (typeof data === "string") this.last = describe(data);
      else this.show(new Uint8Array(data), events);
    };
    this.socket.onclose = () => events.ended(this.last ?? "The connection was lost, which ended the shell.");
  }

  type(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; at += PIECE) this.send(bytes.slice(at, at + PIECE));
  }

  resize(cols: number, rows: number): void {
    this.send(JSON.stringify({ resize: { cols, rows } }));
  }

  /** Ends the shell. */
  close(): void {
    this.socket.onclose = null;
    this.socket.onmessage = null;
    this.socket.close();
  }

  /** Browsers read without end, so the server has to wait until the output is shown. */
  private show(bytes: Uint8Array, events: Events): void {
    this.waiting += bytes.length;
    this.pause(this.isPaused || this.waiting > HIGH);
    events.printed(bytes, () => {
      this.waiting -= bytes.length;
      this.pause(this.isPaused && this.waiting > LOW);
    });
  }

  private pause(isPaused: boolean): void {
    if (isPaused === this.isPaused) return;
    this.isPaused = isPaused;
    this.send(JSON.stringify({ pause: isPaused }));
  }

  private send(data: string | Uint8Array<ArrayBuffer>): void {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(data);
  }
}

/** Returns what the last message says. */
function describe(text: string): string {
  const { exit_code: code, error } = JSON.parse(text) as { exit_code?: number; error?: { message: string } };
  return error === undefined ? `The shell ended with exit code ${code}.` : error.message;
}
