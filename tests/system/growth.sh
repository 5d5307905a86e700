#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of growth and eviction: the index grows from its smallest size under load, while
# readers check every byte; a full store evicts, and no PUT fails.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

# An emulated machine, or one under a sanitizer, does less in the same time.
case $device-${KVD_FLAVOUR:-release} in
softnic-release) records=60000 many=40000 ;;
softnic-*) records=20000 many=30000 ;;
*) records=3000 many=20000 ;;
esac

bench() { # load|run, workload, properties...
	local command=$1 workload=$2 property args=()
	shift 2
	for property in "$@"; do args+=(-p "$property"); done
	"$build/kvbench" "$command" -a "$url" -P bench/workloads/workload"$workload" --json \
		"${PATIENT[@]}" "${args[@]}" >"$tmp/bench.$command"
}

at_least() { # name, number
	local have
	have=$(stat_of "$1") || return 1
	[ "$have" -ge "$2" ] && return 0
	echo "$1 is $have, not $2 or more"
	return 1
}

# A reader whose handle was opened while the index was small reads while it grows.
reader_beside() {
	local pid
	bench load a recordcount=500 fieldcount=1 fieldlength=50 || return 1
	"$build/kvbench" run -a "$url" -P bench/workloads/workloadc --json -p recordcount=500 \
		-p fieldcount=1 -p fieldlength=50 -p operationcount=0 -p maxexecutiontime=600 \
		"${PATIENT[@]}" >"$tmp/reader" 2>&1 &
	pid=$!
	pids+=("$pid")
	# The connections of kvctl, and of kvbench for the statistics and its thread.
	wait_until "$DEADLINE_S" stat_is connections 3 && stat_is splits 0 || return 1
	bench load a recordcount="$records" fieldcount=1 fieldlength=50 || return 1
	kill -INT "$pid" && await_end "$pid" && forget "$pid"
	[ "$status" = 0 ] && return 0
	tail -n 5 "$tmp/reader"
	return 1
}

# There are enough buckets, and few more: at the configured fill of 67 % each has 9.4 items.
index_fits() {
	local items buckets
	items=$(stat_of items) && buckets=$(stat_of index_buckets) || return 1
	[ "$buckets" -gt 64 ] && [ $((buckets * 10)) -ge "$items" ] &&
		[ $((buckets * 8)) -le "$items" ] && return 0
	echo "$items items in $buckets buckets"
	return 1
}

all_are_there() {
	bench run c recordcount="$records" fieldcount=1 fieldlength=50 \
		requestdistribution=sequential operationcount="$records"
}

mostly_live() {
	local live all
	live=$(stat_of item_memory_live_bytes) && all=$(stat_of item_memory_bytes) || return 1
	[ $((live * 100)) -ge $((all * 90)) ] && return 0
	echo "$live of $all bytes are live"
	return 1
}

fill_twice() {
	bench load a recordcount="$many" fieldcount=1 fieldlength=1000 &&
		bench load a recordcount=$((many / 4)) fieldcount=4 fieldlength=1000 &&
		stat_is put_no_space 0
}

# Evicted records are not found; no byte of the others is wrong.
reads_of_a_part() {
	bench run c recordcount=$((many / 4)) fieldcount=4 fieldlength=1000 operationcount=4000
	[ $? -le 1 ] && grep -q '"wrong": 0' "$tmp/bench.run" &&
		grep -q '"failed": 0' "$tmp/bench.run" &&
		grep -Eq '"not_found": [1-3]?[0-9]{1,3},' "$tmp/bench.run" && return 0
	cat "$tmp/bench.run"
	return 1
}

parts_add_up() {
	local sum
	sum=$(stat_of memory.superblock memory.index memory.free memory.item_slabs \
		memory.bucket_slabs memory.large memory.pad) && stat_is region_bytes "$sum"
}

check "the server starts with the smallest index" server_start -o memory.size=128m || finish
check "it has 64 buckets" stat_is index_buckets 64
check "the index grows while a client reads" reader_beside
check "by splits" at_least splits 100
check "to the size that the items need" index_fits
check "every record is found" all_are_there
check "the parts of the memory add up to the region" parts_add_up
check "the server stops" server_stop

check "a server that evicts starts" server_start -o memory.size=16m -o memory.eviction=object-hits
check "more items than fit are put, in two sizes; no PUT fails" fill_twice
check "items were evicted for them" at_least evictions 1000
check "at least 90 % of the item memory is live" mostly_live
check "readers report accesses" reads_of_a_part
check "the server has recorded them" at_least accesses 1
check "the parts of the memory add up to the region" parts_add_up
check "the server stops" server_stop
finish
