#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of crashes: clients that are killed or stopped during operations, and a server that is
# killed. Other clients continue, the server releases what a killed client held, and nobody hangs.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
getter='' putter='' large='' # set by looping

# How many clients are killed, and during which operations: kind and bytes.
case $device in
softnic) kills=4 specs="put:1000000 put:100 mix:300000 get:100" ;;
*) kills=1 specs="put:1000000 get:100" ;;
esac
kills=${KVD_TEST_KILLS:-$kills} killed=0

looping() { # variable, name, mode, bytes, pause
	client_start "$1" "$tmp/$2" loop "$url" "$3" "$2" "$4" "$5" &&
		await_line "$tmp/$2" '^looping' "${!1}"
}

# number, mode, bytes: starts clients one after the other and kills each at another time in its loop
kill_clients() {
	local victim n count=$1
	shift
	for n in $(seq "$count"); do
		looping victim "victim$1$2" "$1" "$2" 0 || return 1
		pause $((n * 13))
		kill -KILL "$victim" && await_end "$victim" && forget "$victim"
		[ "$status" = 137 ] || return 1
		killed=$((killed + 1))
	done
	! ended "$server_pid" && ! ended "$neighbour"
}

# Runs one client that kills itself while the server pulls its value. The pull was cut short if it
# began and the key, kkkkk, is not found: on verbs the server sometimes finishes the pull first.
pull_is_cut() {
	local before after
	before=$(stat_of pulls) || return 1
	rogue die_in_pull
	[ $? = 137 ] || return 1
	killed=$((killed + 1))
	wait_until "$DEADLINE_S" stat_is connections 1 || return 1
	after=$(stat_of pulls) && [ "$after" -gt "$before" ] || return 1
	expect 1 'not found' get kkkkk && return 0
	kvctl delete kkkkk
	return 1
}

# number: runs such clients, one after the other, until that many pulls were cut short
cut_pulls() {
	local cut=0 tries=0
	while [ $cut -lt "$1" ] && [ $tries -lt $((10 * $1)) ]; do
		tries=$((tries + 1))
		! pull_is_cut || cut=$((cut + 1))
	done
	echo "$tries clients died, $cut of them while the server pulled"
	[ $cut = "$1" ] && ! ended "$server_pid"
}

# key, bytes: the value that a killed client left has its full length; `loop` checks bytes.
left_whole() { # key, bytes
	kvctl get "$1" >"$tmp/left" && [ "$(wc -c <"$tmp/left")" = "$2" ]
}

# A stopped client keeps its connection, and others do not wait for it.
stopped_client() {
	local sleeper
	looping sleeper sleeper mix 200000 0 || return 1
	kill -STOP "$sleeper"
	expect 0 '^$' put other value && expect 0 '^value$' get other || return 1
	kill -CONT "$sleeper"
	kill -TERM "$sleeper" && await_end "$sleeper" && forget "$sleeper" && [ "$status" = 0 ]
}

# A client that is stopped and then killed: the server may close its connection before the kill, if
# it is pulling a value from it.
stopped_for_good() {
	local sleeper
	looping sleeper sleeper mix 200000 0 || return 1
	kill -STOP "$sleeper"
	expect 0 '^value$' get other || return 1
	kill -KILL "$sleeper" && await_end "$sleeper" && forget "$sleeper"
}

# A client whose server was killed reports the lost connection when its timeout is over, and ends.
lost() { # pid, file
	local said='connection lost|it is unknown whether|the server is away'
	await_end "$1" && forget "$1"
	tail -n 1 "$2"
	[ "$status" = 3 ] && grep -Eq "^lost after .*: ($said)" "$2"
}

restarted_server_works() {
	server_start || return 1
	expect 1 'not found' get other && expect 0 '^$' put other again &&
		expect 0 '^again$' get other
}

check "the server starts" server_start || finish
check "a neighbour works" looping neighbour neighbour mix 3000 1000 || finish
# The first client puts the key, so that later ones replace a value of the same length.
for spec in $specs; do
	check "a first client, ${spec%:*} of ${spec#*:} bytes" \
		kill_clients 1 "${spec%:*}" "${spec#*:}"
	wait_until "$DEADLINE_S" stat_is connections 2
	check "what the server holds is noted, ${spec%:*} of ${spec#*:} bytes" held_note
	check "kill -9 of clients, ${spec%:*} of ${spec#*:} bytes" \
		kill_clients "$kills" "${spec%:*}" "${spec#*:}"
	check "the server has released their memory and connections" nothing_is_held 2
	check "the value they left is whole" left_whole "victim${spec/:/}" "${spec#*:}"
done
check "SIGSTOP of a client, then SIGCONT" stopped_client
check "SIGSTOP of a client, then kill -9" stopped_for_good
check "the neighbour worked without an error" neighbour_ends_well
check "all connections are closed" wait_until "$DEADLINE_S" stat_is connections 1
# No other client pulls now, so that the server counts only the pulls of these.
check "what the server holds is noted" held_note
check "clients die while the server pulls their value" cut_pulls "$kills"
check "the server has released their memory and connections" nothing_is_held 1

export SYS_TIMEOUT_MS=1000 SYS_AGAIN=1
check "a client that GETs" looping getter getter get 100000 0
check "a client that PUTs" looping putter putter put 100 0
check "a client that PUTs large values" looping large large put 1000000 0
check "kill -9 of the server" server_kill
echo "counted: kill -9 $((killed + 1))"
check "the client that GETs reports it and ends" lost "$getter" "$tmp/getter"
check "the client that PUTs reports it and ends" lost "$putter" "$tmp/putter"
check "the client that PUTs large values reports it and ends" lost "$large" "$tmp/large"
check "without a server a client fails at once" expect 69 '^kvctl: ' ping
SYS_TIMEOUT_MS=$CALL_TIMEOUT_MS
unset SYS_AGAIN
check "the server starts again, empty, and works" restarted_server_works
check "the server stops" server_stop
finish
