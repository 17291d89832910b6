// A stand-in for the Docker engine: the API that workerd uses to run containers for Durable Objects, on a UNIX socket.
// A container is a process in its own namespaces (`container.sh`); the sidecar through which workerd reaches its ports,
// and which controls its network access, is part of this process.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import http from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));

/** Containers and sidecars by name. */
export class Engine {
  /** The container's port that programs cannot use: the SDK's. */
  taken = 3000;

  /** The settings of all other containers. @type {string[]} */
  settings = [];

  /** The directory of its data, which is deleted when it is closed. */
  directory = mkdtempSync(join(tmpdir(), "koze-engine-"));
  #containers = new Map();
  #broken = new Set();
  /** The settings of objects' containers: see `container.sh`. @type {Map<string, string[]>} */
  #settings = new Map();
  #refusals = [];
  #server = http.createServer((request, response) => this.#answer(request, response));

  /** @param {string} modules `node_modules` with Node 22, capnweb and ws */
  constructor(modules) {
    this.modules = modules;
  }

  /** The path of its socket. */
  get socket() {
    return join(this.directory, "socket");
  }

  listen() {
    return new Promise((done) => this.#server.listen(this.socket, done));
  }

  /**
   * Returns the container of an object: whether it runs, its specification, and the sidecar's network settings.
   *
   * @param {string} id the object's ID
   */
  container(id) {
    const found = [...this.#containers.values()].find(({ name }) => name.endsWith(id));
    if (!found) return undefined;
    const { running, spec } = found;
    return { running, spec, egress: this.#containers.get(`${found.name}-proxy`)?.egress };
  }

  /**
   * Returns what runs as a container: a program and its arguments.
   *
   * @param {{ name: string, spec: any }} _
   * @param {{ root: string, door: string, own: string[] }} dirs empty directories, for its root and for the socket of
   * its ports;
   *   and the command prefix that makes an unprivileged user root in it
   */
  command({ name }, { root, door, own }) {
    const unshare = ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child", ...own];
    const node = join(this.modules, "node/bin/node");
    const settings = this.#settings.get(name.slice(-64)) ?? this.settings;
    return [...unshare, "bash", join(HERE, "container.sh"), root, door, node, this.modules, HERE, ...settings];
  }

  /** Returns the names of an object's containers. @param {string} id */
  names(id) {
    return [...this.#containers.keys()].filter((name) => name.endsWith(id));
  }

  /** Returns the process ID of an object's container on this machine. @param {string} id */
  pid(id) {
    return [...this.#containers.values()].find(({ name }) => name.endsWith(id))?.process?.pid;
  }

  /** Sets how the next containers of an object differ from others. @param {string} id @param {string[]} settings */
  set(id, ...settings) {
    this.#settings.set(id, settings);
  }

  /** Makes containers of an object end as soon as they start. */
  breakDown(id) {
    this.#broken.add(id);
  }

  /**
   * Rejects the next requests about the container of an object, as an engine that is out of resources does.
   *
   * @param {string} id the object's ID
   * @param {"create" | "start"} action
   * @param {number} status
   * @param {number} times
   */
  refuse(id, action, status, times) {
    this.#refusals.push({ id, action, status, left: times });
  }

  /** Accepts all requests again, and returns how many rejections were left. @param {string} id */
  relent(id) {
    const left = this.#refusals.filter((one) => one.id === id).reduce((sum, { left }) => sum + left, 0);
    this.#refusals = this.#refusals.filter((one) => one.id !== id);
    return left;
  }

  /** Kills the container of an object from outside. */
  kill(id) {
    [...this.#containers.values()].find(({ name }) => name.endsWith(id))?.process?.kill("SIGKILL");
  }

  /** Kills all containers. */
  async close() {
    await Promise.all([...this.#containers.values()].map((container) => this.#end(container)));
    this.#server.closeAllConnections();
    this.#server.close();
    rmSync(this.directory, { recursive: true, force: true });
  }

  async #answer(request, response) {
    const parts = [];
    for await (const part of request) parts.push(part);
    const body = Buffer.concat(parts);
    const url = new URL(request.url, "http://engine");
    const path = url.pathname.replace(/^\/v[0-9.]+/, "");
    const [, kind, name, action] = path.split("/").map(decodeURIComponent);
    const send = (status, value) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(value === undefined ? undefined : JSON.stringify(value));
    };
    if (path === "/version") return send(200, { ApiVersion: "1.47", MinAPIVersion: "1.24", Os: "linux" });
    if (path === "/networks/bridge") return send(200, { IPAM: { Config: [{ Subnet: "127.0.0.0/8", Gateway: "127.0.0.1" }] } });
    if (kind === "volumes") return send(200, { Volumes: [] });
    if (kind === "images") return send(200, { Id: "sha256:0", Config: { ExposedPorts: { "3000/tcp": {}, "5693/tcp": {} } } });
    if (kind !== "containers") return send(404, { message: `no such thing here: ${path}` });
    if (name === "json") return send(200, []);
    const about = name === "create" ? url.searchParams.get("name") : name;
    const refusal = this.#refusals.find(({ id, action: one, left }) => left > 0 && about.endsWith(id) && one === (action ?? name));
    if (refusal) {
      refusal.left--;
      return send(refusal.status, { message: "the name is in use, or the first process cannot be run" });
    }
    if (name === "create") return send(201, await this.#create(url.searchParams.get("name"), JSON.parse(body)));
    const container = this.#containers.get(name);
    if (!container) return send(404, { message: `No such container: ${name}` });
    if (request.method === "DELETE") {
      this.#containers.delete(name);
      await this.#end(container);
      return send(204);
    }
    if (action === "start") {
      await this.#start(container);
      return send(204);
    }
    if (action === "json") return send(200, this.#describe(container));
    if (action === "archive") return send(200);
    if (action === "wait") return send(200, { StatusCode: await container.ended });
    if (action === "kill" || action === "stop") {
      container.process?.kill("SIGKILL");
      return send(204);
    }
    return send(404, { message: `no such action here: ${action}` });
  }

  async #create(name, spec) {
    const container = { name, spec, running: false, code: 0 };
    container.ended = new Promise((done) => (container.end = done));
    this.#containers.set(name, container);
    return { Id: name, Warnings: [] };
  }

  async #start(container) {
    container.running = true;
    if (container.name.endsWith("-proxy")) return this.#startSidecar(container);
    container.directory = mkdtempSync(join(this.directory, "c-"));
    const [root, door] = ["root", "door"].map((name) => mkdtempSync(join(container.directory, name)));
    container.door = join(door, "socket");
    const env = Object.fromEntries((container.spec.Env ?? []).map((pair) => pair.split(/=(.*)/s).slice(0, 2)));
    const broken = [...this.#broken].some((id) => container.name.endsWith(id));
    const own = process.getuid() === 0 ? [] : ["--user", "--map-root-user"];
    const [program, ...args] = broken ? ["false"] : this.command(container, { root, door, own });
    container.process = spawn(program, args, {
      env: { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", HOME: "/root", ...env },
      stdio: ["ignore", "inherit", "inherit"],
    });
    container.process.on("exit", (code, signal) => {
      container.running = false;
      container.code = code ?? (signal === "SIGKILL" ? 137 : 143);
      container.end(container.code);
    });
  }

  /** Starts the sidecar: plain requests configure it, and `CONNECT` leads into the container whose network it shares. */
  async #startSidecar(container) {
    const server = http.createServer(async (request, response) => {
      const parts = [];
      for await (const part of request) parts.push(part);
      if (request.url === "/egress") container.egress = JSON.parse(Buffer.concat(parts));
      response.end(request.url === "/ca" ? "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n" : "");
    });
    server.on("connect", (request, client) => {
      client.setNoDelay();
      const inside = this.#containers.get(container.name.replace(/-proxy$/, ""));
      const refuse = () => client.end("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n");
      client.on("error", () => {});
      if (!inside?.door) return refuse();
      const server = net.connect(inside.door, () => {
        server.write(`CONNECT x HTTP/1.1\r\nx-dst-addr: ${request.headers["x-dst-addr"]}\r\n\r\n`);
        client.pipe(server).pipe(client);
      });
      server.on("error", refuse);
      client.on("close", () => server.destroy());
    });
    await new Promise((done) => server.listen(0, "127.0.0.1", done));
    container.server = server;
    container.port = server.address().port;
  }

  #describe({ name, spec, running, code, port }) {
    const ports = port ? { "39001/tcp": [{ HostIp: "127.0.0.1", HostPort: String(port) }] } : {};
    return {
      Id: name,
      Config: { Labels: spec.Labels ?? {}, Image: spec.Image },
      State: { Status: running ? "running" : "exited", Running: running, ExitCode: code },
      HostConfig: { NetworkMode: spec.HostConfig?.NetworkMode },
      NetworkSettings: { Ports: ports },
    };
  }

  async #end(container) {
    container.server?.closeAllConnections();
    container.server?.close();
    if (container.running && container.process) container.process.kill("SIGKILL");
    else container.end(0);
    await container.ended;
    if (container.directory) rmSync(container.directory, { recursive: true, force: true });
  }
}
