#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of limits.connection_requests and limits.connection_bytes: a client that asks for more
# gets BUSY and goes on later, others notice nothing, and a value larger than the bucket passes
# alone.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
RATE=10
BYTES=2m

limited() {
	[ "$(stat_of requests_limited)" -gt 0 ]
}

# At least as often as a client saw it: a slow device may not get to the limit of bytes at all.
limited_as_seen() {
	local seen
	seen=$(grep -cE 'after [1-9][0-9]* BUSY|then: .*limits\.connection_bytes' "$tmp/checks.out")
	[ "$(stat_of requests_limited)" -ge "$seen" ]
}

# Their values are no leak.
nothing_is_left() {
	kvctl flush && nothing_is_held 1
}

check "the server starts" server_start
check "one request after the other, without a limit" kvctl put key value
check "none is refused" stat_is requests_limited 0
check "the server stops" server_stop

check "the server starts with a limit of requests" server_start \
	-o limits.connection_requests=$RATE || finish
check "what the server holds is noted" held_note
checks_of "$build/tests/system/sys_limits" requests "$url" $RATE
check "refused requests are counted" limited
check "the error names the option" grep -q 'limits.connection_requests' "$tmp/checks.out"
check "nobody lost a connection" stat_is connections_failed 0
check "nothing is left of them" nothing_is_left
check "the server stops" server_stop

check "the server starts with a limit of bytes" server_start -o limits.connection_bytes=$BYTES
check "what the server holds is noted" held_note
checks_of "$build/tests/system/sys_limits" bytes "$url" $((2 << 20))
check "refused requests are counted" limited_as_seen
check "nobody lost a connection" stat_is connections_failed 0
check "nothing is left of them" nothing_is_left
check "the server stops" server_stop
finish
