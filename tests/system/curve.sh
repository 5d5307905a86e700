#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of memory.curve and kvctl curve: GETs by READ are known to the server, found and not,
# with how much memory they would hit; and what has no curve is said.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

# operation
bench() {
	"$build/kvbench" "$1" -a "$url" -n "$records" >/dev/null
}
# gets, percent of the memory, hits with that
curve_is() {
	local gets hits
	gets=$(stat_of curve.gets) && hits=$(stat_of "curve.$2.hits") || return 1
	[ "$gets" = "$1" ] && [ "$hits" = "$3" ] && return 0
	echo "$gets GETs, of which $hits hit with $2 % of the memory"
	return 1
}
# Few keys: all are in the sample.
records=1000
all_hit() {
	bench put && bench get && curve_is $records 25 $records
}
none_hits_what_is_gone() {
	kvctl put gone x && kvctl del gone && ! kvctl get gone && ! kvctl get never || return 1
	curve_is $((records + 2)) 400 $records
}
# With half of the memory none would be there, with all of it all are. kvctl asks twice: once it
# knows the length, its buffer is long enough.
half() {
	local i
	kvctl flush && curve_is 0 400 0 && head -c 900k /dev/zero >"$tmp/value" || return 1
	for i in {1..12}; do kvctl put "k$i" <"$tmp/value" || return 1; done
	for i in {1..12}; do kvctl get "k$i" >/dev/null || return 1; done
	curve_is 24 50 12 && curve_is 24 100 24
}
# The miss is told with the PUT, and was before it.
told_with_the_next_request() {
	kvctl flush && printf 'get new\nput new x\nget new\n' | kvctl >/dev/null
	curve_is 2 25 1
}

check "a server that estimates a curve starts" server_start -o memory.size=16m \
	-o memory.curve=yes || finish
check "nothing was read yet" expect 0 'one key in 1: 0 keys, 0 GETs: none yet$' curve
check "what is there would hit" all_hit
check "a table" expect 0 ' 100 % +[0-9.]+ MiB +100.0 %' curve
check "and JSON" expect 0 '"percent": 200, .*"hit_ratio": 1.0000' curve --json
check "what was removed would not, however much memory there is" none_hits_what_is_gone
check "what needs all of the memory would not hit with half" half
check "what is told with a request was before it" told_with_the_next_request
check "it ends" server_stop

check "a server without one starts" server_start -o memory.size=16m
check "says how to get one" expect 70 'set memory.curve = yes' curve
check "it ends" server_stop
finish
