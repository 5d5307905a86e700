#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of what many clients see of a server that is killed and started again: no call fails,
# a change that was sent is unknown at most, and they come back, but not all at once. Prints the
# trace (tests/system/sys_outage.c). Then of what one client sees of a server that stays away, or
# hangs: after the first deadline all calls end at once, and how long each of them takes.
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

# One client, whose calls are counted (tests/system/sys_away.c).
away_start() {
	mkfifo "$tmp/steps"
	: >"$tmp/away"
	"$build/tests/system/sys_away" "$url" <"$tmp/steps" >"$tmp/away" 2>&1 &
	away_pid=$!
	pids+=("$away_pid")
	exec {steps}>"$tmp/steps"
	await_line "$tmp/away" "^done: connected" "$away_pid"
}

# what was done to the server
away_step() {
	echo "$1" >&"$steps"
	await_line "$tmp/away" "^done: $1" "$away_pid"
}

has_stopped() {
	[[ $(<"/proc/$server_pid/stat") == *') T '* ]]
}

server_hangs() {
	kill -STOP "$server_pid" && wait_until "$DEADLINE_S" has_stopped
}

check "the server starts" server_start || finish
check "a client starts" away_start || finish
check "kill -9 of the server" server_kill
check "its calls are counted" away_step gone
check "it starts again" server_start || finish
check "the client is back" away_step back
check "the server hangs" server_hangs
check "its calls are counted" away_step hangs
kill -CONT "$server_pid"
check "the client is back" away_step "goes on"
away_step end
await_end "$away_pid" && forget "$away_pid"
checks_of cat "$tmp/away"
check "its end" [ "$status" = 0 ]
check "the server stops" server_stop
finish
