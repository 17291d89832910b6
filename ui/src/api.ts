/** The routes of koze that the page reads. `docs/http.md` describes them. */

export interface Sandbox {
  name: string;
  image: string;
  status: "running" | "sleeping";
  created?: number;
  used: number;
}

export interface Session {
  name: string;
  sandboxes: Sandbox[];
  calls: number;
  last_call?: number;
}

export interface Usage {
  sandbox: string;
  memory_bytes?: number;
  processor_ms?: number;
  disk_bytes?: number;
}

export interface Call {
  id: number;
  time: number;
  session: string;
  client?: string;
  family?: string;
  tool: string;
  sandboxes?: string[];
  input?: unknown;
  input_cut?: boolean;
  input_masked?: boolean;
  input_bytes: number;
  outcome: string;
  exit_code?: number;
  duration_ms: number;
  result?: unknown;
  result_cut?: boolean;
  /** In the result, `[picture 1]` stands for the first one. */
  pictures?: Picture[];
  result_bytes: number;
  lost?: number;
}

export interface Picture {
  media_type: string;
  bytes: number;
  kept?: boolean;
}

export interface FileEntry {
  name: string;
  kind: "file" | "directory" | "link" | "other";
  size: number;
  mode: number;
  modified?: number;
  target?: string;
}

export interface Process {
  id: string;
  program: string;
  label?: string;
  terminal: boolean;
  exit_code?: number;
}

export interface Egress {
  time: number;
  sandbox: string;
  host: string;
  port: number;
  address?: string;
  allowed: boolean;
  rule: string;
  requested_within?: string;
}

/** The server refused a request. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

/** Returns a path of decoded parts. */
export function path(...parts: string[]): string {
  // Browsers resolve such a part, even if it is encoded.
  const odd = parts.find((part) => part === "." || part === "..");
  if (odd !== undefined) throw new Refused(400, "invalid_input", `a browser cannot address the name \`${odd}\``);
  return "/" + parts.map(encodeURIComponent).join("/");
}

/** Returns the path of a file. `file` is absolute. */
export function filePath(session: string, sandbox: string, file: string): string {
  return path("sessions", session, "sandboxes", sandbox, "files", ...file.split("/").slice(1));
}

/** Sends a request that only reads. Throws [`Refused`] for an error of the server, and a `TypeError` without a connection. */
export async function read(url: string, options: RequestInit = {}): Promise<Response> {
  const response = await fetch(url, { ...options, credentials: "same-origin", redirect: "error" });
  if (response.ok) return response;
  const body = (await response.json().catch(() => null)) as { error?: { code: string; message: string } } | null;
  throw new Refused(response.status, body?.error?.code ?? "error", body?.error?.message ?? response.statusText);
}

export async function readJson<T>(url: string, signal?: AbortSignal): Promise<T> {
  const response = await read(url, signal ? { signal } : {});
  return (await response.json()) as T;
}

/** Exchanges the token of the URL for the cookie. */
export async function signIn(token: string): Promise<void> {
  await read("/login", { method: "POST", headers: { authorization: `Bearer ${token}` } });
}
