#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of a fleet's handle: it finds the member of each key, reads one-sided as from one
# server, follows the map to other members, and fails the keys of a member that is away alone.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/fleet_lib.sh
. tests/system/fleet_lib.sh

seconds=${KVD_TEST_SECONDS:-1}
[ "${KVD_TEST_LONG:-0}" != 1 ] || seconds=20
fleet=$(fleet_url_of a c)

sys_fleet() {
	"$build/tests/system/sys_fleet" "$@"
}

# mode: a client that waits for a line before each of its rounds
client_begin() {
	[ -p "$tmp/in" ] || mkfifo "$tmp/in"
	: >"$tmp/client"
	sys_fleet "$1" "$fleet" <"$tmp/in" >"$tmp/client" 2>&1 &
	client=$!
	pids+=("$client")
	exec 9>"$tmp/in"
	rounds_done 1
}

rounds_are() {
	[ "$(grep -c '^ready' "$tmp/client")" = "$1" ] || ended "$client"
}

rounds_done() {
	wait_until "$DEADLINE_S" rounds_are "$1"
}

# number: the client's next round
round() {
	echo go >&9
	rounds_done "$1"
}

client_end() {
	echo end >&9
	exec 9>&-
	await_end "$client" && forget "$client"
	said_status=$status
}

client_said() {
	grep -v '^ready' "$tmp/client"
	return "$said_status"
}

# epoch member...: other members, with all of them stopped meanwhile
become() {
	members_stop "${MEMBERS[@]}" && MEMBERS=("${@:2}") && fleet_write "$1" &&
		members_start "${MEMBERS[@]}"
}

members_come_and_go() {
	client_begin maps && become 2 a b c d && round 2 && become 3 b d && round 3 &&
		become 4 a b c && round 4
	client_end
}

# Another seed gives all keys other shards.
another_seed() {
	local SEED=0xfedcba0987654321
	client_begin maps && become 5 a b d && round 2
	client_end
}

a_member_is_killed() {
	client_begin away && member_kill b && round 2 && member_start b
	client_end
}

# b has another map than a and c.
b_has_another_map() {
	MEMBERS=(a b)
	fleet_write 7
	MEMBERS=(a b c)
	member_stop b && member_start b
}

histories() {
	"$build/tests/system/sys_history" "$fleet" "$@"
}

# The handle first knows member c alone.
dumped_and_restored() {
	local one i
	one=$(fleet_url_of c)
	kvctl() { "$build/kvctl" -a "$one" "$@"; }
	kvctl flush || return 1
	for i in {1..40}; do
		echo "put dumped:$i $i"
	done | kvctl && kvctl dump "$tmp/dump" && kvctl flush && kvctl restore "$tmp/dump" &&
		[ "$(kvctl count)" = 40 ] && [ "$(kvctl get dumped:7)" = 7 ]
}

# Of a member's own handle, these keys are others' for the most part.
exists_not() {
	! "$build/kvctl" -a "${urls[a]}" exists dumped:{1..40} >"$tmp/said" 2>&1 &&
		grep -q 'another member of the fleet has the key' "$tmp/said"
}

# pattern, URL
opens_not() {
	! "$build/kvctl" -a "$2" get k 2>"$tmp/said" && grep -q "$1" "$tmp/said"
}

fleet_write 1
members_start a b c || finish
checks_of sys_fleet keys "$fleet"
checks_of sys_fleet order "$fleet"
checks_of sys_fleet registered "$fleet"
checks_of sys_fleet observed "$fleet"
checks_of "$build/tests/system/sys_async" "$fleet" 500
check "histories are linearizable" histories "$seconds" "${KVD_SEED:-$RANDOM}"
check "and while connections are closed" histories "$seconds" "${KVD_SEED:-$RANDOM}" kill \
	"${urls[b]}"
check "a fleet is dumped and restored" dumped_and_restored
check "a key of another member is not absent" exists_not
check "a name of another fleet" opens_not 'is a member of the fleet demo, not of other' \
	"${fleet%demo}other"
check "members come and go" members_come_and_go
checks_of client_said
check "the fleet has another seed" another_seed
checks_of client_said
check "and its first one again" become 6 a b c
check "a member is killed, and comes back" a_member_is_killed
checks_of client_said
check "a member has another map" b_has_another_map
checks_of sys_fleet differ "$fleet"
check "the members stop" members_stop a b c
finish
