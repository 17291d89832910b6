"""Sandboxes of koze for DeerFlow: one thread is one session of a koze Worker, or of `koze serve`, with the tools `thread`.

Needs nothing beyond the standard library. In DeerFlow's `config.yaml`, with this file on `PYTHONPATH`:

    sandbox:
      use: koze_sandbox:KozeSandboxProvider

and in the environment of DeerFlow, `KOZE_URL` (such as http://localhost:8787) and `KOZE_TOKEN`.

Files are read and written as the bodies of requests. The tools are for models: they cut what they return.
"""

import contextlib
import errno
import hashlib
import http.client
import json
import math
import os
import re
import secrets
import shlex
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

try:
    from deerflow.sandbox.exceptions import SandboxError
    from deerflow.sandbox.sandbox import Sandbox
    from deerflow.sandbox.sandbox_provider import SandboxProvider
    from deerflow.sandbox.search import GrepMatch, should_ignore_name
except ImportError:  # Outside of DeerFlow, the classes work on their own.
    Sandbox = SandboxProvider = object
    SandboxError = RuntimeError

    @dataclass(frozen=True)
    class GrepMatch:
        path: str
        line_number: int
        line: str

    def should_ignore_name(name: str) -> bool:
        return False


DESCRIPTION = "A call of DeerFlow"
ROOT = "/mnt/user-data"
# A command is killed after 10 minutes, and a container may have to start first.
LONGEST_COMMAND = 600
TIMEOUT = 900
# A sandbox must not be able to fill the memory of DeerFlow.
MAX_FILE = 100 << 20
# The input of a tool has at most 32 MiB, and JSON takes up to six bytes for one.
MAX_APPEND = 4 << 20
# A session ID has at most 256 bytes.
MAX_ID = 256
ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# How the result of a command ends that failed itself; any other error is one of the tool.
COMMAND_FAILED = re.compile(r"\nExit Code: -?\d+\Z|Command timed out after \d+ seconds and was terminated\.[^\n]*\Z")
CUT = re.compile(r"\n\.\.\. \[truncated: showing first \d+ of \d+ chars\. [^\n]*\] \.\.\.\Z")

# Runs the command $2 for at most $1 seconds. Only a command that ends writes its code to the directory $3.
WITH_TIMEOUT = """\
command -v timeout >/dev/null || { echo "timeout: the image of the sandbox needs this program" >&2; exit 127; }
mkdir -m 700 "$3" || exit
exec 3>&2 2>/dev/null
timeout -s KILL "$1" sh -c '(exec "$@" 2>&3 3>&-); echo "$?" > "$0"' "$3/code" "${BASH:-/bin/sh}" -c -- "$2" bash
exec 2>&3 3>&-
code=$(cat "$3/code" 2>/dev/null)
rm -rf "$3"
if [ -z "$code" ]; then
    echo "Command timed out after $1 seconds and was terminated." >&2
    code=124
fi
exit "$code"
"""

# Lists the directory $1 down to the depth $2 into the file $3/list. Links out of the root $4 are left out, as by `ls`.
LIST = """\
mkdir -m 700 "$3" || exit
find "$1/" -mindepth 1 -maxdepth "$2" -type d -exec printf '%s/\\0' {} + -o -type l -exec sh -c '
    root=$0
    for link do
        target=$(readlink -f -- "$link") || continue
        case $target/ in "$root"/*) ;; *) continue ;; esac
        if [ -d "$target" ]; then printf "%s/\\0" "$link"; else printf "%s\\0" "$link"; fi
    done' "$4" {} + -o -exec printf '%s\\0' {} + > "$3/list" 2>/dev/null
printf / >> "$3/list"
"""


class KozeError(SandboxError):
    """A call that failed for another reason than the path or the command."""


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: they would take the token to another server."""

    def redirect_request(self, *_arguments):
        return None


OPENER = urllib.request.build_opener(NoRedirects)


class Thread:
    """The tools and files of one thread, over HTTP."""

    def __init__(self, url: str, token: str, thread: str):
        self.thread = thread
        self._url = f"{url.rstrip('/')}/sessions/{urllib.parse.quote(thread, safe='')}"
        self._token = token

    def call(self, tool: str, **arguments) -> str:
        """Calls a tool. Returns its text, and raises an error if the call failed."""
        text, is_error = self.result(tool, **arguments)
        if is_error:
            raise error_of(text)
        return text

    def result(self, tool: str, **arguments) -> tuple[str, bool]:
        """Calls a tool. Returns its text, and whether it failed."""
        body = json.dumps({"description": DESCRIPTION, **arguments}).encode()
        with self._request("POST", f"/tools/{tool}?tools=thread", body, {"Content-Type": "application/json"}) as response:
            answer = json.loads(self._read(response))
        return answer["content"], answer["isError"]

    def run(self, script: str, *arguments: str) -> tuple[str, bool]:
        """Runs a script of this file with arguments."""
        return self.result("bash", command=f"set -- {shlex.join(arguments)}\n{script}")

    def read(self, path: str) -> tuple[bytes, str | None]:
        """Returns the bytes of a file, and its entity tag."""
        with self._request("GET", file_route(path)) as response:
            if int(response.headers.get("Content-Length", 0)) > MAX_FILE:
                raise OSError(errno.EFBIG, f"the file has more than {MAX_FILE} bytes", path)
            return self._read(response), response.headers.get("ETag")

    def read_lines(self, path: str, first: int, last: float) -> list[bytes]:
        """Returns a range of the lines of a file, without what follows it."""
        lines, size, number = [], 0, 0
        with self._request("GET", file_route(path)) as response:
            while number < last and (line := self._read(response, to_line_end=True)):
                number += 1
                if number >= first:
                    lines.append(line)
                    size += len(line)
                if size > MAX_FILE or len(line) > MAX_FILE:
                    raise OSError(errno.EFBIG, f"the lines have more than {MAX_FILE} bytes", path)
            if number < last and response.length:
                raise KozeError(f"{path} was changed while it was read: read it again")
        return lines

    def write(self, path: str, content: bytes, tag: str | None = None) -> None:
        """Replaces a file, or creates it. With a tag, the file must still be the one that has it."""
        headers = {"Content-Type": "application/octet-stream"} | ({"If-Match": tag} if tag else {})
        with self._request("PUT", file_route(path), content, headers) as response:
            if response.status not in (201, 204):
                raise KozeError(f"{path} was not written: the server answered {response.status}")

    def destroy(self) -> None:
        """Deletes the sandbox of the thread with its files, if there is one."""
        try:
            self._request("DELETE", "/sandboxes/default").close()
        except NoSandbox:
            pass

    def _read(self, response: http.client.HTTPResponse, to_line_end: bool = False) -> bytes:
        try:
            return response.readline(MAX_FILE + 1) if to_line_end else response.read()
        except http.client.IncompleteRead:
            raise KozeError("the response of koze is not complete: try again") from None

    def _request(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None):
        headers = {"Authorization": f"Bearer {self._token}", **(headers or {})}
        request = urllib.request.Request(self._url + path, data=body, headers=headers, method=method)
        try:
            return OPENER.open(request, timeout=TIMEOUT)
        except urllib.error.HTTPError as error:
            with error:
                raise refusal_of(f"{method} {path}", error.code, error.read()) from None
        except (OSError, http.client.HTTPException) as error:
            raise KozeError(f"koze cannot be reached ({error}): check KOZE_URL, and that the Worker runs") from error


class NoSandbox(FileNotFoundError):
    """The thread has no sandbox yet, and so no files."""


def file_route(path: str) -> str:
    return "/sandboxes/default/files" + "".join("/" + urllib.parse.quote(part, safe="") for part in parts_of(path))


def parts_of(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def checked(path: str) -> str:
    """Returns a path of the thread's directories without needless slashes and dots."""
    normal = "/" + "/".join(parts_of(path))
    if not path.startswith("/") or not f"{normal}/".startswith(f"{ROOT}/") or ".." in parts_of(path):
        raise PermissionError(errno.EACCES, f"only paths under {ROOT} without `..` are allowed", path)
    return normal


def refusal_of(what: str, status: int, body: bytes) -> Exception:
    """Returns the exception for a response that is an error. A 404 of another server, or for another route, is not about a file."""
    try:
        error = json.loads(body)["error"]
        code, message = error["code"], error["message"]
    except (ValueError, KeyError, TypeError):
        text = body[:200].decode(errors="replace")
        return KozeError(f"{what}: {status}, and not from koze: check KOZE_URL: {text}")
    if code == "not_found" and message.startswith("there is no sandbox "):
        return NoSandbox(message)
    if code == "not_found" and message.endswith(" does not exist"):
        return FileNotFoundError(message)
    if code == "precondition_failed":
        return KozeError("the file was changed since it was read: read it again, then repeat the edit")
    kinds = {"permission_denied": PermissionError, "is_directory": IsADirectoryError, "not_a_directory": NotADirectoryError}
    kind = kinds.get(code)
    return kind(message) if kind else KozeError(f"{what}: {status}: {message}")


def error_of(text: str) -> Exception:
    """Returns the exception for the text of an error: DeerFlow's tools tell these apart."""
    message = text.removeprefix("Error: ")
    for start, kind in [
        ("File not found", FileNotFoundError),
        ("Directory not found", FileNotFoundError),
        ("Permission denied", PermissionError),
        ("Path is a directory", IsADirectoryError),
        ("Path is not a directory", NotADirectoryError),
        ("Invalid regex pattern", re.error),
    ]:
        if message.startswith(start):
            return kind(message)
    return KozeError(message)


class KozeSandbox(Sandbox):
    """The sandbox of a thread, with the methods that DeerFlow's tools call."""

    def __init__(self, thread: Thread):
        self._id = thread.thread
        self._thread = thread
        # What this thread of DeerFlow read last: an edit that is computed from it must not undo one of somebody else.
        self._last = threading.local()

    @property
    def id(self) -> str:
        return self._id

    def execute_command(self, command: str, env: dict[str, str] | None = None, timeout: float | None = None) -> str:
        """Runs a command. Its variables reach it in a file that only the sandbox's user can read, and not in a command line."""
        self._last.read = None
        if timeout is not None and not timeout > 0:
            raise ValueError(f"{timeout!r} is not a valid timeout: use a positive number of seconds")
        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in checked_environment(env or {}).items()]
        if timeout is not None and timeout < LONGEST_COMMAND:
            seconds = f"{math.ceil(timeout * 1000) / 1000:.3f}".rstrip("0").rstrip(".")
            command = f"set -- {shlex.join([seconds, command, scratch()])}\n{WITH_TIMEOUT}"
        directory = self._place_environment("".join(lines)) if lines else None
        if directory:
            command = f". {directory}/env || exit\nrm -rf {directory}\n{command}"
        try:
            text, is_error = self._thread.result("bash", command=command)
        except Exception:
            with contextlib.suppress(Exception):
                if directory:
                    self._thread.run('rm -rf "$1"', directory)
            raise
        # A command with a nonzero exit code has its output, and no exception.
        if is_error and text.startswith("Error: ") and not COMMAND_FAILED.search(text):
            raise error_of(text)
        return text

    def _place_environment(self, text: str) -> str:
        directory = scratch()
        told, is_error = self._thread.run('mkdir -m 700 "$1"', directory)
        if is_error:
            raise KozeError(f"the environment of the command cannot be placed: {told}")
        self._thread.write(f"{directory}/env", text.encode())
        return directory

    def read_file(self, path: str, start_line: int | None = None, end_line: int | None = None) -> str:
        """Returns a whole file as it is, or the lines of a range, joined by line feeds."""
        path = checked(path)
        self._last.read = None
        if start_line is None and end_line is None:
            content, tag = self._thread.read(path)
            self._last.read = (path, tag)
            return content.decode()
        lines = self._thread.read_lines(path, start_line or 1, math.inf if end_line is None else end_line)
        return "\n".join(line.rstrip(b"\r\n").decode() for line in lines)

    def write_file(self, path: str, content: str, append: bool = False) -> None:
        """Replaces a file, or appends to it.

        DeerFlow's `str_replace` reads a file and writes the result of the edit. If the file changes in between, nothing is
        written and an error says so.
        """
        path = checked(path)
        known, self._last.read = getattr(self._last, "read", None), None
        if append:
            for start in range(0, max(len(content), 1), MAX_APPEND):
                self._thread.call("write_file", path=path, content=content[start : start + MAX_APPEND], append=True)
            return
        tag = known[1] if known and known[0] == path else None
        self._thread.write(path, content.encode(), tag)

    def str_replace(self, path: str, old_str: str, new_str: str, replace_all: bool = False) -> None:
        """Replaces a text in one step. DeerFlow's own tool reads and writes the file instead."""
        self._last.read = None
        self._thread.call("str_replace", path=path, old_str=old_str, new_str=new_str, replace_all=replace_all)

    def list_dir(self, path: str, max_depth: int = 2) -> list[str]:
        """Lists a directory. Directories end in `/`."""
        path = checked(path)
        text = self._thread.call("ls", path=path)
        if text == "(empty)" or max_depth < 1:
            return []
        if max_depth > 2 or CUT.search(text):
            found = self._find(path, max_depth)
        else:
            found = grouped(text.split("\n"), lambda line, _count: line.startswith(f"{path}/"))
        relative = [(entry, entry[len(path) :].strip("/").split("/")) for entry in found]
        return sorted(entry for entry, parts in relative if len(parts) <= max_depth and not any(map(should_ignore_name, parts)))

    def _find(self, path: str, max_depth: int) -> list[str]:
        """Lists a directory at any depth and size: the list is a file, and names in it end in NUL."""
        directory = scratch()
        told, is_error = self._thread.run(LIST, path, str(max_depth), directory, ROOT)
        try:
            if is_error:
                raise KozeError(f"{path} cannot be listed: {told}")
            content, _ = self._thread.read(f"{directory}/list")
        finally:
            self._thread.run('rm -rf "$1"', directory)
        *names, end = content.split(b"\0")
        if end != b"/":
            raise KozeError(f"{path} cannot be listed: the disk of the sandbox is full")
        return [name.decode(errors="replace") for name in names]

    def glob(self, path: str, pattern: str, *, include_dirs: bool = False, max_results: int = 200):
        text = self._thread.call("glob", path=path, pattern=pattern, include_dirs=include_dirs, max_results=max_results)
        lines, truncated = results(text)
        # A name may contain a line feed; the numbers tell where the next one begins.
        lines = grouped(lines, lambda line, count: line.startswith(f"{count + 1}. /"))
        return [line.split(". ", 1)[1] for line in lines], truncated

    def grep(self, path: str, pattern: str, *, glob=None, literal=False, case_sensitive=False, max_results: int = 100):
        more = {} if glob is None else {"glob": glob}
        options = {"pattern": pattern, "literal": literal, "case_sensitive": case_sensitive, "max_results": max_results}
        root = "/" + "/".join(parts_of(path))

        def search(at: str, **filters) -> tuple[list[str], bool]:
            lines, truncated = results(self._thread.call("grep", path=at, **options, **filters))
            return grouped(lines, lambda line, _count: line.startswith(root)), truncated

        lines, truncated = search(path, **more)
        splits = {line: list(splits_of(line, root)) for line in lines}
        # A file can be named like the result of a search. What a file has itself tells which one a line comes from.
        own: dict[str, Counter] = {}

        def is_of(match: GrepMatch, line: str) -> bool:
            if match.path not in own:
                try:
                    own[match.path] = Counter(search(match.path)[0])
                except (OSError, KozeError):
                    own[match.path] = Counter()
            if own[match.path][line] == 0:
                return False
            own[match.path][line] -= 1
            return True

        found = []
        for line in lines:
            matches = splits[line]
            if len(matches) > 1:
                matches = [next((match for match in matches if is_of(match, line)), matches[0])]
            found += matches
        return found, truncated

    def download_file(self, path: str) -> bytes:
        path = checked(path)
        self._last.read = None
        try:
            return self._thread.read(path)[0]
        except KozeError as error:
            raise OSError(errno.EIO, str(error), path) from error

    def update_file(self, path: str, content: bytes) -> None:
        path = checked(path)
        self._last.read = None
        try:
            self._thread.write(path, content)
        except KozeError as error:
            raise OSError(errno.EIO, str(error), path) from error


def scratch() -> str:
    """Returns the path of a new directory for files of this adapter. It is outside of the thread's directories."""
    return f"/tmp/.koze-{secrets.token_hex(8)}"


def checked_environment(env: dict[str, str]) -> dict[str, str]:
    for name, value in env.items():
        if not ENVIRONMENT_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid variable name")
        if "\0" in value:
            raise ValueError(f"the value of {name} contains NUL")
    return env


def results(text: str) -> tuple[list[str], bool]:
    """Splits the text of a search into its results, and whether there are more."""
    first, *lines = text.split("\n")
    if not first.startswith("Found "):
        return [], False
    truncated = first.endswith(")") and " (showing first " in first
    return lines[:-1] if truncated else lines, truncated


def grouped(lines: list[str], begins: Callable[[str, int], bool]) -> list[str]:
    """Joins each line that begins no result to the one before it."""
    found: list[str] = []
    for line in lines:
        if found and not begins(line, len(found)):
            found[-1] += f"\n{line}"
        else:
            found.append(line)
    return found


def splits_of(line: str, root: str):
    """Returns the ways to read a line as `PATH:LINE: TEXT`, the shortest path first."""
    for match in re.finditer(r":([1-9]\d*): ", line):
        if match.start() >= len(root):
            yield GrepMatch(line[: match.start()], int(match[1]), line[match.end() :])


class KozeSandboxProvider(SandboxProvider):
    """Returns the sandbox of a thread. koze creates it with the first call, and it sleeps when it is idle."""

    uses_thread_data_mounts = False
    needs_upload_permission_adjustment = False

    def __init__(self, url: str | None = None, token: str | None = None):
        self._url = url or os.environ["KOZE_URL"]
        self._token = token or os.environ["KOZE_TOKEN"]
        self._sandboxes: dict[str, KozeSandbox] = {}
        self._lock = threading.Lock()

    def acquire(self, thread_id: str | None = None, *, user_id: str | None = None) -> str:
        """Returns the ID of a thread's sandbox, the same one each time. Without a thread, each sandbox is a new one."""
        # Threads of different users have different sandboxes, whatever their names.
        parts = [user_id, secrets.token_hex(16), None] if thread_id is None else [user_id, thread_id]
        sandbox_id = json.dumps(parts)
        if len(sandbox_id) > MAX_ID:
            sandbox_id = json.dumps({"sha256": hashlib.sha256(sandbox_id.encode()).hexdigest()})
        with self._lock:
            if sandbox_id not in self._sandboxes:
                self._sandboxes[sandbox_id] = KozeSandbox(Thread(self._url, self._token, sandbox_id))
        return sandbox_id

    def get(self, sandbox_id: str) -> KozeSandbox | None:
        """Returns a sandbox that was acquired, and not destroyed since; otherwise DeerFlow acquires the one of its thread."""
        with self._lock:
            return self._sandboxes.get(sandbox_id)

    def release(self, sandbox_id: str) -> None:
        """Keeps the sandbox: the thread's files must be there in its next turn. It goes to sleep by itself."""

    def destroy(self, sandbox_id: str) -> None:
        """Deletes the sandbox with its files."""
        Thread(self._url, self._token, sandbox_id).destroy()
        with self._lock:
            self._sandboxes.pop(sandbox_id, None)
