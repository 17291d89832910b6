# Runs code for koze: a request per line on standard input, a frame (RS, JSON, LF) per message on standard output.
import ast, asyncio, atexit, base64, builtins, importlib.abc, importlib.util, inspect, json, os, signal, sys, textwrap
import threading, time, traceback

FRAMES, ERRORS = os.fdopen(os.dup(1), "wb", 0), os.fdopen(os.dup(2), "wb", 0)
STDIN, BUSY = os.fdopen(os.dup(0), "rb"), [False]
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
RICH = {"text/html": "_repr_html_", "text/markdown": "_repr_markdown_", "image/svg+xml": "_repr_svg_",
        "image/png": "_repr_png_", "image/jpeg": "_repr_jpeg_", "application/json": "_repr_json_"}
METHODS = ["_repr_mimebundle_", *RICH.values()]
# Linecache finds the source of a cell for tracebacks.
import linecache, types
SPACE = types.ModuleType("__main__")
sys.modules["__main__"] = SPACE
LOOP = asyncio.new_event_loop()
asyncio.set_event_loop(LOOP)

# A frame longer than a pipe takes at once would mix with those of other threads. A fork must not inherit the lock as held.
LOCKS = [threading.RLock()]
os.register_at_fork(after_in_child=lambda: LOCKS.__setitem__(0, threading.RLock()))

def frame(out=None, **message):
    data = b"\x1e" + json.dumps(message).encode() + b"\n"
    out = out or FRAMES
    with LOCKS[0]:
        while data: data = data[out.write(data):]

class Text:
    encoding, errors, closed = "utf-8", "replace", False
    def __init__(self, name, number): self.name, self.number = "<" + name + ">", number; self.kind = name
    def write(self, text):
        if not isinstance(text, str): raise TypeError("write() argument must be str, not " + type(text).__name__)
        for at in range(0, len(text), 65536): frame(type=self.kind, text=text[at:at + 65536].encode("utf-8", "replace").decode())
        return len(text)
    def writelines(self, lines): self.write("".join(lines))
    def flush(self): pass
    def fileno(self): return self.number
    def isatty(self): return False
    def readable(self): return False
    def writable(self): return True
    @property
    def buffer(self): return os.fdopen(os.dup(self.number), "wb", 0)

# The methods of IPython by which a value has other forms than its text. What they return may have metadata, which is left out.
def called(value, name, *arguments):
    method = None if isinstance(value, type) else getattr(value, name, None)
    data = method(*arguments) if callable(method) else None
    return data[0] if isinstance(data, tuple) else data

def is_rich(value):
    return not isinstance(value, type) and any(callable(getattr(value, name, None)) for name in METHODS)

def forms(value):
    bundle = called(value, "_repr_mimebundle_")
    if bundle is None: bundle = {mime: called(value, name) for mime, name in RICH.items()}
    return {mime: data for mime, data in bundle.items() if data is not None}

def show_forms(bundle):
    # The text follows the other forms.
    for mime in sorted(bundle, key=lambda mime: mime == "text/plain"):
        data = bundle[mime]
        if isinstance(data, bytes): data = base64.b64encode(data).decode()
        frame(type="display", mime=mime, data=data if isinstance(data, str) else json.dumps(data))

def display(*values, raw=False, **_):
    for value in values:
        bundle = dict(value) if raw else forms(value)
        if not raw: bundle.setdefault("text/plain", repr(value))
        show_forms(bundle)

def figures(*_, **__):
    plots = sys.modules.get("matplotlib.pyplot")
    for number in plots.get_fignums() if plots else []:
        import io
        image, figure = io.BytesIO(), plots.figure(number)
        figure.savefig(image, format="png", bbox_inches="tight")
        show_forms({"image/png": image.getvalue(), "text/plain": repr(figure)})
        plots.close(number)

class Rich:
    """A value of `IPython.display`, for code where IPython is not installed."""
    mime = None
    def __init__(self, data=None, *_, filename=None, **__):
        if filename is not None:
            with open(filename, "rb") as file: data = file.read()
        self.data = data
    def _repr_mimebundle_(self, *_):
        data = self.data
        if self.mime == "image/png" and isinstance(data, bytes) and data[:2] == b"\xff\xd8": return {"image/jpeg": data}
        return {self.mime: data.decode() if isinstance(data, bytes) and self.mime != "image/png" else data}

KINDS = {"HTML": "text/html", "Image": "image/png", "JSON": "application/json", "Markdown": "text/markdown", "SVG": "image/svg+xml"}

def fill(module):
    for name, mime in KINDS.items(): setattr(module, name, type(name, (Rich,), {"mime": mime, "__module__": module.__name__}))
    module.clear_output = lambda *_, **__: None

# Modules whose functions show something do it as koze does: `show` of pyplot, and `display` of IPython, which need not be there.
class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    CHANGES = {"matplotlib.pyplot": {"show": figures}, "IPython.display": {"display": display}}
    def find_spec(self, name, path=None, target=None):
        if name not in self.CHANGES and name != "IPython": return None
        sys.meta_path.remove(self)
        try: found = importlib.util.find_spec(name)
        finally: sys.meta_path.insert(0, self)
        if found is None and name.startswith("IPython"):
            return importlib.util.spec_from_loader(name, self, is_package=name == "IPython")
        if found is not None and name in self.CHANGES: self.follow(found.loader, self.CHANGES[name])
        return found
    def follow(self, loader, changes):
        execute = loader.exec_module
        def exec_module(module):
            execute(module)
            vars(module).update(changes)
        loader.exec_module = exec_module
    def create_module(self, spec): return None
    def exec_module(self, module):
        # matplotlib asks for these.
        if module.__name__ == "IPython": module.version_info, module.get_ipython = (8, 24, 0, ""), lambda: None
        else: fill(module)
        vars(module).update(self.CHANGES["IPython.display"])
sys.meta_path.insert(0, Finder())

def call(code):
    value = eval(code, SPACE.__dict__)
    return LOOP.run_until_complete(value) if code.co_flags & inspect.CO_COROUTINE else value

# The rest of the line after a statement.
def follows(source, statement):
    return source.split("\n")[statement.end_lineno - 1].encode()[statement.end_col_offset:]

# As in IPython, code may be indented as a whole.
def parse(source, name):
    try: return source, ast.parse(source, name)
    except IndentationError:
        dedented = textwrap.dedent(source)
        if dedented == source: raise
    return dedented, ast.parse(dedented, name)

def cell(source, name):
    source, tree = parse(source, name)
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    # As in IPython, a semicolon at the end hides the value.
    is_hidden = last and follows(source, last).lstrip().startswith(b";")
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    call(compile(tree, name, "exec", flags))
    value = call(compile(ast.Expression(last.value), name, "eval", flags)) if last else None
    if value is not None and not is_hidden:
        SPACE._ = value
        bundle = forms(value) if is_rich(value) else {}
        text = bundle.pop("text/plain", None)
        show_forms(bundle)
        frame(type="result", text=text if isinstance(text, str) else repr(value))
    figures()

def failure(error, name):
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename != name: trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace))
    return {"name": type(error).__name__, "message": str(error), "traceback": text}

def run(number, source):
    name, error, code = "<cell %d>" % number, None, 0
    try:
        try:
            BUSY[0] = True
            cell(source, name)
        finally:
            BUSY[0] = False
    except SystemExit as end:
        code = 0 if end.code is None else end.code & 255 if isinstance(end.code, int) else 1
        if not isinstance(end.code, (int, type(None))): print(end.code, file=sys.stderr)
    except BaseException as raised:
        code, error = 1, raised
    for task in asyncio.all_tasks(LOOP) if isinstance(error, KeyboardInterrupt) else []: task.cancel()
    return code, error and failure(error, name)

def interrupt(*_):
    if BUSY[0]: raise KeyboardInterrupt()

def end_tasks():
    # As asyncio.run does.
    tasks = asyncio.all_tasks(LOOP)
    for task in tasks: task.cancel()
    if tasks: LOOP.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    for task in tasks:
        if task.cancelled() or not task.exception(): continue
        LOOP.call_exception_handler({"message": "a task failed while it was cancelled", "exception": task.exception(), "task": task})
    LOOP.run_until_complete(LOOP.shutdown_asyncgens())
    # Before Python 3.9, the executor is joined when the interpreter ends.
    if hasattr(LOOP, "shutdown_default_executor"): LOOP.run_until_complete(LOOP.shutdown_default_executor())
    LOOP.close()

# The programs that a context has started end with it. Those of a run stay, as after a program.
KEEPS, PROCESS = [False], os.getpid()
def end_programs():
    parents = {}
    for pid in [] if KEEPS[0] else filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/" + pid + "/stat") as stat: parents[int(pid)] = int(stat.read().rpartition(")")[2].split()[1])
        except OSError: pass
    for pid in parents:
        above = parents[pid]
        while above in parents and above != PROCESS: above = parents[above]
        try:
            if above == PROCESS == os.getpid(): os.kill(pid, signal.SIGKILL)
        except OSError: pass

# As at the end of a program, the names of the code go before the modules that its objects need to end, such as zipfile.
def clear_names():
    names = sorted((name for name in vars(SPACE) if name != "__builtins__"), key=lambda name: not name.startswith("_"))
    for name in names: vars(SPACE)[name] = None

# Registered first, so they are called after the functions of the code.
atexit.register(clear_names)
atexit.register(end_programs)
signal.signal(signal.SIGINT, interrupt)
sys.stdout, sys.stderr, sys.stdin = Text("stdout", 1), Text("stderr", 2), open(os.devnull)
builtins.display, sys.argv, sys.path[:1] = display, [""], [os.getcwd()]
frame(type="ready")
code = 0
for number, line in enumerate(iter(STDIN.readline, b""), 1):
    request = json.loads(line)
    KEEPS[0] = request["last"]
    # An interrupt that was meant for earlier code arrives now, and is ignored.
    time.sleep(request["settle"] / 1000)
    frame(ERRORS, type="begin", id=request["id"])
    frame(type="begin", id=request["id"])
    try:
        code, error = run(number, request["code"])
    except KeyboardInterrupt as late:
        code, error = 1, failure(late, "")
    # A child that the code has forked ends here.
    if os.getpid() != PROCESS:
        if error: sys.stderr.write(error["traceback"])
        break
    BUSY[0] = request["last"]
    frame(ERRORS, type="end", id=request["id"])
    frame(type="end", id=request["id"], exit_code=code, error=error)
    if request["last"]: break
    code = 0
# The interpreter ends as it does after a program: it waits for threads, calls exit handlers, and writes what is buffered.
BUSY[0] = True
end_tasks()
sys.exit(code)
