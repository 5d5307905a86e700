#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of `kvctl clients` and `kvctl kill`: what is listed, page by page, and that a
# connection that is closed is one client's and no other's.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
victim='' neighbour='' # set by client_start
id=''		      # of the victim's connection, set by kill_victim

case $device in
softnic) held=200 ;;
*) held=30 ;;
esac

looping() { # variable
	client_start "$1" "$tmp/$1" loop "$url" mix "$1" 100 1000 &&
		await_line "$tmp/$1" '^looping' "${!1}"
}

# Prints the field of a line: name, line
field() {
	sed -n "s/.*\\b$1=\\([^ ]*\\).*/\\1/p" <<<"$2"
}

# Prints the line of the process's connection, or on verbs of the only one with many requests.
line_of() { # pid
	if [ "$device" = softnic ]; then
		kvctl clients | grep " addr=pid:$1 "
	else
		kvctl clients | grep -E ' requests=[0-9]{2,} '
	fi
}

listed() { # pid
	local line requests
	line=$(line_of "$1") || return 1
	echo "$line"
	[ "$(field state "$line")" = open ] && [ "$(field window "$line")" -ge 1 ] &&
		[ "$(field idle "$line")" -le "$(field age "$line")" ] || return 1
	requests=$(field requests "$line")
	# What it PUTs is longer than the answers.
	[ "$(field received "$line")" -ge $((100 * requests)) ] &&
		[ "$(field sent "$line")" -lt $((100 * requests)) ] &&
		[ "$(field sent "$line")" -ge $((48 * (requests - 32))) ] || return 1
	[ "$device" != softnic ] || [ "$(field uid "$line")" = "$(id -u)" ]
}

busy() { # pid
	local line
	line=$(line_of "$1") && [ "$(field requests "$line")" -ge 100 ]
}

kill_victim() {
	id=$(field id "$(line_of "$victim")")
	expect 0 '^$' kill "$id" && wait_until "$DEADLINE_S" expect 1 'not found' kill "$id"
}

victim_is_back() {
	local new
	wait_until "$DEADLINE_S" busy "$victim" && new=$(field id "$(line_of "$victim")") &&
		[ -n "$new" ] && [ "$new" != "$id" ]
}

# On softnic, where lists name the processes, a client beside the victim keeps its connection.
neighbour_begins() {
	looping neighbour && { [ "$device" != softnic ] || note_neighbour; }
}

note_neighbour() {
	neighbour_id=$(field id "$(line_of "$neighbour")") && [ -n "$neighbour_id" ]
}

neighbour_is_the_same() {
	[ "$(field id "$(line_of "$neighbour")")" = "$neighbour_id" ]
}

neighbour_ends_well() {
	kill -TERM "$neighbour" && await_end "$neighbour" && forget "$neighbour" &&
		[ "$status" = 0 ]
}

victim_ends_well() {
	kill -TERM "$victim" && await_end "$victim" && forget "$victim"
	cat "$tmp/victim"
	[ "$status" = 0 ] && grep -q '^ended well' "$tmp/victim"
}

# Opens connections in the background and holds them until the descriptor is closed.
hold() {
	mkfifo "$tmp/hold.in"
	"$build/tests/system/sys_client" hold "$url" "$held" <"$tmp/hold.in" >"$tmp/held" 2>&1 &
	holder=$!
	pids+=("$holder")
	exec 9>"$tmp/hold.in"
	await_line "$tmp/held" "^holding $held" "$holder"
}

# Each is listed once, with an id of its own, though they need many pages.
all_listed() {
	kvctl clients >"$tmp/list" || return 1
	wc -l <"$tmp/list"
	[ "$(wc -l <"$tmp/list")" = $((held + 1)) ] &&
		[ "$(grep -o '^id=[0-9]*' "$tmp/list" | sort -u | wc -l)" = $((held + 1)) ]
}

check "the server starts" server_start -o server.max_connections=256 || finish
check "a client" looping victim
check "it sends requests" wait_until "$DEADLINE_S" busy "$victim"
check "it is listed with what it did" listed "$victim"
[ "$device" != softnic ] || check "another client" neighbour_begins
check "an unknown id is not found" expect 1 'not found' kill 987654321
check "no id is 0" expect 1 'not found' kill 0
check "its id is no number" expect 64 'not a number' kill x
check "its connection is closed" kill_victim
check "it connects again" victim_is_back
check "and no call of it failed" victim_ends_well
check "the server says who asked for it" logged 'closed: .* asked for it'
check "and counts it" stat_is connections_killed 1
case $device in
softnic) check "the other one has its connection still" neighbour_is_the_same ;;
*) check "another client" neighbour_begins ;;
esac
check "many connections" hold
check "the other client ends well" neighbour_ends_well
check "all are listed" wait_until "$DEADLINE_S" all_listed
exec 9>&-
check "the holder ended" await_end "$holder"
forget "$holder"
check "only this one is listed then" wait_until "$DEADLINE_S" stat_is connections 1
check "the server stops" server_stop
finish
