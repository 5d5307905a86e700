#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The simulation: a seed replays its run exactly, a bug is found and shrunk, and a number of seeds
# show nothing wrong. KVD_TEST_LONG=1: thousands of them. KVD_SIM_SEED: the first one (1).
set -u
cd "$(dirname "$0")/../.." || exit 1
sim=${KVD_BUILD:-$PWD/build/sim}/sim
seeds=100 seconds=100
[ "${KVD_TEST_LONG:-0}" != 1 ] || seeds=20000 seconds=600

setarch "$(uname -m)" -R true 2>/dev/null ||
	{ echo "addresses can't be fixed here (personality(2)): runs would not replay"; exit 77; }

fail() {
	echo "FAILED: $*"
	exit 1
}

# Two processes, with other numbers, environments and folders.
replays() {
	local first second
	first=$("$sim" "$@" | grep '^trace') || fail "sim $*: no trace"
	second=$(cd / && env NOISE="$first" "$sim" "$@" | grep '^trace')
	[ "$first" = "$second" ] || fail "sim $*: $first, and then $second"
}

all=tear+grow+large+evict+batch+expire+close+reset+restart
replays -s 1 -o "features=$all"
replays -s 4 -o features=,clients=4
[ "$("$sim" -s 5 -o schedule=1 | grep '^trace')" != "$("$sim" -s 5 -o schedule=2 |
	grep '^trace')" ] || fail "two schedules are the same"

# A history that is wrong: it must be noticed, and shrunk to few operations.
out=$("$sim" -s 1 -n 40 -o broken=1) && fail "a broken client was not noticed"
ops=$(sed -n 's/^shrunk: .*,ops=\([0-9]*\),.*/\1/p' <<<"$out")
[ -n "$ops" ] && [ "$ops" -le 6 ] || fail "not shrunk: $out"
again=$(sed -n 's/^shrunk: //p' <<<"$out")
# shellcheck disable=SC2086 # options
"$sim" -k $again >/dev/null && fail "sim $again: what was printed does not fail again"

"$sim" -s "${KVD_SIM_SEED:-1}" -n "$seeds" -t "$seconds"
