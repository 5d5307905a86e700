#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of a server whose region outlives it (memory.file): it is killed, or stopped, and
# started again while clients work, whose histories must be linearizable without any loss
# (tests/system/sys_history.c). KVD_TEST_KILLS is how often.
export TMPDIR=/dev/shm # softnic passes files of tmpfs
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/history_lib.sh
. "$(dirname "$0")/history_lib.sh"

kills=${KVD_TEST_KILLS:-8}
[ "${KVD_TEST_LONG:-0}" != 1 ] || kills=${KVD_TEST_KILLS:-200}
options=(-o memory.file="$tmp/region" -o memory.size=64m -o memory.eviction=none)

start() {
	server_start "${options[@]}" "$@"
}

again_after_kill() {
	server_kill && start
}

again_after_stop() {
	server_stop && start
}

# Kills and starts it, at random instants, and now and then stops it.
kills_and_starts() {
	local i
	for ((i = 0; i < kills; i++)); do
		# A fraction of a round of the clients.
		sleep 0.$((RANDOM % 4))
		if [ $((RANDOM % 4)) = 0 ]; then
			again_after_stop || return 1
		else
			again_after_kill || return 1
		fi
		history_goes_on 1 || return 1
	done
}

# message, option...: begins empty after a kill, and says why
begins_empty() {
	kvctl put gone value && server_kill && start "${@:2}" && logged "$1" &&
		[ "$(kvctl count)" = 0 ]
}

other_is_refused() {
	! "$build/kvd" -c "$tmp/kvd.ini" "${options[@]}" -o server.listen="softnic://$tmp/other" \
		-o log.file= 2>"$tmp/other.log" &&
		grep -q 'is in use by another kvd' "$tmp/other.log"
}

keep_values() {
	head -c 100000 /dev/urandom >"$tmp/large"
	kvctl put small value && kvctl put timed value --ttl 1000 &&
		kvctl put large <"$tmp/large" && kvctl flush 2000s
}

values_are_kept() {
	[ "$(kvctl get small)" = value ] && [ "$(kvctl get timed)" = value ] &&
		kvctl get large | cmp - "$tmp/large" && [ "$(kvctl ttl timed)" -gt 900 ] &&
		[ "$(stat_of flushes_waiting)" = 1 ] && [ "$(stat_of items)" = 3 ]
}

check "the server starts" start || finish
check "values are stored" keep_values
check "another server does not get the file" other_is_refused
check "a stop and a start" again_after_stop
check "they are there" values_are_kept
check "a kill and a start" again_after_kill
check "they are there" values_are_kept
check "no other user may write to the file, or read its state" \
	test "$(stat -c %a "$tmp/region" "$tmp/region.state" | xargs)" = "600 600"

check "clients begin" history_start
check "$kills kills and stops" kills_and_starts
history_judge
check "the delayed flush is cancelled" kvctl flush --cancel
check "a stop and a start" again_after_stop
check "all memory is free" history_all_is_back

check "a store of another size begins empty" begins_empty 'memory.size was 64 MiB' \
	-o memory.size=32m
check "so does one that was killed, with memory.recover = cold" \
	begins_empty 'memory.recover is cold' -o memory.size=32m -o memory.recover=cold
check "the server stops" server_stop
finish
