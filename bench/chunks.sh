#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares batches of chunks of KV caches, stored, loaded and looked up as LMCache does, in kvd by
# kvd.lmcache.Connector and in Redis by pipelined RESP (bench/micro/resp.c): the same sizes, keys,
# threads and order, in turn.
#
#   bench/chunks.sh [-r ROUNDS] [-b BATCHES]
#
# kvd on softnic has one worker thread, redis-server one thread and a Unix socket; each client two
# threads. Figures are medians of ROUNDS (3) rounds of BATCHES (60) batches: MB per second of the
# median batch, and the 99th percentile of a batch's time. In the rows "evicting" the server's
# memory holds half of the keys, so stores evict (both: the least recently used) and loads miss
# some, whose bytes do not count. "registered": the chunks are in memory that was registered once.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=bench/rivals.sh
. "$bench_dir/rivals.sh"

rounds=3
batches=60
while getopts r:b: option; do
	case $option in
	r) rounds=$OPTARG ;;
	b) batches=$OPTARG ;;
	*) die "usage: chunks.sh [-r ROUNDS] [-b BATCHES]" ;;
	esac
done
need_hint="run conf/install-deps test" need redis-server /usr/bin/python3
need_hint="run make benchmarks" need "$build/micro"
export KVD_PYTHON_HOT=$build/python/_hot.abi3.so
[ -e "$KVD_PYTHON_HOT" ] || unset KVD_PYTHON_HOT
THREADS=2
MIB=$((1 << 20))

# arguments...: by kvd
by_kvd() {
	KVD_LIBRARY=$build/libkvd.so.0.4 PYTHONPATH=$bench_dir/../client/python \
		PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$bench_dir/python/chunks.py" \
		"$kvd_url" $THREADS "$@" || die "the loops failed"
}

# Prints the median of each figure of the rounds in $tmp/NAME: step, us, us of p99, share found.
median() {
	local step
	for step in store load lookup; do
		for field in 2 3 4; do
			awk -v s=$step -v f=$field '$1 == s { print $f }' "$tmp/$1" | sort -n |
				sed -n "$(((rounds + 1) / 2))p"
		done | paste -sd ' '
	done | paste -sd ' '
}

# name, chunks, bytes, keys, memory in bytes: rows of the table
measure() {
	local name=$1 chunks=$2 bytes=$3 keys=$4 memory=$5 round way row
	kvd_start softnic -o server.workers=1 -o memory.size=$((memory / MIB))m \
		-o limits.max_value=$((bytes > MIB ? bytes / MIB : 1))m
	redis_start "$redis_url" --maxmemory "$memory" --maxmemory-policy allkeys-lru
	rm -f "$tmp/plain" "$tmp/registered" "$tmp/redis"
	for ((round = 0; round < rounds; round++)); do
		for way in plain registered; do
			by_kvd "$chunks" "$bytes" "$keys" "$batches" $way >>"$tmp/$way"
		done
		"$build/micro" resp "${redis_url#redis://}" $THREADS "$chunks" "$bytes" "$keys" \
			"$batches" >>"$tmp/redis" || die "micro resp failed"
	done
	for way in plain registered redis; do
		row=$(median $way)
		awk -v name="$name" -v way=$way -v mb=$((chunks * bytes)) '{
			printf "%-28s %-10s %8.0f %8.1f %8.0f %8.1f %6.2f %9.0f\n", name, way,
				mb / $1, $2 / 1000, mb * $6 / $4, $5 / 1000, $6, $7 }' <<<"$row"
	done
	kvd_stop || die "kvd failed"
	forget "$kvd_pid"
	rival_stop Redis "$redis_pid"
}

say "chunks of KV caches in kvd on softnic and in Redis; $rounds rounds; $(host)"
printf '%-28s %-10s %8s %8s %8s %8s %6s %9s\n' 'a batch' way 'store' 'p99' 'load' 'p99' found \
	'lookup'
printf '%-28s %-10s %8s %8s %8s %8s %6s %9s\n' '' '' MB/s ms MB/s ms '' us
measure "96 chunks of 256 KiB" 96 $((MIB / 4)) 192 $((256 * MIB))
measure "256 chunks of 16 KiB" 256 $((16 << 10)) 512 $((64 * MIB))
measure "32 chunks of 4 MiB" 32 $((4 * MIB)) 64 $((1024 * MIB))
measure "8 chunks of 32 MiB" 8 $((32 * MIB)) 16 $((2048 * MIB))
measure "96 of 256 KiB, evicting" 96 $((MIB / 4)) 768 $((96 * MIB))
measure "32 of 4 MiB, evicting" 32 $((4 * MIB)) 128 $((256 * MIB))
