#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of one server on two devices at once: a client on one device gets what a client on the
# other has put, also while both work at the same time.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

if [ "$device" != verbs ]; then
	echo "this test needs an RDMA device: set KVD_TEST_DEVICE=verbs"
	exit 77
fi
rdma=$url
softnic=softnic://$tmp/s

seen() { # from, to
	url=$1 expect 0 '^$' put key "$2" && url=$2 expect 0 "^$2\$" get key &&
		url=$2 expect 0 '^$' del key && url=$1 expect 1 'not found' get key
}

large_seen() { # from, to
	head -c 500000 /dev/urandom >"$tmp/large"
	url=$1 kvctl put large - <"$tmp/large" && url=$2 kvctl get large | cmp - "$tmp/large"
}

both_are_reported() {
	logged 'notice device verbs ' && logged 'notice device softnic ' &&
		kvctl stats >"$tmp/stats" && grep -qx 'device.0.kind verbs' "$tmp/stats" &&
		grep -qx 'device.1.kind softnic' "$tmp/stats" &&
		url=$rdma kvctl info | grep -qx 'device.kind verbs' &&
		url=$softnic kvctl info | grep -qx 'device.kind softnic'
}

# One client writes a key through one device, another reads it through the other; `loop` checks
# that each value is whole.
works_meanwhile() {
	local writer reader
	client_start writer "$tmp/writer" loop "$1" put shared 2000 0
	await_line "$tmp/writer" '^looping' "$writer" || return 1
	client_start reader "$tmp/reader" loop "$2" get shared 2000 0
	await_line "$tmp/reader" '^looping' "$reader" || return 1
	wait_until "$DEADLINE_S" stat_above puts 200 || return 1
	kill -TERM "$writer" "$reader"
	await_end "$writer" && forget "$writer" && [ "$status" = 0 ] && await_end "$reader" &&
		forget "$reader" && [ "$status" = 0 ]
}

stat_above() {
	[ "$(stat_of "$1")" -gt "$2" ]
}

config_write verbs,softnic
check "the server starts on two devices" server_start || finish
check "log, statistics and clients name both" both_are_reported
check "from verbs to softnic" seen "$rdma" "$softnic"
check "from softnic to verbs" seen "$softnic" "$rdma"
check "a large value from verbs to softnic" large_seen "$rdma" "$softnic"
check "a large value from softnic to verbs" large_seen "$softnic" "$rdma"
check "a writer on verbs, a reader on softnic" works_meanwhile "$rdma" "$softnic"
check "a writer on softnic, a reader on verbs" works_meanwhile "$softnic" "$rdma"
check "the server stops" server_stop
finish
