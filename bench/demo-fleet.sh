#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The demo of a fleet: starts an etcd and three members on the software device, runs YCSB's workload
# A through a handle of the fleet, kills a member meanwhile, adds one, drains one, and prints what
# clients saw.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=bench/etcd_lib.sh
. "$bench_dir/etcd_lib.sh"

records=20000
seconds=36
kill_after=3
status=0
options=(-o server.workers=1 -o memory.size=128m)
url=fleet+softnic://$tmp/a,$tmp/b,$tmp/c,$tmp/d/demo

bench() {
	"$build/kvbench" "$1" -a "$url" -P "$bench_dir/workloads/workloada" \
		-p recordcount=$records -p operationcount=0 -p kvd.timeout_ms=20000 "${@:2}"
}

fleet_status() {
	"$build/kvctl" -a "$url" fleet status | sed 's/^/    /'
}

# since, in ns: prints the seconds
passed() {
	local cs=$((($(date +%s%N) - $1) / 10000000))
	echo "$((cs / 100)).$(printf %02d $((cs % 100))) s"
}

# member: serves its share, or none
is_registered() {
	[ "$(member_stat "$1" fleet_registrations)" = 1 ]
}
has_shards() {
	[ "$(member_stat "$1" fleet_shards_served)" -ge $((SHARDS / 3)) ] 2>/dev/null
}
has_none() {
	[ "$(member_stat "$1" fleet_shards)" = 0 ]
}

etcd_start
fleet_init demo
say "an etcd at $etcd_url, with a fleet, made by"
say "    kvd -o fleet.etcd=$etcd_url -o fleet.name=demo --fleet-init"
for member in a b c; do
	fleet_member_start $member "${options[@]}"
done
say "three members start; they wait for each other for two leases, of 2 s, then share the keys:"
wait_until "$READY_S" fleet_is_served a b c ||
	{ tail -n 3 "$tmp"/kvd.*.log >&2 && die "the fleet does not serve"; }
fleet_status
say "YCSB's workload A on $(commas $records) records for $seconds s: half reads, half updates;" \
	"b is killed after $kill_after s"
bench load >"$tmp/load" 2>&1 || { cat "$tmp/load" >&2 && die "kvbench load failed"; }
bench run -s -p maxexecutiontime=$seconds >"$tmp/run" 2>"$tmp/progress" &
bench_pid=$!
pids+=("$bench_pid")
sleep $kill_after
{ kill -KILL "${member_pids[b]}" && wait "${member_pids[b]}"; } 2>/dev/null
start=$(date +%s%N)
wait_until "$READY_S" fleet_is_served a c || die "nobody serves the shards of b"
say "its shards are served again, empty, by a and c, after $(passed "$start")"
fleet_member_start d "${options[@]}"
wait_until "$READY_S" is_registered d || die "d is not registered"
say "d joins, and \`kvctl fleet rebalance\` gives it its share, with the items"
start=$(date +%s%N)
"$build/kvctl" -a "$url" fleet rebalance >/dev/null || die "no rebalance"
wait_until "$READY_S" has_shards d || die "d gets no shards"
say "after $(passed "$start"):"
fleet_status
say "\`kvctl fleet drain a\`: a gives its shards, with the items, to the others"
start=$(date +%s%N)
"$build/kvctl" -a "$url" fleet drain a >/dev/null || die "no drain"
wait_until "$READY_S" has_none a || die "a keeps shards"
say "after $(passed "$start"), so it can be stopped:"
fleet_status
kill -TERM "${member_pids[a]}"
wait "${member_pids[a]}" || status=1
say "what clients saw each second, and in all:"
wait "$bench_pid"
sed 's/^/    /' "$tmp/progress"
sed 's/^/    /' "$tmp/run"
wrong=$(sed -n 's/^wrong values  *\([0-9]*\) of .*/\1/p' "$tmp/run")
[ "${wrong:-1}" = 0 ] || status=1
for member in c d; do
	kill -TERM "${member_pids[$member]}"
	wait "${member_pids[$member]}" || status=1
done
exit $status
