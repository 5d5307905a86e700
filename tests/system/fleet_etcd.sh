#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of a fleet whose members are in etcd: they share its shards; a member that is killed
# or stopped loses them to the others, which serve them empty; one that was away for less, or while
# etcd was, keeps its items. Clients whose histories are checked work all the time.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/etcd_lib.sh
. tests/system/etcd_lib.sh
# shellcheck source=tests/system/fleet_lib.sh
. tests/system/fleet_lib.sh
# shellcheck source=tests/system/fleet_etcd_lib.sh
. tests/system/fleet_etcd_lib.sh
# shellcheck source=tests/system/history_lib.sh
. tests/system/history_lib.sh

KEYS=300
fleet=$(fleet_url_of a b c)
history_of=("$fleet" 0 "$seed" failovers)

# An administrator removes what is left of the last one.
fleet_again() {
	etcd_ctl del --prefix /kvd/demo/ && fleet_start demo a b c
}

# status, pattern, option...: kvd ends by itself
refuses() {
	local want=$1 pattern=$2 said got
	shift 2
	said=$("$build/kvd" -c "$tmp/kvd.ini" -o "server.listen=${urls[d]}" -o log.file= "$@" 2>&1)
	got=$?
	[ "$got" = "$want" ] && [[ $said =~ $pattern ]] && return 0
	echo "kvd $*: status $got instead of $want, or not like '$pattern': ${said:0:600}"
	return 1
}

mistakes() {
	refuses 1 'no fleet demo: .*--fleet-init' "${fleet_options[@]}" -o fleet.member=d
}

nobody_is_there() {
	refuses 1 'etcd at http://127.0.0.1:1: ' -o fleet.etcd=http://127.0.0.1:1 \
		-o fleet.name=demo -o fleet.member=d
}

is_made_once() {
	refuses 1 'demo' "${fleet_options[@]}" --fleet-init
}

# All keys that are there have their values. Prints how many are.
items_count() {
	local i there=0 value
	for ((i = 0; i < KEYS; i++)); do
		echo "get item:$i"
	done | kvctl_of_fleet >"$tmp/items" 2>/dev/null
	while read -r value; do
		there=$((there + 1))
	done <"$tmp/items"
	echo "$there"
}

# A program that passes, unless the machine was so busy that a lease ended.
program_passes() {
	"$build/tests/system/sys_fleet" "$1" "$fleet"
}

items_put() {
	local i
	for ((i = 0; i < KEYS; i++)); do
		echo "put item:$i $i"
	done | kvctl_of_fleet
}

items_are_all_there() {
	[ "$(items_count)" = $KEYS ] && [ "$(sort -n "$tmp/items" | uniq | wc -l)" = $KEYS ]
}

items_are_not_all_there() {
	local there
	there=$(items_count)
	[ "$there" -gt 0 ] && [ "$there" -lt $KEYS ]
}

# killed member, others...: they get its shards
fails_over() {
	local killed=$1
	shift
	is_killed "$killed" && wait_until "$DEADLINE_S" serve_all "$@"
}

# member, others...
freezes() {
	local frozen=$1
	shift
	kill -STOP "${server_pids[$frozen]}" && wait_until "$DEADLINE_S" serve_all "$@"
}

# A member that goes on finds that it has lost its shards.
thaws() {
	kill -CONT "${server_pids[$1]}" &&
		wait_until "$DEADLINE_S" member_is_above fleet_registrations "$1" 1 &&
		member_is_at fleet_shards "$1" 0
}

is_away() {
	local said
	said=$(kvctl_of_fleet get item:1 2>&1)
	[[ $said == *'lease has ended'* ]] || ! echo "$said"
}

etcd_stops_and_goes_on() {
	etcd_stops a b c && is_away || return 1
	kill -CONT "${etcd_pids[@]}" && wait_until "$DEADLINE_S" serve_all a b c
}

# Whoever does it: the lease of a, an operator, or an etcd that revokes what was kept alive.
key_is_lost() {
	local before
	before=$(of a stat_of fleet_registrations)
	etcd_ctl del "/kvd/$1/members/a" &&
		wait_until "$DEADLINE_S" member_is_above fleet_registrations a "$before" &&
		wait_until "$DEADLINE_S" serve_all a b c
}

# The second process is never a member.
two_of_one_name() {
	local pid
	"$build/kvd" -c "$tmp/kvd.ini" -o "server.listen=${urls[d]}" -o "log.file=$tmp/log.d" \
		-o fleet.member=a "${fleet_options[@]}" >>"$tmp/stderr" 2>&1 &
	pid=$!
	pids+=("$pid")
	says_twice() { grep -q 'another kvd' "$tmp/log.d" 2>/dev/null; }
	wait_until "$DEADLINE_S" says_twice &&
		wait_until "$DEADLINE_S" serve_all a b c && kill -TERM "$pid" &&
		await_end "$pid" && forget "$pid" && [ "$status" = 0 ]
}

check "an etcd starts" ports_choose
etcd_start 1
check "and works" wait_until "$DEADLINE_S" etcd_works || { tail -n 20 "$tmp/etcd.0" && finish; }
fleet_options=(-o "fleet.etcd=$endpoints" -o fleet.name=demo)
check "without a fleet no member starts" mistakes
check "nor without etcd" nobody_is_there
check "a fleet is made, and its members share the shards" fleet_start demo a b c || finish
check "a fleet is made once" is_made_once
check "keys are stored, and READ" wait_until "$DEADLINE_S" program_passes keys
check "changes keep their order" wait_until "$DEADLINE_S" program_passes order
check "clients begin" history_start
check "items are stored" wait_until "$DEADLINE_S" items_put
fault "a member loses its key, and keeps its items" key_is_lost demo
check "  all are there" wait_until "$DEADLINE_S" items_are_all_there
fault "etcd stops: nobody serves, until it goes on" etcd_stops_and_goes_on
check "  all are there" wait_until "$DEADLINE_S" items_are_all_there
check "a second process has the name of a member" two_of_one_name
fault "a member is killed, and others serve its shards" fails_over b a c
check "  only its items are gone" items_are_not_all_there
fault "it comes back" comes_back b
check "clients saw nothing wrong" history_end
history_figures
check "the members stop" members_stop a b c

check "the fleet is made anew" fleet_again || finish
check "clients begin" history_start
check "items are stored" wait_until "$DEADLINE_S" items_put
fault "a member freezes, and others serve its shards" freezes c a b
fault "it goes on, and serves none of them" thaws c
check "  only its items are gone" items_are_not_all_there
check "clients saw nothing wrong" history_end
history_figures
check "the members stop" members_stop a b c
etcd_stop
finish
