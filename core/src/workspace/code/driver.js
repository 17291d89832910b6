// Runs code for koze: a request per line on standard input, a frame (RS, JSON, LF) per message on standard output.
// In a block, because names at the top level of the driver could not be declared by code.
{
const fs = require("fs"), util = require("util"), vm = require("vm"), { createRequire } = require("module");
const net = require("net"), path = require("path"), { pathToFileURL } = require("url");

// Programs of the code inherit an empty input, and not the requests. Without /proc, they inherit them.
const openInput = () => {
  let fd;
  try {
    fd = fs.openSync("/proc/self/fd/0", fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  } catch {
    return process.stdin;
  }
  fs.closeSync(0);
  fs.openSync("/dev/null");
  return new net.Socket({ fd, readable: true, writable: false });
};
const input = openInput();

const write = (fd, data) => {
  for (let at = 0; at < data.length; ) {
    try {
      at += fs.writeSync(fd, data, at);
    } catch (error) {
      // The host is slower than the program.
      if (error.code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2);
    }
  }
};
const frame = (message, fd = 1) => write(fd, Buffer.from("\x1e" + JSON.stringify(message) + "\n"));
for (const type of ["stdout", "stderr"]) {
  process[type].write = (chunk, encoding, done) => {
    const text = typeof chunk === "string" ? chunk : Buffer.from(chunk).toString();
    for (let at = 0; at < text.length; at += 65536) frame({ type, text: text.slice(at, at + 65536) });
    const callback = typeof encoding === "function" ? encoding : done;
    if (callback) process.nextTick(callback);
    return true;
  };
}
const show = (value) => (typeof value === "string" ? util.inspect(value) : util.inspect(value, { maxStringLength: 65536 }));
globalThis.display = (value, mime = "text/plain") => {
  const data = Buffer.isBuffer(value) || value instanceof Uint8Array ? Buffer.from(value).toString("base64") : value;
  frame({ type: "display", mime, data: typeof data === "string" ? data : mime === "text/plain" ? show(data) : JSON.stringify(data) });
};
globalThis.require = createRequire(path.join(process.cwd(), "cell.js"));

// The REPL's own transformation keeps declarations of code with a top-level await.
let awaited = (source) => (/\bawait\b/.test(source) ? `(async () => { ${source}\n})()` : null);
try {
  const { processTopLevelAwait } = require("internal/repl/await");
  awaited = (source) => (/\bawait\b/.test(source) ? processTopLevelAwait(source) : null);
} catch {}

// Static imports become dynamic ones, because only modules, whose names end with them, have them.
// As `var`, because a context may import the same again.
const importing = (names, source) => `${names && `var ${names} = `}await import(${source});`;
const withoutStaticImports = (source) => {
  if (!/\bimport\b/.test(source)) return source;
  let program;
  try {
    const { parse } = require("internal/deps/acorn/acorn/dist/acorn");
    program = parse(source, { ecmaVersion: "latest", sourceType: "module", allowReturnOutsideFunction: true });
  } catch {
    // Node.js reports the error.
    return source;
  }
  let rest = source;
  for (const { type, start, end, specifiers, source: from } of program.body.reverse()) {
    if (type !== "ImportDeclaration") continue;
    const all = specifiers.find((specifier) => specifier.type === "ImportNamespaceSpecifier");
    const named = specifiers.filter((specifier) => specifier !== all).map(({ imported, local }) => {
      const name = imported === undefined ? "default" : (imported.name ?? JSON.stringify(imported.value));
      return `${name}: ${local.name}`;
    });
    const imports = [
      all ? importing(all.local.name, from.raw) : "",
      named.length > 0 || !all ? importing(named.length > 0 ? `{ ${named.join(", ")} }` : "", from.raw) : "",
    ];
    // On as many lines as before, for the numbers of lines in errors.
    const lines = source.slice(start, end).replace(/[^\n]/g, "");
    rest = rest.slice(0, start) + imports.join("") + lines + rest.slice(end);
  }
  return rest;
};
// Node.js before version 21.7 needs a function.
const importModuleDynamically = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER ??
  ((name) => import(/^\.{0,2}\//.test(name) ? pathToFileURL(path.resolve(name)).href : name));

let interrupt = null;
process.on("SIGINT", () => interrupt?.());
// The request whose interpreter ends with it, if there is one, and whether its code still runs.
let last = null, running = false;
const failure = (raised, filename) => {
  const isError = util.types.isNativeError(raised);
  const lines = isError ? String(raised.stack).split("\n") : [show(raised)];
  // What the driver itself adds to a stack helps nobody.
  const end = lines.findLastIndex((line) => line.includes(filename)) + 1;
  return {
    name: isError ? raised.name : "Error",
    message: isError ? raised.message : show(raised),
    traceback: (end > 0 ? lines.slice(0, end) : lines.slice(0, 1)).join("\n"),
  };
};
const finish = (id, error, exit_code) => {
  running = false;
  frame({ type: "end", id }, 2);
  frame({ type: "end", id, exit_code, error });
};
const fail = (error, code) => {
  finish(last, error, code);
  process.exit(code);
};
// Ends a run, as it ends a program. A context goes on. Code may have listeners of its own, and `domain` of Node.js has one.
const ours = new Set(), isOfCode = (listener) => !ours.has(listener) && !listener.name.startsWith("domain");
for (const event of ["uncaughtException", "unhandledRejection"]) {
  const listener = (error) => {
    const others = process.listeners(event).filter(isOfCode);
    if (others.length > 0) return;
    // As in Node.js, a listener of the code for exceptions also gets the rejections that nothing handles.
    const takesRejections = event === "unhandledRejection" && process.listeners("uncaughtException").some(isOfCode);
    if (takesRejections) process.emit("uncaughtException", error, event);
    else if (last) fail(failure(error, "<cell "), 1);
    else frame({ type: "stderr", text: `${error?.stack ?? show(error)}\n` });
  };
  ours.add(listener);
  process.on(event, listener);
}
process.on("beforeExit", () => {
  const message = "the code awaits a promise that nothing can settle any more";
  if (last && running) fail({ name: "Error", message, traceback: "" }, 13);
});
const interrupted = () => Object.assign(new Error("the code was interrupted"), { name: "Interrupted" });

const evaluate = async (code, filename) => {
  const source = withoutStaticImports(code);
  const compile = (text) => new vm.Script(text, { filename, importModuleDynamically });
  const transformed = awaited(source);
  let script;
  try {
    // An object literal is an expression, not a block.
    script = /^\s*\{/.test(source) && !/;\s*$/.test(source) ? compile(`(${source.trim()}\n)`) : compile(transformed ?? source);
  } catch {
    script = compile(transformed ?? source);
  }
  const stopped = new Promise((_, reject) => (interrupt = () => reject(interrupted())));
  stopped.catch(() => {});
  const value = script.runInThisContext({ breakOnSigint: true });
  if (transformed === null) return value;
  const done = await Promise.race([value, stopped]);
  return done && typeof done === "object" && Object.keys(done).join() === "value" ? done.value : done;
};

// An interrupt that arrives just when a script ends makes Node.js interrupt the next one, however much later that runs.
const settle = (time) => {
  const wait = new vm.Script(`Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ${time})`);
  for (let attempts = 0; attempts < 10; attempts++) {
    try {
      return wait.runInThisContext({ breakOnSigint: true });
    } catch {}
  }
};

const run = async (request, number) => {
  const filename = `<cell ${number}>`;
  let error = null;
  if (request.settle > 0) settle(request.settle);
  if (request.last) {
    last = request.id;
    input.pause().unref();
  }
  for (const fd of [2, 1]) frame({ type: "begin", id: request.id }, fd);
  running = true;
  try {
    const value = await evaluate(request.code, filename);
    if (value !== undefined) frame({ type: "result", text: show(value) });
  } catch (thrown) {
    error = failure(thrown?.code === "ERR_SCRIPT_EXECUTION_INTERRUPTED" ? interrupted() : thrown, filename);
  }
  interrupt = last ? () => process.exit(130) : null;
  if (last && error) fail(error, 1);
  finish(request.id, error, error ? 1 : 0);
};

// The programs that a context has started end with it. Those of a run stay, as after a program.
const endPrograms = () => {
  const parents = new Map();
  for (const pid of fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = fs.readFileSync(`/proc/${pid}/stat`, "latin1");
      parents.set(pid, stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
    } catch {}
  }
  for (const pid of parents.keys()) {
    let above = parents.get(pid);
    while (above !== `${process.pid}` && parents.has(above)) above = parents.get(above);
    try {
      if (above === `${process.pid}`) process.kill(Number(pid), "SIGKILL");
    } catch {}
  }
};

let number = 0, queue = Promise.resolve(), rest = "";
frame({ type: "ready" });
input.setEncoding("utf8").on("data", (text) => {
  const lines = (rest + text).split("\n");
  rest = lines.pop();
  for (const line of lines) queue = queue.then(() => run(JSON.parse(line), ++number));
});
// After the code's own listeners. Without input, the interpreter ends as it does after a program.
input.on("end", () => {
  queue.then(() => {
    interrupt = () => process.exit(130);
    process.on("exit", endPrograms);
  });
});
}
