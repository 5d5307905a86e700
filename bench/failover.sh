#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures what faults cost a fleet of three with three etcd, on softnic: how long the shards of a
# member that is killed are not served, of one that is not the controller, of the controller, and of
# one that is killed together with etcd's leader; what look-ups of the keys of a member that is away
# take; and how many items are lost while etcd is down, or when a member has lost its lease.
#
#   bench/failover.sh [-r ROUNDS] [-d SECONDS]
#
# Each of ROUNDS (3) makes three fleets. A fleet is looked at about every 50 ms. etcd is down for
# SECONDS (60).
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=bench/etcd_lib.sh
. "$bench_dir/etcd_lib.sh"

rounds=3
down_s=60
while getopts d:r: option; do
	case $option in
	d) down_s=$OPTARG ;;
	r) rounds=$OPTARG ;;
	*) die "usage: failover.sh [-r ROUNDS] [-d SECONDS]" ;;
	esac
done
builds_find
options=(-o server.workers=1 -o memory.size=64m)
url=fleet+softnic://$tmp/a,$tmp/b,$tmp/c
RECORDS=10000

controller_is() {
	[ "$(member_stat "$1" fleet_controller)" = 1 ]
}

fleet_start() { # name
	local member
	fleet_init "$1"
	for member in a b c; do
		fleet_member_start $member "${options[@]}"
	done
	wait_until "$READY_S" fleet_is_served a b c || die "the fleet does not serve"
}

fleet_end() { # member...
	local member
	for member; do
		kill -KILL "${member_pids[$member]}"
	done
	wait "${member_pids[a]}" "${member_pids[b]}" "${member_pids[c]}" 2>/dev/null
}

# Sets leader to the number of etcd's.
leader_find() {
	leader=$(ETCDCTL_API=3 etcdctl --endpoints "$etcd_url" endpoint status 2>/dev/null |
		awk -F ', ' '$5 == "true" { print NR - 1 }')
	[ -n "$leader" ]
}

says() { # file, pattern
	grep -q "$2" "$1"
}

# Begins look-ups of keys of all members.
client_start() { # name of a fleet
	mkfifo "$tmp/to"
	"$build/micro" away "$url/$1" <"$tmp/to" >"$tmp/away" 2>&1 &
	client=$!
	pids+=($!)
	exec 3>"$tmp/to"
	rm "$tmp/to"
	wait_until "$READY_S" says "$tmp/away" ready || die "micro failed: $(cat "$tmp/away")"
}

client_end() {
	local first p50 p99
	wait "$client" || die "micro failed: $(cat "$tmp/away")"
	exec 3>&-
	read -r _ first _ p50 p99 < <(tail -n 1 "$tmp/away")
	note first "$first"
	note p50 "$p50"
	note p99 "$p99"
}

# which, member to kill, others...
failover() {
	local which=$1 killed=$2 start
	shift 2
	kill -KILL "${member_pids[$killed]}"
	start=$(date +%s%N)
	[ "$which" != member ] || echo >&3
	[ "$which" != leader ] || kill -KILL "${etcd_pids[leader]}"
	wait_until "$READY_S" fleet_is_served "$@" || die "nobody serves the shards of $killed"
	note "$which" "$(awk -v ns=$(($(date +%s%N) - start)) 'BEGIN { printf "%.2f", ns / 1e9 }')"
	[ "$which" != member ] || client_end
	fleet_end "$@"
}

# name of a fleet, what to kill: member, controller, or leader (a member and etcd's leader)
round() {
	local member list=()
	fleet_start "$1"
	for member in a b c; do
		if controller_is "$member"; then
			list=("$member" "${list[@]}")
		else
			list+=("$member")
		fi
	done
	[ "$2" = controller ] || list=("${list[@]:1}" "${list[0]}")
	[ "$2" != member ] || client_start "$1"
	[ "$2" != leader ] || wait_until "$READY_S" leader_find || die "etcd has no leader"
	failover "$2" "${list[@]}"
	[ "$2" != leader ] || etcd_member_start "$leader"
}

counted() {
	"$build/kvctl" -a "$url/items" -t 20000 count >"$tmp/count" 2>"$tmp/count.err"
}

# Sets count to how many of the loaded items are found, once no member is away.
items_count() {
	wait_until "$READY_S" counted || die "the items can't be counted: $(cat "$tmp/count.err")"
	count=$(cat "$tmp/count")
}

nobody_serves() {
	local member
	for member in a b c; do
		[ "$(member_stat $member fleet_lease_ms)" = 0 ] || return 1
	done
}

# Loses no item, as no member has lost its shards.
etcd_is_down() {
	kill -STOP "${etcd_pids[@]}"
	wait_until "$READY_S" nobody_serves || die "the leases do not end"
	sleep "$down_s"
	kill -CONT "${etcd_pids[@]}"
	wait_until "$READY_S" fleet_is_served a b c || die "the fleet does not serve again"
}

registers_again() {
	[ "$(member_stat a fleet_registrations)" -gt "$registrations" ]
}

lease_is_lost() {
	registrations=$(member_stat a fleet_registrations)
	ETCDCTL_API=3 etcdctl --endpoints "$etcd_url" del /kvd/items/members/a >"$tmp/del"
	wait_until "$READY_S" registers_again || die "a does not register again"
	wait_until "$READY_S" fleet_is_served a b c || die "the fleet does not serve again"
}

etcd_start 3
for ((i = 0; i < rounds; i++)); do
	round "member$i" member
	round "controller$i" controller
	round "leader$i" leader
done
fleet_start items
"$build/kvbench" load -a "$url/items" -p recordcount=$RECORDS -p fieldcount=1 \
	-p fieldlength=100 >"$tmp/load" 2>&1 || die "kvbench failed"
items_count
loaded=$count
etcd_is_down
items_count
lost_down=$((loaded - count))
lease_is_lost
items_count
lost_lease=$((loaded - lost_down - count))
say "$(host)"
say "seconds until all shards are served, median of $rounds, leases of 2 s:"
say "  a member is killed                    $(median member)"
say "  the controller is killed              $(median controller)"
say "  a member and etcd's leader are killed $(median leader)"
say "look-ups of keys of the killed member: $(median first) ms the first one, then us:" \
	"p50 $(median p50), p99 $(median p99)"
say "items lost, of $loaded: etcd down for $down_s s $lost_down, a member's lease lost $lost_lease"
