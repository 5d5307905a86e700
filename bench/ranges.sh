#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures on softnic what a range of a value of 32 MiB costs beside a GET of all of it, and, with
# -B, what PUTs and GETs of large values cost with the programs in that folder, in turn.
#
#   bench/ranges.sh [-r ROUNDS] [-B BUILD_BEFORE]
#
# The figures are medians of ROUNDS (21). bench/micro/ranges.c and bench/micro/async.c have the
# loops.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

rounds=21
before=
while getopts r:B: option; do
	case $option in
	r) rounds=$OPTARG ;;
	B) before=$OPTARG ;;
	*) die "usage: ranges.sh [-r ROUNDS] [-B BUILD_BEFORE]" ;;
	esac
done
builds_find "$before"

start() {
	kvd_start softnic -o server.workers=1 -o memory.size=512m
}

start
figures=$("$build/micro" ranges -a "$kvd_url" -r "$rounds") || die "micro ranges failed"
kvd_stop || die "kvd failed"
say "us for a range of a value of 32 MiB, at multiples of STEP, and for a GET of all; $(host)"
printf '%8s %8s %9s %9s %9s\n' range step range GET GET/range
awk '{ printf "%8d %8d %9.1f %9.1f %9.1f\n", $1, $2, $3, $4, $5 }' <<<"$figures"
[ -n "$before" ] || exit 0

# operation, bytes: operations per second with each build, in turn
for what in "put 1048576" "put 4194304" "get 1048576" "get 4194304"; do
	for ((i = 0; i < rounds; i++)); do
		for n in 0 1; do
			build=${builds[n]}
			start
			# shellcheck disable=SC2086 # an operation and a length
			set -- $what
			note "${what/ /-}-$n" "$("$build/micro" async "$1" -a "$kvd_url" -m \
				-v "$2" -k 8 -t 300)"
			kvd_stop || die "kvd failed"
		done
	done
	a=$(median "${what/ /-}-0") b=$(median "${what/ /-}-1")
	say "${what^^} bytes: $a a second, before $b, ratio $(ratio "$a" "$b") (target >= 0.97)"
done
