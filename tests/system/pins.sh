#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of pins and priorities, through kvctl: pinned values survive while others are evicted,
# until their time; values of low priority go first; and no more is pinned than the server allows.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

head -c 200000 /dev/urandom >"$tmp/value"
head -c 1000000 /dev/urandom >"$tmp/large"

pin_until_refused() {
	pinned=0
	while kvctl --pin 3600 put "pinned$pinned" - <"$tmp/value" 2>"$tmp/refused"; do
		pinned=$((pinned + 1))
		[ "$pinned" -lt 100 ] || return 1
	done
	grep -q 'server busy: .*memory.pin_share' "$tmp/refused" && [ "$pinned" -gt 10 ] &&
		stat_is pinned_items "$pinned" && stat_is pins_refused 1 &&
		share_is_full
}

# All that is pinned takes a quarter of the item memory at most, and one more would not.
share_is_full() {
	local bytes all
	bytes=$(stat_of pinned_bytes) && all=$(stat_of item_memory_bytes) || return 1
	echo "$bytes of $all bytes are pinned"
	[ "$bytes" -ge $((pinned * 200000)) ] && [ $((bytes * 4)) -le "$all" ] &&
		[ $(((bytes + bytes / pinned) * 4)) -gt "$all" ]
}

# times: puts that many values of 1 MB
press() {
	local n
	for n in $(seq "$1"); do
		kvctl put "large$n" - <"$tmp/large" || return 1
	done
}

pinned_stay() {
	local n
	press 40 && [ "$(stat_of evictions)" -gt 20 ] || return 1
	for n in $(seq 0 $((pinned - 1))); do
		kvctl get "pinned$n" | cmp - "$tmp/value" || return 1
	done
}

# A pin ends with its item, and what it held can be pinned by others.
ended_by_changes() {
	expect 0 '^$' put pinned0 small && stat_is pinned_items $((pinned - 1)) &&
		expect 0 '^$' del pinned1 && stat_is pinned_items $((pinned - 2)) &&
		kvctl -p 3600 add again - <"$tmp/value" && stat_is pinned_items $((pinned - 1)) &&
		expect 0 '^$' append again x && stat_is pinned_items $((pinned - 1)) &&
		kvctl flush && stat_is pinned_items 0 && stat_is pinned_bytes 0
}

nothing_is_pinned() {
	stat_is pinned_items 0 && stat_is pinned_bytes 0
}

# The pin of a second may be over before it is seen: then a longer one is tried.
ended_by_time() {
	local seconds=1
	until expect 0 '^$' --pin $seconds put short value && stat_is pinned_items 1; do
		seconds=$((10 * seconds))
		[ $seconds -le 100 ] || return 1
	done
	wait_until "$DEADLINE_S" nothing_is_pinned && expect 0 '^value$' get short
}

low_go_first() {
	local n low gone=0
	for n in $(seq 20); do
		kvctl --low put "low$n" - <"$tmp/value" || return 1
	done
	press 16 && low=$(stat_of evictions_low) && [ "$low" -gt 10 ] ||
		{ echo "evictions_low ${low:-}, evictions $(stat_of evictions)" && return 1; }
	# Which of them is chance: some are chosen from.
	for n in $(seq 20); do
		kvctl get "low$n" >"$tmp/low" || gone=$((gone + 1))
	done
	echo "$gone of them are gone, evictions_low $low"
	[ "$gone" = "$low" ]
}

refused() { # pattern, arguments of kvctl...
	expect 70 "$@" && expect 1 'not found' get refused
}

# kvctl itself knows that the command does not take the option.
not_taken() { # pattern, arguments of kvctl...
	expect 64 "$1 is not for this command" "${@:2}" && expect 1 'not found' get refused
}

taken_for_nothing() {
	expect 0 '^$' --pin 60 put key value && expect 0 '^$' -l put low value &&
		stat_is pinned_items 0 && expect 0 '^value$' get key && expect 0 '^value$' get low
}

check "the server starts" server_start -o memory.size=16m -o memory.pin_time_max=3600s || finish
check "values are pinned until memory.pin_share is reached" pin_until_refused
check "they stay while others are evicted" pinned_stay
check "changes end pins" ended_by_changes
check "time ends a pin" ended_by_time
check "values of low priority go first" low_go_first
check "a pin for too long" refused 'memory.pin_time_max' --pin 3601 put refused value
check "a pin for much too long" refused 'memory.pin_time_max' --pin 1073741824 put refused value
check "a pulled value's pin for too long" \
	refused 'memory.pin_time_max' --pin 3601 put refused "$(printf 'x%.0s' $(seq 9000))"
check "a pin with cas" not_taken --pin --pin 60 cas refused 1 value
check "a pin with append" not_taken --pin --pin 60 append refused value
check "a priority with prepend" not_taken --low --low prepend refused value
check "a pin that is no number" expect 64 'pin x: not a time' --pin x put refused value
check "the server stops" server_stop

check "the server starts without pins" server_start -o memory.size=16m -o memory.pin_share=0
check "a pin is refused" refused 'memory.pin_share' --pin 1 put refused value
check "the server stops again" server_stop

check "the server starts without eviction" server_start -o memory.size=16m \
	-o memory.eviction=none
check "pins and priorities are taken, and do nothing" taken_for_nothing
check "the server stops once more" server_stop
finish
