// The workarounds of the class, each taken out: what stands in the generated file, what stands there instead, and the
// case that must fail then.

/** Two methods and helpers as they would be over the SDK alone. */
const NAIVE_EXEC = `async kozeExec({ argv, workingDir, env, timeoutMs }) {
    return this.#calls.opened(async () => {
      const quoted = argv.map((one) => "'" + one.replaceAll("'", "'\\\\''") + "'").join(" ");
      const { stdout, stderr, exitCode } = await this.exec(quoted, { cwd: workingDir, env: Object.fromEntries(env), timeout: timeoutMs });
      return { stdout: encoder.encode(stdout), stderr: encoder.encode(stderr), exitCode, timedOut: false };
    });
  }
  async unused({`;
const NAIVE_READ = `async kozeRead({ path, offset, limit }) {
    return this.#calls.opened(async () => {
      const { content } = await this.readFile(path);
      const bytes = encoder.encode(content);
      return { bytes: bytes.slice(offset, offset + limit), size: bytes.length };
    });
  }
  async unused({`;
const NAIVE_APPEND = `async kozeWrite({ path, bytes, append }) {
    return this.#calls.opened(async () => {
      const old = append ? (await this.readFile(path).catch(() => ({ content: "" }))).content : "";
      const text = old + decoder.decode(bytes);
      await this.writeFile(path, text);
      return { size: text.length };
    });
  }
  async unused({`;

const naive = (name, method, to, fails) => ({ name, file: "sdk.mjs", from: `async ${method}({`, to, fails });
const sdk = (name, from, to, fails) => ({ name, file: "sdk.mjs", from, to, fails });
const calls = (name, from, to, fails) => ({ name, file: "calls.mjs", from, to, fails });
const entry = (name, from, to, fails) => ({ name, file: "worker.mjs", from, to, fails });

export const mutations = [
  // What these do has no end, so they begin.
  sdk("outputs-held", `(exec >/dev/null 2>&1 && keep out)`, `(keep out)`, "what is left in the background lives on"),
  sdk("connection-made", `{ exec {file}<"/.$1"; }`, `{ exec {file}<"$1"; }`, "files are refused for what they are"),
  sdk("never-asleep", `asked == null ? this.#sleepAfter : asked / 1000`, `this.#sleepAfter`, "a sandbox sleeps when it was idle for as long as it was opened for"),
  // Programs.
  naive("newline-lost", "kozeExec", NAIVE_EXEC, "an output is what was printed"),
  naive("bytes-lost", "kozeExec", NAIVE_EXEC, "an output may be any bytes"),
  naive("names-unescaped", "kozeExec", NAIVE_EXEC, "variables arrive as they are, and no others"),
  naive("time-not-kept", "kozeExec", NAIVE_EXEC, "a program ends in its time, with all that came of it"),
  naive("output-unbounded", "kozeExec", NAIVE_EXEC, "an output is bounded"),
  sdk("session-shared", `const FRESH = "__DISABLE_SESSION__"`, `const FRESH = "koze"`, "each program starts anew"),
  sdk("only-the-group-killed", `kill -KILL "\\\${!hit[@]}"`, `kill -KILL -- "-$1"`, "a program ends in its time, with all that came of it"),
  sdk("orphans-with-a-session-forgotten", `"KOZE_RUN=$id" /proc`, `"KOZE_RUN=" /proc`, "a program ends in its time, with all that came of it"),
  sdk("timer-believed", `((code == 0 || `, `((1 || `, "a program has its time, whatever is killed beside it"),
  sdk("timer-missing", `if ((late)); then`, `if false; then`, "a program ends in its time, with all that came of it"),
  sdk("given-up-and-goes-on", `void this.#run("stop", ["/", id])`, `void Promise.resolve()`, "a program that was given up is killed, with all that came of it"),
  sdk("pipe-closed", `  exec cat\n}`, `}`, "what is left in the background lives on"),
  sdk("variables-leaked", `unset KOZE_SCRIPT KOZE_OP`, `unset KOZE_SCRIPT`, "variables arrive as they are, and no others"),
  sdk("sign-of-equality", `[[ $count == 0 || \\\${argv[0]} != *=* ]] || `, `true || `, "programs are found or not"),
  sdk("all-kept", `while ((\\\${#late[@]} > 2`, `while ((0 > 2`, "an output is bounded"),
  sdk("one-variable", `const LONGEST_VARIABLE = 120_000;`, `const LONGEST_VARIABLE = 1e9;`, "arguments may be many, and not too many"),
  calls("any-argument", `if (lengths.some((length) => length > LONGEST_ARGUMENT)`, `if (false`, "arguments may be many, and not too many"),
  sdk("no-home", `[[ -d /home/user ]] || mkdir -p /home/user`, `:`, "a name may be odd"),
  sdk("left-behind", `trap 'rm -f -- `, `trap ': `, "nothing is left behind"),
  // Files.
  naive("binary-as-base64", "kozeRead", NAIVE_READ, "files hold any bytes"),
  naive("32-MiB", "kozeRead", NAIVE_READ, "files may be large"),
  naive("append-over-all", "kozeWrite", NAIVE_APPEND, "bytes are appended together"),
  sdk("append-in-parts", `dd bs=8M iflag=fullblock oflag=append conv=notrunc of="./$name" status=none 2>&1)`, `{ head -c 4096; sleep 1; cat; } 2>&1 >>"./$name")`, "bytes are appended together"),
  sdk("append-by-half", `truncate -s "$before" -- "./$name"`, `:`, "what does not fit leaves a file as it was"),
  sdk("replaced-in-place", `temporary=./.koze-$id`, `temporary=./$name`, "what does not fit leaves a file as it was"),
  sdk("mode-forgotten", `chmod "$mode" -- "$temporary"`, `:`, "a file is replaced in one step and keeps its mode"),
  sdk("link-replaced", `[[ -L ./$name ]] || break`, `break`, "a file is replaced in one step and keeps its mode"),
  sdk("moved-into", `why=$(mv -fT -- "$from"`, `why=$(mv -f -- "$from"`, "things are moved"),
  sdk("moved-by-half", `if [[ $(stat -c %d`, `if false && [[ $(stat -c %d`, "things are moved"),
  sdk("rootless", `[[ $root == / || `, `[[ / == / || `, "nothing leads out of a root"),
  // The object.
  calls("never-unopened", `if (!this.memory) throw`, `if (false) throw`, "a sandbox is opened, and destroyed"),
  sdk("not-forgotten", `await this.#calls.forget();`, ``, "a sandbox is opened, and destroyed"),
  sdk("not-woken", `if (this.ctx.container?.running) return;`, `if (true) return;`, "a sandbox is there again at once"),
  sdk("own-fetch", `const fetch = (request) => Sandbox.prototype.fetch.call(this, request);`, `const fetch = (request) => this.fetch(request);`, "an output is what was printed"),
  sdk("control-port-open", `if (!port) return`, `if (!port) return super.fetch(request);\n    if (!port) return`, "nobody is let in by the class but to ports that were exposed"),
  calls("any-port", `this.memory?.ports.includes(port) && this.#isReachable(port) ? port : 0`, `port`, "nobody is let in by the class but to ports that were exposed"),
  sdk("control-port-exposed", `taken: [CONTROL_PORT]`, `taken: []`, "nobody is let in by the class but to ports that were exposed"),
  calls("headers-passed", `headers.delete(name)`, `void name`, "nobody is let in by the class but to ports that were exposed"),
  sdk("address-told", `if (response.status === 500 && `, `if (false && `, "nobody is let in by the class but to ports that were exposed"),
  calls("loose-port", `/^[1-9][0-9]{3,4}$/.test(header) ? Number(header) : 0`, `Number.parseInt(header)`, "nobody is let in by the class but to ports that were exposed"),
  // What the attribute says.
  entry("variables-missing", `Object.assign(this.envVars, `, `void (`, "the network is what the attribute says"),
];
