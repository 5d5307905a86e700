#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of an RDMA device that is removed while clients work, and added again (README,
# Limits): the server says so and ends with status 1, clients report the loss; and when both are
# gone, the device comes back, and a server and clients that are started then work. Only with
# rdma_rxe in the machine of tests/vm/run.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/history_lib.sh
. tests/system/history_lib.sh

if [ ! -e /run/kvd-vm-command ] || [ "$device" != verbs ]; then
	echo "it removes the host's RDMA device, which only the machine of tests/vm/run is for"
	exit 77
fi
times=1
[ "${KVD_TEST_LONG:-0}" != 1 ] || times=10
export SYS_TIMEOUT_MS=2000

is_there() {
	[ -e /sys/class/infiniband/rxe1 ]
}
device_add() {
	is_there || rdma link add rxe1 type rxe netdev eth0
}
# Tests after this one need it.
trap 'cleanup; device_add' EXIT

clients_start() { # kinds...
	local kind
	for kind; do
		client_start "$kind" "$tmp/$kind" loop "$url" "$kind" "$kind" 3000 1000 &&
			await_line "$tmp/$kind" '^looping' "${!kind}" || return 1
	done
}

server_says_so() {
	await_end "$server_pid" && forget "$server_pid" || return 1
	echo "status $status"
	[ "$status" = 1 ] && : >"$tmp/stderr" && logged \
		'error device rxe1 failed \(.*\): the server stops; start it again when the device'
}

client_reports() { # kind
	await_end "${!1}" && forget "${!1}"
	tail -n 1 "$tmp/$1"
	[ "$status" = 3 ] && grep -Eq '^lost after [0-9]+ rounds, [0-9]+ ms: ' "$tmp/$1"
}

start_fails() {
	local start
	start=$(($(log_lines) + 1))
	timeout "$DEADLINE_S" "$build/kvd" -c "$tmp/kvd.ini" >/dev/null 2>&1
	[ $? = 1 ] && tail -n "+$start" "$log" |
		grep " error server.device = verbs, rdma.address = .*: no RDMA device of this host"
}

# A device that is used stays until its users are gone.
device_is_back() {
	wait_until "$DEADLINE_S" device_add
}

get='' mix='' # set by client_start
for ((n = 0; n < times; n++)); do
	check "the server starts" server_start || finish
	check "clients work" clients_start get mix || finish
	check "the device is removed" rdma link del rxe1
	check "the server says so, and ends with status 1" server_says_so
	check "a client that GETs reports it" client_reports get
	check "a client that PUTs reports it" client_reports mix
	check "a server without a device says so, and does not start" start_fails
	check "the device is added" device_is_back
	faults=$((faults + 1))
done
check "the server starts" server_start || finish
check "clients work" history_start
history_judge
check "the server stops" server_stop
finish
