#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of connections that are lost and made again: clients work while their connections are
# closed again and again, and while the server is killed, stopped and started. No call fails, except
# changes whose outcome is unknown, and these are counted.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

THREADS=6
ROUNDS=4
KILLS=100 more=60
[ "$device" = softnic ] || KILLS=30 more=4
! brief || THREADS=3
[ "${KVD_TEST_LONG:-0}" != 1 ] || KILLS=$((KILLS * more)) ROUNDS=8

reconnect_start() { # same or restart
	: >"$tmp/reconnect"
	"$build/tests/system/sys_reconnect" "$url" $THREADS "$1" >"$tmp/reconnect" 2>&1 &
	reconnect_pid=$!
	pids+=("$reconnect_pid")
	await_line "$tmp/reconnect" "all clients are connected" "$reconnect_pid"
}

# sys_reconnect's checks become those of this test.
reconnect_end() {
	kill -TERM "$reconnect_pid" && await_end "$reconnect_pid"
	forget "$reconnect_pid"
	checks_of cat "$tmp/reconnect"
	[ "$status" = 0 ]
}

# What the program counted.
figures() {
	grep -E '^[0-9]+ (changes done|connections killed)' "$1" | sed 's/^/      | /'
}

# Increments are counted while all connections are closed all the time, by the program itself.
counted() {
	local status=0
	"$build/tests/system/sys_reconnect" "$url" $THREADS $KILLS >"$tmp/counted" 2>&1 || status=$?
	checks_of cat "$tmp/counted"
	return $status
}

# Closes the connections of all clients, of which some have ended meanwhile.
connections_kill() {
	local id
	for id in $(kvctl clients | sed -n 's/^id=\([0-9]*\) .*/\1/p'); do
		kvctl kill "$id" >/dev/null 2>&1
	done
	wait_until "$DEADLINE_S" all_are_back
}

# The connections of the threads and kvctl's own are all in use.
all_are_back() {
	[ "$(kvctl clients | grep -c 'state=open')" -gt $THREADS ]
}

check "the server starts" server_start || finish
check "increments are counted exactly while connections are killed" counted
figures "$tmp/counted"

# As an operator does it.
connections_are_closed() {
	check "clients start" reconnect_start same || finish
	for round in $(seq $ROUNDS); do
		check "connections are closed, and come back ($round)" connections_kill
	done
	check "the clients end" reconnect_end
	figures "$tmp/reconnect"
}
brief || connections_are_closed

check "clients start" reconnect_start restart || finish
check "kill -9 of the server" server_kill
check "it starts again" server_start || finish
check "all clients are back" wait_until "$DEADLINE_S" all_are_back
check "it stops" server_stop
check "and starts" server_start || finish
check "all clients are back" wait_until "$DEADLINE_S" all_are_back
check "the clients end" reconnect_end
figures "$tmp/reconnect"
check "the server stops" server_stop
finish
