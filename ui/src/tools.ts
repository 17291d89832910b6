/** Calls of tools. The server permits those that show what scripts keep, and `browse`. Each is in the journal. */

import { path, read, Refused } from "./api";

/** What a tool returned. */
interface ToolResult {
  content: string;
  isError: boolean;
}

/** Calls a tool of one family, and returns its result. Throws [`Refused`] with its message if it failed. */
export async function callTool<T>(session: string, family: string, tool: string, input: object, signal?: AbortSignal): Promise<T> {
  const url = `${path("sessions", session, "tools", tool)}?tools=${family}`;
  const options = { method: "POST", body: JSON.stringify(input), ...(signal ? { signal } : {}) };
  const { content, isError } = (await (await read(url, options)).json()) as ToolResult;
  if (isError) throw new Refused(200, content.split(":")[0]!, content);
  return JSON.parse(content) as T;
}
