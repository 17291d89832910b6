"""Checks the adapter against a running Worker: `KOZE_URL=… KOZE_TOKEN=… python3 check.py`."""

import os

from koze_sandbox import GrepMatch, KozeSandboxProvider


def raises(kind, call, *arguments):
    try:
        call(*arguments)
    except kind:
        return
    raise AssertionError(f"{arguments}: no {kind.__name__}")


provider = KozeSandboxProvider()
ids = [provider.acquire(f"check-{os.urandom(6).hex()}", user_id=user) for user in ("ann", "bob")]
sandbox, other = (provider.get(one) for one in ids)
try:
    workspace, uploads = "/mnt/user-data/workspace", "/mnt/user-data/uploads"
    assert sandbox.list_dir("/mnt/user-data") == [f"/mnt/user-data/{name}/" for name in ("outputs", "uploads", "workspace")]
    sandbox.write_file(f"{workspace}/app/main.py", "print('hello')\n")
    sandbox.write_file(f"{workspace}/app/main.py", "print('again')\n", append=True)
    assert sandbox.read_file(f"{workspace}/app/main.py") == "print('hello')\nprint('again')\n"
    assert sandbox.read_file(f"{workspace}/app/main.py", 2, 2) == "print('again')"
    assert sandbox.list_dir(workspace) == [f"{workspace}/app/", f"{workspace}/app/main.py"]
    sandbox.str_replace(f"{workspace}/app/main.py", "again", "$1")
    assert sandbox.execute_command("cat app/main.py") == "print('hello')\nprint('$1')\n"
    assert sandbox.execute_command("echo $A; exit 3", env={"A": "it's"}) == "it's\n\nExit Code: 3"
    raises(ValueError, sandbox.execute_command, "true", {"A;B": ""})
    assert sandbox.glob(workspace, "*.py") == ([f"{workspace}/app/main.py"], False)
    found, truncated = sandbox.grep(workspace, "PRINT", max_results=1)
    assert (found, truncated) == ([GrepMatch(f"{workspace}/app/main.py", 1, "print('hello')")], True)
    data = bytes(range(256)) * 200
    sandbox.update_file(f"{uploads}/it's a file.bin", data)
    assert sandbox.download_file(f"{uploads}/it's a file.bin") == data
    sandbox.update_file(f"{uploads}/empty", b"")
    assert sandbox.download_file(f"{uploads}/empty") == b"" and sandbox.read_file(f"{uploads}/empty") == ""
    raises(OSError, sandbox.download_file, f"{uploads}/none")
    raises(FileNotFoundError, sandbox.read_file, f"{uploads}/none")
    raises(UnicodeDecodeError, sandbox.read_file, f"{uploads}/it's a file.bin")
    raises(IsADirectoryError, sandbox.read_file, workspace)
    raises(PermissionError, sandbox.read_file, "/etc/passwd")
    raises(FileNotFoundError, sandbox.list_dir, f"{workspace}/none")
    assert other.list_dir(workspace) == [], "another user's thread of another name"
    provider.release(ids[0])
    assert sandbox.list_dir(uploads) == [f"{uploads}/empty", f"{uploads}/it's a file.bin"], "nothing is left of the upload"
finally:
    for one in ids:
        provider.destroy(one)
print("ok")
