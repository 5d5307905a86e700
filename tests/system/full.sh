#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of full memory without eviction: a PUT fails with the reason, existing items can still
# be read and replaced, and deletes make room again.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

refused_large() {
	head -c 1000000 /dev/zero |
		expect 70 "the server's memory is full: raise memory.size" put large -
}

# Puts large values until one is refused; the statistics count that failure.
fill_with_large() {
	local before
	before=$(stat_of put_no_space) || return 1
	head -c 1000000 /dev/urandom >"$tmp/large"
	for ((stored = 0; stored < 20; stored++)); do
		kvctl put "large$stored" - <"$tmp/large" 2>"$tmp/refused" || break
	done
	echo "$stored values"
	[ $stored -ge 10 ] && grep -q "memory is full" "$tmp/refused" &&
		stat_is put_no_space $((before + 1))
}

large_are_intact() {
	local n
	for ((n = 0; n < stored; n++)); do
		kvctl get "large$n" | cmp - "$tmp/large" || return 1
	done
}

another_fits() {
	kvctl put large - <"$tmp/large" && kvctl get large | cmp - "$tmp/large"
}

# With receive buffers of 16 KiB a value of 12,000 bytes is part of the request, and one of 30,000
# is pulled. An emulated machine (verbs) is too slow for the many small values that fill the
# memory.
case $device in
softnic) sizes="1000 12000 30000" ;;
*) sizes="12000 30000" ;;
esac

check "the server starts" server_start -o memory.size=16m -o memory.eviction=none \
	-o request.buffer=16k || finish
for size in $sizes; do
	checks_of client fill "$url" "$size"
done
check "no item is left" stat_is items 0
check "large values fill it" fill_with_large
check "another one is refused, with advice" refused_large
check "the earlier ones are intact" large_are_intact
check "a large value is deleted" expect 0 '^$' del large2
check "another one fits" another_fits
check "the server stops" server_stop
finish
