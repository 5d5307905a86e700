#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares the Rust crate kvd with C: the same loops (client/rust/kvd/examples/bench.rs and
# bench/client/loops.c), on softnic, of GETs and PUTs of 100 bytes and 1 MiB.
#
#   bench/rust.sh [-r ROUNDS] [-t MS]
#
# Each side is measured for MS (200) ms in each of ROUNDS (5) rounds, in turn, in a process of its
# own; the figures are medians of operations per second, and Rust's share of C's. "alloc" is a GET
# whose value comes in memory of its own, beside C's to a buffer. The server has one worker thread.
# On a busy machine only the ratios say something.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

rounds=5
ms=200
while getopts r:t: option; do
	case $option in
	r) rounds=$OPTARG ;;
	t) ms=$OPTARG ;;
	*) die "usage: rust.sh [-r ROUNDS] [-t MS]" ;;
	esac
done
need_hint='run make benchmarks' need "$build/loops"
need_hint='run make deps-test' need /usr/bin/cargo
KVD_BUILD=$build "$bench_dir/../client/rust/cargo" build --release --example bench \
	>"$tmp/cargo" 2>&1 || die "cargo failed: $(cat "$tmp/cargo")"
rust=$build/rust/release/examples/bench
export LD_LIBRARY_PATH=$build

# name, program, arguments...: keeps one more figure
measure() {
	local name=$1 figure
	shift
	figure=$("$@" "$ms") || die "$* failed"
	note "$name" "$figure"
}

kvd_start softnic -o server.workers=1 -o memory.size=64m -o memory.eviction=none
for ((round = 0; round < rounds; round++)); do
	for bytes in 100 $((1 << 20)); do
		for op in get put; do
			for way in sync batch async; do
				what="$way $op $bytes" # words
				measure "c-${what// /-}" "$build/loops" "$kvd_url" $what
				measure "rust-${what// /-}" "$rust" "$kvd_url" $what
			done
		done
		measure "rust-alloc-get-$bytes" "$rust" "$kvd_url" alloc get "$bytes"
	done
done
kvd_stop || die "kvd failed"

say "operations per second, median of $rounds x $ms ms; $(nproc) CPUs," \
	"load $(cut -d ' ' -f 1 /proc/loadavg)"
printf '%-8s %-6s %-4s %12s %12s %8s\n' bytes way op C Rust Rust/C
for bytes in 100 $((1 << 20)); do
	for row in sync-get sync-put batch-get batch-put async-get async-put alloc-get; do
		c=$(median "c-${row/alloc/sync}-$bytes")
		r=$(median "rust-$row-$bytes")
		printf '%-8s %-6s %-4s %12s %12s %8s\n' "$bytes" "${row%-*}" "${row#*-}" \
			"$(commas "$c")" "$(commas "$r")" "$(ratio "$r" "$c")"
	done
done
