#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of expiry: GETs find a key until it has expired, which the server says, and not after
# that, also those of a client that was stopped meanwhile and goes on.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
watcher='' sleeper='' # set by watch

# variable, name, key: starts a client that GETs the key until it has expired
watch() {
	local -n pid=$1
	: >"$tmp/$2"
	"$build/tests/system/sys_expiry" "$url" "$3" >>"$tmp/$2" 2>&1 &
	pid=$!
	pids+=("$pid")
	await_line "$tmp/$2" '^looping' "$pid"
}

ended_well() { # pid, name
	await_end "$1" && forget "$1"
	tail -n 1 "$tmp/$2"
	[ "$status" = 0 ] && grep -q '^ok ' "$tmp/$2"
}

# key: two clients GET it until it has expired; one is stopped before that and goes on after it
stopped_across_expiry() {
	watch watcher watcher "$1" && watch sleeper sleeper "$1" &&
		kvctl -e 3600 put "$1" mortal &&
		await_line "$tmp/watcher" '^found' "$watcher" &&
		await_line "$tmp/sleeper" '^found' "$sleeper" || return 1
	kill -STOP "$sleeper" && kvctl touch "$1" 1 && ended_well "$watcher" watcher &&
		kill -CONT "$sleeper" && ended_well "$sleeper" sleeper
}

check "the server starts" server_start || finish
check "SIGSTOP of a client while its key expires" stopped_across_expiry key
check "the server stops" server_stop
finish
