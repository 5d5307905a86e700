#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of kvctl with a fleet: what it prints of all members together, what of each of them,
# and of one that is away. tests/unit/client/test_kvctl_fleet.c has what it says in each case.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/fleet_lib.sh
. tests/system/fleet_lib.sh
fleet=$(fleet_url_of a c)
fleet_options+=(-o memory.eviction=object-hits)

# status, pattern, word...: kvctl of the fleet ends and prints so
says() {
	local want=$1 pattern=$2 said got
	shift 2
	said=$("$build/kvctl" -a "$fleet" -t "$CALL_TIMEOUT_MS" "$@" 2>&1 </dev/null)
	got=$?
	[ "$got" = "$want" ] && [[ $said =~ $pattern ]] && return 0
	echo "kvctl $*: status $got instead of $want, or not like '$pattern': $said"
	return 1
}

keys_put() {
	local i
	for i in {1..60}; do
		echo "put tools:$i $i"
	done | "$build/kvctl" -a "$fleet" --pipe
}

# A script adds up what a fleet prints as it does with one server's.
stats_add_up() {
	local items
	items=$("$build/kvctl" -a "$fleet" stats | awk '$1 == "items" { n += $2 } END { print n }')
	[ "$items" = 60 ] && "$build/kvctl" -a "$fleet" --json stats >"$tmp/json" &&
		[ "$(grep -c '^{"member": "[abc]", "version"' "$tmp/json")" = 3 ] &&
		says 0 $'^member a\nversion .*\n\nmember b\nversion .*\nfleet_member c\n' stats
}

# The hottest key is that of all members.
keys_are_of_all() {
	local i
	for i in {1..40}; do
		echo "get -r tools:7"
	done | "$build/kvctl" -a "$fleet" >"$tmp/got" &&
		says 0 $'\n +[0-9]+ +[0-9]+ %  tools:7' hotkeys --top 1 &&
		says 0 '100.0 %.*60 keys: ' bigkeys --progress
}

each_is_asked() {
	says 0 $'^member a\npong .*member b\npong .*member c\npong ' ping &&
		says 0 $'member b\nname=default ' tenant list &&
		says 0 $'member c\n.*\nrights ' whoami &&
		says 1 'b: not found' revoke user=nobody &&
		says 64 'kill is about one server, .*kvctl fleet members' kill 7
}

top_has_all() {
	says 0 'fleet demo  3 of 3 members  16384 of 16384 shards served' top -w 1 &&
		says 0 $'\nKeys       60: .*\nMEMBER .*\na  .*\nb  .*\nc  ' top -w 1
}

# The status is also about this host. Each path is tried with keys of that member: READs, too.
doctor_looks_at_all() {
	local said
	said=$("$build/kvctl" doctor -a "$fleet" 2>&1)
	[[ $said =~ $'\nThe fleet demo\n  ok '.*' 3 members serve all 16384 shards' ]] &&
		[[ $said =~ $'\nThe member c, '.*$'\n  ok       READ        GET by READs' ]] &&
		return 0
	echo "$said"
	return 1
}

latency_is_of_all() {
	says 0 '"count": [1-9][0-9]*, "min_us"' --json latency -c 1 && says 0 '^60$' count
}

statuses_without_etcd() {
	says 0 '^fleet demo: 3 members serve all 16384 shards$' fleet health &&
		says 64 'kvd --fleet-init' fleet init
}

# The others are asked all the same.
one_is_away() {
	member_kill c && says 69 $'\nmember b\n.*c: ' stats &&
		says 0 $'2 of 3 members .*\nc +away: ' top -w 1 &&
		says 5 'error +members +c is away: ' doctor -a "$fleet" &&
		says 5 '^c is away: ' fleet health
}

fleet_write 1
members_start a b c || finish
check "keys are stored" keys_put
check "statistics of each add up" stats_add_up
check "keys are those of all" keys_are_of_all
check "each member is asked" each_is_asked
check "top has a line for each" top_has_all
check "doctor looks at all" doctor_looks_at_all
check "latency is of keys of all" latency_is_of_all
check "no lease is needed" statuses_without_etcd
check "a member is away" one_is_away
check "the others stop" members_stop a b
finish
