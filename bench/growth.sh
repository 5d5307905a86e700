#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures what growth of the index costs a client that uses the store meanwhile. One client does
# inserts and reads, half and half, in a store whose index starts with 64 buckets and doubles again
# and again, and in one whose index has room for all keys from the start. One worker, kvd on
# softnic.
#
#   bench/growth.sh [-n OPERATIONS] [-r ROUNDS]
#
# Prints the median of each latency over the rounds, which alternate, and the ratio. The target is
# at most 3 for the longest latency. The longest of some 400,000 is mostly due to the machine's
# scheduler.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

operations=400000
rounds=5
records=1000
while getopts n:r: option; do
	case $option in
	n) operations=$OPTARG ;;
	r) rounds=$OPTARG ;;
	*) die "usage: growth.sh [-n OPERATIONS] [-r ROUNDS]" ;;
	esac
done
need "$build/kvbench"

# name, index.keys
round() {
	local name=$1 common=(-a "" --json -p fieldcount=1 -p fieldlength=100)
	kvd_start softnic -o memory.size=512m -o memory.hugepages=off -o server.workers=1 \
		-o memory.eviction=none -o index.keys="$2"
	common[1]=$kvd_url
	"$build/kvbench" load "${common[@]}" -P "$bench_dir/workloads/workloadd" \
		-p recordcount=$records >"$tmp/load" || die "kvbench load failed"
	"$build/kvbench" run "${common[@]}" -P "$bench_dir/workloads/workloadd" \
		-p recordcount=$records -p readproportion=0.5 -p insertproportion=0.5 \
		-p requestdistribution=uniform -p operationcount="$operations" >"$tmp/run" ||
		die "kvbench run failed"
	for operation in insert read; do
		for figure in p50 p99 p99_9 max; do
			figure "$tmp/run" "${operation}_${figure}_us" \
				>>"$tmp/$name-$operation-$figure"
		done
		figure "$tmp/run" "${operation}_per_second" >>"$tmp/$name-$operation-rate"
	done
	kvd_stat splits >>"$tmp/$name-splits"
	kvd_stop || die "kvd did not end with status 0"
}

# file
middle() {
	sort -n "$tmp/$1" | sed -n "$(((rounds + 1) / 2))p"
}

for ((i = 0; i < rounds; i++)); do
	round grows 0
	round fixed "$operations"
done

say "$(commas "$operations") operations, half inserts, half reads; medians of $rounds rounds;" \
	"$(nproc) cores, load now: $(cut -d ' ' -f 1 /proc/loadavg)"
say "bucket splits: $(commas "$(middle grows-splits)") and $(middle fixed-splits)"
say
printf '%-8s %-10s %12s %12s %8s\n' operation us growing fixed ratio
for operation in insert read; do
	for figure in p50 p99 p99_9 max; do
		grows=$(middle grows-$operation-$figure)
		fixed=$(middle fixed-$operation-$figure)
		printf '%-8s %-10s %12s %12s %8s\n' $operation $figure "$grows" "$fixed" \
			"$(ratio "$grows" "$fixed")"
	done
	grows=$(middle grows-$operation-rate)
	fixed=$(middle fixed-$operation-rate)
	printf '%-8s %-10s %12s %12s %8s\n' $operation per-second "$(commas "$grows")" \
		"$(commas "$fixed")" "$(ratio "$grows" "$fixed")"
done
