#!/bin/bash
# A container engine for the tests: bash engine.sh DIR SOCKET, run as the first process of new process and mount
# namespaces, so that containers and their helpers end with it. All its data is below DIR. It prints `ready` when it
# answers at SOCKET. It exits, and stops every container, at the end of its input.
set -eu
dir=$1 socket=$2

# A store can have only one engine at a time. Child processes must not inherit the lock.
exec 9>"$dir/lock"
flock 9
exec 2>"$dir/engine.log"

# The state of one run, at a path of less than 50 characters: with a longer one, podman does not notice the end of a
# container, and waiting for it takes 20 seconds. The path is the same in each run, because the store records it.
run=/run/koze-tests-$(sha256sum <<<"$dir" | cut -c1-12)
rm -rf "$run"
mkdir -p "$run/tmp" "$dir/networks" "$dir/storage"

# Podman's defaults are more than a process without CAP_SYS_RESOURCE may request.
limit() { # NAME MOST
  local most
  most=$(ulimit -H -"$1")
  if [[ $most == unlimited || $most -gt $2 ]]; then most=$2; fi
  echo "$most:$most"
}
cat >"$dir/containers.conf" <<EOF
[containers]
default_ulimits = ["nofile=$(limit n 20000)", "nproc=$(limit u 10000)"]
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
tmp_dir = "$run/tmp"
volume_path = "$dir/volumes"
[network]
network_backend = "netavark"
network_config_dir = "$dir/networks"
EOF
cat >"$dir/storage.conf" <<EOF
[storage]
driver = "overlay"
graphroot = "$dir/storage"
runroot = "$run/storage"
EOF
cat >"$dir/policy.json" <<EOF
{ "default": [{ "type": "insecureAcceptAnything" }] }
EOF
# Never contact a registry.
echo 'unqualified-search-registries = []' >"$dir/registries.conf"
export CONTAINERS_CONF=$dir/containers.conf CONTAINERS_STORAGE_CONF=$dir/storage.conf
export CONTAINERS_REGISTRIES_CONF=$dir/registries.conf
unset CONTAINER_HOST DOCKER_HOST

# Removes all containers, and the images that wrangler has built.
end() {
  podman rm --all --force --time 0 --depend >&2 9>&- || true
  podman images --quiet --filter 'reference=*/cloudflare-dev/*' | xargs --no-run-if-empty podman rmi --force >&2 9>&- || true
}
# Clean up after an engine that was killed.
end
# Without containers, the database has nothing to keep. It never shrinks, and podman reads its list of free pages with each request.
rm -f "$dir/storage/libpod/bolt_state.db"
# There is memory enough to collect garbage less often.
GOGC=400 podman system service --time=0 "unix://$socket" >&2 9>&- &
for _ in $(seq 300); do
  if podman --remote --url "unix://$socket" version >/dev/null 2>&1 9>&-; then
    echo ready
    exec >&-
    cat >/dev/null 9>&- || true
    break
  fi
  sleep 0.1
done
end
rm -rf "$run" 2>/dev/null || true
