#!/bin/bash
# Removes stale port forwarding rules. Podman forwards ports of this machine to containers, and does not always remove
# the rules when containers end abnormally. Such a port is then unusable, also for the servers of other tests. Run this
# while no engine runs: a rule is removed if no container is left that it could lead to, not even somebody else's.
set -eu

# Returns whether a container is on podman's network.
is_used() {
  local network=/sys/class/net/podman0/brif
  [[ -d $network && $(ls "$network") ]]
}

# The containers of an engine that has just ended may take a moment to disappear.
for _ in $(seq 50); do
  rules=$(iptables -t nat -S 2>/dev/null | grep -- '^-A NETAVARK-\(DN-\|HOSTPORT-DNAT\).* --dport ') || exit 0
  is_used || break
  sleep 0.1
done
! is_used || exit 0
while read -r rule; do
  # `xargs` parses the quotes of the rule's comment.
  xargs iptables -t nat <<<"-D${rule#-A}" || true
done <<<"$rules"
