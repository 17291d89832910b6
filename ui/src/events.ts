/** The output of a process as server-sent events. `EventSource` hides why a request was refused, so `fetch` reads them. */

import { read } from "./api";

export interface ServerEvent {
  id: string | null;
  name: string;
  data: unknown;
}

/** Reads events until the stream ends. A connection that breaks throws a `TypeError`. */
export async function readEvents(url: string, signal: AbortSignal, take: (event: ServerEvent) => void): Promise<void> {
  const response = await read(url, { signal, headers: { accept: "text/event-stream" } });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    buffer += value;
    for (let end = buffer.indexOf("\n\n"); end >= 0; end = buffer.indexOf("\n\n")) {
      const event = parseEvent(buffer.slice(0, end));
      buffer = buffer.slice(end + 2);
      if (event !== null) take(event);
    }
  }
}

function parseEvent(text: string): ServerEvent | null {
  const event = { id: null as string | null, name: "message", data: "" };
  for (const line of text.split("\n")) {
    const [, field, value] = /^([^:]*): ?(.*)$/.exec(line) ?? [];
    if (field === "id") event.id = value!;
    else if (field === "event") event.name = value!;
    else if (field === "data") event.data += value!;
  }
  return event.data === "" ? null : { ...event, data: JSON.parse(event.data) };
}
