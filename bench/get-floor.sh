#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares GETs on softnic with bare loops that prefetch, copy, sum and copy the same items at the
# same addresses in the same order, in the same process: bench/micro/get_floor.c has the loops.
#
#   bench/get-floor.sh [-r ROUNDS] [-n RECORDS] [-B BUILD_BEFORE]
#
# A ratio is the time of a bare loop over that of the GETs, the median of the rounds; at 1, a GET
# would have no cost of its own. With -B each line also runs with the programs in that folder, in
# turn.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

rounds=21
records=
before=
while getopts r:n:B: option; do
	case $option in
	r) rounds=$OPTARG ;;
	n) records=$OPTARG ;;
	B) before=$OPTARG ;;
	*) die "usage: get-floor.sh [-r ROUNDS] [-n RECORDS] [-B BUILD_BEFORE]" ;;
	esac
done
builds_find "$before"

# build, bytes of value, batch, records, target: a line of the table
measure() {
	local figures
	build=$1
	kvd_start softnic -o server.workers=1 -o memory.size=512m -o memory.eviction=none
	figures=$("$build/micro" get-floor -a "$kvd_url" -v "$2" -b "$3" -n "${records:-$4}" \
		-r "$rounds") || die "micro get-floor failed"
	kvd_stop || die "kvd failed"
	awk -v target="$5" -v build="${before:+$build}" \
		'{ printf "%8d %6d %9.1f %9.1f %9.1f %9.2f %9.2f %7s %s\n", $1, $2, $3, $4, $5, $6,
		$7, target, build }' <<<"$figures"
}

say "kvd on softnic, ns for a GET; $(host)"
printf '%8s %6s %9s %9s %9s %9s %9s %7s\n' value batch bare index kvd bare/kvd index/kvd target
for line in '1000 16 100000 0.8' '64 32 1000000 0.6' '1000 1 100000 -' '64 1 1000000 -'; do
	for of in "${builds[@]}"; do
		# shellcheck disable=SC2086 # one word for each parameter
		measure "$of" $line
	done
done
