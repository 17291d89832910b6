#!/bin/bash
# Podman leads ports of this machine into containers, and forgets to take some of that back where they end in disorder: at
# such a port nobody is reached any more, a server of another test neither. To be run while no engine runs: a rule goes where
# no container at all is left that it could lead to, be it somebody else's.
set -eu

# Whether a container is on podman's network.
is_used() {
  local network=/sys/class/net/podman0/brif
  [[ -d $network && $(ls "$network") ]]
}

# What an engine has held goes some moments after it.
for _ in $(seq 50); do
  rules=$(iptables -t nat -S 2>/dev/null | grep -- '^-A NETAVARK-\(DN-\|HOSTPORT-DNAT\).* --dport ') || exit 0
  is_used || break
  sleep 0.1
done
! is_used || exit 0
while read -r rule; do
  # `xargs` reads the quotes of its comment.
  xargs iptables -t nat <<<"-D${rule#-A}" || true
done <<<"$rules"
