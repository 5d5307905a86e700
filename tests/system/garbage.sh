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

check "the server starts" server_start -o server.handshake_timeout=2s -o server.pull_timeout=2s ||
	finish
# `kkkkk` is the key that rogues write; what it holds at the end is as long as now. Before that it holds
# as much as the smallest value that a rogue has the server pull: the slab for it is there then, and
# the end of that slab, too short for a block, is not taken for a leak.
check "a value to be kept" kvctl put precious intact
check "a short value of the rogues" kvctl put kkkkk "$(printf 'v%.0s' $(seq 100))"
check "the rogues' value" kvctl put kkkkk "$(printf 'v%.0s' $(seq 1000))"
# As long as the neighbour's: while it puts one, the old and the new value are both there.
check "the neighbour's value" kvctl put neighbour "$(printf 'v%.0s' $(seq 3000))"
check "the memory is looked at" memory_note || finish
client_start neighbour "$tmp/neighbour" loop "$url" mix neighbour 3000 2000
check "a neighbour works" await_line "$tmp/neighbour" '^looping' "$neighbour" || finish

checks_of rogue all

check "the neighbour never noticed" neighbour_ends_well
kvctl put kkkkk "$(printf 'v%.0s' $(seq 1000))"
check "connections and memory have come back" nothing_is_held 1
check "the server stops" server_stop
finish
