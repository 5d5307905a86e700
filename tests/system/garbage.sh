#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Clients that break the rules, in every way that tests/system/sys_rogue.c knows. Each loses its
# connection, or is told; the server logs one clear line; and a neighbour that works all the while,
# as well as a new client at once after each, notices nothing (guarantees D and F).
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
neighbour= # set by client_start

neighbour_ends_well() {
	kill -TERM "$neighbour" && await_end "$neighbour" && forget "$neighbour"
	tail -n 1 "$tmp/neighbour"
	[ "$status" = 0 ] && grep -q '^ended well' "$tmp/neighbour"
}

# What the rogues held has come back: only this look's own connection is there, no item was leaked.
nothing_is_left() {
	wait_until "$DEADLINE_S" stat_is connections 1 &&
		[ "$(stat_of item_memory_used_bytes)" = "$used_before" ] && return 0
	echo "item_memory_used_bytes: $used_before before"
	kvctl stats | grep -E "^(connections|items|inserts|removes|overflow|item_memory)"
	return 1
}

check "the server starts" server_start -o server.handshake_timeout=2s -o server.pull_timeout=2s ||
	finish
# `kkkkk` is the key that rogues write; what it holds at the end is as long as now.
check "a value to be kept" kvctl put precious intact
check "the rogues' value" kvctl put kkkkk "$(printf 'v%.0s' $(seq 1000))"
# As long as the neighbour's: while it puts one, the old and the new value are both there.
check "the neighbour's value" kvctl put neighbour "$(printf 'v%.0s' $(seq 3000))"
used_before=$(stat_of item_memory_used_bytes)
client_start neighbour "$tmp/neighbour" loop "$url" mix neighbour 3000 2000
check "a neighbour works" await_line "$tmp/neighbour" '^looping' "$neighbour" || finish

checks_of rogue all

check "the neighbour never noticed" neighbour_ends_well
kvctl put kkkkk "$(printf 'v%.0s' $(seq 1000))"
check "connections and memory have come back" nothing_is_left
check "the server stops" server_stop
finish
