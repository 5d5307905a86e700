#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of kvctl doctor with a real server: each path is used and leaves no key; what is wrong
# is a finding with its fix, and the exit status says so. In the machine of tests/vm/run it breaks a
# Soft-RoCE device of its own, and does what the fixes say.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

# status, arguments...: doctor ends with it
doctor() {
	local want=$1 got
	shift
	"$build/kvctl" -t "$CALL_TIMEOUT_MS" doctor --json "$@" >"$tmp/findings" 2>"$tmp/said"
	got=$?
	[ "$got" = "$want" ] && [ ! -s "$tmp/said" ] && return 0
	echo "doctor $*: status $got" && cat "$tmp/findings" "$tmp/said"
	return 1
}

# severity, check, pattern: doctor has found it; the pattern is of the text and the fix that follows
found() {
	local line
	while read -r line; do
		[[ $line =~ "\"severity\": \"$1\", \"check\": \"$2\", \"text\": \""$3 ]] && return 0
	done <"$tmp/findings"
	echo "no $1 of $2 with '$3', but:" && grep "\"check\": \"$2\"" "$tmp/findings"
	return 1
}

# What this host itself lacks is none of a server's findings.
worst_of_host=0
"$build/kvctl" doctor >/dev/null || worst_of_host=$?

all_paths_work() {
	doctor "$worst_of_host" "$url" && found ok connect "connected in .* by ${way/+/\\+} " &&
		found ok version '' && found ok clock '' && found ok PING '.* of 50' &&
		found ok REQUEST '.* of 50' && found ok READ '.* of (49|50)"' &&
		found ok PULL '.*1048576 bytes.* of 10, .*GB/s'
}

# The GID that it names is the one that the connection has.
gid_is_used() {
	local line
	line=$(grep '"check": "path"' "$tmp/findings") &&
		[[ $line =~ '"gid='([^ ]*)' gid_index='([0-9]*) ]] &&
		found ok gid "connections use GID ${BASH_REMATCH[2]}, ${BASH_REMATCH[1]},"
}

the_server_agrees() {
	stat_is pulls 10 && stat_is items 0
}

people_read_it() {
	kvctl doctor >"$tmp/text"
	grep -q "^The server $url\$" "$tmp/text" && grep -q '^  ok       PULL ' "$tmp/text" &&
		grep -q '^This host$' "$tmp/text"
}

check "it starts" server_start
check "each path works, and has a time" all_paths_work
[ "$device" != verbs ] || check "it names the GID that is used" gid_is_used
check "the server saw that, and has no key of it" the_server_agrees
check "the text for people" people_read_it
check "the server stops" server_stop

nobody_is_there() {
	doctor 5 "$url" && found error connect '.*", "fix": "(kvd -d|ssh) '
}

values_fit_messages() {
	server_start -o limits.max_value=1k && doctor "$worst_of_host" "$url" &&
		found info PULL 'all values' && server_stop
}

check "no server is an error, with its fix" nobody_is_there
check "a server without pulls" values_fit_messages

# severity, check, pattern: found, but of no other device than that of the test
found_here() {
	grep '"RDMA device doctor, port 1"' "$tmp/findings" >"$tmp/here"
	mv "$tmp/here" "$tmp/findings" && found "$@"
}

# check: does what the fix says, without sudo: the test is root
fix() {
	local line
	line=$(grep "\"check\": \"$1\"" "$tmp/findings") &&
		[[ $line =~ '"fix": "sudo '([^\"]*)\" ]] && ${BASH_REMATCH[1]}
}

device_is_down() {
	ip link add doctor0 type veth peer name doctor1 && ip link set dev doctor1 up &&
		rdma link add doctor type rxe netdev doctor0 && doctor 5 &&
		found_here error state 'the port is not active' && fix state
}

# [severity, check, pattern]
wait_for() {
	doctor_says() { doctor "$1" && shift && found_here "$@"; }
	wait_until "$DEADLINE_S" doctor_says "$@"
}

mtu_is_small() {
	wait_for 4 warning gid 'connections would use GID 0, fe80::' &&
		found ok state active && ip link set dev doctor0 mtu 600 &&
		wait_for 4 warning mtu 'doctor: its active MTU is 512' && fix mtu
}

all_is_well_then() {
	ip address add 10.9.7.1/24 dev doctor0 &&
		wait_for 0 ok mtu 'doctor: active MTU 4096' &&
		found ok gid 'connections use GID 1, ::ffff:10.9.7.1, RoCE v2"' &&
		found ok limits '' && found ok inline 'a queue pair can be created'
}

device_goes() {
	rdma link delete doctor && ip link delete doctor0
}

memory_is_not_lockable() {
	(ulimit -Sl 64 && build=$tmp && doctor 5 && found error memlock '.*"fix": "ulimit -Sl hard')
}

if [ "$way" = rdma ] && [ -e /run/kvd-vm-command ]; then
	check "a port that is down; the fix" device_is_down
	check "an MTU that is too small; the fix" mtu_is_small
	check "then all is well" all_is_well_then
	check "the device is removed" device_goes
	printf '#!/bin/sh\nexec setpriv --bounding-set -ipc_lock %s/kvctl "$@"\n' "$build" \
		>"$tmp/kvctl"
	chmod +x "$tmp/kvctl"
	check "memory that may not be locked" memory_is_not_lockable
fi
finish
