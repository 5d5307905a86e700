# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# For system tests that make faults while clients work: clients whose histories are checked
# (tests/system/sys_history.c) run in the background before, during and after each fault. To be
# sourced after lib.sh.

seed=${KVD_SEED:-$RANDOM}
history_pid=
history_of=("$url" 0 "$seed" faults) # arguments of sys_history
history_out=$tmp/history
HISTORY_ROUNDS_AFTER=2 # one may have begun before
LOSSES_SHOWN=4
faults=0

# Prints how many rounds the clients have finished.
history_rounds() {
	local line rounds=0
	while read -r line; do
		[[ ! $line =~ ^round\ ([0-9]+)$ ]] || rounds=${BASH_REMATCH[1]}
	done <"$history_out"
	echo "$rounds"
}

history_ended() {
	ended "$history_pid"
}

# number
history_is_at() {
	[ "$(history_rounds)" -ge "$1" ]
}
history_is_at_or_ended() {
	history_ended || history_is_at "$1"
}

# [rounds]: whether all clients go on, since each takes its part in every round
history_goes_on() {
	local wanted=$(($(history_rounds) + ${1:-$HISTORY_ROUNDS_AFTER}))
	wait_until "$DEADLINE_S" history_is_at_or_ended $wanted && ! history_ended && return 0
	tail -n 5 "$history_out"
	return 1
}

# name, command...: a check that makes a fault, after which the clients go on. Counts it.
fault() {
	faults=$((faults + 1))
	check "$@" && check "  the clients go on" history_goes_on
}

history_launch() {
	: >"$history_out"
	"$build/tests/system/sys_history" "${history_of[@]}" >>"$history_out" 2>&1 &
	history_pid=$!
	pids+=("$history_pid")
}

history_terminate() {
	kill -TERM "$history_pid" && await_end "$history_pid" && forget "$history_pid" &&
		[ "$status" = 0 ]
}

history_start() {
	history_launch && history_goes_on
}

# All that the clients saw was linearizable; they wrote an error, if any, before the figures.
history_end() {
	history_terminate && grep -q ' rounds undecided$' "$history_out" && return 0
	grep -Ev '^(round|[0-9]+ ms, level) ' "$history_out" | tail -n "$CHECK_LINES_SHOWN"
	return 1
}

# What the clients did and noticed, for the log of the test.
history_figures() {
	sed -n 's/^[0-9]* rounds, /      | &/p' "$history_out"
	grep ' level 2: ' "$history_out" | tail -n "$LOSSES_SHOWN" | sed 's/^/      | /'
	echo "      | faults $faults, seed $seed"
}

# Nothing is stored, and nobody is connected: no value that did not arrive has memory either. (All
# that are pulled are large.)
history_holds_nothing() {
	local sum
	sum=$(stat_of connections items item_memory_live_bytes memory.large) && [ "$sum" = 1 ]
}
history_all_is_back() {
	wait_until "$DEADLINE_S" history_holds_nothing && return 0
	kvctl stats | grep -E '^(connections|items|item_memory_live_bytes|memory\.|pulls)'
	return 1
}

# Ends the clients; then no connection is left, and when their keys are deleted, no memory is held.
history_judge() {
	check "the clients saw nothing wrong (seed $seed)" history_end
	history_figures
	check "all keys are deleted" kvctl flush
	check "the server holds nothing" history_all_is_back
}
