// A stand-in for the server in the official image of @cloudflare/sandbox 0.12.10: its control port, as far as the SDK
// and the tests use it, with all its pitfalls. Commands are really run. It is the first process of a container, and
// listens on port 3000 of the container's network, and on a socket through which the engine reaches the container's
// ports.

import { spawn } from "node:child_process";
import { mkdir, readFile, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import http from "node:http";
import { constants } from "node:os";
import { dirname } from "node:path";
import { RpcTarget, newWebSocketRpcSession } from "capnweb";
import { WebSocketServer } from "ws";
import { openDoor } from "./door.mjs";

const LARGEST = 32 << 20;
const FRESH = "__DISABLE_SESSION__";

/** The persistent shells: their directories and variables. */
const sessions = new Map();

function session(id) {
  if (!sessions.has(id)) sessions.set(id, { cwd: "/workspace", env: {} });
  return sessions.get(id);
}

/** Returns an error in the wire format. */
const failed = (code, message, details = {}) => Object.assign(new Error(message), { code, details });

/** Runs bash, and returns its output decoded as UTF-8, after the last process that holds its outputs open has exited. */
function bash(args, options) {
  const child = spawn("/bin/bash", args, { ...options, stdio: ["ignore", "pipe", "pipe"], detached: true });
  const text = (stream) =>
    new Promise((done) => {
      const parts = [];
      stream.on("data", (part) => parts.push(part));
      // Pitfall: the last newline is removed, and invalid UTF-8 is lost.
      stream.on("close", () => done(Buffer.concat(parts).toString("utf8").replace(/\n$/, "")));
    });
  const ended = new Promise((done, fail) => {
    child.on("error", fail);
    child.on("exit", (code, signal) => done(code ?? 128 + constants.signals[signal]));
  });
  return { child, ended, printed: Promise.all([text(child.stdout), text(child.stderr)]) };
}

/** Runs a command in a fresh shell. */
async function fresh(command, { cwd = "/workspace", env = {}, timeoutMs }) {
  const { child, ended, printed } = bash(["-c", command], { cwd, env: { ...process.env, ...env } });
  let late;
  const timer =
    timeoutMs &&
    setTimeout(() => {
      late = true;
      // Pitfall: processes with their own group are not killed.
      process.kill(-child.pid, "SIGTERM");
      setTimeout(() => child.exitCode ?? child.signalCode ?? process.kill(-child.pid, "SIGKILL"), 1000);
    }, timeoutMs);
  const exitCode = await ended;
  clearTimeout(timer);
  const [stdout, stderr] = await printed;
  return late ? { exitCode: 124, stdout, stderr: `${stderr}\nCommand timed out` } : { exitCode, stdout, stderr };
}

/** Runs a command in the shell of a session. */
async function lasting(id, command, { cwd, env = {}, timeoutMs }) {
  const shell = session(id);
  // Pitfall: names of variables are inserted into the shell script unescaped.
  const exports = Object.entries({ ...shell.env, ...env }).map(([name, value]) => `export ${name}='${value.replaceAll("'", "'\\''")}'`);
  const where = `/tmp/.cwd-${Math.random()}`;
  // Pitfall: `cd` persists after the command.
  const script = `${exports.join("\n")}\n${command}\ncode=$?; pwd >${where}; exit $code`;
  const { ended, printed } = bash(["-c", script], { cwd: cwd ?? shell.cwd, env: process.env });
  const work = (async () => {
    const exitCode = await ended;
    const [stdout, stderr] = await printed;
    const left = await readFile(where, "utf8").catch(() => undefined);
    await rm(where, { force: true });
    // Pitfall: a command that exits its shell ends the session.
    if (left === undefined) throw failed("SESSION_TERMINATED", "The shell of the session has ended", { sessionId: id });
    if (!cwd) shell.cwd = left.trimEnd();
    return { exitCode, stdout, stderr };
  })();
  if (!timeoutMs) return work;
  // Pitfall: on timeout the caller gets an error, but the command continues.
  const late = new Promise((_, fail) =>
    setTimeout(() => fail(failed("COMMAND_EXECUTION_ERROR", `Command timeout after ${timeoutMs}ms`, { command })), timeoutMs),
  );
  return Promise.race([work, late]);
}

class Commands extends RpcTarget {
  async execute(command, sessionId, options = {}) {
    const done = await (sessionId === FRESH ? fresh(command, options) : lasting(sessionId, command, options));
    return { success: done.exitCode === 0, command, timestamp: new Date().toISOString(), ...done };
  }
}

const missing = (path) => failed("FILE_NOT_FOUND", `File not found: ${path}`, { path });

class Files extends RpcTarget {
  async readFile(path, _session, { encoding } = {}) {
    const bytes = await readFile(path).catch(() => Promise.reject(missing(path)));
    // Pitfall: large files are rejected, and those that look binary are returned as base64.
    if (bytes.length > LARGEST) throw failed("FILE_TOO_LARGE", "File too large", { path });
    const binary = encoding === "base64" || (encoding === undefined && bytes.includes(0));
    const content = bytes.toString(binary ? "base64" : "utf8");
    return { success: true, content, path, encoding: binary ? "base64" : "utf-8", isBinary: binary, size: bytes.length };
  }

  async writeFile(path, content, _session, { encoding } = {}) {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, content, encoding === "base64" ? "base64" : "utf8").catch((error) => {
      throw failed("FILESYSTEM_ERROR", `Failed to write file '${path}': ${error.message}`, { path });
    });
    return { success: true, path };
  }

  async deleteFile(path) {
    const found = await stat(path).catch(() => Promise.reject(missing(path)));
    if (found.isDirectory()) throw failed("IS_DIRECTORY", `Cannot delete directory ${path}`, { path });
    await rm(path);
    return { success: true, path };
  }

  async renameFile(path, newPath) {
    await rename(path, newPath).catch(() => Promise.reject(missing(path)));
    return { success: true, path, newPath };
  }

  async mkdir(path, _session, { recursive = false } = {}) {
    await mkdir(path, { recursive });
    return { success: true, path, recursive };
  }

  async listFiles(path) {
    const files = (await readdir(path).catch(() => Promise.reject(missing(path)))).map((name) => ({ name }));
    return { success: true, files, count: files.length, path };
  }
}

class Utils extends RpcTarget {
  getVersion() {
    return "0.12.10";
  }

  createSession({ id, env = {}, cwd = "/workspace" }) {
    sessions.set(id, { cwd, env });
    return { success: true, id, message: "" };
  }
}

class Control extends RpcTarget {
  get commands() {
    return new Commands();
  }

  get files() {
    return new Files();
  }

  get utils() {
    return new Utils();
  }
}

const control = http.createServer((request, response) => response.end(`the control port: ${request.method} ${request.url}\n`));
const sockets = new WebSocketServer({ server: control, path: "/rpc", maxPayload: 16 << 20 });
sockets.on("connection", (socket) => newWebSocketRpcSession(socket, new Control()));
control.listen(3000, "0.0.0.0");

openDoor("/opt/door/socket");
process.on("SIGTERM", () => process.exit(0));
