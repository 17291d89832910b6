// Declares the placeholders, so that TypeScript can check the templates.
declare const __KOZE_SCRIPT__: string;
declare const __KOZE_ENV_VARS__: Record<string, string>;
declare const __KOZE_SLEEP_AFTER__: string;
declare const __KOZE_SLEEP_AFTER_MS__: number;
declare const __KOZE_INTERNET__: boolean;
declare const __KOZE_BASE__: typeof import("./koze/managed.mjs").KozeSandbox;
declare const __KOZE_IMAGES__: Record<string, string | null>;
declare const __KOZE_INSTANCE__: ContainerStartupOptions["instance"];
declare const __KOZE_WORDS__: string[];
declare const __KOZE_KEEP_FILES__: boolean;
declare const __KOZE_COPY_FROM__: string;
declare const __KOZE_ALLOWED_HOSTS__: string[];
declare const __KOZE_DENIED_HOSTS__: string[];
declare const __KOZE_POLICIES__: Record<string, import("./koze/requests.mjs").Declared>;
declare const __KOZE_PORT__: number;
declare const __KOZE_HEALTH__: string;
declare const __KOZE_WORDS__: string[];
declare const __KOZE_IMAGE__: string;
declare const __KOZE_INSTANCE__: "lite";
declare const __KOZE_SCRIPTS_NAME__: string;
declare const __KOZE_SCRIPTS_SOURCE__: string;
declare const __KOZE_LOADER__: string;
declare const __KOZE_BROWSERS__: string[];

declare module "__KOZE_WORKER__" {
  const worker: ExportedHandler;
  export default worker;
  export class KozeRequests {}
}

declare module "__KOZE_MAIN__" {
  const worker: ExportedHandler;
  export default worker;
  import { DurableObject } from "cloudflare:workers";
  export class KozeScripts extends DurableObject {
    kozeFetch(sent: string, left: () => Promise<unknown>): Promise<{ head: string; body: Uint8Array }>;
    fetch(request: Request): Promise<Response>;
    kozeCloseBrowser(): Promise<void>;
  }
}
