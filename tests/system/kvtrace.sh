#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of kvtrace: the hits that it reports for traces that are known, of LRU and of a real
# server, what it makes, and what it refuses.
# shellcheck disable=SC2317 # functions called by check
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

out=$tmp/out
trace=$tmp/trace

# status, arguments...: runs kvtrace with its output to $out, and compares its exit status
kvtrace() {
	local want=$1 got
	shift
	"$build/kvtrace" "$@" >"$out" 2>"$out.err"
	got=$?
	[ "$got" = "$want" ] && return 0
	echo "kvtrace $*: exit status $got instead of $want"
	tail -n "$CHECK_LINES_SHOWN" "$out" "$out.err"
	return 1
}

# lines of the output that must be there, each whole
said() {
	local line
	for line; do
		grep -Fqx -- "$line" "$out" && continue
		echo "not in the output: $line"
		cat "$out" "$out.err"
		return 1
	done
}

# LRU with room for two: 1 and 2 miss, 1 hits, 3 takes the place of 2, which misses.
lru_hits() {
	printf '%s\n' 1 2 1 3 2 3 2 1 >"$trace"
	kvtrace 0 lru -i 2 -b 1m "$trace" &&
		said 'accesses 8' 'hits 3' 'hit_percent 37.500' 'items 2' 'bytes 200'
}

# The first three count for what is kept, not for what is reported.
lru_after_a_warm_up() {
	kvtrace 0 lru -i 2 -b 1m -w 3 "$trace" &&
		said 'accesses 5' 'hits 2' 'hit_percent 40.000' &&
		kvtrace 0 lru -i 2 -b 1m -w 8 "$trace" &&
		said 'accesses 0' 'hits 0' 'hit_percent 0.000'
}

# number: the trace has at most that many keys, and more than half of it
keys_are_at_most() {
	local keys
	keys=$(cut -d ' ' -f 1 "$trace" | sort -u | wc -l)
	echo "$keys keys"
	[ "$keys" -le "$1" ] && [ $((2 * keys)) -gt "$1" ]
}

made_traces() {
	kvtrace 0 make -n 1000 -k 50 -s 10-99 -S 7 && cp "$out" "$trace" &&
		[ "$(wc -l <"$trace")" = 1000 ] &&
		awk '$2 < 10 || $2 > 99 { exit 1 }' "$trace" && keys_are_at_most 50 &&
		kvtrace 0 make -n 1000 -k 50 -s 10-99 -S 7 && cmp "$out" "$trace" &&
		kvtrace 0 make -n 1000 -k 50 -s 10-99 -S 8 && ! cmp -s "$out" "$trace"
}

# A server with room for all: every access to a key but its first is a hit, in batches, too.
play_hits() {
	local keys
	kvtrace 0 make -n 2000 -k 100 -s 1-500 && cp "$out" "$trace"
	keys=$(sort -un "$trace" | cut -d ' ' -f 1 | uniq | wc -l)
	kvtrace 0 play -a "$url" -t "$CALL_TIMEOUT_MS" -B 8 "$trace" &&
		said 'accesses 2000' "hits $((2000 - keys))" 'wrong 0' 'not_stored 0' &&
		kvtrace 0 play -a "$url" -t "$CALL_TIMEOUT_MS" -w 500 - <"$trace" &&
		said 'accesses 1500' 'hits 1500' 'hit_percent 100.000' 'resized 0' 'wrong 0'
}

# A value that another program has stored for a key of the trace.
play_finds_wrong_values() {
	printf '%s\n' 4096 4096 >"$trace"
	kvctl put 0000000000001000 "$(printf '%0100d' 0)" &&
		kvtrace 1 play -a "$url" -t "$CALL_TIMEOUT_MS" "$trace" &&
		said 'hits 2' 'wrong 2' &&
		grep -q 'WRONG VALUE of key 4096' "$out.err"
}

# status, words of the error, arguments...
refused() {
	kvtrace "$1" "${@:3}" && grep -Fq -- "$2" "$out.err" && return 0
	echo "not '$2', but:"
	cat "$out.err"
	return 1
}

refusals() {
	refused 2 'give a command: make, play or lru' &&
		refused 2 'no such command: frobnicate' frobnicate &&
		refused 2 '-n and -k are needed' make -n 5 &&
		refused 2 'lru: a FILE is needed' lru &&
		refused 2 "-i: '0' is out of range" lru -i 0 "$trace" &&
		refused 1 "$tmp/none: No such file" lru "$tmp/none" && echo x >"$tmp/bad" &&
		refused 1 "$tmp/bad:1: 'x' is no key" lru "$tmp/bad" &&
		refused 1 "$tmp/bad:1: 'x' is no key" \
			play -a "$url" -t "$CALL_TIMEOUT_MS" "$tmp/bad" &&
		refused 2 '-c is for -d kvd only' \
			play -d redis -a redis:///none -c 1m "$trace"
}

check 'hits of LRU' lru_hits
check 'the warm-up of LRU is not counted' lru_after_a_warm_up
check 'traces are made, the same from the same seed' made_traces
check "the server starts" server_start || finish
check 'hits of a server, and its warm-up' play_hits
check 'wrong values are found' play_finds_wrong_values
check 'refusals' refusals
check "the server stops" server_stop
finish
