#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of a user's requests and bytes (users.file): a client that asks for more gets LIMIT
# and goes on later, a value larger than the bucket passes alone, and a client's connections share
# what it has. users.sh has clients that notice nothing of each other's limits. shellcheck
# source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
RATE=100
BYTES=2m

users() {
	printf '%s\n' '[user *]' 'rights = all' "$1" >"$tmp/users"
}

# kvctl is the same client, whose debt is paid in half a second.
tokens_come() {
	sleep 1
}

limited() {
	tokens_come && [ "$(stat_of requests_over_limit)" -gt 0 ]
}

# At least as often as a client saw it: a slow device may not get to the limit of bytes at all.
limited_as_seen() {
	local seen
	seen=$(grep -cE 'after [1-9][0-9]* refused|then: .*over its limit' "$tmp/checks.out")
	tokens_come && [ "$(stat_of requests_over_limit)" -ge "$seen" ]
}

nobody_was_disconnected() {
	tokens_come && stat_is connections_failed 0
}

# The clients' values are no leak.
nothing_is_left() {
	tokens_come && kvctl flush && tokens_come && nothing_is_held 1
}

check "the server starts" server_start
check "one request after the other, without a limit" kvctl put key value
check "none is refused" stat_is requests_over_limit 0
check "the server stops" server_stop

users "requests = $RATE"
check "the server starts with a limit of requests" server_start -o "users.file=$tmp/users" || finish
check "what the server holds is noted" held_note
checks_of "$build/tests/system/sys_limits" requests "$url" $RATE
check "refused requests are counted" limited
check "the error says what is over its limit" grep -q 'over its limit' "$tmp/checks.out"
check "nobody lost a connection" nobody_was_disconnected
check "nothing is left of them" nothing_is_left
check "the server stops" server_stop

users "bytes = $BYTES"
check "the server starts with a limit of bytes" server_start -o "users.file=$tmp/users"
check "what the server holds is noted" held_note
checks_of "$build/tests/system/sys_limits" bytes "$url" $((2 << 20))
check "refused requests are counted" limited_as_seen
check "nobody lost a connection" nobody_was_disconnected
check "nothing is left of them" nothing_is_left
check "the server stops" server_stop
finish
