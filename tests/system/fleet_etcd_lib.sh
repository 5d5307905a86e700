# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# For the tests of fleets whose members are in etcd, beside fleet_lib.sh and etcd_lib.sh. `fleet` is
# the URL of the fleet. To be sourced.

SHARDS=16384
LEASE=${LEASE:-2s}

# member
of() {
	choose "$1"
	shift
	"$@"
}

# statistic, member...: its sum
sum_of() {
	local member name=$1 sum=0 value
	shift
	for member; do
		value=$(of "$member" stat_of "$name") || return 1
		sum=$((sum + value))
	done
	echo "$sum"
}

# member...: together they serve all shards
serve_all() {
	[ "$(sum_of fleet_shards_served "$@")" = $SHARDS ]
}

# Members serve all shards, and clients may READ them.
are_open() {
	local line open=0
	while read -r line; do
		[[ ! $line =~ \ open=([0-9]+)\  ]] || open=$((open + BASH_REMATCH[1]))
	done < <(kvctl_of_fleet fleet members)
	[ $open = $SHARDS ]
}

# statistic, member, number
member_is_at() {
	[ "$(of "$2" stat_of "$1")" = "$3" ]
}

member_is_above() {
	[ "$(of "$2" stat_of "$1")" -gt "$3" ]
}

# name: makes a fleet of that name, with members that have not started
fleet_make() {
	fleet_options=(-o "fleet.etcd=$endpoints" -o "fleet.name=$1")
	[ -z "${TENANTS:-}" ] || fleet_options+=(-o "tenants.memory=$TENANTS")
	[ -z "${MEMORY:-}" ] || fleet_options+=(-o "memory.size=$MEMORY")
	"$build/kvd" -c "$tmp/kvd.ini" "${fleet_options[@]}" -o fleet.lease=$LEASE --fleet-init
}

# name, member...
fleet_start() {
	fleet_make "$1" && shift && members_start "$@" && wait_until "$DEADLINE_S" serve_all "$@" &&
		wait_until "$DEADLINE_S" are_open
}

kvctl_of_fleet() {
	"$build/kvctl" -a "$fleet" -t "$CALL_TIMEOUT_MS" "$@"
}

is_killed() { # member
	member_kill "$1" && unset "server_pids[$1]"
}

# A member that lost its shards is one again, without any.
comes_back() {
	member_start "$1" && wait_until "$DEADLINE_S" member_is_above fleet_registrations "$1" 0 &&
		member_is_at fleet_shards "$1" 0
}

# member...
leases_ended() {
	[ "$(sum_of fleet_lease_ms "$@")" = 0 ]
}

# Static stability: nobody serves, and nothing is lost.
etcd_stops() { # member...
	kill -STOP "${etcd_pids[@]}" && wait_until "$DEADLINE_S" leases_ended "$@"
}

MOVE_S=$((DEADLINE_S * 2)) # 11 moves of a lease each, at least

items() {
	"$build/tests/system/sys_move" "$1" "$fleet"
}

items_put() {
	items put && items list >"$tmp/items"
}

# Each has its value, version, flags and expiry time.
items_are_the_same() {
	items list >"$tmp/items.now" && diff "$tmp/items" "$tmp/items.now" >"$tmp/items.diff" &&
		return 0
	head -n 8 "$tmp/items.diff"
	return 1
}

# member: it has about its share of @members
has_its_share() {
	local shards
	shards=$(of "$1" stat_of fleet_shards_served) &&
		[ "$shards" -ge $((SHARDS / $2 - 1)) ] && [ "$shards" -le $((SHARDS / $2 + 1)) ]
}

all_have_their_share() {
	local member
	for member; do
		has_its_share "$member" $# || return 1
	done
}

has_none() {
	[ "$(of "$1" stat_of fleet_shards)" = 0 ]
}

# members that serve...
joins() {
	kvctl_of_fleet fleet rebalance && wait_until "$MOVE_S" all_have_their_share "$@" &&
		wait_until "$DEADLINE_S" are_open
}

# member, others...
drains() {
	local drained=$1
	shift
	kvctl_of_fleet fleet drain "$drained" && wait_until "$MOVE_S" has_none "$drained" &&
		wait_until "$DEADLINE_S" serve_all "$@" && wait_until "$DEADLINE_S" are_open
}
