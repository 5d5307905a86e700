#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures the memory that a key costs in addition to the bytes of key and value, in kvd, memcached
# and Redis.
#
#   bench/bytes-per-key.sh [quick|RECORDS]
#
# Stores RECORDS records (10 million; quick: 1 million), 16 bytes of key and 32 of value, in each
# server and reads all of them back. Compares the memory of the process (PSS, with kvd's region,
# which is a memory file) with that of the empty server after it was used, so that buffers for
# messages do not count. kvd has its defaults and grows its index itself; memcached has its
# defaults and -m 8192; Redis has no persistence.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=bench/rivals.sh
. "$bench_dir/rivals.sh"

case ${1:-} in
quick) records=1000000 ;;
'') records=10000000 ;;
*[!0-9]*) die "usage: bytes-per-key.sh [quick|RECORDS]" ;;
*) records=$1 ;;
esac
need "$build/kvbench"
need_hint="apt-get install memcached redis-server" need memcached redis-server
payload=48
warm=10000

# name, pid, store, url
measure() {
	local empty full count rate op
	for op in put get delete; do
		"$build/kvbench" $op -d "$3" -a "$4" -n $warm >/dev/null || die "kvbench $op failed"
	done
	empty=$(pss_settled_kib "$2")
	rate=$("$build/kvbench" put -d "$3" -a "$4" -n "$records" | sed -n 's/^per_second //p')
	full=$(pss_settled_kib "$2")
	count=$("$build/kvbench" count -d "$3" -a "$4")
	[ "$count" = "$records" ] || die "$1 holds $count records, not $records"
	"$build/kvbench" get -d "$3" -a "$4" -n "$records" >/dev/null || die "$1 has lost records"
	awk -v name="$1" -v empty="$empty" -v full="$full" -v n="$records" -v payload=$payload \
		-v rate="$(commas "$rate")" 'BEGIN {
		each = (full - empty) * 1024 / n
		printf "%-18s %10.1f %10.1f %12.1f %14.1f %14s\n", name, empty / 1024, full / 1024,
			each, each - payload, rate
	}'
	[ "$3" != kvd ] || kvd_each=$(awk "BEGIN { print ($full - $empty) * 1024 / $count }")
}

say "$(commas "$records") records of 16 + 32 bytes; $(host)"
printf '%-18s %10s %10s %12s %14s %14s\n' '' 'empty MiB' 'full MiB' 'bytes a key' \
	'of it overhead' 'loaded per s'

# 256 bytes per key is about twice the need; pages are allocated when touched.
kvd_start softnic -o server.workers=1 -o memory.hugepages=off -o memory.prefault=no \
	-o memory.size=$((records * 256 + (64 << 20)))
measure "kvd $(kvd_stat version)" "$kvd_pid" kvd "$kvd_url"
"$build/kvctl" -a "$kvd_url" stats --raw >"$tmp/stats" || die "kvctl stats failed"
kvd_end
memcached_start "$memcached_url" -t 1 -m 8192
measure "memcached $(memcached -V | awk '{ print $2 }')" "$memcached_pid" memcached \
	"$memcached_url"
rival_stop memcached "$memcached_pid"
redis_start "$redis_url"
measure "Redis $(redis-server --version | sed 's/.*v=\([^ ]*\).*/\1/')" "$redis_pid" redis \
	"$redis_url"
rival_stop Redis "$redis_pid"
say
say "kvd's, by kind, bytes a key:"
awk -v n="$records" -v payload=$payload -v each="$kvd_each" '
	{ stat[$1] = $2 }
	function row(name, bytes) {
		printf "%8.2f  %s\n", bytes / n, name
		rest -= bytes / n
	}
	END {
		rest = each - payload
		slots = 8 * n
		overflow = 128 * stat["overflow_buckets"]
		row("header of the item", stat["live_bytes"] - payload * n)
		row("slot in the index", slots)
		row("empty slots and headers of home buckets", stat["index_bytes"] - slots)
		row("overflow buckets", overflow)
		row("free places of overflow buckets", stat["memory.bucket_slabs"] - overflow)
		slabs = stat["memory.item_slabs"]
		row("free blocks, and ends of slabs", slabs - stat["live_bytes"])
		printf "%8.2f  %s\n", rest, "outside the region: slabs, pages, magazines"
	}' "$tmp/stats"
