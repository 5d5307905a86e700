#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of what many clients see of a server that is killed and started again: no call fails,
# a change that was sent is unknown at most, and they come back, but not all at once. Prints the
# trace (tests/system/sys_outage.c).
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

CLIENTS=100
[ "$device" = softnic ] || CLIENTS=20
outage_start() {
	: >"$tmp/outage"
	"$build/tests/system/sys_outage" "$url" $CLIENTS >"$tmp/outage" 2>&1 &
	outage_pid=$!
	pids+=("$outage_pid")
	await_line "$tmp/outage" "^all are connected" "$outage_pid"
}

check "the server starts" server_start -o server.max_connections=256 || finish
check "$CLIENTS clients start" outage_start || finish
check "kill -9 of the server" server_kill
check "tries to connect fail" await_line "$tmp/outage" "^tries fail" "$outage_pid"
check "it starts again" server_start -o server.max_connections=256 || finish
check "all clients are back" await_line "$tmp/outage" "^all are back" "$outage_pid"
kill -TERM "$outage_pid" && await_end "$outage_pid" && forget "$outage_pid"
checks_of cat "$tmp/outage"
check "their end" [ "$status" = 0 ]
check "the server stops" server_stop
finish
