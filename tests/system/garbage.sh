#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of clients that break the protocol, in every way that tests/system/sys_rogue.c knows.
# Each loses its connection or gets an error; the server logs one clear line; a neighbour that works
# all the time, and a new client after each case, are not affected (guarantees D and F).
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

check "the server starts" server_start -o server.handshake_timeout=5s -o server.pull_timeout=5s \
	-o memory.size=64m || finish
check "a value that must stay" kvctl put precious intact
check "the rogues' value" kvctl put kkkkk "$(printf 'v%.0s' $(seq 1000))"
# As long as the neighbour's: during its PUT the old and the new value both exist.
check "the neighbour's value" kvctl put neighbour "$(printf 'v%.0s' $(seq 3000))"
check "what the server holds is noted" held_note || finish
client_start neighbour "$tmp/neighbour" loop "$url" mix neighbour 3000 2000
check "a neighbour works" await_line "$tmp/neighbour" '^looping' "$neighbour" || finish

checks_of rogue all

check "the neighbour worked without an error" neighbour_ends_well
check "the server has released their memory and connections" nothing_is_held 1
check "the server stops" server_stop

# A scan of uses breaks the protocol only where nothing is evicted.
check "a server that does not evict starts" server_start -o memory.eviction=none || finish
check "a value that must stay here" kvctl put precious intact
checks_of rogue uses_of_scan
check "it stops" server_stop
finish
