#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of values of memcached's protocol that do not fit one turn of the server: they arrive
# and go out in pieces, a reader gets one version of each whatever becomes of the key, clients that
# stop halfway keep nobody else from values for ever, and an item that is stale is renewed once.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

if [ "$device" != softnic ]; then
	echo "no device is used for this: set KVD_TEST_DEVICE=softnic"
	exit 77
fi

port=$((20000 + $$ % 10000)) # below those of clients

config_write "$url,memcached://127.0.0.1:$port"

values() {
	/usr/bin/python3 tests/system/memcached_values.py "$@"
}

start() {
	server_start -o server.workers=2 -o memory.size=64m -o limits.max_value=2m "$@"
}

check "kvd starts" start
check "what it holds is noted" held_note
check "values of all sizes arrive, and go out, whole" values sizes "$port"
check "each value is that of one writer: 64 KiB" values versions "$port" 66000
check "each value is that of one writer: 1 MiB" values versions "$port" 1000000
check "one client renews a stale item" values marks "$port"
check "all values are removed" kvctl flush
check "nothing is held" nothing_is_held 1
check "kvd stops" server_stop
# One client's values may take 6 MiB; those that go out 1 MiB in each worker.
check "kvd starts with little memory for values" start -o server.pull_stall=500ms \
	-o memcached.output=2m
check "clients that stop do not keep others from values" values stall "$port" 2000000
check "kvd stops" server_stop

finish
