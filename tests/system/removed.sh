#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of an RDMA device that is removed while clients work, and added again: the server says
# so, its clients on that device report the loss, those of other devices go on; and when it is back
# it is served again, with what was stored before. Only with rdma_rxe in the machine of
# tests/vm/run, and beside a second device, without which librdmacm does not let go of the first
# (conf/OPERATIONS.md, Devices). And of a software device that dies.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/history_lib.sh
. tests/system/history_lib.sh

# The software device dies at one of its calls, by its fault plan.
softnic_dies() {
	kvctl put other value >/dev/null 2>&1
	in_log 'error device softnic failed \(.*\): its connections are closed'
}

softnic_is_back() {
	logged 'notice device softnic is back' && expect 0 '^before$' get stays &&
		stat_is device_failures 1
}

stays_is_stored() {
	expect 0 '^$' put stays before
}

if [ "$device" = softnic ]; then
	check "the server starts" server_start
	check "a value is stored" stays_is_stored
	check "what it holds is noted" held_note
	check "the server stops" server_stop
	export KVD_SOFTNIC_FAULTS=kill=3000
	check "the server starts" server_start
	unset KVD_SOFTNIC_FAULTS
	check "the value is stored" wait_until "$DEADLINE_S" stays_is_stored
	check "its device fails" wait_until "$DEADLINE_S" softnic_dies
	check "it is served again" wait_until "$DEADLINE_S" softnic_is_back
	check "clients work" client values "$url"
	check "one more value" expect 0 '^$' put other value
	check "is deleted" expect 0 '^$' del other
	check "the server holds no more than one that did not fail" nothing_is_held 1
	check "the server stops" server_stop
	finish
fi
if [ ! -e /run/kvd-vm-command ] || [ "$device" != verbs ]; then
	echo "it removes the host's RDMA device, which only the machine of tests/vm/run is for"
	exit 77
fi
times=1
[ "${KVD_TEST_LONG:-0}" != 1 ] || times=10
export SYS_TIMEOUT_MS=1000 SYS_AGAIN=1

SECOND=10.9.78.1
softnic=softnic://$tmp/s

is_there() {
	[ -e /sys/class/infiniband/rxe1 ]
}
device_add() {
	is_there || rdma link add rxe1 type rxe netdev eth0
}
second_device() {
	ip link add kvd-second type dummy && ip addr add $SECOND/24 dev kvd-second &&
		ip link set kvd-second up && rdma link add rxe2 type rxe netdev kvd-second
}
devices_end() {
	rdma link del rxe2
	ip link del kvd-second
	wait_until "$DEADLINE_S" device_add # tests after this one need it
}
trap 'cleanup; devices_end' EXIT

clients_start() { # kinds...
	local kind
	for kind; do
		client_start "$kind" "$tmp/$kind" loop "$url" "$kind" "$kind" 3000 1000 &&
			await_line "$tmp/$kind" '^looping' "${!kind}" || return 1
	done
}

neighbour_starts() {
	url=$softnic client_start neighbour "$tmp/neighbour" loop "$softnic" mix n 3000 1000 &&
		await_line "$tmp/neighbour" '^looping' "$neighbour"
}

# The deletion waits until the last user of the device has closed it.
device_del() {
	rdma link del rxe1 &
	deletion=$!
}

server_says_so() {
	logged 'error device rxe1 failed \(.*\): its connections are' &&
		logged 'device rxe1 is released'
}

# Clients of other devices go on.
others_go_on() {
	url=$softnic expect 0 '^before$' get stays && url=$second expect 0 '^before$' get stays &&
		url=$softnic expect 0 '^$' put stays after && ! ended "$neighbour" &&
		url=$softnic kvctl stats >"$tmp/stats" &&
		grep -x 'device.0.name rxe1' "$tmp/stats" &&
		grep -x 'device.0.state failed' "$tmp/stats" &&
		grep -x 'device.1.state serves' "$tmp/stats"
}

serves_again() {
	logged 'notice device rxe1 is back' &&
		expect 0 '^after$' get stays && expect 0 '^$' put stays before &&
		url=$second expect 0 '^before$' get stays
}

neighbour_ends() {
	kill -TERM "$neighbour" && await_end "$neighbour" && forget "$neighbour" &&
		tail -n 1 "$tmp/neighbour" && [ "$status" = 0 ]
}

client_reports() { # kind
	await_end "${!1}" && forget "${!1}"
	tail -n 1 "$tmp/$1"
	[ "$status" = 3 ] && grep -Eq '^lost after [0-9]+ rounds, [0-9]+ ms: ' "$tmp/$1"
}

both_end() {
	await_end "$get" && forget "$get" && [ "$status" = 0 ] && await_end "$mix" &&
		forget "$mix" && [ "$status" = 0 ]
}

# A device that is used stays until its users are gone.
device_is_back() {
	wait "$deletion" && wait_until "$DEADLINE_S" device_add
}

get='' mix='' neighbour='' # set by client_start
second=$scheme://$SECOND:$port
config_write "$url, $second, softnic://$tmp/s"
check "there is a second device" second_device || finish
for ((n = 0; n < times; n++)); do
	: >"$log"
	check "the server starts" server_start || finish
	check "a value is stored" expect 0 '^$' put stays before
	check "clients work" clients_start get mix || finish
	check "a client of another device works" neighbour_starts || finish
	check "the device is removed" device_del
	check "the server says so" server_says_so
	check "a client that GETs reports it" client_reports get
	check "a client that PUTs reports it" client_reports mix
	check "other devices are served" others_go_on
	check "the device is added" device_is_back
	check "it is served again" serves_again
	check "clients work" clients_start get mix
	pause 1
	kill -TERM "$get" "$mix"
	check "they end" both_end
	check "the client of the other device has noticed nothing" neighbour_ends
	check "the server stops" server_stop
	faults=$((faults + 1))
done
check "the server starts" server_start || finish
check "clients work" history_start
history_judge
check "the server stops" server_stop
finish
