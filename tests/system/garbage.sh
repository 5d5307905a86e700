#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of clients that break the protocol, in every way that tests/system/sys_rogue.c knows.
# Each loses its connection or gets an error; the server logs one clear line; a neighbour that works
# all the time, and a new client after each case, are not affected (guarantees D and F).
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
# The rogues write the key `kkkkk`, whose value is as long at the end as now. Before, it is put
# with the length of the smallest value that a rogue has the server pull: so that slab exists
# already, and its end, which is too short for a block, does not count as a leak.
check "a value that must stay" kvctl put precious intact
check "a short value of the rogues" kvctl put kkkkk "$(printf 'v%.0s' $(seq 100))"
check "the rogues' value" kvctl put kkkkk "$(printf 'v%.0s' $(seq 1000))"
# As long as the neighbour's: during its PUT the old and the new value both exist.
check "the neighbour's value" kvctl put neighbour "$(printf 'v%.0s' $(seq 3000))"
check "the free memory is noted" memory_note || finish
client_start neighbour "$tmp/neighbour" loop "$url" mix neighbour 3000 2000
check "a neighbour works" await_line "$tmp/neighbour" '^looping' "$neighbour" || finish

checks_of rogue all

check "the neighbour worked without an error" neighbour_ends_well
kvctl put kkkkk "$(printf 'v%.0s' $(seq 1000))"
check "the server has released their memory and connections" nothing_is_held 1
check "the server stops" server_stop
finish
