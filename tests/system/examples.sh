#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of client/examples: each program does what the head of its file says.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

out=$tmp/out

# name, arguments...: runs an example, which has to succeed, with its output to $out
example() {
	local name=$1
	shift
	"$build/examples/$name" "$url" "$@" >"$out" 2>&1 && return 0
	echo "$name failed:"
	tail -n "$CHECK_LINES_SHOWN" "$out"
	return 1
}

said() {
	grep -qx -- "$1" "$out" && return 0
	echo "not in the output: $1"
	tail -n "$CHECK_LINES_SHOWN" "$out"
	return 1
}

sync() {
	example sync && said 'name is Ada' && said 'visits after the first and two more: 2' &&
		said 'the second change with the old version: the key exists.*' &&
		said 'nobody: not found' && [ "$(kvctl get name)" = 'Ada Lovelace' ]
}

batch() {
	example batch && said '1000 of 1000 values read back' &&
		[ "$(kvctl get key-999)" = 'value of 999' ]
}

# 16 blocks of 256 KiB stored and read, then 1 MiB stored, and read to 8 pieces.
zero_copy_arena() {
	example zero_copy_arena && said '16 blocks stored, 16 read back' &&
		said '1048576 bytes read to 8 places' && said '10 MiB moved without a copy'
}

epoll_loop() {
	example epoll_loop <<-'END' || return 1
		set colour green
		get colour
		get shape
		frobnicate
	END
	said 'colour stored' && said 'colour = green' && said 'shape: not found' &&
		said 'not a command: frobnicate'
}

thread_pool() {
	example thread_pool 4 && said "2000 jobs done by 4 threads; jobs found each other's keys"
}

# The example's connections are closed all the time meanwhile; with pauses, since each kvctl is an
# identity more that the server keeps, and the oldest give way.
counters_beside_kills() {
	local pid id
	killed=0
	kvctl del counter-3 >"$tmp/del" 2>&1 # of the round before
	"$build/examples/counters" "$url" 4 $increments >"$out" 2>&1 &
	pid=$!
	pids+=("$pid")
	# One whose connection is closed before kvd_open() has returned gets that as its result.
	counts_or_ended() { ended "$pid" || expect 0 '^[0-9]' get counter-3; }
	wait_until "$DEADLINE_S" counts_or_ended || return 1
	while ! ended "$pid"; do
		for id in $(kvctl clients | sed -n 's/^id=\([0-9]*\) .*/\1/p'); do
			! kvctl kill "$id" >"$tmp/kill" 2>&1 || killed=$((killed + 1))
		done
		pause $PAUSE_MAX_MS
	done
	await_end "$pid" && forget "$pid" && [ "$status" = 0 ] && each_is_counted_once
}

# Again with more of them, if they were done before a connection was closed.
counters() {
	local killed increments=2000
	[ "${KVD_TEST_LONG:-0}" != 1 ] || increments=100000
	until counters_beside_kills && [ "$killed" -gt 1 ]; do
		increments=$((increments * 4))
		[ "$killed" -le 1 ] && [ $increments -lt 10000000 ] || return 1
	done
}

# What became of each increment is known.
each_is_counted_once() {
	local line counts='^([0-9]+) .*acknowledged, ([0-9]+) .* ([0-9]+) took.*say ([0-9]+)'
	line=$(grep ' increments acknowledged, ' "$out") && echo "$line" &&
		[[ $line =~ $counts ]] &&
		[ $((BASH_REMATCH[1] + BASH_REMATCH[2])) = $((4 * increments)) ] &&
		[ $((BASH_REMATCH[1] + BASH_REMATCH[3])) = "${BASH_REMATCH[4]}" ] &&
		[ "${BASH_REMATCH[1]}" -gt 0 ]
}

# A client that wins just after another one stored the value must not compute it too: one run in six
# showed that.
cache_aside() {
	local i
	for i in {1..5}; do
		example cache_aside 64 && said '64 answers, the origin was asked 1 time' ||
			return 1
	done
	[ "$(kvctl get report)" = 'the report' ] &&
		expect 1 'not found' get report:computing
}

# commands...: sends them to the server on libuv, and prints as many answers
ask() {
	local line command
	exec 3<>"/dev/tcp/127.0.0.1/$uv_port" || return 1
	printf '%s\n' "$@" >&3
	for command; do
		[ "$command" = quit ] || { read -r -t "$DEADLINE_S" line <&3 && echo "$line"; }
	done
	exec 3>&-
}

libuv_server() {
	local pid uv_port
	"$build/examples/libuv_server" "$url" >"$out" 2>&1 &
	pid=$!
	pids+=("$pid")
	await_line "$out" '^port' "$pid" || return 1
	uv_port=$(sed -n 's/^port //p' "$out")
	[ "$(ask 'set city Turin')" = ok ] && [ "$(ask 'get city')" = Turin ] &&
		[ "$(ask 'get nothing')" = 'not found' ] &&
		[ "$(ask hello)" = 'not a command' ] &&
		[ "$(ask 'set a 1' 'set b 2' 'set c 3' | sort -u)" = ok ] &&
		[ "$(ask 'get a' 'get b' 'get c' | sort | tr '\n' ' ')" = '1 2 3 ' ] || return 1
	ask quit && await_end "$pid" && forget "$pid" && [ "$status" = 0 ]
}

# Connections of examples that have ended may be closing still, 64 for each run of cache_aside.
check "the server starts" server_start -o server.max_connections=512
check "sync" sync
check "batch" batch
check "zero-copy arena" zero_copy_arena
check "epoll_loop" epoll_loop
check "thread_pool" thread_pool
check "cache_aside" cache_aside
check "counters" counters
check "libuv_server" libuv_server
check "the server stops" server_stop
finish
