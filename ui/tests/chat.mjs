// The timeline inside a chat: this script plays the chat client, with the results of `koze mcp`.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";
import { call, checkAccessibility, given, koze } from "./page.mjs";

const IMG = "<img src=x onerror=window.pwned=1>";
const SCRIPT = "</script><script>window.pwned=1</script>";
const BIDI = "invoice\u202Efdp.exe";
const MEDIA_TYPE = "text/html;profile=mcp-app";

/** A client of `koze mcp` that shows pages. */
class Server {
  constructor() {
    this.process = spawn(given.koze, ["mcp"], { cwd: given.directory, stdio: ["pipe", "pipe", "inherit"] });
    this.pending = new Map();
    createInterface({ input: this.process.stdout }).on("line", (line) => {
      const { id, result, error } = JSON.parse(line);
      this.pending.get(id)?.({ result, error });
    });
  }

  /** Returns the result or the error of a request. */
  ask(method, params) {
    const id = this.pending.size + 1;
    const answered = new Promise((resolve) => this.pending.set(id, resolve));
    this.say({ id, method, params });
    return answered;
  }

  say(message) {
    this.process.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  async start() {
    const capabilities = { extensions: { "io.modelcontextprotocol/ui": { mimeTypes: [MEDIA_TYPE] } } };
    await this.ask("initialize", { protocolVersion: "2025-06-18", capabilities, clientInfo: { name: "chat", version: "1" } });
    this.say({ method: "notifications/initialized" });
    const { result: listed } = await this.ask("tools/list", {});
    const tool = listed.tools.find(({ _meta }) => _meta?.ui?.resourceUri !== undefined);
    const { result: read } = await this.ask("resources/read", { uri: tool._meta.ui.resourceUri });
    return { tool: tool.name, html: read.contents[0].text };
  }

  async end() {
    const ended = new Promise((resolve) => this.process.on("exit", resolve));
    this.process.stdin.end();
    await ended;
  }
}

/** The chat client's page: the frame, and its side of the protocol. */
function startHost({ html, result, theme, callsTools }) {
  const frame = document.createElement("iframe");
  // Without `allow-same-origin`, the frame has an origin of its own.
  frame.sandbox = "allow-scripts";
  frame.srcdoc = html;
  frame.title = "timeline";
  frame.style.cssText = "display: block; width: 640px; height: 100px; border: 0";
  window.messages = [];
  window.tell = (message) => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
  window.addEventListener("message", async ({ source, data }) => {
    if (source !== frame.contentWindow) return;
    window.messages.push(data);
    if (data.method === "ui/initialize") {
      const hostContext = { theme, containerDimensions: { maxHeight: 600 } };
      const hostCapabilities = callsTools ? { serverTools: {} } : {};
      window.tell({ id: data.id, result: { protocolVersion: "2026-01-26", hostInfo: { name: "chat", version: "1" }, hostCapabilities, hostContext } });
    } else if (data.method === "ui/notifications/initialized") {
      window.tell({ method: "ui/notifications/tool-input", params: { arguments: {} } });
      window.tell({ method: "ui/notifications/tool-result", params: result });
    } else if (data.method === "ui/notifications/size-changed") {
      frame.style.height = `${data.params.height}px`;
    } else if (data.method === "tools/call") {
      window.tell({ id: data.id, ...(await window.askServer(data.params)) });
    }
  });
  document.body.style.margin = "0";
  document.body.append(frame);
}

/** Shows the page in a new chat, and checks what it has done. */
async function withChat(options, test) {
  const browser = await chromium.launch({ executablePath: given.chromium });
  try {
    const page = await browser.newPage({ viewport: { width: 1100, height: 800 } });
    page.setDefaultTimeout(30_000);
    const problems = [];
    page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
    page.on("dialog", (dialog) => problems.push(`dialog: ${dialog.message()}`));
    page.on("popup", () => problems.push("a popup"));
    page.on("request", (request) => problems.push(`request: ${request.url()}`));
    await page.addInitScript(() => {
      window.violations = [];
      document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
    });
    await page.clock.install();
    await page.exposeFunction("askServer", (params) => server.ask("tools/call", params));
    await page.evaluate(startHost, options);
    const frame = await (await page.locator("iframe").elementHandle()).contentFrame();
    await test(page, frame);
    assert.deepEqual(problems, []);
    assert.equal(await frame.evaluate(() => window.pwned), undefined, "a hostile text ran");
    assert.deepEqual(await frame.evaluate(() => window.violations), [], "violations of the policy");
    // The policy is the page's own: the chat client of this test sets none.
    await frame.evaluate(() => {
      const attempts = [
        () => document.body.insertAdjacentHTML("beforeend", "<img src=data:, onerror='window.pwned = 1'>"),
        () => (document.createElement("script").textContent = "window.pwned = 1"),
        () => document.body.append(Object.assign(document.createElement("img"), { src: "http://evil.invalid/" })),
      ];
      for (const attempt of attempts) {
        try {
          attempt();
        } catch {
          // Trusted Types.
        }
      }
    });
    await frame.waitForFunction(() => window.violations.length === 3);
    assert.equal(await frame.evaluate(() => window.pwned), undefined, "the policy permits other scripts");
  } finally {
    await browser.close();
  }
}

/** Selects the frame in the chat client's page. */
const inside = ({ childFrames }) => childFrames[0];

/** Waits until `koze log` has so many calls. */
async function recorded(calls) {
  for (let attempt = 0; attempt < 300; attempt += 1) {
    const log = await koze("log", "--json");
    if (log.split("\n").length > calls) return log;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`the journal does not have ${calls} calls`);
}

await call("write_file", { path: BIDI, content: "one\ntwo\n" });
await call("write_file", { path: BIDI, content: `${IMG}\n${SCRIPT}\n`, append: true });
await call("shell", { command: `echo '${IMG}${SCRIPT}'; exit 3` });
await call(IMG, { [IMG]: SCRIPT });
await call("shell", { command: "echo fine" });
await recorded(5);

const server = new Server();
/** Waits until the page has received all messages that were sent to it, and those that it sent before have arrived. */
async function exchangeMessages(page, number) {
  await page.evaluate((id) => window.tell({ id, method: "ping" }), number);
  await page.waitForFunction((id) => window.messages.some((message) => message.id === id), number);
}

const { tool, html } = await server.start();
const { result } = await server.ask("tools/call", { name: tool, arguments: {} });

await withChat({ html, result, theme: "light", callsTools: true }, async (page, frame) => {
  const rows = frame.locator(".chat-row");
  await rows.nth(4).waitFor();
  assert.equal(await rows.count(), 5);
  assert.ok((await rows.first().innerText()).includes("echo fine"), "the newest call is first");
  await frame.getByText("5 calls", { exact: true }).waitFor();

  // Only the chat client is heard.
  await page.evaluate((forged) => {
    const other = document.createElement("iframe");
    other.sandbox = "allow-scripts";
    const message = { jsonrpc: "2.0", method: "ui/notifications/tool-result", params: forged };
    other.srcdoc = `<script>parent.frames[0].postMessage(${JSON.stringify(message)}, "*"); parent.postMessage("sent", "*")</script>`;
    const sent = new Promise((resolve) => window.addEventListener("message", ({ data }) => data === "sent" && resolve()));
    document.body.append(other);
    return sent.then(() => other.remove());
  }, { content: [{ type: "text", text: "forged" }], isError: true });
  // The page answers this after it has received the other message.
  await exchangeMessages(page, 998);
  await frame.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))));
  assert.equal(await frame.getByText("forged").count(), 0, "only the chat client is heard");

  // The keyboard moves, opens and closes.
  await rows.first().focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  const unknown = frame.getByRole("region", { name: "Call 4" });
  await unknown.getByText(SCRIPT).waitFor();
  assert.ok((await unknown.innerText()).includes(IMG));
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  const failing = frame.getByRole("region", { name: "Call 3" });
  await failing.getByText("Exit code").waitFor();
  assert.equal(await frame.getByRole("region").count(), 2);
  await page.keyboard.press("Escape");
  await failing.waitFor({ state: "detached" });
  await page.keyboard.press("End");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  const write = frame.getByRole("region", { name: "Call 2" });
  await write.getByText("invoice\\u{202e}fdp.exe").first().waitFor();
  await write.locator("ins", { hasText: IMG }).waitFor();

  // Both themes, and the widths of chats.
  const backgrounds = new Set();
  for (const theme of ["light", "dark"]) {
    await page.evaluate((context) => window.tell({ method: "ui/notifications/host-context-changed", params: context }), { theme });
    await frame.waitForFunction((name) => document.documentElement.style.colorScheme === name, theme);
    backgrounds.add(await frame.evaluate(() => getComputedStyle(document.documentElement).backgroundColor));
    for (const width of [300, 640, 1000]) {
      await page.evaluate((to) => (document.querySelector("iframe").style.width = `${to}px`), width);
      await frame.waitForFunction((to) => innerWidth === to, width);
      assert.equal(await frame.evaluate(() => document.documentElement.scrollWidth), width, `nothing is cut off at ${width}`);
      await checkAccessibility(page, `the timeline, ${theme}, ${width} pixels`, inside);
    }
  }
  assert.equal(backgrounds.size, 2, "the themes differ");
  const { height } = await page.locator("iframe").boundingBox();
  assert.ok(height > 300 && height <= 480, `the page says how high it is: ${height}`);

  // New calls appear by themselves, and what is open stays open.
  await call("shell", { command: "echo later" });
  await rows.filter({ hasText: "echo later" }).waitFor();
  assert.equal(await rows.count(), 6);
  await write.waitFor();
  await frame.getByLabel("Errors only").check();
  await frame.getByText("2 of 6 calls").waitFor();
  assert.equal(await rows.count(), 2);
  await frame.getByLabel("Search calls").fill("shell echo");
  await frame.getByText("1 of 6 calls").waitFor();
  await frame.getByLabel("Search calls").fill("");

  // A page that is scrolled out of the chat does not ask. Back in it, it begins again with the newest calls if it is far behind.
  const asked = () => page.evaluate(() => window.messages.filter(({ method }) => method === "tools/call").length);
  await page.evaluate(() => (document.body.style.paddingTop = "5000px"));
  await frame.evaluate(() => {
    const isOut = (entries) => entries.some(({ isIntersecting }) => !isIntersecting);
    return new Promise((resolve) => new IntersectionObserver((entries) => isOut(entries) && resolve()).observe(document.body));
  });
  await page.clock.fastForward(60_000);
  // What it has asked until then has arrived.
  await exchangeMessages(page, 997);
  const before = await asked();
  assert.ok(before > 0);
  for (let number = 0; number < 60; number += 1) {
    await server.ask("tools/call", { name: "write_file", arguments: { path: "many", content: String(number) } });
  }
  const log = await recorded(66);
  await page.clock.fastForward(60_000);
  await page.clock.fastForward(60_000);
  assert.equal(await asked(), before, "nobody sees it");
  await page.evaluate(() => (document.body.style.paddingTop = "0"));
  await frame.getByLabel("Errors only").uncheck();
  await frame.getByText("50 calls", { exact: true }).waitFor();
  assert.equal(await rows.count(), 50);
  assert.ok(!log.includes(tool), "what the page asks is not in the journal");

  // An error of the server is shown.
  await page.evaluate(() => window.tell({ id: 999, method: "ui/unknown" }));
  await page.evaluate(() => window.tell({ id: 1000, method: "ui/resource-teardown", params: {} }));
  await page.waitForFunction(() => window.messages.some(({ id }) => id === 1000));
  const answers = await page.evaluate(() => window.messages.filter(({ id }) => id >= 999));
  assert.deepEqual(answers.map(({ result, error }) => [result, error?.code]), [[undefined, -32601], [{}, undefined]]);
  const methods = new Set(await page.evaluate(() => window.messages.map(({ method }) => method)));
  methods.delete(undefined);
  assert.deepEqual([...methods].sort(), ["tools/call", "ui/initialize", "ui/notifications/initialized", "ui/notifications/size-changed"]);
});

// A chat client that passes no calls on, and a result that is an error.
await withChat({ html, result, theme: "dark", callsTools: false }, async (page, frame) => {
  await frame.getByText("5 calls, not refreshed by this chat client").waitFor();
  const failed = { isError: true, content: [{ type: "text", text: `unavailable: ${IMG}` }] };
  await page.evaluate((params) => window.tell({ method: "ui/notifications/tool-result", params }), failed);
  await frame.getByRole("alert").getByText(`unavailable: ${IMG}`).waitFor();
  assert.equal(await frame.locator(".chat-row").count(), 5, "the calls stay");
  await checkAccessibility(page, "an error", inside);
});
await server.end();
