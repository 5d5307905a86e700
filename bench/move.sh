#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures what moving shards costs clients, in a fleet with an etcd on softnic: a third member gets
# its share from two, then it is drained.
#
#   bench/move.sh [-n RECORDS] [-t TARGET]
#
# YCSB's workload A, with RECORDS (100000) of 1 KB, TARGET (5000) operations a second, runs before
# and during the moves. Prints latencies of updates and reads, and their ratio; how many shards have
# moved; and how many items were lost, of all that were loaded: 0.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=bench/etcd_lib.sh
. "$bench_dir/etcd_lib.sh"

records=100000
target=5000
while getopts n:t: option; do
	case $option in
	n) records=$OPTARG ;;
	t) target=$OPTARG ;;
	*) die "usage: move.sh [-n RECORDS] [-t TARGET]" ;;
	esac
done
url=fleet+softnic://$tmp/a,$tmp/b,$tmp/c/bench
options=(-o server.workers=1 -o memory.size=512m -o memory.eviction=none)
RUN_S=8    # of the workload, before and during moves
MOVES_S=90 # of the longest moves here

# load or run, seconds, file
workload() {
	"$build/kvbench" "$1" -a "$url" -P "$bench_dir/workloads/workloada" --json \
		-p recordcount="$records" -p operationcount=0 -p maxexecutiontime="$2" \
		-p fieldcount=1 -p fieldlength=1000 -p kvd.timeout_ms=20000 \
		-p target="$target" >"$3" || die "kvbench failed"
}

shards_are() { # member, least, most
	local shards
	shards=$(member_stat "$1" fleet_shards_served)
	[ "${shards:-0}" -ge "$2" ] && [ "${shards:-0}" -le "$3" ]
}

items() {
	local member sum=0 of
	for member in a b c; do
		of=$(member_stat "$member" items)
		sum=$((sum + of))
	done
	echo $sum
}

items_are_all() {
	[ "$(items)" = "$records" ]
}

# name, command...: runs the workload while the command's moves go on, for less than these last
during() {
	local name=$1 start
	shift
	start=$(date +%s%N)
	"$build/kvctl" -a "$url" fleet "$@" >/dev/null || die "kvctl fleet $* failed"
	workload run $RUN_S "$tmp/$name"
	! moved || die "the moves have ended before the workload"
	wait_until "$MOVES_S" moved || die "the moves do not end"
	took[$name]=$(awk -v ns=$(($(date +%s%N) - start)) 'BEGIN { printf "%.1f", ns / 1e9 }')
}

declare -A took
etcd_start
fleet_init bench
for member in a b; do
	fleet_member_start $member "${options[@]}"
done
wait_until "$READY_S" fleet_is_served a b || die "the fleet does not serve"
workload load 1000 "$tmp/load"
fleet_member_start c "${options[@]}"
is_registered() { [ "$(member_stat c fleet_registrations)" = 1 ]; }
wait_until "$READY_S" is_registered || die "c is not registered"
workload run $RUN_S "$tmp/before"
moved() { shards_are c $((SHARDS / 3)) $((SHARDS / 3 + 1)); }
during join rebalance
joined=$(member_stat c fleet_shards_served)
wait_until "$READY_S" items_are_all
lost_join=$((records - $(items)))
moved() { shards_are c 0 0; }
during drain drain c
wait_until "$READY_S" items_are_all
lost_drain=$((records - $(items)))
say "$(host)"
printf '%-28s %10s %10s %8s %10s %8s\n' '' before join ratio drain ratio
row() {
	local before join drain
	before=$(figure "$tmp/before" "$1")
	join=$(figure "$tmp/join" "$1")
	drain=$(figure "$tmp/drain" "$1")
	printf '%-28s %10s %10s %8s %10s %8s\n' "$2" "$before" "$join" \
		"$(ratio "$join" "$before")" "$drain" "$(ratio "$drain" "$before")"
}
row update_p50_us 'update, p50, us'
row update_p99_us 'update, p99, us'
row read_p50_us 'read, p50, us'
row read_p99_us 'read, p99, us'
say "seconds: join ${took[join]}, drain ${took[drain]}"
say "shards that moved to the third member: $joined of $SHARDS," \
	"$(awk -v n="$joined" -v all=$SHARDS 'BEGIN { printf "%.4f", n / all }')"
say "items lost: join $lost_join, drain $lost_drain"
