// The pitfalls of the SDK's container alone: programs run as root, its first process reaps no children, any program may
// clear /tmp or kill any process, and there is no /home/user.

import assert from "node:assert/strict";
import { eventually, refused } from "./cases.mjs";

/** Finds the processes of koze's guest in bash: sets $guests. */
const GUESTS = `guests=(); for one in /proc/[0-9]*; do
  read -r name <$one/comm && [[ $name == koze-guest* ]] && guests+=(\${one#/proc/}); done 2>/dev/null`;

/** Cases that each get their own sandbox, which is not open yet. */
export const pitfalls = {
  async "a command that clears /tmp breaks no call"(s) {
    await s.open();
    const beside = s.sh("echo begun; sleep 2; echo done");
    const bytes = Buffer.alloc(4 << 20, "x");
    const [cleared, written] = await Promise.all([
      s.exec(["bash", "-c", "find /tmp -type f -delete; echo ok"]),
      s.write("/home/user/large", bytes),
    ]);
    assert.deepEqual([String(cleared.stdout), cleared.exitCode, written.size], ["ok\n", 0, bytes.length]);
    assert.equal(await s.sh("rm -rf /tmp; echo gone"), "gone\n");
    assert.equal(await beside, "begun\ndone\n");
    // Permanently, also if the guest has to be started again.
    await s.write("/home/user/log", bytes, { append: true });
    await s.linger();
    await s.abort();
    assert.equal(await s.sh("ls"), "large\nlog\n");
    await refused(s.exec(["bash", "-c", "rm -rf /var/tmp; kill -9 -1"]), "unavailable");
    assert.equal(await s.sh("ls; ls -d /tmp 2>/dev/null"), "large\nlog\n");
  },

  async "programs and tools have one home, also those of root"(s) {
    await s.open();
    await s.write("/home/user/notes.txt", "mine");
    assert.equal(await s.sh("id -u; echo $HOME; cd; pwd; cat ~/notes.txt"), "0\n/home/user\n/home/user\nmine");
    assert.equal(await s.sh("echo $HOME", { env: [["HOME", "/elsewhere"]] }), "/elsewhere\n");
  },

  async "exited processes are reaped"(s) {
    await s.open();
    const pid = (await s.sh("sleep 1000 & echo $!")).trim();
    const command = `kill ${pid}; for ((turn = 0; turn < 200; turn++)); do kill -0 ${pid} || { echo gone; exit; }; sleep 0.05; done`;
    assert.equal(await s.sh(command), "gone\n");
    // Processes that end during the call, after it, and in another session; and no timer of koze's remains.
    await s.sh("(setsid sleep 0.1 &) ; (sleep 0.1 &) ; sleep 0.3");
    await s.exec(["sleep", "1000"], { timeoutMs: 100 });
    await Promise.all(Array.from({ length: 20 }, () => s.sh("(true &)")));
    const left = `for one in /proc/[0-9]*; do read -r _ name state _ <$one/stat && [[ $state == Z || $name == *sleep* ]] && echo $name; done 2>/dev/null; true`;
    await eventually("the end of all of them", async () => (await s.sh(left)) === "");
  },

  async "a sandbox survives a program that kills all processes"(s) {
    await s.open();
    await s.write("/home/user/file", "kept");
    assert.equal(await s.sh("trap '' TERM HUP; kill -TERM -1; kill -HUP -1; kill -INT -1; echo on"), "on\n");
    for (let round = 0; round < 3; round++) {
      const beside = refused(s.exec(["sleep", "1000"], { timeoutMs: 600_000 }), "unavailable");
      await eventually("a program beside", async () => (await s.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).includes("sleep 1000 "));
      await refused(s.exec(["bash", "-c", "kill -9 -1; sleep 1000"]), "unavailable");
      await beside;
      assert.equal(String(await s.read("/home/user/file")), "kept");
    }
    assert.equal(await s.sh("ls -A /tmp /var/tmp | grep -c koze; ls -A"), "0\nfile\n");
    // The first process is the server. When it ends, the container and its files are lost.
    await s.exec(["bash", "-c", "kill -TERM 1; sleep 1000"]).catch((error) => error);
    await eventually("another container", () => s.read("/home/user/file").then(() => false, (error) => error.code === "not_found"));
  },

  async "where the container allows namespaces, programs cannot kill the guest or the server"(s) {
    await s.open();
    s.engine.set(await s.id(), "admin");
    await s.write("/home/user/file", "kept");
    await s.sh("sleep 1000 >/dev/null 2>&1 & echo $!");
    const hostile = "trap '' TERM; kill -TERM -1; for name in KILL STOP TERM; do kill -s $name 1; done; kill -9 -1; echo on";
    assert.equal(await s.sh(hostile), "on\n");
    const left = `for one in /proc/[0-9]*; do read -r _ name state _ <$one/stat && [[ $state == Z || $name == *sleep* ]] && echo $name; done 2>/dev/null; true`;
    await eventually("the end of all of them", async () => (await s.sh(left)) === "");
    assert.equal(String(await s.read("/home/user/file")), "kept");
    // A later object finds it again.
    await s.linger();
    await s.abort();
    assert.equal(await s.sh("cat file"), "kept");
  },

  async "a guest that is stopped is replaced"(s) {
    await s.open();
    await s.write("/home/user/file", "kept");
    const seconds = async (work) => {
      const begun = performance.now();
      await work();
      return (performance.now() - begun) / 1000;
    };
    const stop = s.exec(["bash", "-c", `${GUESTS}; kill -STOP "\${guests[@]}"; sleep 1000`], { timeoutMs: 600_000 });
    const stopped = await seconds(() => refused(stop, "unavailable"));
    assert.ok(stopped < 9, `it took ${stopped} s`);
    let output;
    // The other one is gone. The server does not reap it.
    const states = `${GUESTS}; for one in "\${guests[@]}"; do read -r _ _ state _ <"/proc/$one/stat"; echo $state; done | grep -vc Z`;
    const replaced = await seconds(async () => (output = await s.sh(`${states}; cat file`)));
    assert.ok(replaced < 8, `it took ${replaced} s`);
    assert.equal(output, "1\nkept");
  },

  async "an image whose user cannot create the directories of a thread is named"(s, _, stage) {
    // Only root can start programs as another user.
    if (process.getuid() !== 0) return;
    const thread = "/mnt/user-data/workspace";
    await s.open();
    s.engine.set(await s.id(), "plain");
    assert.equal(await s.sh("id -u; pwd; echo x >file; cat file"), "1000\n/home/user\nx\n");
    const calls = [
      () => s.exec(["true"], { workingDir: thread }),
      () => s.list(thread, "/mnt/user-data"),
      () => s.write(`${thread}/file`, "x", { root: "/mnt/user-data" }),
    ];
    for (const call of calls) {
      const { text } = await refused(call(), "unsupported");
      assert.match(text, /user 1000, .* add `RUN install -d -o 1000 -g 1000 \/mnt\/user-data` to its Dockerfile/);
    }
    const furnished = stage.sandbox("furnished", { variant: s.variant });
    await furnished.open();
    s.engine.set(await furnished.id(), "plain", "furnished");
    await furnished.write(`${thread}/file`, "x", { root: "/mnt/user-data" });
    assert.equal(await furnished.sh("cat file; ls ..", { workingDir: thread }), "xoutputs\nuploads\nworkspace\n");
    await furnished.destroy();
  },

  async "an image without gzip runs the guest, too"(s) {
    await s.open();
    s.engine.set(await s.id(), "gzipless");
    assert.equal(await s.sh("gzip </dev/null 2>/dev/null; echo $?"), "126\n");
    assert.equal(await s.sh("ls -A /tmp /var/tmp | grep -c koze; true"), "0\n");
  },

  async "a later object finds the running guest"(s) {
    await s.open();
    const count = `${GUESTS}; echo \${#guests[*]}:\${guests[*]}`;
    const first = await s.sh(count);
    assert.match(first, /^1:/);
    await s.sh("touch kept");
    await s.linger();
    await s.abort();
    assert.equal(await s.sh(count), first);
    await s.linger();
    // If the object loses its state, it starts another guest at another port.
    await s.forge(undefined);
    await s.abort();
    assert.match(await s.sh(count), /^2:/);
    assert.equal(await s.sh("ls"), "kept\n");
  },

  async "a program on the guest's port blocks no call"(s) {
    await s.open();
    const squat = `const net = require("net");
      const take = () => net.createServer((socket) => socket.on("error", () => {})).on("error", () => setTimeout(take, 5))
        .listen(5693, () => require("fs").writeFileSync("/home/user/taken", ""));
      take();`;
    await s.sh(`/opt/node -e '${squat}' & sleep 0.3`);
    await s.exec(["bash", "-c", `${GUESTS}; kill -9 "\${guests[@]}"; sleep 1000`]).catch((error) => error);
    assert.equal(await s.sh("echo on"), "on\n");
    await s.linger();
    await s.abort();
    assert.equal((await s.stat("/home/user/taken")).kind, "file");
  },

  async "a sandbox does not sleep during a call"(s) {
    await s.open(1000);
    await s.write("/home/user/file", "kept");
    assert.equal(await s.sh("sleep 4; cat file"), "kept");
  },

  async "a sandbox that slept is woken by the next call, and is empty"(s) {
    await s.open(2000);
    await s.write("/home/user/file", "scratch");
    await eventually("sleep", async () => (await s.status()).status === "sleeping");
    const [files, greeting] = await Promise.all([s.list("/home/user"), s.sh("echo $GREETING")]);
    assert.deepEqual([files, greeting], [[], "hello 'you'\n"]);
  },

  async "a sandbox that is destroyed while it starts leaves no container"(s) {
    await s.open();
    const id = await s.id();
    const call = s.sh("touch left; echo done").catch((error) => error);
    await s.destroy();
    await call;
    await eventually("the end of the container", () => !s.engine.container(id)?.running);
    await s.open();
    assert.equal(await s.sh("ls /home/user"), "");
  },

  async "a tree is copied to another sandbox as one stream"(s, _, stage) {
    await s.open();
    const other = stage.sandbox("tree", { variant: s.variant });
    await other.open();
    await s.sh(`mkdir -p tree/{1..20}; for n in {1..2000}; do echo $n >tree/$((n % 20 + 1))/$n; done; chmod 750 tree/7/6; ln -s 7/6 tree/link`);
    // Sandboxes limit the requests per call, so their number must not grow with the files.
    const { bytes } = await s.copy("/home/user/tree", "/home/user/copy", { other });
    assert.equal(bytes, Array.from({ length: 2000 }, (_, n) => `${n + 1}\n`).join("").length);
    assert.equal(await other.sh("find copy -type f | wc -l; cat copy/link; stat -c %a copy/7/6; ls -A"), "2000\n6\n750\ncopy\n");
    await other.destroy();
  },

  async "an image in which the guest cannot run is reported"(s) {
    await s.open();
    s.engine.set(await s.id(), "sealed");
    assert.match((await refused(s.exec(["true"]), "unsupported")).text, /guest does not start in the sandbox's image/);
  },

  async "the port of the guest cannot be exposed"(s) {
    await s.open();
    await refused(s.expose(5693), "invalid_input");
    assert.equal((await fetch(s.url("/"), { headers: { "koze-port": "5693" } })).status, 404);
  },

  async "an empty exception of the platform is logged"(s, _, stage) {
    const { log } = await import(stage.module(s.variant, "koze/calls.mjs"));
    const [before, said] = [console.error, []];
    console.error = (...all) => said.push(all.map(String).join(" "));
    try {
      log(undefined);
      log(new Error("a word"));
    } finally {
      console.error = before;
    }
    assert.deepEqual(said, ["koze: Error: the platform failed without a reason", "koze: Error: a word"]);
  },
};
