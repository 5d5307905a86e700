#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of scripts on kvctl's standard input: one line after the other with output, and with
# --pipe many changes under way; errors in the middle, and a server that goes away.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
[ "$device" = softnic ] || { echo "async.sh is about changes under way over RDMA" && exit 77; }

# status, options...: the status of a script on the standard input; what it says is in two files
script() {
	local want=$1 got
	shift
	kvctl "$@" >"$tmp/out" 2>"$tmp/err"
	got=$?
	[ "$got" = "$want" ] && return
	cat "$tmp/out" "$tmp/err"
	echo "status $got, not $want"
	return 1
}

plain_script() {
	script 64 <<-'TEXT' || return 1
	# a comment, and an empty line

	put one "1 \x41\n" # comment
	-x put 74776f 'it''s' 
	get one
	get none
	incr n -i 7
	get n
	get n -n
	get --hex 6f6e65
	TEXT
	printf '1 A\n\n7\n7\n71 A\n\n' | cmp - "$tmp/out" &&
		grep -qx 'kvctl: line 4: no blank .*' "$tmp/err" &&
		grep -qx 'kvctl: line 6: not found' "$tmp/err" && [ "$(wc -l <"$tmp/err")" = 2 ]
}

bad_lines() {
	script 64 --pipe <<-'TEXT' || return 1
	put a 1
	put b "2
	put c
	frobnicate
	-a softnic:///x put d 1
	--pipe
	put e 1 -e 1x
	touch a -- -1
	put f -
	put g 1
	TEXT
	[ ! -s "$tmp/out" ] && [ "$(grep -c '^kvctl: line [2-9]: ' "$tmp/err")" = 8 ] &&
		grep -qx 'kvctl: 10 lines read, 2 commands done, 8 failed' "$tmp/err" &&
		grep -qx '  8 bad usage' "$tmp/err" && expect 0 '^1$' get g
}

# Values with zeros, quotes and newlines, and the options of changes.
bytes_arrive() {
	script 0 --pipe <<-'TEXT' || return 1
	put 'a key' "\x00\x01\"\\ \n\r\t"
	-x -e 100 -f 5 put 00ff 'it\'s'
	"put" "" 1 -h
	add new 1
	append new "2\x00"
	prepend new 0
	replace new2 x -h
	TEXT
	kvctl get 'a key' | cmp - <(printf '\0\1"\\ \n\r\t') &&
		kvctl -x get 00ff | cmp - <(printf "it's") &&
		[[ $(kvctl -v -x get 00ff 2>&1) == *"flags 5 expires "[1-9]* ]] &&
		kvctl get new | cmp - <(printf '012\0')
}

# Each key has what its last line says, whatever was refused between.
order_is_kept() {
	seq 20000 | awk '{ k = $1 % 7
		print ($1 % 5 ? "put" : "add") " k" k " " $1
		if ($1 % 11 == 0) print "del k" k
		if ($1 % 1000 == 0) print "get k" k }
		END { for (k = 0; k < 7; k++) print "append k" k " ." }' >"$tmp/script"
	script 2 --pipe <"$tmp/script" || return 1
	awk '$1 == "put" { v[$2] = $3 } $1 == "add" && !($2 in v) { v[$2] = $3 }
		$1 == "del" { delete v[$2] } $1 == "append" && $2 in v { v[$2] = v[$2] "." }
		$1 == "get" && $2 in v { print v[$2] >(out) }
		END { for (k in v) print "get " k, v[k] }' out="$tmp/gets" \
		"$tmp/script" >"$tmp/last"
	cmp "$tmp/gets" "$tmp/out" || return 1
	local key value
	while read -r _ key value; do
		expect 0 "^${value//./[.]}\$" get "$key" || return 1
	done <"$tmp/last"
}

many_errors() {
	seq 500 | sed 's/^/del none/' >"$tmp/script"
	script 1 --pipe <"$tmp/script" &&
		[ "$(grep -c 'line [0-9]*: not found' "$tmp/err")" = 10 ] &&
		grep -qx 'kvctl: 500 lines read, 0 commands done, 500 failed' "$tmp/err" &&
		grep -qx '  500 not found' "$tmp/err"
}

long_line() {
	head -c 1000000 /dev/zero | tr '\0' v >"$tmp/long"
	{ printf 'put long %s\n' "$(<"$tmp/long")"
	  printf 'put longer %s%s\n' "$(<"$tmp/long")" "$(<"$tmp/long")"
	  printf 'put long %s\n' "$(for _ in 1 2 3 4 5; do cat "$tmp/long"; done)"
	  echo put after 1; } | script 70 --pipe || return 1
	kvctl get long | cmp - "$tmp/long" && expect 1 'not found' get after &&
		grep -q 'line 2: value too large' "$tmp/err" &&
		grep -q 'line 3: longer than any command' "$tmp/err" &&
		grep -q 'no line after line 3 was run' "$tmp/err"
}

lines_are() {
	[ "$(kvctl scan gone | wc -l)" -gt 0 ]
}

# The server ends while lines are fed slowly: the lines that follow are not run, and what is said
# to be done was answered.
server_goes() {
	local feeder status done_lines
	mkfifo "$tmp/fifo"
	"$build/kvctl" -a "$url" -t 5000 --pipe <"$tmp/fifo" 2>"$tmp/err" &
	feeder=$!
	exec 7>"$tmp/fifo"
	seq 5000 | sed 's/.*/put gone& 1/' >&7
	wait_until "$DEADLINE_S" lines_are || return 1
	server_kill
	seq 5001 200000 2>/dev/null | sed 's/.*/put gone& 1/' >&7 2>/dev/null
	exec 7>&-
	wait "$feeder"
	status=$?
	tail -n 8 "$tmp/err"
	done_lines=$(sed -n 's/.* lines read, \([0-9]*\) commands done.*/\1/p' "$tmp/err")
	[ "$status" = 70 ] && [ "$done_lines" -le 5000 ] &&
		grep -q '^kvctl: the connection was lost: no line after line [0-9]* was' "$tmp/err"
}

server_start || exit 1
# A program that writes the lines and pauses, between lines and in the middle of one; in the long
# form for longer than a change may take.
pause_s=0.5 change_ms=$CALL_TIMEOUT_MS
[ "${KVD_TEST_LONG:-0}" != 1 ] || { pause_s=25 && change_ms=20000; }
slow_input() {
	{
		seq -f 'put slow%g first' 900 && printf 'put middle o' && sleep $pause_s &&
			printf 'f\n' && seq -f 'put slow%g second' 900 && sleep $pause_s &&
			echo 'get middle'
	} | script 0 -t "$change_ms" --pipe &&
		grep -qx 'kvctl: 1802 lines read, 1802 .*' "$tmp/err" &&
		[ "$(<"$tmp/out")" = of ] && expect 0 '^second$' get slow900
}

# While it waits for a line: the lines before it are done, and counted.
interrupted() {
	local pid
	mkfifo "$tmp/lines" || return 1
	env --default-signal=INT "$build/kvctl" -a "$url" --pipe <"$tmp/lines" 2>"$tmp/err" &
	pid=$!
	pids+=("$pid")
	exec 9>"$tmp/lines" && printf 'put early 1\nput late 2\nget late\n' >&9 || return 1
	wait_until "$DEADLINE_S" kvctl exists late && kill -INT "$pid" && await_end "$pid"
	exec 9>&-
	forget "$pid"
	grep -qx 'kvctl: 3 lines read, 3 commands done, 0 failed' "$tmp/err" &&
		grep -qx 'kvctl: interrupted: no line after line 3 was run' "$tmp/err" &&
		[ "$status" = 130 ]
}

check "a script, one line after the other" plain_script
check "lines that are wrong" bad_lines
check "any bytes" bytes_arrive
check "the order of the lines" order_is_kept
check "many errors are counted" many_errors
check "lines that are too long" long_line
check "an input that pauses" slow_input
check "SIGINT" interrupted
check "a server that goes away" server_goes
finish
