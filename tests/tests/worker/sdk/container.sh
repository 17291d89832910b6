#!/bin/bash
# A stand-in for a container: bash container.sh ROOT DOOR NODE MODULES HERE [sealed]. It runs in its own namespaces, so
# its mounts and listeners end with it.
set -eu
root=$1 door=$2 node=$3 modules=$4 here=$5 sealed=$6

. "$here/root.sh"
mount -t proc proc proc
bind "$node" opt/node
bind "$modules/capnweb" opt/node_modules/capnweb
bind "$modules/ws" opt/node_modules/ws
bind "$here/container.mjs" opt/container.mjs
bind "$here/door.mjs" opt/door.mjs
mount --bind "$door" opt/door
if [[ $sealed ]]; then
  for name in tmp var/tmp dev/shm; do mount -t tmpfs -o mode=1777,noexec tmpfs $name; done
fi
exec chroot "$root" /opt/node /opt/container.mjs
