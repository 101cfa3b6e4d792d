#!/usr/bin/env bash
# Two hosts on one machine: two network namespaces joined by a cable (a veth pair), torchrun on each, one run across both.
# Usage: two_hosts.sh PYTHON OUT ARGUMENTS...   (runs: casmap ARGUMENTS --out OUT/0 on the first, OUT/1 on the second)
# Exits with 77 where network namespaces may not be made.
set -euo pipefail
python=$1 out=$2
shift 2
name="casmap-$$"
tidy() {
  ip netns delete "$name-0" 2>/dev/null || true
  ip netns delete "$name-1" 2>/dev/null || true
}
trap tidy EXIT
ip netns add "$name-0" 2>/dev/null || exit 77
ip netns add "$name-1"
ip link add v0 netns "$name-0" type veth peer name v1 netns "$name-1" 2>/dev/null || exit 77
for side in 0 1; do
  ip -n "$name-$side" address add "10.77.0.$((side + 1))/24" dev "v$side"
  ip -n "$name-$side" link set lo up
  ip -n "$name-$side" link set "v$side" up
done
host() { # host 0 or 1 joins
  side=$1
  shift
  ip netns exec "$name-$side" env GLOO_SOCKET_IFNAME="v$side" OMP_NUM_THREADS=1 \
    "$python" -m torch.distributed.run --nnodes 2 --node-rank "$side" --nproc-per-node 1 \
    --master-addr 10.77.0.1 --master-port 29500 -m casmap "$@" --out "$out/$side"
}
host 1 "$@" &
second=$!
host 0 "$@"
wait "$second"
