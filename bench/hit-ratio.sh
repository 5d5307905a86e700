#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures the hit ratio of a full cache: kvd with memory.eviction=object-hits and byte-hits,
# memcached, and exact LRU, on the same traces with the same memory.
#
#   bench/hit-ratio.sh [-q] [-m MEGABYTES] [-k KEYS] [-n ACCESSES] [-s SIZE[-SIZE]] [-R RATE]
#                      [-o SECTION.KEY=VALUE]... [TRACE]
#
# The traces:
#   zipfian (0.99) over KEYS keys
#   zipfian with a fifth of the accesses in scans of 1,000 keys that are used once
#   zipfian with drift, a new most popular key every 20 accesses; without drift a cache that never
#   evicts is as good as LRU, as the first trace shows
# or the file TRACE instead (bench/kvtrace/trace.h describes the format; columns other than key and
# size: KVTRACE_COLUMNS='-K 2 -Z 4 -T').
#
# Each is played as by users of a look-aside cache: GET, after a miss PUT; up to 16 GETs together;
# the bytes of every hit are checked. The first third is not counted. kvd and memcached have one
# worker thread each and MEGABYTES: kvd's memory.size, which holds index and items, and memcached's
# -m, which does not include its hash table.
#
# "exact LRU": the hits of the true least-recently-used order with room for as many items as that
# cache holds, so that the difference is due to the policy alone. The last line is exact LRU with
# room for MEGABYTES of keys and values without any overhead.
#
# -q: smaller and shorter, about a minute. -R: accesses per second at most. -o: an option of kvd.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=bench/rivals.sh
. "$bench_dir/rivals.sh"

megabytes=64
keys=2000000
accesses=8000000
size=200
rate=()
options=()
while getopts qm:k:n:s:R:o: option; do
	case $option in
	q) megabytes=16 keys=300000 accesses=450000 ;;
	m) megabytes=$OPTARG ;;
	k) keys=$OPTARG ;;
	n) accesses=$OPTARG ;;
	s) size=$OPTARG ;;
	R) rate=(-R "$OPTARG") ;;
	o) options+=(-o "$OPTARG") ;;
	*) die "usage: hit-ratio.sh [-q] [-m MEGABYTES] [-k KEYS] [-n ACCESSES] [-s SIZE]" \
		"[-R RATE] [-o OPTION] [TRACE]" ;;
	esac
done
shift $((OPTIND - 1))
# With one size both ways of eviction are the same.
mixed=
if [ $# -gt 0 ] || [[ $size = *-* ]]; then mixed=1; fi
need_hint="run make benchmarks" need "$build/kvtrace"
need_hint="apt-get install memcached" need memcached
read -ra columns <<<"${KVTRACE_COLUMNS:-}"
failures=0
key_bytes=16

# trace, file for the figures, store, url
play() {
	"$build/kvtrace" play -d "$3" -a "$4" -B 16 -w "$warmup" ${rate[@]+"${rate[@]}"} \
		${columns[@]+"${columns[@]}"} "$1" >"$2" && return
	say "kvtrace play at $4: exit status $?"
	failures=$((failures + 1))
}

# file, name
of() {
	sed -n "s/^$2 //p" "$1"
}

# trace, limit of kvtrace lru...: its hit ratio
exact() {
	local trace=$1
	shift
	"$build/kvtrace" lru "$@" -w "$warmup" ${columns[@]+"${columns[@]}"} "$trace" |
		sed -n 's/^hit_percent //p'
}

# name, figures, items held, hit ratio of exact LRU
row() {
	printf '%-20s %12s %9.2f %11.2f %+8.2f %11s %9s\n' "$1" "$(commas "$3")" \
		"$(of "$2" hit_percent)" "$4" \
		"$(awk -v a="$(of "$2" hit_percent)" -v b="$4" 'BEGIN { print a - b }')" \
		"$(commas "$(of "$2" not_stored)")" "$(of "$2" seconds)"
}

# trace, policy
play_kvd() {
	local items
	kvd_start softnic -o server.workers=1 -o memory.size="${megabytes}m" \
		-o memory.hugepages=off -o memory.eviction="$2" ${options[@]+"${options[@]}"}
	play "$1" "$tmp/kvd-$2" kvd "$kvd_url"
	items=$(kvd_stat items)
	[ "$items" -gt 0 ] || die "kvd holds nothing"
	row "kvd $2" "$tmp/kvd-$2" "$items" "$(exact "$1" -i "$items")"
	kvd_end
}

play_memcached() {
	local items
	memcached_start "$memcached_url" -t 1 -m "$megabytes"
	play "$1" "$tmp/memcached" memcached "$memcached_url"
	items=$("$build/kvbench" count -d memcached -a "$memcached_url")
	row memcached "$tmp/memcached" "$items" "$(exact "$1" -i "$items")"
	rival_stop memcached "$memcached_pid"
}

# title, trace
compare() {
	local ideal
	total=$(grep -cv '^#' "$2")
	warmup=$((total / 3))
	say "$1; $(commas "$total") accesses, the first third not counted; $megabytes MiB"
	printf '%-20s %12s %9s %11s %8s %11s %9s\n' '' items 'hit %' 'exact LRU' points \
		'not stored' seconds
	play_kvd "$2" object-hits
	[ -z "$mixed" ] || play_kvd "$2" byte-hits
	play_memcached "$2"
	ideal=$(exact "$2" -b "${megabytes}m" -o $key_bytes)
	printf '%-20s %12s %9.2f\n\n' 'LRU, no overhead' '' "$ideal"
}

say "kvd beside memcached $(memcached -V | awk '{ print $2 }'); $(host)"
say
if [ $# -gt 0 ]; then
	"$build/kvtrace" lru -i 1 ${columns[@]+"${columns[@]}"} "$1" >/dev/null ||
		die "$1 is no trace"
	compare "$1" "$1"
else
	"$build/kvtrace" make -n "$accesses" -k "$keys" -s "$size" >"$tmp/trace" || exit 1
	compare "zipfian over $(commas "$keys") keys, values of $size bytes" "$tmp/trace"
	"$build/kvtrace" make -n "$accesses" -k "$keys" -s "$size" -p 20 >"$tmp/trace" || exit 1
	compare "the same with 20 % in scans of 1,000 keys used once" "$tmp/trace"
	"$build/kvtrace" make -n "$accesses" -k "$keys" -s "$size" -D 20 >"$tmp/trace" || exit 1
	compare "zipfian with drift: a new most popular key every 20 accesses" "$tmp/trace"
fi
say "points: hit % less that of exact LRU with the same number of items."
[ "$failures" = 0 ]
