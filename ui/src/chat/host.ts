/**
 * The host of the page: the chat client that shows it in a frame. They exchange messages of JSON-RPC by `postMessage`, as the extension
 * `io.modelcontextprotocol/ui` describes.
 */

/** What the host tells about itself. Later messages contain only what has changed. */
export interface Context {
  theme?: "light" | "dark";
  displayMode?: "inline" | "fullscreen" | "pip";
  containerDimensions?: { height?: number; maxHeight?: number };
}

/** The result of a tool. */
export interface ToolResult {
  content?: { type: string; text?: string }[];
  structuredContent?: unknown;
  isError?: boolean;
}

export interface Events {
  changed(context: Context): void;
  /** The tool that opened the page has returned. */
  returned(result: ToolResult): void;
  /** The call of the tool that opened the page was canceled. */
  canceled(): void;
  /** The host removes the page. */
  closed(): void;
}

interface Message {
  jsonrpc: "2.0";
  id?: number | string;
  method?: string;
  params?: unknown;
  result?: unknown;
  error?: { message?: string };
}

interface Pending {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

const VERSION = "2026-01-26";
/** How long the host may take to answer, in milliseconds. It may ask the user first. */
const PATIENCE = 60_000;
const METHOD_NOT_FOUND = -32601;

export class Host {
  private readonly pending = new Map<number, Pending>();
  private last = 0;
  /** Whether the host passes calls of tools on to the server. */
  callsTools = false;

  constructor(private readonly events: Events) {
    window.addEventListener("message", (event: MessageEvent<Message>) => {
      // Any other window can send messages, too.
      if (event.source !== window.parent || event.data?.jsonrpc !== "2.0") return;
      this.receive(event.data);
    });
  }

  /** Introduces the page. The host sends nothing before. */
  async connect(): Promise<void> {
    const appInfo = { name: "koze timeline", version: "1" };
    const appCapabilities = { availableDisplayModes: ["inline", "fullscreen"] };
    const result = await this.request("ui/initialize", { appInfo, appCapabilities, protocolVersion: VERSION });
    const { hostCapabilities, hostContext } = result as { hostCapabilities?: { serverTools?: object }; hostContext?: Context };
    this.callsTools = hostCapabilities?.serverTools !== undefined;
    this.events.changed(hostContext ?? {});
    this.notify("ui/notifications/initialized", {});
  }

  /** Calls a tool of the server that the page is from. */
  async callTool(name: string, input: object): Promise<ToolResult> {
    return (await this.request("tools/call", { name, arguments: input })) as ToolResult;
  }

  notify(method: string, params: object): void {
    this.send({ jsonrpc: "2.0", method, params });
  }

  private request(method: string, params: object): Promise<unknown> {
    this.last += 1;
    const id = this.last;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => settle(() => reject(new Error("The chat client does not answer."))), PATIENCE);
      const settle = (end: () => void) => {
        clearTimeout(timer);
        this.pending.delete(id);
        end();
      };
      this.pending.set(id, {
        resolve: (result) => settle(() => resolve(result)),
        reject: (error) => settle(() => reject(error)),
      });
      this.send({ jsonrpc: "2.0", id, method, params });
    });
  }

  private send(message: Message): void {
    // The page cannot know the origin of its host. Nothing that it sends is confidential.
    window.parent.postMessage(message, "*");
  }

  private receive(message: Message): void {
    if (message.method === undefined) {
      const pending = this.pending.get(message.id as number);
      if (message.error === undefined) pending?.resolve(message.result);
      else pending?.reject(new Error(message.error?.message ?? "The chat client refused a request."));
    } else if (message.id === undefined) {
      this.hear(message.method, message.params);
    } else {
      this.answer(message.id, message.method);
    }
  }

  private hear(method: string, params: unknown): void {
    if (method === "ui/notifications/tool-result") this.events.returned((params ?? {}) as ToolResult);
    else if (method === "ui/notifications/tool-cancelled") this.events.canceled();
    else if (method === "ui/notifications/host-context-changed") this.events.changed((params ?? {}) as Context);
  }

  private answer(id: number | string, method: string): void {
    if (method === "ui/resource-teardown") this.events.closed();
    const isKnown = method === "ui/resource-teardown" || method === "ping";
    const error = { code: METHOD_NOT_FOUND, message: `there is no method \`${method}\`` };
    this.send({ jsonrpc: "2.0", id, ...(isKnown ? { result: {} } : { error }) });
  }
}
