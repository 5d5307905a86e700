#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of the largest values: what limits.max_value is unless configured, and values of 64
# MiB (9 on verbs) that are stored, replaced, appended to and read, whole, while another client is
# served. With KVD_TEST_LONG=1 they have 1 GiB, the most there can be, but for sanitizers.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

CALL_MS=120000 # for one call, on a loaded machine
mib=64
[ "$device" = softnic ] || mib=9 # still a chain of READs: Soft-RoCE's messages have 8 MiB
[ "${KVD_TEST_LONG:-}" != 1 ] || [ "${KVD_FLAVOUR:-release}" != release ] || mib=1024
# The region; the file, kvctl's value and its registered buffer, twice; some for others.
needed_mib=$((mib * 4 + mib * 5 + 512))
available_mib=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
if [ "$available_mib" -lt "$needed_mib" ]; then
	echo "needs $needed_mib MiB of memory, $available_mib are available"
	exit 77
fi

# memory.size, value_max in bytes: unless it is configured
default_is() {
	server_start -o memory.size="$1" -o limits.max_value=auto -o memory.prefault=no &&
		kvctl info | grep -qx "value_max $2" && server_stop
}

# file, [-r]: is what the key has
holds_file() {
	kvctl -t "$CALL_MS" "${@:2}" get large | cmp - "$1"
}

# file: its first and last bytes, and those around the end of a piece in its middle
holds_ranges() {
	local bytes range
	bytes=$(stat -c %s "$1")
	for range in 0:1 0:65536 $((bytes / 2 / 65536 * 65536 - 1)):2 $((bytes - 1)):2 \
		$((bytes - 65537)):65537; do
		kvctl -t "$CALL_MS" get --range "$range" large >"$tmp/got" &&
			tail -c +$((${range%:*} + 1)) "$1" | head -c "${range#*:}" |
			cmp - "$tmp/got" || return 1
	done
}

put_file() {
	kvctl -t "$CALL_MS" put large - <"$1" && holds_file "$1"
}

append_to_it() {
	printf tail | kvctl -t "$CALL_MS" append large - && printf tail >>"$tmp/a" &&
		holds_file "$tmp/a"
}

one_byte_more() {
	head -c $((mib << 20)) /dev/zero >"$tmp/b" && printf x >>"$tmp/b" &&
		expect 70 "at most $mib MiB \\(limits.max_value\\)" -t "$CALL_MS" \
			put large - <"$tmp/b"
}

other_ends() {
	kill -TERM "$other" && await_end "$other" && forget "$other" && [ "$status" = 0 ] &&
		return 0
	cat "$tmp/other"
	return 1
}

check_once "1 MiB of 16 MiB" default_is 16m 1048576
check_once "2 MiB of 32 MiB" default_is 32m 2097152
[ "$device" != softnic ] || check "64 MiB of 2 GiB" default_is 2g 67108864

# A client that stores small values meanwhile has its turns.
check "the server starts" server_start -o memory.size=$((mib * 4))m \
	-o memory.pull_share=26 -o limits.max_value=${mib}m -o memory.prefault=no || finish
pause_us=0
[ "$device" = softnic ] || pause_us=10000
client_start other "$tmp/other" loop "$url" mix other 100 $pause_us
await_line "$tmp/other" '^looping' "$other" || finish
head -c $(((mib << 20) - 4)) /dev/urandom >"$tmp/a"
check "a value of $mib MiB" put_file "$tmp/a"
check "4 bytes are appended" append_to_it
check "ranges of the longest value" holds_ranges "$tmp/a"
check_once "one byte more than max_value" one_byte_more
check "the old value stays, by request" holds_file "$tmp/a" -r
check_once "it is replaced" put_file "$tmp/a"
check "the other client was served all the time" other_ends
check "deleted" kvctl del large
check "the server stops" server_stop
finish
