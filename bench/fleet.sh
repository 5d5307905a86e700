#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares a fleet of three members with one server, all on softnic: the client's instructions for
# a synchronous GET and PUT, READs for each GET, and the latency of YCSB's workload C.
#
#   bench/fleet.sh [-d DEVICE] [-e] [-n CALLS] [-s SECONDS] [-r ROUNDS]
#
# callgrind counts each of CALLS (300; 0: none) alone; the lowest count stands, as in call-cost.sh.
# Workload C runs for SECONDS (2) on either, in turn, ROUNDS (3) times; the medians stand. With -e
# the members have leases of an etcd; without it a file names them. With -d rdma all are on one RDMA
# device (KVD_RDMA_ADDR).
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=bench/etcd_lib.sh
. "$bench_dir/etcd_lib.sh"

device=softnic
calls=300
seconds=2
rounds=3
leases=0
while getopts d:en:s:r: option; do
	case $option in
	d) device=$OPTARG ;;
	e) leases=1 ;;
	n) calls=$OPTARG ;;
	s) seconds=$OPTARG ;;
	r) rounds=$OPTARG ;;
	*) die "usage: fleet.sh [-d DEVICE] [-e] [-n CALLS] [-s SECONDS] [-r ROUNDS]" ;;
	esac
done
[ "$calls" = 0 ] || need_hint='apt-get install valgrind' need valgrind
builds_find
options=(-o server.workers=1 -o memory.size=64m -o memory.eviction=none)

declare -A at=([a]=$tmp/a [b]=$tmp/b [c]=$tmp/c) urls
scheme=fleet+softnic
if [ "$device" != softnic ]; then
	port=$((20000 + $$ % 10000))
	for member in a b c; do
		at[$member]=${KVD_RDMA_ADDR:-}:$((++port))
	done
	scheme=fleet
fi

member_responds() {
	"$build/kvctl" -a "$device://${at[$1]}" ping >/dev/null 2>&1
}

fleet_with_etcd_start() {
	local member
	etcd_start
	fleet_init bench
	for member in a b c; do
		fleet_member_start $member "${options[@]}"
	done
	wait_until "$READY_S" fleet_is_served a b c || die "the fleet does not serve"
}

fleet_start() {
	local member
	printf '%s\n' '[fleet]' 'name = bench' 'seed = 0x8f3a5c0de1b24697' 'epoch = 1' >"$tmp/fleet"
	for member in a b c; do
		printf '%s\n' "[member $member]" "url = $device://${at[$member]}" >>"$tmp/fleet"
	done
	for member in a b c; do
		"$build/kvd" -o server.listen="$device://${at[$member]}" \
			-o fleet.file="$tmp/fleet" -o fleet.member=$member "${options[@]}" \
			>"$tmp/kvd.$member.log" 2>&1 &
		pids+=($!)
		wait_until "$READY_S" member_responds $member || die "member $member did not start"
	done
}

# one or fleet, load or run
workload() {
	"$build/kvbench" "$2" -a "${urls[$1]}" -P "$bench_dir/workloads/workloadc" --json \
		-p recordcount=10000 -p operationcount=0 -p maxexecutiontime="$seconds" \
		-p fieldcount=1 -p fieldlength=100 >"$tmp/run" || die "kvbench failed"
}

[ "$device" = softnic ] || [ $leases = 0 ] || die "-e is for softnic"
kvd_start "$device" "${options[@]}"
urls[one]=$kvd_url
if [ $leases = 1 ]; then fleet_with_etcd_start; else fleet_start; fi
urls[fleet]=$scheme://${at[a]},${at[b]}/bench
for of in one fleet; do
	for op in $([ "$calls" = 0 ] || echo get put); do
		note "$op-$of" "$(call_instructions "$build" $op "${urls[$of]}" "$calls")"
	done
	workload $of load
done
for ((i = 0; i < rounds; i++)); do
	for of in one fleet; do
		workload $of run
		note "p50-$of" "$(figure "$tmp/run" read_p50_us)"
		note "p99-$of" "$(figure "$tmp/run" read_p99_us)"
		note "reads-$of" "$(figure "$tmp/run" reads_per_get)"
	done
done
say "$(host)"
printf '%-32s %10s %10s %8s\n' '' 'one server' 'fleet of 3' ratio
# name, title
row() {
	printf '%-32s %10s %10s %8s\n' "$2" "$(median "$1-one")" "$(median "$1-fleet")" \
		"$(ratio "$(median "$1-fleet")" "$(median "$1-one")")"
}
if [ "$calls" != 0 ]; then
	row get 'instructions of a GET, warm'
	row put 'instructions of a PUT'
fi
row reads 'READs for each GET'
row p50 'GET, p50, us'
row p99 'GET, p99, us'
