#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of the operations other than GET, PUT and DELETE, through kvctl: conditions, append,
# numbers, expiry, scans and flushes, with every result. Each is checked by READs and by request.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

# key, value: the key has the value, by READ and by request
holds() {
	expect 0 "^$2\$" get "$1" && expect 0 "^$2\$" -r get "$1"
}

gone() {
	expect 1 'not found' get "$1" && expect 1 'not found' -r get "$1"
}

# key: prints its version
version_of() {
	kvctl -v get "$1" 2>&1 >/dev/null | sed -n 's/.*version[ =:]*\([0-9]*\).*/\1/p'
}

add_and_replace() {
	expect 1 'not found' replace a one && expect 0 '^$' add a one && holds a one &&
		expect 2 'exists' add a two && holds a one && expect 0 '^$' replace a three &&
		holds a three
}

compare_and_swap() {
	local version
	expect 0 '^$' put c first && version=$(version_of c) && [ -n "$version" ] || return 1
	expect 0 '^$' cas c "$version" second && holds c second &&
		expect 2 'version' cas c "$version" third && holds c second &&
		expect 1 'not found' cas nokey "$version" third
}

append_and_prepend() {
	expect 1 'not found' append p x && expect 1 'not found' prepend p x && kvctl put p middle &&
		kvctl append p -- -end && kvctl prepend p begin- && holds p begin-middle-end
}

# The server pulls pieces that are too long for a message.
append_large() {
	head -c 60000 /dev/urandom >"$tmp/piece"
	kvctl put l - <"$tmp/piece" && kvctl append l - <"$tmp/piece" &&
		kvctl prepend l - <"$tmp/piece" && kvctl get l >"$tmp/got" &&
		cat "$tmp/piece" "$tmp/piece" "$tmp/piece" | cmp - "$tmp/got" &&
		kvctl -r get l | cmp - "$tmp/got"
}

append_beyond_the_limit() {
	head -c 1048576 /dev/zero | kvctl put l - && expect 70 'too large' append l x &&
		[ "$(kvctl get l | wc -c)" = 1048576 ]
}

numbers() {
	expect 1 'not found' incr n 1 && expect 0 '^7$' -i 7 incr n 1 && expect 0 '^12$' incr n 5 &&
		holds n 12 && expect 0 '^2$' decr n 10 && expect 0 '^0$' decr n 10 && holds n 0 &&
		kvctl put n 18446744073709551615 && expect 0 '^1$' incr n 2 && kvctl put n 12x &&
		expect 3 'not a number' incr n 1 && holds n 12x
}

# The item expires, for READs and for requests, and the background sweep removes it.
expiry() {
	local items
	items=$(stat_of items) && kvctl -e 3600 put f later && kvctl -e 3600 put e mortal &&
		holds e mortal && stat_is items $((items + 2)) && kvctl touch e 1 &&
		wait_until "$DEADLINE_S" gone e && holds f later &&
		wait_until "$DEADLINE_S" stat_is items $((items + 1))
}

# The server's clock goes on by a second: another key expires meanwhile.
second_passes() {
	kvctl -e 1 put clock x && wait_until "$DEADLINE_S" expect 1 'not found' get clock
}

touching() {
	kvctl -e 3600 put t long && expect 0 '^$' touch t 1 &&
		kvctl -e 3600 put g long && expect 0 '^long$' gat g 1 &&
		wait_until "$DEADLINE_S" gone t && wait_until "$DEADLINE_S" gone g &&
		expect 1 'not found' touch t 1 && expect 1 'not found' gat g 1
}

# key, seconds: it expires so long after now, in the seconds of the server's clock; command...:
# which says so
expires_in() {
	local key=$1 seconds=$2 before=$EPOCHSECONDS said
	shift 2
	kvctl "$@" && said=$(kvctl -v get "$key" 2>&1 >/dev/null) &&
		[[ $said =~ \ expires\ ([0-9]+)$ ]] &&
		[ "${BASH_REMATCH[1]}" -ge $((before + seconds - 1)) ] &&
		[ "${BASH_REMATCH[1]}" -le $((EPOCHSECONDS + seconds + 2)) ] && return 0
	echo "kvctl $*: at $before, $said"
	return 1
}

times_to_live() {
	expires_in ttl 1000 -e 1000 put ttl 1 && expires_in ttl 2000 touch ttl 2000 &&
		expires_in ttl 3000 gat ttl 3000 && expires_in ttl 4000 -e 4000 replace ttl 2 &&
		expires_in ttl2 500 -e 500 add ttl2 1 &&
		expires_in ttl3 600 -i 1 -e 600 incr ttl3 &&
		expect 0 '^$' flush
}

# A time to live of 0 removes the expiry.
touch_for_ever() {
	kvctl -e 3600 put v value && kvctl touch v 0 && expect 0 ' expires 0' -v get v &&
		expect 0 ' expires 0' -r -v get v
}

scan_all() {
	local n
	expect 0 '^$' flush || return 1
	{
		for ((n = 1; n <= 40; n++)); do echo "put s$n value$n"; done
		for ((n = 1; n <= 5; n++)); do echo "put other$n x"; done
	} | kvctl || return 1
	kvctl scan | sort >"$tmp/scan" && kvctl scan s | sort >"$tmp/scan.s" &&
		{ seq -f 's%g' 40 && seq -f 'other%g' 5; } | sort | diff - "$tmp/scan" &&
		seq -f 's%g' 40 | sort | diff - "$tmp/scan.s" &&
		expect 0 $'^s7\tvalue7$' -v scan s7 && expect 0 '^$' scan nothing
}

# Keys so long that a response has room for three of them.
scan_pages() {
	local n
	expect 0 '^$' flush || return 1
	for ((n = 1; n <= 8; n++)); do printf 'put %01000d x\n' "$n"; done | kvctl || return 1
	kvctl scan | sort >"$tmp/scan"
	seq -f '%01000.0f' 8 | diff - "$tmp/scan"
}

# In its second response.
scan_to_a_full_disk() {
	timeout "$DEADLINE_S" "$build/kvctl" -a "$url" scan >/dev/full 2>"$tmp/full"
	[ $? = 74 ] && grep -q 'standard output: No space left' "$tmp/full"
}

flush() {
	kvctl put x old && expect 0 '^$' flush && gone x && stat_is items 0 && kvctl put x new &&
		holds x new
}

# A flush with a delay removes what exists when the delay ends: nothing before, nothing later.
flush_later() {
	kvctl put x old && expect 0 '^$' flush 3600 && second_passes && holds x old &&
		expect 0 '^$' flush 1 && wait_until "$DEADLINE_S" gone x && kvctl put x new &&
		second_passes && holds x new
}

# As many as one client may have waiting; what is cancelled leaves its place.
flush_cancelled() {
	local n ticket
	kvctl flush --cancel --all || [ $? = 1 ] || return 1
	for n in {1..8}; do
		expect 0 '^$' flush 3600 || return 1
	done
	expect 70 'busy: at most 8 flushes .*kvctl flush --cancel' flush 3600 &&
		stat_is flushes_waiting 8 || return 1
	ticket=$(kvctl stats | sed -n 's/^flush\.\([0-9]*\)\.owner [a-z]*=.*/\1/p' | tail -n 1)
	expect 0 '^1 flushes cancelled$' flush --cancel "$ticket" &&
		expect 1 'not found' flush --cancel "$ticket" &&
		expect 0 '^7 flushes cancelled$' flush --cancel && stat_is flushes_waiting 0 &&
		expect 0 '^$' flush 3600 && expect 0 '^1 flushes cancelled$' flush --cancel --all
}

# [-r]: each operation once, by one process: an emulated machine takes long to start one.
each_operation() {
	local version
	kvctl put v 1 && version=$(version_of v) && kvctl >"$tmp/said" 2>"$tmp/errors" <<-END
		replace a one
		add a one
		add a two
		replace a three
		get a ${1:-}
		cas v $version 2
		cas v $version 3
		get v ${1:-}
		put c first
		append c -- -end
		prepend c begin-
		get c ${1:-}
		-i 7 incr n 1
		incr n 5
		decr n 10
		get n ${1:-}
		touch c 1000
		gat c 2000
		-v get c
		del a
		get a ${1:-}
		scan c
		flush
		scan
	END
	cat "$tmp/said" "$tmp/errors"
	printf '%s\n' three 2 begin-first-end 7 12 2 2 begin-first-end begin-first-end c |
		diff - "$tmp/said" &&
		sed -n 's/^kvctl: line \([0-9]*\): .*/\1/p' "$tmp/errors" |
		diff - <(printf '%s\n' 1 3 7 21)
}

check "the server starts" server_start || finish
check "each operation" each_operation
check "each operation, GETs by request" each_operation -r
check_once "add and replace" add_and_replace
check_once "compare and swap" compare_and_swap
check_once "append and prepend" append_and_prepend
check "append and prepend of large values" append_large
check_once "append beyond max_value: refused, the old value stays" append_beyond_the_limit
check_once "increment and decrement" numbers
check "expiry" expiry
check_once "each command's time to live" times_to_live
check_once "touch; get and touch" touching
check_once "touch with 0: no expiry" touch_for_ever
check_once "scan" scan_all
check "scan of several responses" scan_pages
check_once "scan to a full disk" scan_to_a_full_disk
check_once "flush" flush
check_once "flush at a later time" flush_later
check_once "a flush that is cancelled" flush_cancelled
check "the server stops" server_stop
finish
