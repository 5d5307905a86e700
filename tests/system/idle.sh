#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of guarantee E, that GETs cost the server no CPU time and no request: they are done
# while it is stopped, and when it goes on it finds nothing to do for them. And its workers sleep
# when nobody needs them.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

rounds=100 # of 1,000 GETs
[ "$device" = softnic ] || rounds=10
[ "${KVD_TEST_LONG:-}" != 1 ] || rounds=$((rounds * 10))

# Prints of each worker its state and how often it has waited for something.
workers_waits() {
	local task name
	for task in "/proc/$server_pid/task/"*; do
		read -r name <"$task/comm"
		[[ $name != worker-* ]] || sed -n 's/^\(State\|voluntary.*\)://p' "$task/status"
	done
}

# A worker that polls is not asleep, and one that wakes up for nothing waits once more. Those of the
# connections that have just ended have to come to rest first.
workers_sleep() {
	local before
	before=$(workers_waits) && sleep 1.5 && [ "$before" = "$(workers_waits)" ] &&
		[ "$(grep -c 'S (sleeping)' <<<"$before")" = 2 ]
}

check "the server starts" server_start -o memory.eviction=none || finish
checks_of client gets "$url" "$server_pid" "$rounds"
kill -CONT "$server_pid" # if that did not
checks_of client connections "$url" 10 10
check "nobody is connected: the workers sleep" wait_until "$DEADLINE_S" workers_sleep
check "the server stops" server_stop
finish
