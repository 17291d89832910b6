#!/bin/bash
# A stand-in for a container: bash container.sh ROOT DOOR NODE MODULES HERE SETTING… It runs in its own namespaces, so its
# mounts and listeners end with it. Settings:
#
# - sealed: nothing that is written can be run
# - admin: the container has CAP_SYS_ADMIN, as privileged containers do
# - gzipless: the image has no gzip
# - plain: its programs run as user 1000, who may create nothing in /mnt
# - furnished: the image has the directories of a thread, as the Dockerfile of such a user creates them
set -eu
root=$1 door=$2 node=$3 modules=$4 here=$5
shift 5
has() { [[ " $settings " == *" $1 "* ]]; }
settings=$*

. "$here/root.sh"
mount -t proc proc proc
bind "$node" opt/node
bind "$modules/capnweb" opt/node_modules/capnweb
bind "$modules/ws" opt/node_modules/ws
bind "$here/container.mjs" opt/container.mjs
bind "$here/door.mjs" opt/door.mjs
mount --bind "$door" opt/door
if has sealed; then
  for name in tmp var/tmp dev/shm; do mount -t tmpfs -o mode=1777,noexec tmpfs $name; done
fi
if has gzipless; then
  mount --bind dev/null usr/bin/gzip
  [[ -L bin ]] || mount --bind dev/null bin/gzip
fi
if has furnished; then install -d -o 1000 -g 1000 mnt/user-data; fi
drop=()
if ! has admin; then drop+=(--bounding-set -sys_admin); fi
if has plain; then
  chmod 777 opt/door
  install -d -o 1000 -g 1000 home/user workspace
  # A change of the user would keep the container from ending with the engine.
  drop+=(--reuid 1000 --regid 1000 --clear-groups --pdeathsig KILL)
  export HOME=/home/user
fi
exec chroot "$root" setpriv "${drop[@]}" -- /opt/node /opt/container.mjs
