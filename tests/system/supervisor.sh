#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of what a supervisor sees of kvd: -d, which returns when the server is ready, or with
# its error; the pid file; and the messages to systemd, to a listener in its place: READY,
# RELOADING, STOPPING, and a WATCHDOG that stops when one worker is stuck, though the control thread
# is not.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

pidfile=$tmp/kvd.pid

# arguments...: kvd -d; fails as it does. What it prints is in $tmp/said.
daemon() {
	# A pipe shows whether the server still holds it: then cat would not end.
	timeout "$DEADLINE_S" "$build/kvd" -c "$tmp/kvd.ini" -d --pidfile "$pidfile" "$@" \
		2>&1 | timeout "$DEADLINE_S" cat >"$tmp/said"
	local said=("${PIPESTATUS[@]}")
	[ "${said[1]}" = 0 ] || return 99
	return "${said[0]}"
}

daemon_pid() {
	local pid
	pid=$(cat "$pidfile") && pids+=("$pid") && echo "$pid"
}

daemon_stop() {
	local pid
	pid=$(cat "$pidfile") && kill "$pid" && wait_until "$DEADLINE_S" ended "$pid" &&
		[ ! -e "$pidfile" ]
}

# The first call after kvd -d finds the server ready, in a session of its own.
ready_at_once() {
	local pid
	daemon && expect 0 pong ping && pid=$(daemon_pid) &&
		[ "$(cut -d' ' -f6 "/proc/$pid/stat")" = "$pid" ] &&
		[ "$(readlink "/proc/$pid/fd/0")" = /dev/null ] &&
		[ "$(readlink "/proc/$pid/fd/2")" = /dev/null ] && daemon_stop
}

# pattern, status, arguments...: kvd -d fails with the server's error and status
fails_with() {
	local pattern=$1 want=$2
	shift 2
	daemon "$@"
	[ $? = "$want" ] && grep -q -- "$pattern" "$tmp/said" && return 0
	cat "$tmp/said"
	return 1
}

# Ends the process that was started, which waits for a server that takes so long to start.
interrupted_within() { # time
	local parent server
	KVD_SOFTNIC_FAULTS=stall=listen:1:$1 "$build/kvd" -c "$tmp/kvd.ini" -d \
		--pidfile "$pidfile" >"$tmp/said" 2>&1 &
	parent=$!
	wait_until "$DEADLINE_S" [ -s "$pidfile" ] && server=$(daemon_pid) && kill "$parent" ||
		return
	wait "$parent"
	[ $? = 143 ] && wait_until "$DEADLINE_S" ended "$server" && [ ! -e "$pidfile" ]
}

# A machine that is very busy needs more time until it is interrupted.
interrupted() {
	interrupted_within 2s && return
	daemon_stop
	interrupted_within 10s # the most that a fault plan takes
}

without_log_file() {
	sed 's/^file = .*//' "$tmp/kvd.ini" >"$tmp/nolog.ini"
	timeout "$DEADLINE_S" "$build/kvd" -c "$tmp/nolog.ini" -d --pidfile "$pidfile" 2>&1 |
		timeout "$DEADLINE_S" cat >"$tmp/said"
	[ "${PIPESTATUS[*]}" = '0 0' ] && daemon_pid && expect 0 pong ping &&
		grep -q ' ready: ' "$tmp/said" &&
		grep -q 'notice detached: .* are lost; set log.file' "$tmp/said" && daemon_stop
}

# What kvd opens does not get the number of a standard descriptor that its caller closed.
closed_descriptors() {
	local closed
	for closed in '<&-' '>&-' '2>&-' '<&- >&- 2>&-'; do
		echo "$closed"
		eval "timeout $DEADLINE_S '$build/kvd' -c '$tmp/nolog.ini' -d \
			--pidfile '$pidfile' >'$tmp/said' 2>&1 $closed" && daemon_pid &&
			grep -Eqx '[0-9]+' "$pidfile" && [ "$(wc -l <"$pidfile")" = 1 ] &&
			expect 0 pong ping && daemon_stop || return 1
	done
}

pidfile_is_locked() {
	daemon && daemon_pid && fails_with \
		"error --pidfile $pidfile: process $(cat "$pidfile") runs and holds it" 1 \
		-o "server.listen=softnic://$tmp/s2" && expect 0 pong ping
}

# The number may be another process's by now, as this shell's here.
stale_pidfile() {
	local pid
	pid=$(cat "$pidfile") && kill -KILL "$pid" && wait_until "$DEADLINE_S" ended "$pid" &&
		[ -e "$pidfile" ] && echo "$$" >"$pidfile" && daemon && daemon_pid &&
		logged "replacing the file of process $$, which died" && daemon_stop
}

other_files_are_kept() {
	echo "no number" >"$pidfile"
	fails_with 'is not a pid file' 1 && [ "$(cat "$pidfile")" = "no number" ] &&
		rm "$pidfile" && echo kept >"$tmp/target" && ln -s "$tmp/target" "$pidfile" &&
		fails_with 'pidfile .*: Too many levels of symbolic links' 1 &&
		[ "$(cat "$tmp/target")" = kept ] && rm "$pidfile"
}

# address: starts a listener in systemd's place, which writes each line that it gets to
# $tmp/notified
listener_start() {
	: >"$tmp/notified"
	"$build/tests/system/sys_supervise" listen "$1" >>"$tmp/notified" 2>&1 &
	listener=$!
	pids+=("$listener")
	await_line "$tmp/notified" '^listening' "$listener"
}

listener_stop() {
	kill "$listener" && await_end "$listener" && forget "$listener"
}

notified() {
	wait_until "$DEADLINE_S" grep -Eqx -- "$1" "$tmp/notified" && return 0
	cat "$tmp/notified"
	return 1
}

# address: READY, RELOADING and READY again, STOPPING, in this order
notifies() {
	local order
	listener_start "$1" || return 1
	export NOTIFY_SOCKET=$1
	server_start && notified READY=1 && kill -HUP "$server_pid" && notified RELOADING=1 &&
		notified 'MONOTONIC_USEC=[0-9]+' && notified 'STATUS=serving on .*' &&
		wait_until "$DEADLINE_S" ready_again && server_stop && notified STOPPING=1
	local result=$?
	unset NOTIFY_SOCKET
	order=$(grep -E '^(READY|RELOADING|STOPPING)=' "$tmp/notified" | tr '\n' ' ')
	listener_stop
	[ $result = 0 ] && [ "$order" = 'READY=1 RELOADING=1 READY=1 STOPPING=1 ' ] && return 0
	echo "order: $order"
	return 1
}

ready_again() {
	[ "$(grep -cx READY=1 "$tmp/notified")" = 2 ]
}

signs_of_life() {
	grep -cx WATCHDOG=1 "$tmp/notified"
}

more_signs_than() {
	[ "$(signs_of_life)" -gt "$1" ]
}

# Since the last hang_up.
stuck_lines() {
	tail -n "+$log_start" "$log" | grep -c "worker 1 has not finished a turn"
}

more_stuck_lines_than() {
	[ "$(stuck_lines)" -gt "$1" ]
}

reloads() {
	grep -cx RELOADING=1 "$tmp/notified"
}

more_reloads_than() {
	[ "$(reloads)" -gt "$1" ]
}

# Sends SIGHUP and waits until it has been handled, for which the control thread must not be stuck.
# What the server logged or told systemd before has been written by then.
hang_up() {
	local before
	before=$(reloads)
	log_start=$(($(log_lines) + 1))
	kill -HUP "$server_pid" && wait_until "$DEADLINE_S" more_reloads_than "$before" &&
		logged 'SIGHUP: configuration read' || return 1
	log_start=$(($(log_lines) + 1))
}

# Both workers are idle: their signs of life come without requests.
watchdog() {
	local before
	listener_start "$tmp/notify" || return 1
	# Asked every 100 ms.
	NOTIFY_SOCKET=$tmp/notify WATCHDOG_USEC=400000 server_start || return 1
	wait_until "$DEADLINE_S" more_signs_than 3 || return 1
	freeze worker-1 && hang_up || return 1
	wait_until "$DEADLINE_S" more_stuck_lines_than 0 && hang_up || return 1
	before=$(signs_of_life)
	wait_until "$DEADLINE_S" more_stuck_lines_than 2 && hang_up || return 1
	[ "$(signs_of_life)" = "$before" ] || return 1
	thaw && wait_until "$DEADLINE_S" more_signs_than "$before" && server_stop &&
		listener_stop
}

# The watchdog of the process that started kvd is not kvd's.
watchdog_of_another() {
	listener_start "$tmp/notify2" || return 1
	NOTIFY_SOCKET=$tmp/notify2 WATCHDOG_USEC=4000 WATCHDOG_PID=1 server_start &&
		notified READY=1 && server_stop && notified STOPPING=1 && listener_stop &&
		[ "$(signs_of_life)" = 0 ]
}

bad_notify_socket() {
	NOTIFY_SOCKET=$tmp/none server_start && logged "warn NOTIFY_SOCKET = $tmp/none: " &&
		expect 0 pong ping && server_stop
}

check "kvd -d returns when the server is ready" ready_at_once
check "kvd -d without log.file says so" without_log_file
check "descriptors that the caller closed" closed_descriptors
check "kvd -d fails as the server: its start" \
	fails_with 'error server.listen = softnic:///none/none/s: the parent' 1 \
	-o server.listen=softnic:///none/none/s
check "kvd -d fails as the server: its configuration" fails_with 'server.workers' 78 \
	-o server.workers=x
if [ "$device" = softnic ]; then
	check "kvd -d that is interrupted ends the server, too" interrupted
fi
check "no pid file is left" [ ! -e "$pidfile" ]
check "the pid file of a server that runs is refused" pidfile_is_locked
check "the pid file of a server that died is replaced" stale_pidfile
check "a file that is no pid file is kept" other_files_are_kept
check "messages to systemd" notifies "$tmp/notify.s"
check "messages to systemd, by an abstract socket" notifies "@kvd-test-$$"
check "no signs of life while a worker is stuck" watchdog
check "the watchdog of another process" watchdog_of_another
check "a NOTIFY_SOCKET that is not there" bad_notify_socket
finish
