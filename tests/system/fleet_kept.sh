#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of members of a fleet whose regions outlive them (memory.file): one that is killed, or
# stopped, and is there again before its lease ends serves its shards with all their items, while
# clients work whose histories must be linearizable without any loss; one that comes later has lost
# them. KVD_TEST_KILLS is how often members return.
export TMPDIR=/dev/shm # softnic passes files of tmpfs
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

kills=${KVD_TEST_KILLS:-6}
fleet=$(fleet_url_of a b c)
MEMORY=64m
for i in a b c; do
	member_options[$i]="-o memory.file=$tmp/region.$i"
done

member_ends() { # member
	if [ $((RANDOM % 3)) = 0 ]; then
		member_stop "$1"
	else
		member_kill "$1"
	fi
}

# member: it is there again, and never registered
returns() {
	member_ends "$1" && member_start "$1" && logged 'returns, session' &&
		wait_until "$DEADLINE_S" serve_all a b c && wait_until "$DEADLINE_S" are_open &&
		member_is_at fleet_registrations "$1" 0
}

kills_and_returns() {
	local members=(a b c) i
	for ((i = 0; i < kills; i++)); do
		returns "${members[RANDOM % 3]}" && history_goes_on 1 || return 1
	done
}

begins_empty() { # member, reason
	member_start "$1" && logged "$2" && member_is_at items "$1" 0
}

# member, others...: it comes back when its shards are theirs, and drops what it had
comes_too_late() {
	local late=$1
	shift
	is_killed "$late" && wait_until "$DEADLINE_S" serve_all "$@" && items_put &&
		member_start "$late" &&
		wait_until "$DEADLINE_S" member_is_above fleet_registrations "$late" 0 &&
		wait_until "$DEADLINE_S" member_is_at items "$late" 0
}

stop_and_start() {
	members_stop a b c && members_start a b c
}

fleet_write 1
check "members of a file start" members_start a b c || finish
check "items are stored" items_put
check "one is killed, and starts" member_kill a
check "  it is there" member_start a
check "  so are all items" items_are_the_same
check "all stop and start" stop_and_start
check "  all items are there" items_are_the_same
check "they stop" members_stop a b c
fleet_write 2
check "with another file one begins empty" begins_empty a 'fleet.file was another one'
check "it stops" member_stop a

check "an etcd starts" ports_choose
etcd_start 1
check "and works" wait_until "$DEADLINE_S" etcd_works || { tail -n 20 "$tmp/etcd.0" && finish; }
# Longer than any restart.
LEASE=1m
check "a fleet is made" fleet_start demo a b c || finish
check "items are stored" items_put
history_of=("$fleet" 0 "$seed" crashes)
check "clients begin" history_start
check "$kills members end and return" kills_and_returns
check "all items are there" items_are_the_same
check "clients saw nothing wrong" history_end
history_figures
check "all stop and start" stop_and_start
check "  they serve all" wait_until "$DEADLINE_S" serve_all a b c
check "  all items are there" wait_until "$DEADLINE_S" items_are_the_same
check "they stop" members_stop a b c

etcd_ctl del --prefix /kvd/demo/ >/dev/null
LEASE=2s
check "in another fleet one begins empty" fleet_make demo
check "  and says why" begins_empty a 'of another fleet'
check "the others start" members_start b c
check "they share the shards" wait_until "$DEADLINE_S" serve_all a b c
check "items are stored" items_put
check "one returns when its shards are others'" comes_too_late b a c
check "it gets shards, with their items" joins a b c
check "all are there" items_are_the_same
check "members stop" members_stop a b c
etcd_stop
finish
