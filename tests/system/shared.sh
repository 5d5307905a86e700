#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of what the handles of a process share: what a further handle costs, threads with
# handles to two servers, and a restart while handles are open.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

shared() {
	"$build/tests/system/sys_shared" "$@"
}

# On verbs the device and the kernel have memory for each queue pair that is not the process's.
# Sanitizers keep memory of their own for each allocation.
handles=100 limits=(53248 2)
case $device in
verbs) handles=20 limits=() ;;
esac
case $build in
*asan* | *tsan*) limits=() ;;
esac

second_start() {
	"$build/kvd" -c "$tmp/kvd.ini" -o "server.listen=$(second_url)" -o "log.file=$tmp/log2" \
		>>"$tmp/stderr" 2>&1 &
	second_pid=$!
	pids+=("$second_pid")
	wait_until "$DEADLINE_S" grep -q ' ready: ' "$tmp/log2"
}

second_url() {
	case $device in
	softnic) echo "softnic://$tmp/s2" ;;
	verbs) echo "$scheme://$KVD_RDMA_ADDR:$((port + 1))" ;;
	esac
}

second_stop() {
	kill -TERM "$second_pid" && await_end "$second_pid" && forget "$second_pid" &&
		[ "$status" = 0 ]
}

# A client that waits for a line while the server is restarted.
restart_begin() {
	mkfifo "$tmp/in"
	: >"$tmp/restart"
	shared restart "$url" <"$tmp/in" >"$tmp/restart" 2>&1 &
	client=$!
	pids+=("$client")
	exec 9>"$tmp/in"
	await_line "$tmp/restart" '^ready' "$client"
}

restart_end() {
	echo go >&9
	exec 9>&-
	await_end "$client" && forget "$client"
	grep -v '^ready' "$tmp/restart"
	return "$status"
}

check "the server starts" server_start -o server.max_connections=256 || finish
checks_of shared cost "$url" "$handles" "${limits[@]}"
check "all are closed" wait_until "$DEADLINE_S" stat_is connections 1
check "a second server starts" second_start
checks_of shared threads "$url" "$(second_url)"
check "the second server stops" second_stop
check "a client with two handles" restart_begin
check "the server stops" server_stop
check "it starts again" server_start
check "what it found" restart_end
check "the server stops" server_stop
finish
