#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of keys that a client made up for the bucket of another's keys (tests/system/
# sys_chain.c): what the other one had stays, and costs no more READs than a bound; and clients of
# other keys notice nothing (guarantee F).
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2317 # called by check
some_were_counted() {
	[ "$(stat_of "$1")" -gt 0 ]
}

# eviction, mode of sys_chain, the statistic that has to count
attacked() {
	check "the server starts" server_start -o memory.size=64m -o memory.eviction="$1" ||
		finish
	check "the neighbour's value" kvctl put neighbour "$(printf 'v%.0s' $(seq 3000))"
	client_start neighbour "$tmp/neighbour" loop "$url" mix neighbour 3000 2000
	check "a neighbour works" await_line "$tmp/neighbour" '^looping' "$neighbour" || finish
	checks_of "$build/tests/system/sys_chain" "$url" "$2"
	check "it was counted: $3" some_were_counted "$3"
	check "the neighbour worked without an error" neighbour_ends_well
	check "the server stops" server_stop
}

attacked object-hits evicts chain_evictions
attacked object-hits pins chain_evictions
attacked none none chain_full
finish
