#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of the bound on a worker's turn (server/DESIGN.md, A turn): beside clients that scan,
# that connect and close, and that send batches, others work, no turn takes more completions than
# one batch, nor more requests of batches than it may; and what takes long is done in pieces: scans,
# appends to a value of 64 MiB, and making room, of some tens of items each. How long turns take the
# test does not judge: kvctl stats says it.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

KEYS=5000 # so many that a scan of some hundred buckets is no single piece
BATCH_MAX=32
VICTIM_ROUNDS=20
[ "${KVD_TEST_LONG:-}" != 1 ] || VICTIM_ROUNDS=200
# Parts that take long where code is instrumented or emulated.
large=1
[ "${KVD_FLAVOUR:-release}-$device" = release-softnic ] || [ "${KVD_TEST_LONG:-}" = 1 ] || large=0

attackers=()

# count, kind
attack() {
	local i pid
	attackers=()
	for ((i = 0; i < $1; i++)); do
		: >"$tmp/noise.$i"
		"$build/tests/system/sys_noise" "$url" "$2" >>"$tmp/noise.$i" 2>&1 &
		pid=$!
		attackers+=("$pid")
		pids+=("$pid")
	done
	for ((i = 0; i < $1; i++)); do
		await_line "$tmp/noise.$i" '^begins' "${attackers[$i]}" || return 1
	done
}

# Each has attacked until now.
attack_ends() {
	local i failed=0
	for ((i = 0; i < ${#attackers[@]}; i++)); do
		! ended "${attackers[$i]}" && kill -TERM "${attackers[$i]}" &&
			await_end "${attackers[$i]}" && forget "${attackers[$i]}" &&
			[ "$status" = 0 ] && says "$tmp/noise.$i" '^[a-z]+ [1-9][0-9]*$' && continue
		failed=1
		tail -n 5 "$tmp/noise.$i"
	done
	return $failed
}

# A client does VICTIM_ROUNDS rounds, and reports each.
victim_works() {
	local i
	client_start victim "$tmp/victim" loop "$url" "$victim_does" victim 100 0 &&
		await_line "$tmp/victim" '^looping' "$victim" || return 1
	for ((i = 0; i < VICTIM_ROUNDS; i++)); do
		: >"$tmp/victim" && kill -USR1 "$victim" &&
			await_line "$tmp/victim" '^round' "$victim" || return 1
	done
	kvctl stats | grep '^worker\.'
	kill -TERM "$victim" && await_end "$victim" && forget "$victim" &&
		grep -q '^ended well' "$tmp/victim"
}

batches_are_short() {
	local max
	max=$(stat_of worker.turn_completions_max)
	echo "up to $max completions were taken in a turn"
	[ "$max" -ge 1 ] && [ "$max" -le $BATCH_MAX ]
}

BATCHED_MAX=128
batched_are_bounded() {
	local max
	wait_until "$DEADLINE_S" stat_above worker.turn_batched_max 32 &&
		wait_until "$DEADLINE_S" stat_above deferred "$deferred" || return 1
	max=$(stat_of worker.turn_batched_max)
	echo "up to $max requests of batches were executed at once in a turn"
	[ "$max" -le $BATCHED_MAX ]
}

# count, kind, [check, command...: that they still have to do with]
beside() {
	check "$1 times: $2" attack "$1" "$2"
	check "a victim works" victim_works
	[ $# = 2 ] || check "${@:3}"
	[ "$1" = 0 ] || check "the others worked all the time" attack_ends
}

victim=
victim_does=mix
check "the server starts" server_start -o server.workers=1 -o index.keys=$KEYS || finish
check "keys to scan" "$build/kvbench" put -a "$url" -n $KEYS
beside 0 nothing
beside 4 scan "scans are done in pieces" wait_until "$DEADLINE_S" stat_above deferred_pieces 1
beside 2 churn
deferred=$(stat_of deferred)
beside 6 batches "requests of batches were bounded" batched_are_bounded
check "no turn took more than a batch" batches_are_short
check "the server stops" server_stop

# Appends to a value of 64 MiB, of 1 MiB that the worker READs.
appends_begin() {
	attack 1 extend && wait_until "$DEADLINE_S" stat_above large_changes 1
}
appended_in_pieces() {
	local changes pieces
	changes=$(stat_of large_changes) && pieces=$(stat_of deferred_pieces) || return 1
	echo "$changes changes in $pieces pieces"
	[ "$pieces" -gt $((2 * changes)) ]
}

if [ $large = 1 ]; then
	check "a server for large values starts" server_start -o server.workers=1 \
		-o limits.max_value=128m -o memory.pull_share=13 -o memory.size=1g \
		-o memory.prefault=no || finish
	check "values of 1 MiB are appended to one of 64 MiB" appends_begin
	check "in pieces" appended_in_pieces
	check "a victim works" victim_works
	check "the other one worked all the time" attack_ends
	check "the server stops" server_stop
fi

# Room for the first ROOMS values takes many pieces, in each of which some 50 small items are moved
# or evicted; all in one turn, it would be some 10,000. (A piece ends by the clock: the bound leaves
# room for a machine that is some times as fast.)
ROOMS=10
ITEMS_A_PIECE=1000

rooms_in_pieces() {
	local items pieces
	wait_until "$DEADLINE_S" stat_above rooms $ROOMS || return 1
	items=$(stat_of evictions moves) && pieces=$(stat_of deferred_pieces) || return 1
	echo "room was made by $items items in $pieces pieces"
	[ "$items" -le $((ITEMS_A_PIECE * pieces)) ]
}

# kind, what it stores
stores() {
	check "$2 are stored" attack 1 "$1"
	[ "$1" != places ] || check "room is made for them in pieces" rooms_in_pieces
	check "a victim works" victim_works
	check "the other one worked all the time" attack_ends
}

if [ $large = 1 ]; then
	check "a server with eviction starts" server_start -o server.workers=1 \
		-o limits.max_value=8m -o memory.pull_share=26 -o memory.size=32m || finish
	victim_does=put # what it puts may be evicted
	check "small items fill it" "$build/kvbench" put -a "$url" -D 64 -n 340000
	stores places "values of 1 MiB and 8 MiB"
	stores small "small values"
	check "no PUT failed" stat_is put_no_space 0
	check "the server stops" server_stop
fi

# A call of the control thread for a client that connects takes so long that another client does
# some rounds meanwhile: it is over only after them. On a machine that is very busy it takes longer.
ROUNDS_MEANWHILE=10
putter=
putter_ends() {
	kill -TERM "$putter" && await_end "$putter" && forget "$putter" || return 1
	tail -n 1 "$tmp/putter"
	[ "$status" = 0 ] && grep -q '^ended well' "$tmp/putter"
}

# length: of its values. It has to be connected before the call that takes long.
putter_start() {
	client_start putter "$tmp/putter" loop "$url" put key "$1" 0 &&
		await_line "$tmp/putter" '^looping' "$putter"
}

# A new client connects, and the putter goes on before that is done.
goes_on_meanwhile() {
	local pinger i failed=0
	"$build/kvctl" -a "$url" -t "$CALL_TIMEOUT_MS" ping >"$tmp/ping" 2>&1 &
	pinger=$!
	pids+=("$pinger")
	logged 'fault plan: .* takes ' || return 1
	for ((i = 0; i < ROUNDS_MEANWHILE; i++)); do
		: >"$tmp/putter" && kill -USR1 "$putter" &&
			await_line "$tmp/putter" '^round' "$putter" || return 1
	done
	ended "$pinger" && failed=1
	await_end "$pinger" && forget "$pinger" && says "$tmp/ping" '^pong ' && return $failed
	cat "$tmp/ping"
	return 1
}

# seconds, call, length of values. Whatever happens, both processes end, or the test does.
untouched_within() {
	local failed=0
	export KVD_SOFTNIC_FAULTS=stall=$2:2:$1s
	server_start -o server.workers=1 || return 1
	unset KVD_SOFTNIC_FAULTS
	putter_start "$3" && goes_on_meanwhile || failed=1
	putter_ends || failed=1
	server_stop || give_up "the server did not stop after $2 took $1 s"
	return $failed
}

untouched() {
	local seconds
	for seconds in 1 3 10; do
		! untouched_within $seconds "$@" || return 0
	done
	return 1
}

if [ "$device" = softnic ]; then
	check "accept() takes long: values that need grace periods are stored" \
		untouched accept 200000
	check "modify_qp() takes long, for HELLO: values are stored" untouched modify_qp 100
fi
finish
