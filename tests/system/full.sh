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

# Puts large values until one is refused; the statistics count the failure.
fill_with_large() {
	local n
	head -c 1000000 /dev/urandom >"$tmp/large"
	for n in $(seq 20); do
		kvctl put "large$n" - <"$tmp/large" 2>"$tmp/refused" || break
	done
	grep -q "memory is full" "$tmp/refused" && [ "$(stat_of put_no_space)" -gt 0 ]
}

large_is_intact() {
	kvctl get large1 | cmp - "$tmp/large"
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
check "the earlier ones are intact" large_is_intact
check "a large value is deleted" expect 0 '^$' del large2
check "another one fits" kvctl put large - <"$tmp/large"
check "the server stops" server_stop
finish
