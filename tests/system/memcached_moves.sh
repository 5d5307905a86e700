#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of memcached's protocol in a fleet whose shards move: clients of two members count in
# keys of all, and each answer is the right one, while a member joins and another is drained.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/etcd_lib.sh
. tests/system/etcd_lib.sh
# shellcheck source=tests/system/fleet_lib.sh
. tests/system/fleet_lib.sh
# shellcheck source=tests/system/fleet_etcd_lib.sh
. tests/system/fleet_etcd_lib.sh

LEASE=1s
fleet=$(fleet_url_of a b c)
declare -A ports

# Of the ports that ports_choose has found one etcd takes the first and the fourth.
fronts_choose() {
	local i
	ports_choose && ports=([a]=$((port + 1)) [b]=$((port + 2)) [c]=$((port + 4)))
	for i in "${MEMBERS[@]}"; do
		member_options[$i]="-o server.listen=${urls[$i]},memcached://127.0.0.1:${ports[$i]}"
		member_options[$i]+=" -o memcached.forward_timeout=300s"
	done
}

# Starts the clients, and waits until they have counted once.
clients_begin() {
	: >"$tmp/clients"
	python3 tests/system/memcached_fleet.py counts "${ports[a]}" "${ports[b]}" \
		>>"$tmp/clients" 2>&1 &
	clients=$!
	pids+=("$clients")
	await_line "$tmp/clients" '^counting' "$clients"
}

# The clients have seen nothing wrong, and no error.
clients_end() {
	kill -TERM "$clients"
	await_end "$clients" && forget "$clients"
	cat "$tmp/clients"
	[ "$status" = 0 ]
}

check "an etcd starts" fronts_choose
etcd_start 1
check "and works" wait_until "$DEADLINE_S" etcd_works || { tail -n 20 "$tmp/etcd.0" && finish; }
check "a fleet of two starts" fleet_start demo a b || finish
check "clients count" clients_begin
check "a member comes without shards" comes_back c
check "it gets its share" joins a b c
check "the member that clients are connected to is drained" drains a b c
check "each answer was right" clients_end
check "the members stop" members_stop a b c
etcd_stop
finish
