"""Checks the adapter against a running Worker or `koze serve`: `KOZE_URL=… KOZE_TOKEN=… python3 check.py`."""

import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from koze_sandbox import GrepMatch, KozeError, KozeSandboxProvider

WORKSPACE, UPLOADS = "/mnt/user-data/workspace", "/mnt/user-data/uploads"


def raises(kind, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except kind as error:
        return str(error)
    raise AssertionError(f"{arguments}: no {kind.__name__}")


def replace_as_deerflow(sandbox, path, old, new):
    """What DeerFlow's tool `str_replace` does with a sandbox."""
    content = sandbox.read_file(path)
    assert old in content
    sandbox.write_file(path, content.replace(old, new, 1))


def check_basics(sandbox, other):
    assert sandbox.list_dir("/mnt/user-data") == [f"/mnt/user-data/{name}/" for name in ("outputs", "uploads", "workspace")]
    sandbox.write_file(f"{WORKSPACE}/app/main.py", "print('hello')\n")
    sandbox.write_file(f"{WORKSPACE}/app/main.py", "print('again')\n", append=True)
    assert sandbox.read_file(f"{WORKSPACE}/app/main.py") == "print('hello')\nprint('again')\n"
    assert sandbox.read_file(f"{WORKSPACE}/app/main.py", 2, 2) == "print('again')"
    assert sandbox.list_dir(WORKSPACE) == [f"{WORKSPACE}/app/", f"{WORKSPACE}/app/main.py"]
    sandbox.str_replace(f"{WORKSPACE}/app/main.py", "again", "$1")
    assert sandbox.execute_command("cat app/main.py") == "print('hello')\nprint('$1')\n"
    assert sandbox.glob(WORKSPACE, "*.py") == ([f"{WORKSPACE}/app/main.py"], False)
    found, truncated = sandbox.grep(WORKSPACE, "PRINT", max_results=1)
    assert (found, truncated) == ([GrepMatch(f"{WORKSPACE}/app/main.py", 1, "print('hello')")], True)
    data = bytes(range(256)) * 200
    sandbox.update_file(f"{UPLOADS}/it's a file.bin", data)
    assert sandbox.download_file(f"{UPLOADS}/it's a file.bin") == data
    sandbox.update_file(f"{UPLOADS}/empty", b"")
    assert sandbox.download_file(f"{UPLOADS}/empty") == b"" and sandbox.read_file(f"{UPLOADS}/empty") == ""
    raises(OSError, sandbox.download_file, f"{UPLOADS}/none")
    raises(FileNotFoundError, sandbox.read_file, f"{UPLOADS}/none")
    raises(FileNotFoundError, sandbox.read_file, f"{UPLOADS}/none", 1, 2)
    raises(UnicodeDecodeError, sandbox.read_file, f"{UPLOADS}/it's a file.bin")
    raises(IsADirectoryError, sandbox.read_file, WORKSPACE)
    raises(IsADirectoryError, sandbox.write_file, WORKSPACE, "x")
    raises(FileNotFoundError, sandbox.list_dir, f"{WORKSPACE}/none")
    for outside in ("/etc/passwd", "/mnt/user-data2/x", f"{WORKSPACE}/../../../etc/passwd", "workspace/x"):
        raises(PermissionError, sandbox.read_file, outside)
        raises(PermissionError, sandbox.write_file, outside, "x")
        raises(PermissionError, sandbox.download_file, outside)
        raises(PermissionError, sandbox.update_file, outside, b"x")
    assert other.list_dir(WORKSPACE) == [], "another user's thread of another name"
    assert sandbox.list_dir(UPLOADS) == [f"{UPLOADS}/empty", f"{UPLOADS}/it's a file.bin"], "nothing is left of the upload"


def check_large_files(sandbox):
    """A file that the tool would cut stays as it is, but for the edit."""
    path = f"{WORKSPACE}/large.txt"
    lines = [f"line {number} äöü\r\n" for number in range(1, 6001)]
    text = "\ufeff" + "".join(lines) + "no final line feed"
    assert len(text) > 80_000
    sandbox.write_file(path, text)
    assert sandbox.read_file(path) == text
    replace_as_deerflow(sandbox, path, "line 4 ", "$4 \\ ")
    assert sandbox.download_file(path) == text.replace("line 4 ", "$4 \\ ", 1).encode()
    wanted = "\n".join(line.rstrip() for line in lines[1:5999])
    assert len(wanted) > 70_000 and sandbox.read_file(path, 2, 5999) == wanted.replace("line 4 ", "$4 \\ ")
    assert sandbox.read_file(path, 6000) == "line 6000 äöü\nno final line feed"
    assert sandbox.read_file(path, end_line=1).endswith("line 1 äöü") and sandbox.read_file(path, 7000) == ""
    tail = "\0ä" * 3_000_000
    sandbox.write_file(path, tail, append=True)
    assert sandbox.read_file(path).endswith(f"no final line feed{tail}")
    sandbox.execute_command(f"rm {path}")


def check_lost_updates(sandbox):
    """An edit is not written over a change that a program made after the file was read."""
    path = f"{WORKSPACE}/shared.txt"
    sandbox.write_file(path, "one two\n")
    content = sandbox.read_file(path)
    changing = threading.Thread(target=sandbox.execute_command, args=(f"echo three >> {path}",))
    changing.start()
    changing.join()
    told = raises(KozeError, sandbox.write_file, path, content.replace("one", "1"))
    assert "read it again" in told and sandbox.read_file(path) == "one two\nthree\n"
    replace_as_deerflow(sandbox, path, "one", "1")
    assert sandbox.read_file(path) == "1 two\nthree\n"
    # A command of this thread may change the file on purpose, and so does a write without a read.
    sandbox.execute_command(f"echo four > {path}")
    sandbox.write_file(path, "five\n")
    sandbox.write_file(path, "six\n")
    assert sandbox.read_file(path) == "six\n"
    sandbox.execute_command(f"rm {path}")


def check_commands(sandbox):
    secret = "it's $HOME\n`a` \\ \"value\""
    show = "printf %s \"$A\"; printf %s \"$B\" >&2; cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
    seen = sandbox.execute_command(show, env={"A": secret, "B": "b"})
    assert seen.startswith(secret) and seen.endswith("\nStd Error:\nb"), seen
    assert "cat /proc" in seen and seen.count("value") == 1, f"a value in a command line: {seen}"
    assert sandbox.execute_command("ls -a /tmp | grep -c koze-", env={"A": "x"}) == "0\n\nExit Code: 1"
    assert sandbox.execute_command("echo \"$A\"; exit 3", env={"A": "x"}) == "x\n\nExit Code: 3"
    assert sandbox.execute_command("echo \"[$A]\"") == "[]\n", "a variable of another call"
    raises(ValueError, sandbox.execute_command, "true", {"A;B": ""})
    raises(ValueError, sandbox.execute_command, "true", {"A": "\0"})
    assert sandbox.execute_command("ls -a /tmp | grep -c koze-") == "0\n\nExit Code: 1", "files of the adapter are left"
    # A program that prints what looks like an error of the tool.
    assert sandbox.execute_command("echo 'Error: mine'; exit 1") == "Error: mine\n\nExit Code: 1"

    began = time.monotonic()
    told = sandbox.execute_command("echo begun; (trap '' TERM; sleep 300) & sleep 300", timeout=1.5)
    assert told.startswith("begun\n") and "timed out after 1.5 seconds" in told, told
    assert time.monotonic() - began < 250
    running = sandbox.execute_command("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 30[0]'")
    assert running == "0\n\nExit Code: 1", f"it was not killed: {running}"
    told = sandbox.execute_command("printf %s \"$A 'x'\"; echo oops >&2; exit 124", env={"A": "it's"}, timeout=100)
    assert told == "it's 'x'\nStd Error:\noops\n\nExit Code: 124", told
    told = sandbox.execute_command("kill -9 $$", timeout=100)
    assert told == "\nExit Code: 137", told
    told = sandbox.execute_command("sleep 300 & echo $!", timeout=100)
    assert told.strip().isdigit(), f"a background process is not waited for: {told}"
    for timeout in (0, -1, float("nan")):
        raises(ValueError, sandbox.execute_command, "true", timeout=timeout)
    assert sandbox.execute_command("ls -a /tmp | grep -c koze-") == "0\n\nExit Code: 1", "files of the adapter are left"


def check_lists(sandbox):
    root = f"{WORKSPACE}/deep"
    sandbox.execute_command(f"mkdir -p {root}/a/b/c && touch {root}/1 {root}/a/2 {root}/a/b/3 {root}/a/b/c/4 && ln -s /etc {root}/a/b/out")
    levels = [["1", "a/"], ["a/2", "a/b/"], ["a/b/3", "a/b/c/"], ["a/b/c/4"]]
    for depth in range(1, 6):
        wanted = sorted(f"{root}/{name}" for level in levels[:depth] for name in level)
        assert sandbox.list_dir(root, max_depth=depth) == wanted, depth
    assert sandbox.list_dir(root, max_depth=0) == []
    # More than the tool shows: neither a cut name nor a remark is an entry.
    sandbox.execute_command(f"cd {root}/a && for i in $(seq 1000); do : > a-name-that-is-long-enough-to-matter-$i; done; : > $'new\\nline'")
    assert sandbox.list_dir(root, max_depth=1) == [f"{root}/1", f"{root}/a/"]
    listed = sandbox.list_dir(root)
    assert len(listed) == 1005 and f"{root}/a/new\nline" in listed and all(entry.startswith(f"{root}/") for entry in listed)
    raises(PermissionError, sandbox.list_dir, "/etc", 5)
    sandbox.execute_command(f"rm -r {root}")


def check_searches(sandbox):
    root = f"{WORKSPACE}/odd"
    sandbox.write_file(f"{root}/a", "needle 1\nneedle two:3: needle 3\n")
    sandbox.write_file(f"{root}/a:12: b.txt", "\nneedle:5: x\n")
    sandbox.write_file(f"{root}/a:2: needle two", "\n\nneedle 3\n")
    sandbox.write_file(f"{root}/d:1: e/f", "needle\n")
    sandbox.write_file(f"{root}/new\nline", "needle\n")
    found, truncated = sandbox.grep(root, "needle")
    wanted = [
        ("a", 1, "needle 1"),
        ("a", 2, "needle two:3: needle 3"),
        ("a:12: b.txt", 2, "needle:5: x"),
        ("a:2: needle two", 3, "needle 3"),
        ("d:1: e/f", 1, "needle"),
        ("new\nline", 1, "needle"),
    ]
    assert not truncated
    assert sorted((m.path, m.line_number, m.line) for m in found) == sorted((f"{root}/{p}", n, t) for p, n, t in wanted), found
    assert set(sandbox.glob(root, "*")[0]) == {f"{root}/{path}" for path, _, _ in wanted}
    assert sandbox.grep(f"{root}/a:12: b.txt", "needle")[0] == [GrepMatch(f"{root}/a:12: b.txt", 2, "needle:5: x")]
    raises(FileNotFoundError, sandbox.grep, f"{root}/none", "x")
    sandbox.execute_command(f"rm -r {root}")


def check_identity(provider, known):
    assert provider.get("local:thread") is None and provider.get("") is None, "an unknown ID is no sandbox"
    one = provider.acquire("thread", user_id="ann")
    assert provider.acquire("thread", user_id="ann") == one and provider.get(one) is provider.get(one)
    others = [
        provider.acquire("thread", user_id="bob"),
        provider.acquire("thread"),
        provider.acquire("default"),
        provider.acquire("None"),
        provider.acquire(),
        provider.acquire(),
        provider.acquire("t" * 300, user_id="ann"),
        provider.acquire("t" * 301, user_id="ann"),
    ]
    assert len({one, *others}) == 9, "different threads share a sandbox"
    long = provider.get(others[-1])
    assert long.execute_command("echo long") == "long\n"
    assert KozeSandboxProvider().get(known) is None, "a provider that was restarted acquires the sandbox of the thread again"
    provider.destroy(others[-1])
    assert provider.get(others[-1]) is None
    provider.destroy(others[-1])
    provider.destroy(one)  # It was never used.
    provider.release(known)
    assert provider.get(known) is not None


class Stranger(BaseHTTPRequestHandler):
    """A server that is not koze, or is cut off."""

    tokens: list[str | None] = []

    def answer(self):
        self.tokens.append(self.headers["Authorization"])
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        if self.path.startswith("/moved/"):
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
        elif self.path.startswith("/short/"):
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"line 1\n")
        else:
            self.send_error(404)

    do_GET = do_PUT = do_POST = do_DELETE = answer

    def log_message(self, *_arguments):
        pass


def check_failures():
    """A 404 of a server that is not koze, or for another route, is neither success nor a missing file."""
    stranger = ThreadingHTTPServer(("127.0.0.1", 0), Stranger)
    threading.Thread(target=stranger.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{stranger.server_port}"
    try:
        for url in (base, f"{os.environ['KOZE_URL'].rstrip('/')}/no-such-prefix", f"{base}/moved"):
            provider = KozeSandboxProvider(url)
            sandbox_id = provider.acquire("thread")
            sandbox = provider.get(sandbox_id)
            raises(KozeError, provider.destroy, sandbox_id)
            assert provider.get(sandbox_id) is sandbox
            raises(KozeError, sandbox.execute_command, "true")
            raises(KozeError, sandbox.read_file, f"{WORKSPACE}/a")
            raises(KozeError, sandbox.write_file, f"{WORKSPACE}/a", "x")
            raises(KozeError, sandbox.write_file, f"{WORKSPACE}/a", "x", append=True)
            raises(OSError, sandbox.download_file, f"{WORKSPACE}/a")
            raises(OSError, sandbox.update_file, f"{WORKSPACE}/a", b"x")
        moved = len(Stranger.tokens)
        raises(KozeError, sandbox.read_file, f"{WORKSPACE}/a")
        assert len(Stranger.tokens) == moved + 1, "the token followed a redirect"
        short = KozeSandboxProvider(f"{base}/short")
        sandbox = short.get(short.acquire("thread"))
        raises(KozeError, sandbox.read_file, f"{WORKSPACE}/a")
        raises(KozeError, sandbox.read_file, f"{WORKSPACE}/a", 1, 5)
        assert sandbox.read_file(f"{WORKSPACE}/a", 1, 1) == "line 1"
        raises(OSError, sandbox.download_file, f"{WORKSPACE}/a")
    finally:
        stranger.shutdown()
        stranger.server_close()
    closed = KozeSandboxProvider(base)
    assert "KOZE_URL" in raises(KozeError, closed.get(closed.acquire("thread")).execute_command, "true")
    # A thread that has no sandbox yet has no files.
    fresh = KozeSandboxProvider()
    sandbox = fresh.get(fresh.acquire())
    raises(FileNotFoundError, sandbox.read_file, f"{WORKSPACE}/a")
    raises(OSError, sandbox.download_file, f"{WORKSPACE}/a")


provider = KozeSandboxProvider()
ids = [provider.acquire(f"check-{os.urandom(6).hex()}", user_id=user) for user in ("ann", "bob")]
sandbox, other = (provider.get(one) for one in ids)
try:
    check_basics(sandbox, other)
    check_large_files(sandbox)
    check_lost_updates(sandbox)
    check_commands(sandbox)
    check_lists(sandbox)
    check_searches(sandbox)
    check_identity(provider, ids[0])
    check_failures()
finally:
    for one in ids:
        provider.destroy(one)
print("ok")
