#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of a fleet with a file: three members start with it, each executes requests for its
# own keys and refuses those of the others; a mistake in the file, or in the member's name, is an
# error that names it.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

# shellcheck source=tests/system/fleet_lib.sh
. tests/system/fleet_lib.sh

KEYS=12

# Each says what it is, and together they have all shards.
shards_add_up() {
	local member sum=0 shards
	for member in "${MEMBERS[@]}"; do
		choose "$member"
		stat_is fleet_epoch 1 && stat_is fleet_members 3 &&
			shards=$(stat_of fleet_shards) &&
			in_log "epoch 1, member $member of 3, with $shards of 16384" || return 1
		sum=$((sum + shards))
	done
	[ "$sum" = 16384 ]
}

# A client's command that ends as a request for another member's key does.
moved() {
	expect 69 'another member' "$@"
}

# Exactly one member executes the request for each key. Notes keys of a, and of others.
mine=
theirs=
keys_have_one_member() {
	local i member done_by status
	for ((i = 0; i < KEYS; i++)); do
		done_by=
		for member in "${MEMBERS[@]}"; do
			choose "$member"
			kvctl put "key$i" "value $i" 2>"$tmp/said"
			status=$?
			case $status in
			0) done_by+=$member ;;
			69) grep -q 'another member' "$tmp/said" || return 1 ;;
			*) cat "$tmp/said" && return 1 ;;
			esac
		done
		[ ${#done_by} = 1 ] || { echo "key$i was put by '$done_by'" && return 1; }
		if [ "$done_by" = a ]; then mine=key$i; else theirs=key$i; fi
	done
	[ -n "$mine" ] && [ -n "$theirs" ]
}

own_keys_work() {
	choose a
	[ "$(kvctl get "$mine")" = "value ${mine#key}" ] && kvctl append "$mine" , &&
		kvctl touch "$mine" 100 && kvctl delete "$mine" && kvctl incr --initial 7 "$mine"
}

# Whatever the request is; a large value is not fetched.
others_are_refused() {
	local pulls
	choose a
	pulls=$(stat_of pulls)
	moved put "$theirs" other && moved append "$theirs" , && moved delete "$theirs" &&
		moved incr --initial 1 "$theirs" && moved touch "$theirs" 100 &&
		head -c 100000 /dev/zero >"$tmp/large" && moved put "$theirs" <"$tmp/large" &&
		stat_is pulls "$pulls" && stat_above fleet_refused 5
}

nothing_was_changed() {
	local member
	for member in b c; do
		choose "$member"
		kvctl exists "$theirs" || continue
		[ "$(kvctl get "$theirs")" = "value ${theirs#key}" ]
		return
	done
	return 1
}

# The same shards are served again; the items are gone, those of others are not.
a_member_returns() {
	choose a
	local shards
	shards=$(stat_of fleet_shards)
	member_stop a && member_start a && stat_is fleet_shards "$shards" && stat_is items 0 &&
		nothing_was_changed
}

# SIGHUP does not read the file again.
file_is_read_once() {
	fleet_write 2 && choose a && reloaded 'configuration read' && stat_is fleet_epoch 1
	fleet_write 1
}

# pattern: kvd says that about the file, and does not start
refuses() {
	local said
	said=$("$build/kvd" -c "$tmp/kvd.ini" -o "fleet.file=$tmp/bad" -o fleet.member=a \
		--check-config 2>&1)
	[ $? = 78 ] && grep -Eq -- "$1" <<<"$said" && return
	echo "$said"
	return 1
}

# pattern, sed script: as refuses, of the fleet's file with that change
mistake() {
	sed "$2" "$tmp/fleet" >"$tmp/bad" && refuses "$1"
}

# option, pattern: the server does not start with it
wrong_option() {
	cp "$tmp/fleet" "$tmp/bad"
	"$build/kvd" -c "$tmp/kvd.ini" -o "fleet.file=$tmp/bad" -o fleet.member=a -o "$1" \
		--check-config >"$tmp/said" 2>&1
	[ $? = 78 ] && grep -Eq -- "$2" "$tmp/said" || { cat "$tmp/said" && return 1; }
}

config_write "$url"
fleet_write 1
check_once "a good file is good" "$build/kvd" -c "$tmp/kvd.ini" -o "fleet.file=$tmp/fleet" \
	-o fleet.member=a --check-config
check_once "a member that is not in it" wrong_option fleet.member=d \
	'd: .*/bad has no such member: set one of a b c$'
check_once "a server has to know which member it is" wrong_option fleet.member= \
	'fleet.member is not set: set it to the name that this server has in .* one of a b c$'
check_once "a name is one" wrong_option fleet.member=a/b "'a/b' can't be a name"
check_once "each client needs an identity" wrong_option limits.identities=63 \
	'limits.identities \(63\) is less than server.max_connections \(64\)'
check_once "no seed: one is proposed" mistake \
	'/bad: line 1: the fleet has no seed: .* seed = 0x[0-9a-f]{16}$' '/^seed/d'
check_once "no name" mistake '/bad: line 1: the fleet has no name' '/^name/d'
check_once "no epoch" mistake '/bad: line 1: the fleet has no epoch' '/^epoch/d'
check_once "epoch 0" mistake '/bad: line 4: epoch: ' 's/^epoch.*/epoch = 0/'
check_once "a seed that is none" mistake "line 3: seed 'x' is not 0x" 's/^seed.*/seed = x/'
check_once "no member" mistake 'line 1: the fleet has no member' '5,$d'
check_once "a member twice" mistake "line 7: member 'a' is there already, on line 5" \
	's/^\[member b\]/[member a]/'
check_once "a URL of two members" mistake "line 8: a URL of member 'b' is on line 6 already" \
	"8s,=.*,= ${urls[a]},"
check_once "a URL that is none" mistake 'line 6: http://x: ' '6s,=.*,= http://x,'
check_once "a member without a URL" mistake "line 5: member 'a' has no url" 6d
check_once "an unknown key" mistake "line 6: unknown key 'host'" '6s/url/host/'
check_once "an unknown section" mistake 'line 5: unknown section' 's/^\[member a/[server a/'
check_once "no weight at all" mistake 'the weights of all members are 0' 's/^url/weight = 0\n&/'
cp "$tmp/fleet" "$tmp/bad" && chmod 666 "$tmp/bad"
check_once "a file that others may write to" refuses 'bad: other users may write to it'
rm "$tmp/bad"
check_once "no file" refuses 'fleet.file = .*/bad: No such file'

for member in "${MEMBERS[@]}"; do
	check "member $member starts" member_start "$member" || finish
done
check "together they have all shards" shards_add_up
check "each key has one member" keys_have_one_member
check "its own keys work" own_keys_work
check "others are refused" others_are_refused
check "nothing was changed by that" nothing_was_changed
check "the file is read at the start alone" file_is_read_once
check "a member returns" a_member_returns
for member in "${MEMBERS[@]}"; do
	check "member $member stops" member_stop "$member"
done
finish
