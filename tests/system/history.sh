#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of what clients see of each other that submit operations: their histories must be
# linearizable, and each handle's operations in its order (tests/system/sys_history.c), also when
# connections are closed, and on softnic when its calls fail and what is sent comes late.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

seconds=1
[ "${KVD_TEST_LONG:-0}" != 1 ] || seconds=60
seed=${KVD_SEED:-$RANDOM}

# seconds, arguments
history_of() {
	"$build/tests/system/sys_history" "$url" "$@"
}

# name, seconds, seed, [kill]
histories() {
	check "$1 (seed $3)" history_of "${@:2}" && grep '^[0-9]* rounds' "$tmp/check.out"
}

check "the server starts" server_start -o memory.size=64m -o memory.eviction=none || finish
histories "clients that submit" $seconds "$seed"
histories "connections that are closed" $((seconds / 2)) "$seed" kill
if [ "$device" = softnic ]; then
	for plan in delay=300us,seed="$seed" drop=500 fail=post_send:700 \
		stall=post_send:400:60ms tear=48; do
		export KVD_SOFTNIC_FAULTS=$plan
		histories "with the fault $plan" $((seconds / 2)) "$seed"
	done
	unset KVD_SOFTNIC_FAULTS
fi
check "the server stops" server_stop
finish
