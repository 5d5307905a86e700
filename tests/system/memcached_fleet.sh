#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of memcached's protocol in a fleet: a client of one member uses the keys of all, by
# every command; a member that is away, or does not answer, delays and fails its own keys alone.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/fleet_lib.sh
. tests/system/fleet_lib.sh

declare -A ports
front_port=$((20000 + $$ % 10000))
for i in "${MEMBERS[@]}"; do
	ports[$i]=$((front_port++))
	member_options[$i]="-o server.listen=${urls[$i]},memcached://127.0.0.1:${ports[$i]}"
	# A busy machine is slow: a case that waits for the end of this time sets it.
	member_options[$i]+=" -o memcached.forward_timeout=300s"
done

# case word...: of memcached_fleet.py, by a client of member a
client_of_a() {
	python3 tests/system/memcached_fleet.py "$1" "${ports[a]}" "${@:2}"
}

# Clients of libkvd see what was stored, and the other way round.
seen_by_kvctl() {
	url=$(fleet_url_of a b c)
	local i
	for i in 1 3 5 7 9; do
		[ "$(kvctl get "c$i")" = "value of c$i" ] || return 1
		kvctl put "k$i" "from kvctl $i" || return 1
	done
	kvctl exists c0 c2 c4 && return 1
	client_of_a found k 1 3 5 7 9
}

# All of it went through a, and was executed by the members that have the keys.
is_counted() {
	client_of_a counted && choose b && stat_above puts 100
}

keys_of_c() {
	client_of_a fill && client_of_a of_members "${ports[b]}" "${ports[c]}" >"$tmp/owners" &&
		{ read -ra others && read -ra theirs; } <"$tmp/owners" && [ ${#theirs[@]} -gt 3 ]
}

# Keys of c wait while it is stopped, and are answered once it goes on.
one_is_stopped() {
	choose c
	kill -STOP "$server_pid"
	client_of_a one_is_stopped "${theirs[0]}" "${others[@]}" >"$tmp/stopped" 2>&1 &
	local pid=$!
	pids+=("$pid")
	await_line "$tmp/stopped" '^others done' "$pid" || { kill -CONT "$server_pid"; return 1; }
	kill -CONT "$server_pid"
	await_end "$pid" && forget "$pid"
	tail -n 3 "$tmp/stopped"
	[ "$status" = 0 ]
}

one_times_out() {
	local result
	member_stop a && member_options[a]+=" -o memcached.forward_timeout=200ms" &&
		member_start a && client_of_a fill || return 1
	choose c
	kill -STOP "$server_pid"
	client_of_a times_out "${theirs[0]}"
	result=$?
	kill -CONT "$server_pid"
	return $result
}

# [none]: the members start again, with users, who are each other and the test's clients, or without
users_are_given() {
	local i
	members_stop "${MEMBERS[@]}" || return 1
	printf '%s\n' '[user members]' "uid = $(id -u)" 'rights = all' '[user clients]' \
		'networks = 127.0.0.0/8' 'rights = read write delete stats' \
		'read_prefixes = pub:' 'write_prefixes = pub: sec:' >"$tmp/users"
	for i in "${MEMBERS[@]}"; do
		member_options[$i]=${member_options[$i]%" -o users.file="*}
		[ "${1:-}" = none ] || member_options[$i]+=" -o users.file=$tmp/users"
	done
	members_start "${MEMBERS[@]}"
}

fleet_write 1
check "three members start" members_start "${MEMBERS[@]}"
check "classic commands" client_of_a classic
check "clients of libkvd see the same" seen_by_kvctl
check "times to live" client_of_a expiry
check "meta commands" client_of_a meta
check "what only the key's member can say" client_of_a refused "${ports[b]}" "${ports[c]}"
check "lines of 300 keys" client_of_a many
check "many clients at once" client_of_a clients
check "long values" client_of_a large
check "a long pipeline" client_of_a pipeline
check "no request has failed" is_counted
check "flush_all is for all members" client_of_a flush
check "some keys are c's" keys_of_c
check "a member that does not answer delays its own keys" one_is_stopped
check "a request has a timeout" one_times_out
check "users of the members" users_are_given
check "a session's user is checked here" client_of_a rights
check "without users" users_are_given none
check "the same keys" client_of_a fill
check "a member is killed" member_kill c
check "only its keys fail" client_of_a one_is_dead "${theirs[@]}"
check "it returns" member_start c
# Keys of c are refused until the next try to connect to it.
check "its keys are stored again" wait_until "$DEADLINE_S" client_of_a fill
check "the members stop" members_stop "${MEMBERS[@]}"
finish
