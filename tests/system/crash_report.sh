#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of the report of a fatal signal: a server under load that dies by one writes what it
# knows to its log and to stderr, and no key or value; and its exit status shows the signal.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# What a client stores, in keys and values.
secret=xyzzy

signals='SEGV BUS FPE ILL ABRT'
case $build in
# The others have a sanitizer's handler, which stays.
*/asan | */tsan) signals=ABRT ;;
esac

store_secrets() {
	expect 0 '^$' put "key-$secret" "value-$secret" &&
		head -c 300000 /dev/zero | tr '\0' x | sed "s/^/$secret/" >"$tmp/large" &&
		kvctl put "large-$secret" - <"$tmp/large"
}

loaded() {
	client_start load "$tmp/load" loop "$url" mix "$secret" 3000 0 &&
		await_line "$tmp/load" '^looping' "$load"
}

# signal: the server dies by it
dies() {
	local number
	number=$(kill -l "$1")
	kill -"$1" "$server_pid" && await_end "$server_pid" && forget "$server_pid"
	echo "status $status instead of $((128 + number))"
	[ "$status" = $((128 + number)) ]
}

# signal, file
reported_in() {
	local line
	for line in "signal $(kill -l "$1") \(SIG$1\) sent by process [0-9]+ in thread kvd of kvd" \
		'worker 0: (between turns|in a turn for [0-9]+ us)' \
		'worker 1: (between turns|in a turn for [0-9]+ us)' \
		'(last )?operation [A-Z]+ of connection [1-9][0-9]*$' \
		"#[0-9]+ .*/kvd 0x[0-9a-f]+$"; do
		grep -Eq " error crash: .*$line" "$2" || { echo "no line '$line'" && return 1; }
	done
	[ "$(grep -c 'crash: signal' "$2")" = 1 ]
}

# signal
reported() {
	tail -n "+$log_start" "$log" >"$tmp/new"
	reported_in "$1" "$tmp/new" && reported_in "$1" "$tmp/stderr"
}

# The calls have a line of main(): the walk went through the handler down to the start.
calls_have_main() {
	local offset
	while read -r offset; do
		! addr2line -ife "$build/kvd" "$offset" | grep -qx main || return 0
	done < <(sed -n 's,.* crash: #[0-9]* .*/kvd \(0x[0-9a-f]*\)$,\1,p' "$tmp/new")
	sed -n '/ crash: #/p' "$tmp/new"
	return 1
}

no_secrets() {
	! grep -a "$secret" "$log" "$tmp/stderr"
}

load_ends() {
	kill -KILL "$load" && await_end "$load" && forget "$load"
}

for signal in $signals; do
	: >"$tmp/stderr"
	check "a server starts" server_start || finish
	check "keys and values are stored" store_secrets
	check "a client works" loaded || finish
	check "SIG$signal ends the server" dies "$signal"
	check "the log and stderr have a report" reported "$signal"
	check "the calls begin in main()" calls_have_main
	check "no key and no value is in it" no_secrets
	check "the client ends" load_ends
done
finish
