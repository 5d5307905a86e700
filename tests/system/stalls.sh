#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of threads and processes that get no CPU for a while: each thread of the server in
# turn, as a debugger stops it, the whole server, and clients, one of them while the server reads
# its value. What a stopped thread delays is what only that thread does (server/DESIGN.md, Threads);
# the others are served meanwhile. Then it goes on, and what clients saw is linearizable.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/puller_lib.sh
. tests/system/puller_lib.sh
# shellcheck source=tests/system/history_lib.sh
. tests/system/history_lib.sh

# Seconds of each stop while the histories are recorded.
stops=0.5
threads="worker-0 worker-1 maintenance log kvd"
# The emulated machine is slow, and these are what the device has to do with.
[ "$device" = softnic ] || { stops=0.3 && threads="worker-0 kvd"; }
[ "${KVD_TEST_LONG:-0}" != 1 ] || stops="0.1 0.3 1 3"
# Answers that a client gives that goes on; one that stands must not give up before.
ANSWERS=2
export SYS_TIMEOUT_MS=600000
put0='' get0='' put1='' get1='' # set by clients_start

# Prints the worker of each connection, as the server logged it.
workers_logged() {
	sed -n 's/.* debug connection .*: worker \([0-9]*\)$/\1/p' "$log"
}
more_workers_than() {
	[ "$(workers_logged | wc -l)" -gt "$1" ]
}

# put or get: starts clients put0 and put1, or get0 and get1, each of the worker with that number.
# Those that are started stay, so that the workers get them in turn.
clients_start() {
	local mode=$1 n before worker pid
	local -n first=$1'0' second=$1'1'
	[ "$1" = get ] || mode=mix
	for ((n = 0; n < 4; n++)); do
		before=$(workers_logged | wc -l)
		client_start pid "$tmp/client$1$n" loop "$url" $mode "$1$n" 100 1000 &&
			await_line "$tmp/client$1$n" '^looping' "$pid" &&
			wait_until "$DEADLINE_S" more_workers_than "$before" || return 1
		worker=$(workers_logged | tail -n 1)
		declare -g "$1$worker=$pid"
		ln -sf "$tmp/client$1$n" "$tmp/$1$worker"
		[ -z "$first" ] || [ -z "$second" ] || return 0
	done
	return 1
}

# file
lines_of() {
	local lines
	mapfile -t lines <"$1"
	echo ${#lines[@]}
}
more_lines_than() {
	local lines
	mapfile -t lines <"$2"
	[ ${#lines[@]} -gt "$1" ]
}

# variables: of each client the call under way ends, and some more
all_go_on() {
	local name n
	local -A lines
	for ((n = 0; n < ANSWERS; n++)); do
		for name; do
			lines[$name]=$(lines_of "$tmp/$name")
			kill -USR1 "${!name}" || return 1
		done
		for name; do
			wait_until "$DEADLINE_S" more_lines_than "${lines[$name]}" "$tmp/$name" ||
				return 1
		done
	done
}

# variable, command...: the client has a call under way that does not end while the command is done
stands_while() {
	local name=$1 lines
	shift
	# The first answer may still come, of a call that had ended.
	kill -USR1 "${!name}" && "$@" || return 1
	lines=$(lines_of "$tmp/$name")
	kill -USR1 "${!name}" && "$@" || return 1
	[ "$(lines_of "$tmp/$name")" = "$lines" ]
}

no_new_connection() {
	! "$build/kvctl" -a "$url" -t 200 ping
}

# All clients of those workers, with what they do by READs alone, and new ones.
others_are_served() {
	all_go_on put0 get0 put1 get1 && expect 0 pong ping
}

ends_well() {
	kill -TERM "${!1}" && await_end "${!1}" && forget "${!1}" && [ "$status" = 0 ]
}

# Where items are evicted, clients that READ send access records, and softnic completes a SEND, and
# all that its queue pair does after it, only when the receiver polls.
# A value that the server waits for does not become too old. Each round of the histories has keys of
# its own, some 90 KB, and a slow device takes many.
check "the server starts" server_start -o memory.eviction=none -o memory.size=256m \
	-o server.pull_stall=600s -o server.pull_timeout=600s || finish
check "a client of each worker that PUTs" clients_start put || finish
check "a client of each worker that GETs" clients_start get || finish

# Since the log's thread was stopped.
closed_since() {
	tail -n "+$((lines_before + 1))" "$log" | grep -q ' debug connection .*: closed$'
}

check "the thread maintenance is stopped" freeze maintenance
check "everybody is served" others_are_served
check "it goes on" thaw
check "the thread log is stopped" freeze log
lines_before=$(log_lines)
check "everybody is served" others_are_served
check "nothing is logged" [ "$(log_lines)" = "$lines_before" ]
check "it goes on" thaw
check "what was logged meanwhile comes" wait_until "$DEADLINE_S" closed_since
for n in 0 1; do
	other=$((1 - n))
	check "the thread worker-$n is stopped" freeze worker-$n
	check "clients of the other worker, and all that READ, are served; the others wait" \
		stands_while put$n all_go_on put$other get0 get1
	check "it goes on" thaw
	check "everybody is served" others_are_served
done
check "the control thread is stopped" freeze kvd
check "clients that are connected are served" all_go_on put0 get0 put1 get1
check "nobody connects" no_new_connection
check "it goes on" thaw
check "everybody is served" others_are_served
check "the server is stopped" kill -STOP "$server_pid"
check "clients that READ are served; the others wait" stands_while put0 all_go_on get0 get1
check "it goes on" kill -CONT "$server_pid"
check "everybody is served" others_are_served
for name in put0 get0 put1 get1; do
	check "the client $name saw no error" ends_well $name
done

# A client whose value the server reads. A verbs device serves that READ though it is stopped.
stop_in_pull() {
	puller_stops || return 1
	{ [ "$device" = verbs ] || expect 1 'not found' get kkkkk; } &&
		expect 0 '^$' put other value && expect 0 '^value$' get other && return 0
	cat "$tmp/puller"
	return 1
}
goes_on_and_is_stored() {
	kill -CONT "$puller" && await_end "$puller" && forget "$puller"
	cat "$tmp/puller"
	[ "$status" = 0 ]
}
# On verbs the server may have the value by then.
is_killed() {
	kill -KILL "$puller" && await_end "$puller" && forget "$puller" || return 1
	[ "$device" = softnic ] || kvctl del kkkkk
	expect 1 'not found' get kkkkk
}
check "a value that must stay" kvctl put precious intact
check "a value that is there before and after" kvctl put other value
check "what the server holds is noted" held_note
check "a client is stopped while the server reads its value" stop_in_pull
check "it goes on: the value is stored" goes_on_and_is_stored
check "another one is stopped so" stop_in_pull
check "and killed: nothing of its value is stored" is_killed
check "the server holds nothing of it" nothing_is_held 1
check "all else is deleted" kvctl flush

# Each stop while clients work whose histories are checked.
thread_stops() { # name, seconds
	freeze "$1" && sleep "$2" && thaw
}
process_stops() { # pid, seconds
	kill -STOP "$1" && wait_until "$DEADLINE_S" is_stopped "$1" && sleep "$2" && kill -CONT "$1"
}
check "clients work" history_start || finish
for seconds in $stops; do
	for thread in $threads; do
		fault "the thread $thread is stopped for $seconds s" thread_stops $thread "$seconds"
	done
	fault "the server is stopped for $seconds s" process_stops "$server_pid" "$seconds"
	fault "the clients are stopped for $seconds s" process_stops "$history_pid" "$seconds"
done
history_judge
check "no connection failed" stat_is connections_failed 0
check "the server stops" server_stop
finish
