#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of clients of libkvd and of memcached's protocol that use the same keys at once: what
# all of them saw must be one linearizable history (tests/system/sys_fronts.c), on softnic also when
# READs copy a few bytes at a time, and when completions come late and in another order.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

seconds=1
[ "${KVD_TEST_LONG:-0}" != 1 ] || seconds=30
seconds=${KVD_TEST_SECONDS:-$seconds}
seed=${KVD_SEED:-$RANDOM}
mc_port=$((10000 + $$ % 10000)) # below those of clients, and of RDMA devices

config_write "$url,memcached://127.0.0.1:$mc_port"

# name, seconds
histories() {
	check "$1 (seed $seed)" "$build/tests/system/sys_fronts" "$url" "$mc_port" "$2" "$seed" &&
		cat "$tmp/check.out"
}

check "the server starts" server_start -o memory.size=64m -o memory.eviction=none || finish
check "what it holds is noted" held_note
histories "clients of both kinds" $((2 * seconds))
if [ "$device" = softnic ]; then
	export KVD_SOFTNIC_FAULTS=tear=48
	histories "with the fault tear=48 of the clients" "$seconds"
	export KVD_SOFTNIC_FAULTS=late=300us,reorder=1,seed=$seed
	histories "with the fault late=300us,reorder=1 of the clients" "$seconds"
	unset KVD_SOFTNIC_FAULTS
fi
check "all keys are deleted" kvctl flush
check "nothing is held" nothing_is_held 1
check "the server stops" server_stop
finish
