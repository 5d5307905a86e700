#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of a server whose index grows from its smallest size while clients write, read, scan
# and flush: every recorded history must be linearizable (tests/stress/race_torture.c).
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

# seconds, seed
torture() {
	"$build/tests/stress/race_torture" -u "$url" -t "$1" -s "$2"
}

seconds=1
[ "${KVD_TEST_LONG:-0}" != 1 ] || seconds=30

# As often as it takes.
torture_until_grown() {
	local seed
	for seed in {1..60}; do
		torture $seconds "$seed" || return 1
		! stat_above splits 64 || return 0
	done
	return 1
}

check "the server starts" server_start -o memory.size=64m -o index.keys=0 || finish
check "histories of a growing index are linearizable" torture_until_grown
check "the server stops" server_stop
if [ "$device" = softnic ]; then
	check "so are those of servers in one process, which also evict" \
		"$build/tests/stress/race_torture" -S -t $((2 * seconds))
fi
finish
