#!/bin/bash
# A stand-in for a container with koze's guest, or another program, as its first process: bash container.sh ROOT DOOR
# SHARED NODE MODULES SDK HERE GUEST PROGRAM… It runs in its own namespaces, so its mounts and listeners end with it.
set -eu
root=$1 door=$2 shared=$3 node=$4 modules=$5 sdk=$6 here=$7 guest=$8
shift 8

. "$sdk/root.sh"
bind "$node" opt/node
bind "$modules/ws" opt/node_modules/ws
bind "$here/fake.mjs" opt/fake.mjs
mkdir .koze && bind "$guest" .koze/guest
mkdir opt/shared && mount --bind "$shared" opt/shared
# The engine's entrance is not a process of the container, and ends with it.
setpriv --pdeathsig KILL -- env -i "$node" "$sdk/door.mjs" "$door/socket" </dev/null &
exec unshare --pid --fork --kill-child bash -c 'mount -t proc proc proc && exec chroot . "$@"' - "$@"
