#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares the miss-ratio curve that a server estimates (memory.curve, kvctl curve) with the hit
# ratios of servers that have that much memory.
#
#   bench/curve.sh [-m MEGABYTES] [-k KEYS] [-n ACCESSES]
#
# The traces of bench/hit-ratio.sh, and one of mixed sizes; look-aside, all accesses count.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

megabytes=64
keys=1000000
accesses=3000000
while getopts m:k:n: option; do
	case $option in
	m) megabytes=$OPTARG ;;
	k) keys=$OPTARG ;;
	n) accesses=$OPTARG ;;
	*) die "usage: curve.sh [-m MEGABYTES] [-k KEYS] [-n ACCESSES]" ;;
	esac
done
need_hint="run make benchmarks" need "$build/kvtrace"
percents='25 50 100 200 400'

# percent, more options of kvd: prints the percentage of GETs that hit; leaves the server running
play() {
	kvd_start softnic -o server.workers=1 -o memory.hugepages=off \
		-o memory.size=$((megabytes * 1048576 * $1 / 100)) "${@:2}"
	"$build/kvtrace" play -a "$kvd_url" -B 16 "$tmp/trace" >"$tmp/played" ||
		die "kvtrace play: exit status $?"
	sed -n 's/^hit_percent //p' "$tmp/played"
}

# title, options of kvtrace make
compare() {
	local percent estimate
	"$build/kvtrace" make -n "$accesses" -k "$keys" "${@:2}" >"$tmp/trace" || exit 1
	play 100 -o memory.curve=yes >"$tmp/with"
	"$build/kvctl" -a "$kvd_url" curve >"$tmp/curve" || exit 1
	kvd_stop
	say "$1 ($(head -n 1 "$tmp/curve"); $(<"$tmp/with") % hit)"
	printf '%10s %10s %10s %8s\n' memory estimate measured points
	for percent in $percents; do
		estimate=$(awk -v p="$percent" '$2 == "%" && $1 == p { print $(NF - 1) }' \
			"$tmp/curve")
		play "$percent" >"$tmp/without"
		kvd_stop
		awk -v p="$percent" -v e="$estimate" -v m="$(<"$tmp/without")" 'BEGIN {
			printf "%8d %% %10.1f %10.1f %+8.1f\n", p, e, m, e - m }'
	done
	say
}

say "kvd with $megabytes MiB; $(commas "$accesses") accesses to $(commas "$keys") keys;" \
	"$(host)"
say
compare "zipfian, values of 200 bytes" -s 200
compare "with 20 % in scans" -s 200 -p 20
compare "with drift" -s 200 -D 20
compare "values of 64 to 4,096 bytes" -s 64-4096
