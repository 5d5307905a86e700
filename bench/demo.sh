#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The demo: starts kvd, loads YCSB's records, runs workloads A and C on them, prints the results
# and stops kvd. `make demo` runs it on the software device, `make demo-rdma` over RDMA.
#
#   bench/demo.sh [--rdma]
#
# Fails if a value is wrong, an operation fails, or kvd does not end with status 0.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

device=softnic
records=20000
memory=256m
# A PUT keeps a client thread and a worker of the server busy: half of the cores for each kind.
threads=$(($(nproc) / 2))
[ $threads -ge 1 ] || threads=1
[ $threads -le 4 ] || threads=4
run_s=3
warmup_s=1
case ${1:-} in
'') ;;
--rdma)
	device=rdma
	# Soft-RoCE in an emulated machine is slow, also when it pins memory.
	records=500
	memory=32m
	;;
*) die "usage: demo.sh [--rdma]" ;;
esac
[ $# -le 1 ] || die "usage: demo.sh [--rdma]"
status=0

# load|run, workload, properties...: the figures are then in $tmp/COMMAND-WORKLOAD
bench() {
	local command=$1 workload=$2 result
	shift 2
	"$build/kvbench" "$command" -a "$kvd_url" --json -t "$threads" \
		-P "$bench_dir/workloads/workload$workload" -p recordcount="$records" \
		-p operationcount=0 -p kvd.timeout_ms=20000 "$@" >"$tmp/$command-$workload"
	result=$?
	if [ $result != 0 ]; then
		status=1
		say "kvbench $command, workload $workload: exit status $result"
	fi
}

# COMMAND-WORKLOAD, title, operation
row() {
	local file=$tmp/$1 name p
	name=$(tr '[:upper:]' '[:lower:]' <<<"$3")
	printf '  %-6s %-8s %11s %11s' "$2" "$3" "$(commas "$(figure "$file" "${name}_count")")" \
		"$(commas "$(figure "$file" "${name}_per_second")")"
	for p in mean p50 p99 p99_9; do
		printf ' %9.1f' "$(figure "$file" "${name}_${p}_us")"
	done
	printf '\n'
}

# workload: the cost of its GETs
notes() {
	local file=$tmp/run-$1
	printf '  %s  %s READs and %s round trips per GET; ' "${1^^}" \
		"$(figure "$file" reads_per_get)" "$(figure "$file" round_trips_per_get)"
	printf 'kvd process: %s us of CPU per operation\n' \
		"$(figure "$file" server_cpu_us_per_operation)"
}

# name: over both workloads
sum() {
	echo $(($(figure "$tmp/run-a" "$1") + $(figure "$tmp/run-c" "$1")))
}

kvd_start "$device" -o memory.size=$memory -o memory.eviction=none
say "kvd $(kvd_stat version) at $kvd_url"
say "  device   $(kvd_stat device.0.kind) $(kvd_stat device.0.name): $(kvd_stat device.0.why)"
say "  server   $(kvd_stat workers) workers, $(commas "$(kvd_stat region_bytes)") bytes of memory"
say "  clients  $threads thread$([ $threads = 1 ] || echo s);" \
	"$(commas "$records") records of 10 x 100 bytes, zipfian keys"
say "  A: half reads, half updates.  C: reads only.  ${run_s} s each," \
	"after ${warmup_s} s of warm-up"
say

bench load a
for workload in a c; do
	bench run $workload -p maxexecutiontime=$run_s -p kvd.warmup=$warmup_s
done

printf '  %-6s %-8s %11s %11s %9s %9s %9s %9s\n' YCSB operation count 'per second' 'mean us' \
	p50 p99 p99.9
row load-a load INSERT
row run-a A READ
row run-a '' UPDATE
row run-c C READ
say
notes a
notes c
say "  Every byte of $(commas "$(sum client_hits)") values read was checked:" \
	"$(sum wrong) wrong, $(sum not_found) not found, $(sum failed) operations failed."
say

kvd_stop
result=$?
say "kvd stopped with exit status $result"
[ $result = 0 ] || status=1
exit $status
