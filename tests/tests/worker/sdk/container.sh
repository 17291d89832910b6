#!/bin/bash
# A stand-in container: bash container.sh ROOT DOOR NODE MODULES HERE. It runs in namespaces of its own, so what it
# mounts and what listens in it is gone with it.
set -eu
root=$1 door=$2 node=$3 modules=$4 here=$5

. "$here/root.sh"
mount -t proc proc proc
bind "$node" opt/node
bind "$modules/capnweb" opt/node_modules/capnweb
bind "$modules/ws" opt/node_modules/ws
bind "$here/container.mjs" opt/container.mjs
bind "$here/door.mjs" opt/door.mjs
mount --bind "$door" opt/door
exec chroot "$root" /opt/node /opt/container.mjs
