# Prepares the environment of a command, and runs it: the arguments are those of its shell, after `-c --`.
#
# A directory of koze's own has `python`, which is python3, and `pip`, which installs into the virtual environment of the
# workspace. The programs of that environment come before both.
koze_venv=/mnt/user-data/workspace/.venv
for koze_bin in "${HOME:-/tmp}/.koze/bin" /tmp/.koze/bin; do
    if [ -x "$koze_bin/pip3" ] || ! command -v python3 >/dev/null; then
        break
    fi
    mkdir -p "$koze_bin" 2>/dev/null && [ -w "$koze_bin" ] || continue
    koze_new=$koze_bin/.new.$$
    cat >"$koze_new" <<'END'
#!/bin/sh
# Written by koze.
[ "$1" = -m ] && [ "$2" = pip ] && shift 2 && exec "${0%/*}/pip" "$@"
exec python3 "$@"
END
    chmod 755 "$koze_new" && mv -f "$koze_new" "$koze_bin/python"
    cat >"$koze_new" <<'END'
#!/bin/sh
# Written by koze. The virtual environment has the packages of the image, too.
venv=/mnt/user-data/workspace/.venv
if [ ! -x "$venv/bin/python" ]; then
    python3 -I - "$venv" "${0%/*}/.lock" >&2 <<'CREATE' || exit
import fcntl, importlib.util, os, shutil, sys, venv
path, lock = sys.argv[1:]
with open(lock, "w") as held:
    fcntl.flock(held, fcntl.LOCK_EX)
    if not os.path.exists(path + "/bin/python"):
        missing = importlib.util.find_spec("pip") is None
        if missing and importlib.util.find_spec("ensurepip") is None:
            sys.exit("pip: this Python has no pip: install python3-pip and python3-venv in the image of the sandbox")
        try:
            venv.create(path, system_site_packages=True, with_pip=missing)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
CREATE
fi
exec "$venv/bin/python" -m pip "$@"
END
    chmod 755 "$koze_new" && mv -f "$koze_new" "$koze_bin/pip" && ln -sf pip "$koze_bin/pip3" && break
done
export PATH="$koze_venv/bin:$koze_bin:$PATH"
if [ -n "$BASH_VERSION" ]; then
    exec "$BASH" --noprofile --norc -c -- "$@"
fi
exec /bin/sh -c -- "$@"
