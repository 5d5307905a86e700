#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of what clients see of each other that submit operations: their histories must be
# linearizable, and each handle's operations in its order (tests/system/sys_history.c), also when
# connections are closed, and on softnic when its calls fail, what is sent comes late, and
# completions come late, in another order, or not at all.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

seconds=${KVD_TEST_SECONDS:-1}
[ "${KVD_TEST_LONG:-0}" != 1 ] || seconds=20
seed=${KVD_SEED:-$RANDOM}

# seconds, arguments
history_of() {
	"$build/tests/system/sys_history" "$url" "$@"
}

# name, seconds, seed, [kill]
histories() {
	check "$1 (seed $3)" history_of "${@:2}" && grep '^[0-9]* rounds' "$tmp/check.out"
}

# plan, seconds, seed: with this plan of the clients' device. Each fault that it names has to happen
# to them: a plan that is not in force would test nothing.
faulty_history_of() {
	local fault faults
	KVD_SOFTNIC_FAULTS=$1 history_of "${@:2}" >"$tmp/faulty"
	status=$?
	cat "$tmp/faulty"
	[ "$status" = 0 ] || return 1
	IFS=, read -ra faults <<<"$1"
	for fault in "${faults[@]%%=*}"; do
		[ "$fault" = seed ] || grep -Eq "^faults:.* $fault [1-9]" "$tmp/faulty" ||
			{ echo "nothing at the clients: $fault" && return 1; }
	done
}

# plan, words for the name, seconds, seed
faulty_histories() {
	check "with the fault $1$2 (seed $4)" faulty_history_of "$1" "${@:3}" &&
		grep -E '^([0-9]* rounds,|faults:)' "$tmp/check.out"
}

# seconds, seed: the server is killed and started again whenever the clients ask for it.
restart_histories() {
	local pid asked=0
	mkfifo "$tmp/answers"
	: >"$tmp/restarts"
	"$build/tests/system/sys_history" "$url" "$1" "$2" restart <"$tmp/answers" \
		>>"$tmp/restarts" 2>&1 &
	pid=$!
	pids+=("$pid")
	exec 9>"$tmp/answers"
	while ! ended "$pid"; do
		if [ "$(grep -c '^restart$' "$tmp/restarts")" = $asked ]; then
			sleep 0.01
			continue
		fi
		asked=$((asked + 1))
		# A second of the host's time, so that all versions are above the earlier ones.
		server_kill && sleep 1 &&
			server_start -o memory.size=64m -o memory.eviction=none || return 1
		echo done >&9
	done
	exec 9>&-
	await_end "$pid" && forget "$pid"
	cat "$tmp/restarts"
	echo "counted: kill -9 $asked"
	[ "$status" = 0 ]
}

check "the server starts" server_start -o memory.size=64m -o memory.eviction=none || finish
check "a server that restarts (seed $seed)" restart_histories $((4 * seconds)) "$seed" &&
	grep -E '^([0-9]* rounds|counted)' "$tmp/check.out"
histories "clients that submit" $seconds "$seed"
histories "connections that are closed" $((seconds / 2)) "$seed" kill
if [ "$device" = softnic ]; then
	for plan in delay=300us,seed="$seed" drop=500 fail=post_send:700 \
		stall=post_send:400:60ms tear=48 kill=2500 late=300us,seed="$seed" \
		lose=300:20ms; do
		faulty_histories "$plan" '' $((seconds / 2)) "$seed"
	done
fi
check "the server stops" server_stop

# Faults of the server and of its clients: completions come late and mixed, and some connections end
# in the middle of their work.
if [ "$device" = softnic ]; then
	for plan in reorder=1 late=300us,delay=200us,reorder=1 lose=300:20ms,reorder=1 \
		late=200us,reorder=1,lose=200:20ms; do
		export KVD_SOFTNIC_FAULTS=$plan,seed=$seed
		check "the server starts with the fault $plan" server_start -o memory.size=64m \
			-o memory.eviction=none || finish
		faulty_histories "$KVD_SOFTNIC_FAULTS" ' on both sides' $seconds "$seed"
		check "the plan is in force" logged "INJECTED.*$plan"
		[[ $plan != *lose=* ]] || check "a completion of the server's was lost" \
			logged 'completion number [0-9]+ does not come'
		check "the server stops" server_stop
	done
	unset KVD_SOFTNIC_FAULTS
fi
finish
