#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures how long the shards of a member that is killed are not served, in a fleet of three with
# an etcd, on softnic: of a member that is not the controller, and of the controller.
#
#   bench/failover.sh [-r ROUNDS]
#
# Each of ROUNDS (3) makes two fleets. A fleet is looked at about every 50 ms.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=bench/etcd_lib.sh
. "$bench_dir/etcd_lib.sh"

rounds=3
while getopts r: option; do
	case $option in
	r) rounds=$OPTARG ;;
	*) die "usage: failover.sh [-r ROUNDS]" ;;
	esac
done
options=(-o server.workers=1 -o memory.size=64m)

controller_is() {
	[ "$(member_stat "$1" fleet_controller)" = 1 ]
}

# which, member to kill, others...
failover() {
	local which=$1 killed=$2 start
	shift 2
	kill -KILL "${member_pids[$killed]}"
	start=$(date +%s%N)
	wait_until "$READY_S" fleet_is_served "$@" || die "nobody serves the shards of $killed"
	note "$which" "$(awk -v ns=$(($(date +%s%N) - start)) 'BEGIN { printf "%.2f", ns / 1e9 }')"
	for member; do
		kill -KILL "${member_pids[$member]}"
	done
	wait "${member_pids[a]}" "${member_pids[b]}" "${member_pids[c]}" 2>/dev/null
}

# name of a fleet, whether to kill its controller
round() {
	local member list=()
	fleet_init "$1"
	for member in a b c; do
		fleet_member_start $member "${options[@]}"
	done
	wait_until "$READY_S" fleet_is_served a b c || die "the fleet does not serve"
	for member in a b c; do
		if controller_is "$member"; then
			list=("$member" "${list[@]}")
		else
			list+=("$member")
		fi
	done
	[ "$2" = 1 ] || list=("${list[@]:1}" "${list[0]}")
	failover "controller-$2" "${list[@]}"
}

etcd_start
for ((i = 0; i < rounds; i++)); do
	round "member$i" 0
	round "controller$i" 1
done
say "$(host)"
say "seconds until all shards are served, median of $rounds, leases of 2 s:"
say "  a member is killed       $(median controller-0)"
say "  the controller is killed $(median controller-1)"
