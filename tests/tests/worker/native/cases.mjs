// The cases that only apply to the class with koze's guest: whatever happens to the container, the guest and the
// object, calls end in time, requests are performed at most once, and the next call works.

import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import http from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "ws";
import { cases as trees, lives as treeLives } from "./trees.mjs";
import { cases as all, eventually, lives as allLives, refused } from "../sdk/cases.mjs";

/** The cases that only apply to the SDK's container. */
const SDK_ALONE = ["variables arrive as they are, and no others", "the network is what the attribute says", "nothing is left behind"];

const shared = (list) => Object.fromEntries(Object.entries(list).filter(([name]) => !SDK_ALONE.includes(name)));

/** Returns the command of a fake guest. */
const fake = (mode) => ["/opt/node", "/opt/fake.mjs", mode];

/** Counts the lines of a file that outlives the container. */
const lines = (path) => (existsSync(path) ? readFileSync(path, "utf8").split("\n").length - 1 : 0);

/** @type {Record<string, (sandbox: any, dir: string, stage: any) => Promise<void>>} */
export const cases = {
  ...shared(all),
  ...trees,

  async "variables arrive as they are"(s) {
    const env = [["A-B", "it's $(x)"], ["C", "two\nlines"], ["x y", ""], ["-u", "dash"]];
    const { stdout } = await s.exec(["env", "-0"], { env });
    const there = new Map(String(stdout).split("\0").map((pair) => pair.split(/=(.*)/s).slice(0, 2)));
    for (const [name, value] of env) assert.equal(there.get(name), value);
    assert.equal(there.get("GREETING"), "hello 'you'");
    assert.deepEqual([...there.keys()].filter((name) => name.startsWith("KOZE")), []);
    await refused(s.exec(["true"], { env: [["A=B", ""]] }), "invalid_input");
    await refused(s.exec(["true"], { env: [["", ""]] }), "invalid_input");
  },

  async "the port of the guest cannot be exposed"(s) {
    await refused(s.expose(5693), "invalid_input");
    const response = await fetch(s.url("/"), { headers: { "koze-port": "5693" } });
    assert.equal(response.status, 404);
  },

  async "refused hosts are in the output of programs that fail"(s) {
    await s.open();
    const place = { className: s.of.Class, containerId: await s.id() };
    const refuse = (url) => s.gate(url, { internet: false, allowed: ["a.example"], ...place });
    const note = (hosts) => `\nkoze: egress_refused: the network policy of the sandbox refused ${hosts}\n`;
    const read = (id) => s.ask("read_process", { id, cursor: 0, limit: 1 << 20, waitMs: 30_000, call: null });
    const program = (code) => ["sh", "-c", `echo own >&2; while [ ! -e /tmp/go ]; do sleep 0.1; done; exit ${code}`];
    // What was refused before the program started does not count, nor does it if the program succeeds.
    await refuse("http://before.example/");
    for (const [code, wanted] of [[3, `own\n${note("a.example:8443, denied.example:80")}`], [0, "own\n"]]) {
      const running = s.exec(program(code), { timeoutMs: 60_000 });
      const start = { argv: program(code), workingDir: "/", env: [], terminal: null, buffer: 1 << 16, dropOldest: false };
      const { id } = await s.ask("start", start);
      await read(id);
      for (const host of ["http://denied.example", "https://a.example:8443", "http://denied.example"]) {
        assert.equal((await refuse(`${host}/path?query`))[0], 403);
      }
      await s.write("/tmp/go", "");
      const { stderr, exitCode } = await running;
      assert.equal(exitCode, code);
      assert.equal(String(stderr), wanted);
      await s.ask("wait_process", { id, timeoutMs: 30_000, call: null });
      const { bytes, chunks, exit } = await read(id);
      assert.deepEqual([String(bytes), exit], [wanted, code]);
      assert.ok(chunks.every(({ stream }) => stream === "stderr"));
      await s.remove("/tmp/go");
    }
    assert.equal(String((await s.exec(["false"])).stderr), "");
  },

  async "without a network, package managers fail at once"(s, _, stage) {
    const variables = "echo $PIP_RETRIES $npm_config_fetch_retries $UV_HTTP_RETRIES";
    await s.open();
    assert.equal(await s.sh(variables), "0 0 0\n");
    const net = stage.sandbox("net", { variant: s.variant, Class: "NetSandbox" });
    await net.open();
    assert.equal(await net.sh(variables), "\n");
    await net.destroy();
  },

  async "an egress policy is enforced"(s) {
    const server = http.createServer((request, response) => {
      if (request.url === "/moved") response.writeHead(302, { location: "http://denied.example/" });
      response.end(`${request.method} ${request.url}`);
    });
    await new Promise((done) => server.listen(0, "127.0.0.1", done));
    const { port } = server.address();
    const url = `http://localhost:${port}`;
    /** @param {string} host An entry allows ports 80 and 443, unless it names another. */
    const at = (host) => `${host}:${port}`;
    try {
      assert.deepEqual(await s.gate(`${url}/a?b`, { internet: false, allowed: [at("localhost")] }), [200, null, "GET /a?b"]);
      assert.deepEqual(await s.gate(`${url}/a`, { internet: true, denied: ["example.com"] }), [200, null, "GET /a"]);
      const moved = await s.gate(`${url}/moved`, { internet: false, allowed: [at("localhost")] });
      assert.deepEqual(moved.slice(0, 2), [302, "http://denied.example/"]);
      const refusals = [
        ["localhost", { internet: false, allowed: [] }],
        ["localhost", { internet: false, allowed: ["localhost"] }],
        ["localhost", { internet: true, allowed: [at("example.com")] }],
        ["localhost", { internet: false, denied: ["example.com"] }],
        ["localhost", { internet: true, allowed: [at("localhost")], denied: ["localhost"] }],
        ["localhost.", { internet: true, denied: ["localhost"] }],
        ["a.localhost", { internet: true, denied: ["*.localhost"] }],
        ["a.b.localhost", { internet: true, denied: ["*.localhost"] }],
        ["alocalhost", { internet: false, allowed: [at("*.localhost")] }],
        ["localhost", { internet: false, allowed: [at("*.localhost"), at("*.host")] }],
      ];
      for (const [host, props] of refusals) {
        assert.equal((await s.gate(`http://${host}:${port}/`, props))[0], 403, `${host} ${JSON.stringify(props)}`);
      }
    } finally {
      server.close();
    }
  },

  async "programs in a sandbox cannot obtain the guest's token"(s) {
    const script = `
      env; cat /proc/*/environ; tr '\\0' '\\n' </proc/1/cmdline; ls -la /proc/1/fd /.koze; cat /proc/1/mem`;
    const { stdout, stderr } = await s.exec(["bash", "-c", script], { maxOutput: 8 << 20 });
    const token = await s.token();
    assert.match(token, /^[0-9a-f]{64}$/);
    assert.ok(!stdout.includes(token) && !stderr.includes(token) && !stdout.includes("KOZE_GUEST_TOKEN"));
  },
};

/** Cases that each get their own sandbox, which is not open yet. */
export const lives = {
  ...shared(allLives),
  ...treeLives,

  async "port 3000, which only the SDK reserves, can be exposed"(s) {
    const server = `require("http").createServer((q, r) => r.end("three")).listen(3000, "127.0.0.1", () =>
      require("fs").writeFileSync("/home/user/up", ""));`;
    await s.open(null);
    await s.exec(["bash", "-c", `/opt/node -e "$1" & sleep 0`, "x", server]);
    await eventually("a server", () => s.stat("/home/user/up").then(() => true, () => false));
    const get = async (/** @type {Record<string, string>} */ headers) => {
      const response = await fetch(s.url("/"), { headers });
      return [response.status, await response.text()];
    };
    assert.equal((await get({ "koze-port": "3000" }))[0], 404);
    assert.deepEqual(await get(await s.preview(3000)), [200, "three"]);
  },

  async "a sandbox that slept is woken by the next call, and is empty"(s) {
    await s.open(2000);
    const id = await s.id();
    await s.write("/home/user/file", "scratch");
    const headers = await s.preview(8080);
    const token = await s.token();
    const asleep = () => eventually("sleep", async () => (await s.status()).status === "sleeping");
    await asleep();
    // Its status is correct: nothing runs, also for a later object, and querying it starts nothing.
    await eventually("the end of the container", () => !s.engine.container(id)?.running);
    await s.abort();
    assert.deepEqual(await s.status(), { opened: true, status: "sleeping" });
    const preview = () => fetch(s.url("/"), { headers });
    assert.deepEqual(await preview().then(async (response) => [response.status, await response.text()]), [503, "The sandbox is asleep\n"]);
    assert.deepEqual(await s.open(null), { created: false });
    assert.equal(s.engine.starts(id), 1);
    // Concurrent calls start it once, and find the usual directories but no old files.
    const [files, greeting] = await Promise.all([s.list("/home/user"), s.sh("echo $GREETING"), s.stat("/workspace")]);
    assert.deepEqual([files, greeting], [[], "hello 'you'\n"]);
    assert.equal(s.engine.starts(id), 2);
    assert.notEqual(await s.token(), token);
    assert.deepEqual(await s.status(), { opened: true, status: "running" });
    assert.ok(s.engine.container(id).running);
    // The object's state is not on the container's disk: the port, and the idle time.
    assert.equal((await preview()).status, 502);
    await asleep();
    assert.equal(await s.sh("echo again"), "again\n");
    assert.equal(s.engine.starts(id), 3);
  },

  async "a sandbox sleeps on time without its object"(s) {
    await s.open(3000);
    const id = await s.id();
    await s.write("/home/user/file", "scratch");
    await s.abort();
    assert.deepEqual(await s.status(), { opened: true, status: "running" });
    // Nobody uses it any more, and its alarm fires.
    await eventually("the end of the container", () => !s.engine.container(id)?.running);
    await eventually("sleep", async () => (await s.status()).status === "sleeping");
    await refused(s.read("/home/user/file"), "not_found");
    assert.equal(s.engine.starts(id), 2);
  },

  async "a sandbox does not sleep during a call"(s) {
    await s.open(1000);
    await s.write("/home/user/file", "kept");
    assert.equal(await s.sh("sleep 4; cat file"), "kept");
    assert.equal(s.engine.starts(await s.id()), 1);
  },

  async "a container that ends while idle counts as asleep"(s) {
    await s.open();
    const id = await s.id();
    await s.write("/home/user/file", "scratch");
    s.engine.kill(id);
    await eventually("sleep", async () => (await s.status()).status === "sleeping");
    await refused(s.read("/home/user/file"), "not_found");
    assert.equal(s.engine.starts(id), 2);
  },

  async "a container that does not start is unavailable"(s) {
    await s.open();
    const id = await s.id();
    s.engine.run(id, () => ["/bin/bash", "-c", "exit 7"]);
    const began = performance.now();
    const calls = [s.exec(["true"]), s.read("/etc/passwd"), s.list("/")];
    await Promise.all(calls.map((call) => refused(call, "unavailable")));
    assert.match((await s.exec(["true"]).catch((error) => error)).text, /exit code 7/);
    // Each failure is known after a few attempts, also to concurrent callers.
    assert.equal(s.engine.starts(id), 6);
    assert.ok(performance.now() - began < 30_000);
    s.engine.run(id, () => undefined);
    assert.equal(await s.sh("echo mended"), "mended\n");
  },

  async "an image that cannot start is reported early"(s) {
    await s.open();
    const id = await s.id();
    s.engine.refuse(id, "start", 500, 1e6);
    await refused(s.exec(["true"]), "unavailable");
    assert.equal(s.engine.starts(id), 0);
    assert.ok(s.engine.relent(id) < 1e6 - 3);
    assert.equal(await s.sh("echo mended"), "mended\n");
  },

  async "a start waits for a container name in use"(s) {
    await s.open();
    const id = await s.id();
    await s.sh("true");
    s.engine.kill(id);
    await eventually("its end", () => !s.engine.container(id)?.running);
    // workerd itself retries four times per start.
    s.engine.refuse(id, "create", 409, 14);
    const said = await Promise.all([s.sh("echo x >>/opt/shared/count; echo 1"), s.sh("echo x >>/opt/shared/count; echo 2")]);
    assert.deepEqual(said, ["1\n", "2\n"]);
    assert.equal(s.engine.relent(id), 0);
    assert.equal(s.engine.starts(id), 2);
    assert.equal(lines(join(s.engine.shared(id), "count")), 2);
  },

  async "a failed start is retried"(s) {
    await s.open();
    const id = await s.id();
    s.engine.refuse(id, "start", 500, 3);
    assert.equal(await s.sh("echo up"), "up\n");
    assert.equal(s.engine.relent(id), 0);
  },

  async "a container that is killed while it starts is replaced"(s) {
    await s.open();
    const id = await s.id();
    // More often than an image that cannot start would end.
    s.engine.run(id, () => {
      if (s.engine.starts(id) === 5) return undefined;
      setTimeout(() => s.engine.kill(id), 100);
      return ["/bin/sleep", "1000"];
    });
    assert.equal(await s.sh("echo x >>/opt/shared/count; echo up"), "up\n");
    assert.equal(s.engine.starts(id), 5);
    assert.equal(lines(join(s.engine.shared(id), "count")), 1);
  },

  async "a destroyed sandbox is not started again"(s) {
    await s.open();
    const id = await s.id();
    s.engine.refuse(id, "start", 500, 1e6);
    const call = refused(s.exec(["true"]), "unavailable", true);
    await sleep(1000);
    await s.destroy();
    await call;
    const left = s.engine.relent(id);
    s.engine.refuse(id, "start", 500, 1e6);
    await sleep(5000);
    assert.equal(s.engine.relent(id), 1e6);
    assert.ok(left < 1e6);
  },

  async "two calls at once start one container"(s) {
    await s.open();
    const all = await Promise.all([s.sh("echo 1"), s.sh("echo 2"), s.write("/home/user/x", "x"), s.stat("/")]);
    assert.deepEqual(all.slice(0, 2), ["1\n", "2\n"]);
    assert.equal(s.engine.starts(await s.id()), 1);
  },

  async "every sandbox has its directories"(s) {
    await s.open();
    for (const path of ["/home/user", "/workspace"]) assert.equal((await s.stat(path)).kind, "directory");
  },

  async "programs and tools have one home, also those of root"(s) {
    await s.open();
    await s.write("/home/user/notes.txt", "mine");
    assert.equal(await s.sh("id -u; echo $HOME; cd; pwd; cat ~/notes.txt"), "0\n/home/user\n/home/user\nmine");
  },

  async "the container is started as the attribute says"(s, _, stage) {
    await s.open();
    await s.sh("true");
    const { egress, spec } = s.engine.container(await s.id());
    assert.deepEqual(egress.internet, { enabled: false });
    assert.deepEqual(egress.dns.allowHostnames, []);
    assert.ok(spec.Env.includes("GREETING=hello 'you'"), JSON.stringify(spec.Env));
    const net = stage.sandbox("net", { variant: s.variant, Class: "NetSandbox" });
    await net.open();
    const { stdout } = await net.exec(["env"]);
    assert.match(String(stdout), /^SSL_CERT_FILE=\/etc\/cloudflare\/certs\//m);
    const allowed = stage.engine.container(await net.id());
    assert.deepEqual(allowed.egress.internet, { enabled: false });
    assert.deepEqual(new Set(allowed.egress.dns.allowHostnames), new Set(["*"]));
    await net.destroy();
  },

  async "an idle connection is closed and reopened"(s) {
    await s.open();
    await s.write("/home/user/file", "kept");
    await sleep(7000);
    assert.equal(String(await s.read("/home/user/file")), "kept");
    assert.equal(s.engine.starts(await s.id()), 1);
  },

  async "an object that ends during a call repeats nothing and finds its container"(s) {
    await s.open();
    const id = await s.id();
    await s.write("/home/user/file", "kept");
    const path = join(s.engine.shared(id), "count");
    const running = s.exec(["bash", "-c", "echo once >>/opt/shared/count; sleep 1000"], { timeoutMs: 600_000 }).catch((error) => error);
    await eventually("the program", () => lines(path) === 1);
    await s.abort();
    assert.ok((await running) instanceof Error);
    assert.equal(String(await s.read("/home/user/file")), "kept");
    assert.equal(lines(path), 1);
    assert.equal(s.engine.starts(id), 1);
    // A program whose caller is gone is killed.
    await eventually("its end", async () => !(await s.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).includes("sleep 1000 "));
  },

  async "a container that is killed during a call repeats nothing"(s) {
    await s.open();
    const id = await s.id();
    await s.sh("true");
    const path = join(s.engine.shared(id), "count");
    const running = refused(s.exec(["bash", "-c", "echo once >>/opt/shared/count; sleep 1000"], { timeoutMs: 600_000 }), "unavailable");
    await eventually("the program", () => lines(path) === 1);
    s.engine.kill(id);
    await running;
    assert.equal(lines(path), 1);
    assert.equal(await s.sh("echo again"), "again\n");
    assert.equal(s.engine.starts(id), 2);
  },

  async "a guest that is killed ends its container"(s) {
    await s.open();
    const id = await s.id();
    await s.sh("true");
    const running = refused(s.exec(["sleep", "1000"], { timeoutMs: 600_000 }), "unavailable");
    await eventually("the program", async () => (await s.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).includes("sleep 1000 "));
    s.engine.signal(id, "SIGKILL");
    await running;
    assert.equal(await s.sh("echo again"), "again\n");
  },

  async "a guest that does not answer is reported early"(s) {
    await s.open();
    const id = await s.id();
    await s.write("/home/user/file", "kept");
    s.engine.signal(id, "SIGSTOP");
    const failed = async () => {
      const begun = performance.now();
      const error = await refused(s.read("/home/user/file"), "unavailable");
      assert.ok(performance.now() - begun < 9_000, `it took ${performance.now() - begun} ms`);
      return error.text;
    };
    // Over the connection, and over a new one.
    assert.match(await failed(), /may or may not have been done\. Check before you repeat it$/);
    assert.match(await failed(), /did not answer for 3 s, and nothing was done: call again in a few seconds/);
    s.engine.signal(id, "SIGCONT");
    assert.equal(String(await s.read("/home/user/file")), "kept");
    assert.equal(s.engine.starts(id), 1);
  },

  async "a program that prints nothing for long is no silent guest"(s) {
    await s.open();
    assert.equal(await s.sh("sleep 8; echo on"), "on\n");
  },

  async "an unresponsive guest is replaced with its container"(s) {
    await s.open();
    const id = await s.id();
    await s.sh("true");
    const path = join(s.engine.shared(id), "count");
    const running = refused(s.exec(["bash", "-c", "echo once >>/opt/shared/count; sleep 1000"], { timeoutMs: 600_000 }), "unavailable");
    await eventually("the program", () => lines(path) === 1);
    s.engine.signal(id, "SIGSTOP");
    await running;
    // Calls fail early until the container counts as broken.
    const begun = performance.now();
    await eventually("another container", () => s.sh("echo again").then((text) => text === "again\n", (error) => error.code !== "unavailable"));
    assert.ok(performance.now() - begun < 40_000);
    assert.equal(lines(path), 1);
    assert.equal(s.engine.starts(id), 2);
  },

  async "a guest that stops for a moment breaks no call"(s) {
    await s.open();
    const id = await s.id();
    await s.write("/home/user/file", "kept");
    s.engine.signal(id, "SIGSTOP");
    const reading = s.read("/home/user/file");
    await sleep(1500);
    s.engine.signal(id, "SIGCONT");
    assert.equal(String(await reading), "kept");
    assert.equal(s.engine.starts(id), 1);
  },

  async "a guest with another token is replaced"(s) {
    await s.open();
    const id = await s.id();
    await s.write("/home/user/file", "here");
    await s.forge("0".repeat(64));
    await s.abort();
    await refused(s.read("/home/user/file"), "not_found");
    assert.equal(s.engine.starts(id), 2);
  },

  async "an unknown container is replaced"(s) {
    await s.open();
    const id = await s.id();
    await s.sh("true");
    await s.forge(undefined);
    await s.abort();
    assert.equal(await s.sh("echo new"), "new\n");
    assert.equal(s.engine.starts(id), 2);
  },

  async "a guest that violates the protocol is disconnected, and nothing is repeated"(s) {
    await s.open();
    const id = await s.id();
    for (const mode of ["garbage", "astray", "flood", "babble"]) {
      s.engine.run(id, () => fake(mode));
      await refused(s.exec(["true"]), "unavailable");
      await refused(s.read("/etc/passwd"), "unavailable");
      s.engine.run(id, () => undefined);
      s.engine.kill(id);
      await eventually("its end", () => !s.engine.container(id)?.running);
      assert.equal(await s.sh("echo again"), "again\n");
      s.engine.kill(id);
      await eventually("its end", () => !s.engine.container(id)?.running);
    }
  },

  async "an answer of the wrong type is an error"(s) {
    await s.open();
    const id = await s.id();
    s.engine.run(id, () => fake("liar"));
    await refused(s.exec(["true"]), "internal");
    await refused(s.list("/"), "internal");
    await refused(s.stat("/"), "internal");
    await refused(s.write("/x", "x"), "internal");
    s.engine.run(id, () => fake("odd"));
    s.engine.kill(id);
    await eventually("its end", () => !s.engine.container(id)?.running);
    await refused(s.stat("/"), "internal");
  },

  async "a guest that is older than the class is named, and its caller works file by file"(s, _, stage) {
    await s.open();
    s.engine.run(await s.id(), () => fake("older"));
    const other = stage.sandbox("newer-than-the-other", { variant: s.variant });
    await other.open();
    const calls = [() => s.archive("/home/user"), () => s.copy("/home/user", "/home/user/x", { other }), () => s.search("/home/user", "x")];
    for (const call of calls) assert.match((await refused(call(), "unstreamed")).text, /older than the Worker/);
    await refused(s.extract(Buffer.alloc(100_000), "/home/user"), "unstreamed");
    await refused(s.unpack(Buffer.alloc(100_000), "/home/user/x"), "unstreamed");
    await other.destroy();
  },

  async "a request without an answer is sent once"(s) {
    await s.open();
    const id = await s.id();
    s.engine.run(id, () => fake("silent"));
    const asked = s.exec(["true"], { timeoutMs: 600_000 });
    const heard = () => join(s.engine.shared(id), "asked");
    await eventually("the request", () => s.engine.shared(id) && lines(heard()) > 0);
    writeFileSync(join(s.engine.shared(id), "hang-up"), "");
    await refused(asked, "unavailable");
    const of = (word) => readFileSync(heard(), "utf8").split("\n").filter((line) => line.includes(word)).length;
    assert.equal(of('"exec"'), 1);
  },

  async "a guest without a handshake times out"(s) {
    await s.open();
    s.engine.run(await s.id(), () => fake("mute"));
    const start = performance.now();
    await refused(s.exec(["true"]), "unavailable", true);
    assert.ok(performance.now() - start < 58_000);
  },

  async "another server is not taken for a guest"(s) {
    await s.open();
    const id = await s.id();
    s.engine.run(id, () => fake("web"));
    await refused(s.exec(["true"]), "unavailable", true);
    s.engine.run(id, () => undefined);
    s.engine.kill(id);
    await eventually("its end", () => !s.engine.container(id)?.running);
    assert.equal(await s.sh("echo again"), "again\n");
  },

  async "a guest of another koze version is detected and replaced"(s) {
    await s.open();
    const id = await s.id();
    s.engine.run(id, () => fake("newer"));
    const error = await refused(s.exec(["true"]), "unavailable");
    assert.match(error.text, /another version of koze.*version 3 of the protocol, and not 2;.*`koze deploy`/);
    await eventually("its end", () => !s.engine.container(id)?.running);
    s.engine.run(id, () => undefined);
    assert.equal(await s.sh("echo again"), "again\n");
    assert.equal(s.engine.starts(id), 2);
  },

  async "a sandbox that is destroyed while it starts leaves no container"(s) {
    await s.open();
    const id = await s.id();
    const call = s.sh("true").catch((error) => error);
    await s.destroy();
    await call;
    await eventually("the end of the container", () => !s.engine.container(id)?.running);
    await s.open();
    assert.equal(await s.sh("ls /home/user"), "");
  },

  async "a socket of a preview outlives the connection to the guest"(s) {
    await s.open();
    const server = `
      const crypto = require("crypto");
      require("http").createServer().on("upgrade", (q, socket) => {
        const key = crypto.createHash("sha1").update(q.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
        socket.write("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: " + key + "\\r\\n\\r\\n");
        socket.on("data", () => socket.write(Buffer.from([0x81, 2, 0x68, 0x69])));
      }).listen(8080, "127.0.0.1", () => require("fs").writeFileSync("/home/user/up", ""));`;
    await s.exec(["bash", "-c", `/opt/node -e "$1" & sleep 0`, "x", server]);
    await eventually("a server", () => s.stat("/home/user/up").then(() => true, () => false));
    const socket = new WebSocket(s.url("/socket"), { headers: await s.preview(8080) });
    await once(socket, "open");
    await sleep(7000);
    socket.send("hello");
    assert.equal(String((await once(socket, "message"))[0]), "hi");
    socket.terminate();
  },
};
