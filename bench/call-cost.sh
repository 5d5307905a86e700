#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Counts the client's instructions for one synchronous GET and one PUT of 100 bytes on softnic, and
# for one key of a kvd_get_many() of 32.
#
#   bench/call-cost.sh [-n CALLS] [-r ROUNDS] [-B BUILD_BEFORE]
#
# callgrind runs bench/micro/calls.c and counts each of its CALLS (500) alone. The figure is the
# lowest count in ROUNDS (2), since the instructions of a client that polls depend on when the
# response comes. The server spins for so long, and callgrind is so slow, that it usually comes at
# once.
#
# With -B each figure is also taken with the programs in that folder, in turn, and the ratio is
# printed.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

calls=500
rounds=2
before=
while getopts n:r:B: option; do
	case $option in
	n) calls=$OPTARG ;;
	r) rounds=$OPTARG ;;
	B) before=$OPTARG ;;
	*) die "usage: call-cost.sh [-n CALLS] [-r ROUNDS] [-B BUILD_BEFORE]" ;;
	esac
done
need_hint='apt-get install valgrind' need valgrind
builds_find "$before"

# operation, name: records the lowest instructions per key of all calls but the first ones, which
# store and read the keys
count() {
	local keys=1
	[ "$1" != many ] || keys=32
	note "$2" $(($(call_instructions "$build" "$1" "$kvd_url" "$calls") / keys))
}

least() {
	sort -n "$tmp/figure-$1" | head -n 1
}

for ((i = 0; i < rounds; i++)); do
	for n in "${!builds[@]}"; do
		build=${builds[n]}
		kvd_start softnic -o server.workers=1 -o server.spin_time=10ms -o memory.size=64m \
			-o memory.eviction=none
		for op in get many put; do
			count $op "$op-$n"
		done
		kvd_stop || die "kvd failed"
	done
done
say "instructions of the client for a synchronous call of 100 bytes on softnic" \
	"(callgrind, $calls calls, least of $rounds)"
for op in get many put; do
	if [ -n "$before" ]; then
		say "${op^^} $(least "$op-0"), before $(least "$op-1"), ratio" \
			"$(ratio "$(least "$op-0")" "$(least "$op-1")") (target <= 1.03)"
	else
		say "${op^^} $(least "$op-0")"
	fi
done
