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
options=(-o memory.file="$tmp/region" -o memory.size=64m -o memory.eviction=none
	-o tenants.memory=128m)

once() {
	"$build/tests/system/sys_once" "$url" "$@"
}

start() {
	server_start "${options[@]}" "$@"
}

again_after_kill() {
	server_kill && start
}

again_after_stop() {
	server_stop && start
}

# kvctl sees that it has ended, though the next one, of the same incarnation, is there at once.
shutdown_and_start() {
	local asks
	kvctl shutdown --keep &
	asks=$!
	await_end "$server_pid" && forget "$server_pid" && start && wait $asks
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
		history_goes_on 1 || { echo "after $i" && return 1; }
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
		kvctl put large <"$tmp/large" && kvctl flush 500000s
}

# items
values_are_kept() {
	[ "$(kvctl get small)" = value ] && [ "$(kvctl get timed)" = value ] &&
		kvctl get large | cmp - "$tmp/large" && [ "$(kvctl ttl timed)" -gt 900 ] &&
		[ "$(stat_of flushes_waiting)" = 1 ] && [ "$(stat_of items)" = "$1" ]
}

make_tenants() {
	kvctl tenant create alpha 32m && kvctl tenant create beta 16m &&
		kvctl --tenant alpha put name alpha && kvctl --tenant beta put name beta
}

# name...: these, and no others
tenants_are_there() {
	local name
	for name; do
		[ "$(kvctl --tenant "$name" get name)" = "$name" ] || return 1
	done
	[ "$(kvctl tenant list | wc -l)" = $(($# + 1)) ]
}

change_tenants() {
	kvctl tenant resize alpha 48m && kvctl tenant drop beta && tenants_are_there alpha
}

# pattern
no_file() {
	[ -z "$(find "$tmp" -name "$1")" ]
}

unfinished_is_removed() {
	cp "$tmp/region:alpha" "$tmp/region:alpha:new" &&
		cp "$tmp/region:alpha.state" "$tmp/region:alpha:new.state" &&
		again_after_kill && no_file '*:new*' && tenants_are_there alpha
}

no_room_for_tenants() {
	server_stop && start -o tenants.memory=16m && logged 'tenant alpha: what is kept' &&
		tenants_are_there && again_after_stop
}

check "the server starts" start || finish
check "values are stored" keep_values
check "a client leaves, which has made a numbered change" once leave kept-1 0
check "another server does not get the file" other_is_refused
check "a stop and a start" again_after_stop
check "they are there" values_are_kept 4
check "its answers are, too" once return kept-1 known 2
check "a kill and a start" again_after_kill
check "they are there" values_are_kept 4
check "what it was answered is not" once return kept-1 unknown 3
check "no other user may write to the file, or read its state" \
	test "$(stat -c %a "$tmp/region" "$tmp/region.state" | xargs)" = "600 600"

if [ "$device" = softnic ]; then
	check "tenants are made" make_tenants
	check "a kill and a start" again_after_kill
	check "they are there" tenants_are_there alpha beta
	check "one gets another size, another one goes" change_tenants
	check "a stop and a start" again_after_stop
	check "so they are after that" tenants_are_there alpha
	check "the other one has no files" no_file 'region:beta*'
	check "what a resize left is removed" unfinished_is_removed
	check "without room for a tenant the rest is served" no_room_for_tenants
	check "which is kept" tenants_are_there alpha
	check "it goes" kvctl tenant drop alpha
fi

history_of=("$url" 0 "$seed" crashes)
check "clients begin" history_start
check "$kills kills and stops" kills_and_starts
history_judge
check "the delayed flush is cancelled" kvctl flush --cancel
check "a stop and a start" again_after_stop
check "all memory is free" history_all_is_back

if [ "$device" = softnic ]; then
	check "kvctl stops it, and it is started at once" shutdown_and_start
fi
check "a store of another size begins empty" begins_empty 'memory.size was 64 MiB' \
	-o memory.size=32m
check "so does one that was killed, with memory.recover = cold" \
	begins_empty 'memory.recover is cold' -o memory.size=32m -o memory.recover=cold
check "the server stops" server_stop
finish
