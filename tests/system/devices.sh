#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of one server on several devices at once, and with several ways to connect: a client
# on one gets what a client on another has put, also while both work at the same time.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

if [ "$device" != verbs ]; then
	echo "this test needs an RDMA device: set KVD_TEST_DEVICE=rdma"
	exit 77
fi
rdma=$url
softnic=softnic://$tmp/s

seen() { # from, to
	local value=${2//[^a-z0-9]/_}
	url=$1 expect 0 '^$' put key "$value" && url=$2 expect 0 "^$value\$" get key &&
		url=$2 expect 0 '^$' del key && url=$1 expect 1 'not found' get key
}

large_seen() { # from, to
	head -c 500000 /dev/urandom >"$tmp/large"
	url=$1 kvctl put large - <"$tmp/large" && url=$2 kvctl get large | cmp - "$tmp/large"
}

both_are_reported() {
	logged 'notice device rdma ' && logged 'notice device softnic ' &&
		kvctl stats >"$tmp/stats" && grep -qx 'device.0.kind rdma' "$tmp/stats" &&
		grep -qx 'device.1.kind softnic' "$tmp/stats" &&
		url=$rdma kvctl info | grep -qx 'device.kind rdma' &&
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

url_fails() { # url, text
	url=$1 expect 69 "$2" ping
}

config_write "$rdma, $softnic"
check "the server starts on two devices" server_start || finish
check "log, statistics and clients name both" both_are_reported
check "from rdma to softnic" seen "$rdma" "$softnic"
check "from softnic to rdma" seen "$softnic" "$rdma"
check "a large value from rdma to softnic" large_seen "$rdma" "$softnic"
check "a large value from softnic to rdma" large_seen "$softnic" "$rdma"
check "a writer on rdma, a reader on softnic" works_meanwhile "$rdma" "$softnic"
check "a writer on softnic, a reader on rdma" works_meanwhile "$softnic" "$rdma"
check "the server stops" server_stop

# A second RDMA device, with addresses of both families.
SECOND=10.9.77.1 SECOND_V6=fd77::1

second_device() {
	ip link add kvd-second type dummy && ip addr add $SECOND/24 dev kvd-second &&
		ip addr add $SECOND_V6/64 dev kvd-second nodad && ip link set kvd-second up &&
		rdma link add rxe2 type rxe netdev kvd-second
}

second_device_end() {
	rdma link del rxe2
	ip link del kvd-second
}

devices_are() { # names: of the server's RDMA devices
	kvctl stats | sed -n 's/^device\.[0-9]*\.name //p' | sort | xargs >"$tmp/devices"
	cat "$tmp/devices"
	[ "$(cat "$tmp/devices")" = "$*" ]
}

# The connection of each client is on the device that has the address.
link_is() { # url, text
	url=$1 kvctl info >"$tmp/info"
	grep '^device' "$tmp/info"
	grep -q "^device.link .*$2" "$tmp/info"
}

round_is_seen() { # url...: what is put at each is seen at the next one
	local from=${!#} to
	for to; do
		seen "$from" "$to" || return 1
		from=$to
	done
}

if [ -e /run/kvd-vm-command ]; then
	trap 'cleanup; second_device_end 2>/dev/null' EXIT
	check "there is a second device" second_device
	tcp=$((port + 1))
	config_write "rdma://$KVD_RDMA_ADDR:$port, rdma://$SECOND:$port, $softnic,
		  rdma+tcp://[$SECOND_V6]:$tcp, rdma+tcp://$KVD_RDMA_ADDR:$tcp
		  rdma+tcp://$SECOND:$tcp"
	check "the server starts on both, and softnic" server_start
	check "each device once" devices_are rxe1 rxe2 softnic
	check "what is put at each address is seen at the next" round_is_seen "$rdma" \
		"rdma://$SECOND:$port" "rdma+tcp://$KVD_RDMA_ADDR:$tcp" \
		"rdma+tcp://$SECOND:$tcp" "rdma+tcp://[$SECOND_V6]:$tcp" "$softnic"
	check "rdma_cm on the second" link_is "rdma://$SECOND:$port" "gid=::ffff:$SECOND "
	check "rdma+tcp on the second" link_is "rdma+tcp://$SECOND:$tcp" "gid=::ffff:$SECOND "
	check "rdma+tcp over IPv6" link_is "rdma+tcp://[$SECOND_V6]:$tcp" "gid=$SECOND_V6 "
	check "with what the URL says" link_is \
		"rdma+tcp://$SECOND:$tcp?traffic_class=106&max_rd_atomic=4&retry_count=4" \
		"traffic_class=106 .* retry_count=4 .* max_rd_atomic=4\$"
	check "with rdma_cm, too" link_is "rdma://$SECOND:$port?traffic_class=104&ack_timeout=17" \
		"traffic_class=104 .* ack_timeout=17 "
	check "a GID that does not exist" url_fails "rdma+tcp://$SECOND:$tcp?gid_index=200" \
		"has no such GID"
	check "a writer on one device, a reader on the other" works_meanwhile "$rdma" \
		"rdma+tcp://[$SECOND_V6]:$tcp"
	check "the server stops" server_stop
fi
finish
