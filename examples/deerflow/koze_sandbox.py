"""Sandboxes of koze for DeerFlow: one thread is one session of a koze Worker with the tools `thread`.

Needs nothing beyond the standard library. In DeerFlow's `config.yaml`, with this file on `PYTHONPATH`:

    sandbox:
      use: koze_sandbox:KozeSandboxProvider

and in the environment of DeerFlow, `KOZE_URL` (such as http://localhost:8787) and `KOZE_TOKEN`.
"""

import base64
import json
import os
import re
import shlex
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass

try:
    from deerflow.sandbox.sandbox import Sandbox
    from deerflow.sandbox.sandbox_provider import SandboxProvider
    from deerflow.sandbox.search import GrepMatch
except ImportError:  # Outside of DeerFlow, the classes work on their own.
    Sandbox = SandboxProvider = object

    @dataclass(frozen=True)
    class GrepMatch:
        path: str
        line_number: int
        line: str


DESCRIPTION = "A call of DeerFlow"
# A command is killed after 10 minutes, and a container may have to start first.
TIMEOUT = 900
# The output of one command has at most 20,000 characters, and base64 takes four for three bytes.
PIECE = 14_000
ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class KozeError(RuntimeError):
    """A failed call of a tool."""


class Thread:
    """The tools of one thread, over HTTP."""

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
        answer = json.loads(self._request("POST", f"/tools/{tool}?tools=thread", body))
        return answer["content"], answer["isError"]

    def destroy(self) -> None:
        """Deletes the sandbox of the thread with its files."""
        try:
            self._request("DELETE", "/sandboxes/default")
        except FileNotFoundError:
            pass

    def _request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, data=body, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                return response.read()
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            if error.code == 404:
                raise FileNotFoundError(text) from None
            raise KozeError(f"{method} {path}: {error.code}: {text}") from None


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
    if "as text" in message and message.startswith("cannot read"):
        return UnicodeDecodeError("utf-8", b"", 0, 0, message)
    return KozeError(message)


class KozeSandbox(Sandbox):
    """The sandbox of a thread, with the methods that DeerFlow's tools call."""

    def __init__(self, thread: Thread):
        self._id = thread.thread
        self._thread = thread

    @property
    def id(self) -> str:
        return self._id

    def execute_command(self, command: str, env: dict[str, str] | None = None, timeout: float | None = None) -> str:
        exports = []
        for name, value in (env or {}).items():
            if not ENVIRONMENT_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a valid variable name")
            exports.append(f"export {name}={shlex.quote(value)}\n")
        # A command with a nonzero exit code has its output, and no exception.
        text, is_error = self._thread.result("bash", command="".join(exports) + command)
        if is_error and text.startswith("Error: "):
            raise error_of(text)
        return text

    def read_file(self, path: str, start_line: int | None = None, end_line: int | None = None) -> str:
        lines = {"start_line": start_line, "end_line": end_line}
        lines = {name: value for name, value in lines.items() if value is not None}
        text = self._thread.call("read_file", path=path, **lines)
        return "" if text in ("(empty)", "(start_line exceeds file length)") else text

    def write_file(self, path: str, content: str, append: bool = False) -> None:
        self._thread.call("write_file", path=path, content=content, append=append)

    def str_replace(self, path: str, old_str: str, new_str: str, replace_all: bool = False) -> None:
        """Replaces a text in one step. DeerFlow's own tool reads and writes the file instead."""
        self._thread.call("str_replace", path=path, old_str=old_str, new_str=new_str, replace_all=replace_all)

    def list_dir(self, path: str, max_depth: int = 2) -> list[str]:
        text = self._thread.call("ls", path=path)
        return [] if text == "(empty)" else text.splitlines()

    def glob(self, path: str, pattern: str, *, include_dirs: bool = False, max_results: int = 200):
        text = self._thread.call("glob", path=path, pattern=pattern, include_dirs=include_dirs, max_results=max_results)
        lines, truncated = results(text)
        return [line.split(". ", 1)[1] for line in lines], truncated

    def grep(self, path: str, pattern: str, *, glob=None, literal=False, case_sensitive=False, max_results: int = 100):
        more = {} if glob is None else {"glob": glob}
        options = {"literal": literal, "case_sensitive": case_sensitive, "max_results": max_results}
        lines, truncated = results(self._thread.call("grep", path=path, pattern=pattern, **options, **more))
        matches = [re.fullmatch(r"(.+?):(\d+): (.*)", line, re.DOTALL) for line in lines]
        return [GrepMatch(match[1], int(match[2]), match[3]) for match in matches if match], truncated

    def download_file(self, path: str) -> bytes:
        content, offset = b"", 0
        while True:
            # No program of the pipe ends before the one in front of it, which would be killed then.
            dd = f"dd bs=64K skip={offset} count={PIECE} iflag=skip_bytes,count_bytes,fullblock status=none"
            command = f"set -o pipefail; {dd} < {shlex.quote(path)} | base64 -w0"
            text, is_error = self._thread.result("bash", command=command)
            if is_error:
                raise OSError(f"{path} cannot be read: {text}")
            piece = b"" if text == "(no output)" else base64.b64decode(text)
            content += piece
            offset += len(piece)
            if len(piece) < PIECE:
                return content

    def update_file(self, path: str, content: bytes) -> None:
        # The content takes the way of a text, and becomes bytes in the sandbox. The last step replaces the file at once.
        staging = f"/mnt/user-data/workspace/.koze-upload-{os.urandom(8).hex()}"
        self._thread.call("write_file", path=staging, content=base64.b64encode(content).decode())
        staged, target = shlex.quote(staging), shlex.quote(path)
        command = f'mkdir -p -- "$(dirname -- {target})" && base64 -d {staged} > {staged}.new && mv -f {staged}.new {target}'
        text, is_error = self._thread.result("bash", command=f"{command}; code=$?; rm -f {staged} {staged}.new; exit $code")
        if is_error:
            raise OSError(f"{path} cannot be written: {text}")


def results(text: str) -> tuple[list[str], bool]:
    """Splits the text of a search into its results, and whether there are more."""
    first, *lines = text.split("\n")
    if not first.startswith("Found "):
        return [], False
    truncated = first.endswith(")") and " (showing first " in first
    return lines[:-1] if truncated else lines, truncated


class KozeSandboxProvider(SandboxProvider):
    """Returns the sandbox of a thread. koze creates it with the first call, and it sleeps when it is idle."""

    uses_thread_data_mounts = False
    needs_upload_permission_adjustment = False

    def __init__(self, url: str | None = None, token: str | None = None):
        self._url = url or os.environ["KOZE_URL"]
        self._token = token or os.environ["KOZE_TOKEN"]

    def acquire(self, thread_id: str | None = None, *, user_id: str | None = None) -> str:
        # Threads of different users have different sandboxes, whatever their names.
        return json.dumps([user_id, thread_id or "default"])

    def get(self, sandbox_id: str) -> KozeSandbox:
        return KozeSandbox(Thread(self._url, self._token, sandbox_id))

    def release(self, sandbox_id: str) -> None:
        """Keeps the sandbox: the thread's files must be there in its next turn. It goes to sleep by itself."""

    def destroy(self, sandbox_id: str) -> None:
        """Deletes the sandbox with its files."""
        Thread(self._url, self._token, sandbox_id).destroy()
