#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of shards that move with their items: a member joins and gets its share, another is
# drained, and each end of a move is killed or stopped in the middle, or etcd is. Clients whose
# histories are checked work all the time.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/etcd_lib.sh
. tests/system/etcd_lib.sh
# shellcheck source=tests/system/fleet_lib.sh
. tests/system/fleet_lib.sh
# shellcheck source=tests/system/fleet_etcd_lib.sh
. tests/system/fleet_etcd_lib.sh
# shellcheck source=tests/system/history_lib.sh
. tests/system/history_lib.sh

fleet=$(fleet_url_of a b c)
history_of=("$fleet" 0 "$seed" faults)

# member: it copies items now
is_copying() {
	[[ $(of "$1" kvctl stats) =~ fleet_move_state\ (copies|frozen|gives) ]]
}

# The move begins again, since the other end was lost, and others hold its shards.
dies_in_a_move() { # giver, killed member, others...
	local giver=$1 killed=$2
	shift 2
	wait_until "$DEADLINE_S" is_copying "$giver" && is_killed "$killed" &&
		wait_until "$DEADLINE_S" serve_all "$@"
}

etcd_stops_in_a_move() { # giver, members...
	local giver=$1
	shift
	wait_until "$DEADLINE_S" is_copying "$giver" && etcd_stops "$@" &&
		kill -CONT "${etcd_pids[@]}" && wait_until "$DEADLINE_S" serve_all "$@"
}

nothing_is_left() {
	items list | grep -v 'not found' | head -n 3 >"$tmp/flushed"
	[ ! -s "$tmp/flushed" ] || ! cat "$tmp/flushed"
}

# What a flush does not reach would come back with a shard.
flushes_in_a_move() { # giver
	wait_until "$DEADLINE_S" is_copying "$1" && kvctl_of_fleet flush && nothing_is_left
}

# A store that is made ends the move, which begins again with it.
tenants_are_made() { # giver, others...
	local member
	wait_until "$DEADLINE_S" is_copying "$1" || return 1
	for member; do
		of "$member" kvctl tenant create t2 16m || return 1
	done
}

# A member that starts again does not have it, and takes no shards without.
tenants_are_dropped() {
	local member
	for member; do
		of "$member" kvctl tenant drop t2 || return 1
	done
}

# The others flush what they have: the items that move to them meanwhile stay.
others_flush() { # giver, others...
	local giver=$1 member
	shift
	wait_until "$DEADLINE_S" is_copying "$giver" || return 1
	for member; do
		of "$member" kvctl flush || return 1
	done
	items list >"$tmp/items" && grep -q ends "$tmp/items"
}

# A key that is there all the time is in the dump, wherever its shard is.
dumps_in_a_move() { # giver
	wait_until "$DEADLINE_S" is_copying "$1" && kvctl_of_fleet dump "$tmp/dump" move: &&
		kvctl restore --verify "$tmp/dump"
}

restores_in_a_move() { # giver
	wait_until "$DEADLINE_S" is_copying "$1" && kvctl_of_fleet restore "$tmp/dump"
}

# Each has its value, flags and expiry time; the versions are new.
items_are_restored() {
	items list >"$tmp/items.now" &&
		diff <(cut -d ' ' -f 1,3- "$tmp/items") <(cut -d ' ' -f 1,3- "$tmp/items.now")
}

undrained() {
	kvctl_of_fleet fleet undrain "$1"
}

check "an etcd starts" ports_choose
etcd_start 1
check "and works" wait_until "$DEADLINE_S" etcd_works || { tail -n 20 "$tmp/etcd.0" && finish; }
TENANTS=64m
check "a fleet of two starts" fleet_start demo a b || finish
check "items of all kinds are stored" items_put
check "clients begin" history_start
check "a member comes without shards" comes_back c
fault "it gets its share" joins a b c
check "  all items are as before" items_are_the_same
fault "a member is drained" drains b a c
check "  all items are as before" items_are_the_same
check "it stops, and nothing is lost" members_stop b
check "  all items are as before" items_are_the_same
check "it starts again" comes_back b
fault "and gets its share" joins a b c
check "  all items are as before" items_are_the_same
check "a drain begins" kvctl_of_fleet fleet drain a
fault "a tenant is made in the middle of it" tenants_are_made a b c
check "  then it is drained" wait_until "$MOVE_S" has_none a
check "  all items are as before" items_are_the_same
check "the tenant is dropped" tenants_are_dropped a b c
check "it gets shards again" undrained a
fault "  its share" joins a b c
check "etcd is away in the middle of a drain" kvctl_of_fleet fleet drain c
fault "  and goes on" etcd_stops_in_a_move c a b c
check "  then it is drained" wait_until "$MOVE_S" has_none c
check "  all items are as before" items_are_the_same
check "it gets shards again" undrained c
fault "  its share" joins a b c
check "  all items are as before" items_are_the_same
check "clients saw nothing wrong" history_end
history_figures
history_of=("$fleet" 0 "$seed" failovers)
check "clients begin" history_start
check "a target is killed in the middle of a move" kvctl_of_fleet fleet drain a
fault "  and others go on" dies_in_a_move a b a c
check "  then it is drained" wait_until "$MOVE_S" has_none a
check "the killed member starts again" comes_back b
check "and the drained one gets shards again" undrained a
fault "  all have their share" joins a b c
check "clients saw nothing wrong" history_end
history_figures
check "items are stored" items_put
check "a drain begins" kvctl_of_fleet fleet drain b
check "the others flush in the middle of it" others_flush b a c
check "  then it is drained" wait_until "$MOVE_S" has_none b
check "  what it had is there" items_are_the_same
check "it gets shards again" undrained b
check "  its share" joins a b c
check "items are stored" items_put
check "a drain begins" kvctl_of_fleet fleet drain c
check "a flush in the middle of it leaves nothing" flushes_in_a_move c
check "  then it is drained" wait_until "$MOVE_S" has_none c
check "  and nothing is there" nothing_is_left
check "it gets shards again" undrained c
check "  its share" joins a b c
check "items are stored" items_put
check "a drain begins" kvctl_of_fleet fleet drain a
check "a dump in the middle of it" dumps_in_a_move a
check "  then it is drained" wait_until "$MOVE_S" has_none a
check "what was there is lost" kvctl_of_fleet flush
check "it gets shards again" undrained a
check "  and others begin to give them" kvctl_of_fleet fleet rebalance
check "the dump is restored in the middle of that" restores_in_a_move b
check "  each has its share" wait_until "$MOVE_S" all_have_their_share a b c
check "  and all items are as they were dumped" items_are_restored
check "the members stop" members_stop a b c
etcd_stop
finish
