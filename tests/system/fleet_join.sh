#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of shards that move with their items, once: a small member joins a fleet, gets its
# share, and is drained. Clients whose histories are checked work all the time. The lease is long,
# so that no busy machine lets it end.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/etcd_lib.sh
. tests/system/etcd_lib.sh
# shellcheck source=tests/system/fleet_lib.sh
. tests/system/fleet_lib.sh
LEASE=8s
MEMORY=512m
# shellcheck source=tests/system/fleet_etcd_lib.sh
. tests/system/fleet_etcd_lib.sh
# shellcheck source=tests/system/history_lib.sh
. tests/system/history_lib.sh

SHARE=496 # of a member of 16 MiB beside one of 512: one move
fleet=$(fleet_url_of a b)
history_of=("$fleet" 0 "$seed" faults)

# The member answers, but the map does not have it: another one seems to have its name.
small_member_waits() {
	fleet_options+=(-o memory.size=16m)
	client_of_etcd put /kvd/demo/members/b other && member_start b
}

# How much is READ into that memory depends on leases that a busy machine may let end.
memory_is_registered() {
	"$build/tests/system/sys_fleet" registered "$(fleet_url_of b)" >"$tmp/registered"
	grep 'values from and to registered memory' "$tmp/registered" | grep '^ok'
}

small_member_joins() {
	etcd_ctl del /kvd/demo/members/b &&
		wait_until "$DEADLINE_S" member_is_above fleet_registrations b 0 &&
		member_is_at fleet_shards b 0
}

follower_starts() {
	"$build/tests/system/sys_move" follow "$fleet" >"$tmp/follower" 2>&1 &
	follower=$!
	pids+=("$follower")
}

follower_ends_well() {
	kill -TERM "$follower"
	await_end "$follower" && forget "$follower"
	tail -n 1 "$tmp/follower"
	[ "$status" = 0 ]
}

gets_its_share() {
	kvctl_of_fleet fleet rebalance && wait_until "$MOVE_S" member_is_at fleet_shards_served b \
		$SHARE && wait_until "$DEADLINE_S" are_open
}

check "an etcd starts" ports_choose
etcd_start 1
check "and works" wait_until "$DEADLINE_S" etcd_works || { tail -n 20 "$tmp/etcd.0" && finish; }
check "a fleet of one starts" fleet_start demo a || finish
check "items of all kinds are stored" items_put
check "clients begin" history_start
check "a small member starts, and can't register" small_member_waits
check "a client registers memory by it" memory_is_registered
check "then it joins, without shards" small_member_joins
follower_starts
fault "it gets its share" gets_its_share
check "  all items are as before" items_are_the_same
fault "it is drained" drains b a
check "  all items are as before" items_are_the_same
check "GETs saw the changes before them" follower_ends_well
check "clients saw nothing wrong" history_end
history_figures
check "it stops" members_stop b
check "  all items are as before" items_are_the_same
check "the other one stops, too" members_stop a
etcd_stop
finish
