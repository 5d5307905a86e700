#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of memory.size changed while clients work, whose histories must be linearizable
# without any loss (tests/system/sys_history.c): the region gets extents, and gives them back.
# KVD_TEST_CHANGES is how often.
export TMPDIR=/dev/shm # softnic passes files of tmpfs
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/history_lib.sh
. "$(dirname "$0")/history_lib.sh"

changes=${KVD_TEST_CHANGES:-10}
! brief || changes=3
[ "${KVD_TEST_LONG:-0}" != 1 ] || changes=${KVD_TEST_CHANGES:-200}
EXTENT_MIB=4 # a sixteenth of memory.max
VALUE_BYTES=100000
VALUES=200
options=(-o memory.max=$((EXTENT_MIB * 16))m -o memory.size=16m -o limits.max_value=1m
	-o memory.eviction=none)

# Administrators come by the Unix socket.
admin_url=softnic://$tmp/s
[ "$device" = softnic ] || config_write "$url, $admin_url"

# arguments...: kvctl config of an administrator
config() {
	local url=$admin_url
	kvctl config "$@"
}

start() {
	server_start "${options[@]}" "$@"
}

# MiB
region_has() {
	stat_is region_bytes $(($1 << 20))
}

# MiB
becomes() {
	config set memory.size "$1m" && wait_until "$DEADLINE_S" region_has "$1"
}

# Changes the size at random instants while the clients work: to 16 to 64 MiB.
changes_and_changes() {
	local i size
	for ((i = 0; i < changes; i++)); do
		size=$((16 + RANDOM % 13 * EXTENT_MIB))
		becomes $size || { echo "change $i, to $size MiB" && return 1; }
		history_goes_on 1 || { echo "after change $i, to $size MiB" && return 1; }
	done
}

# A client that stays connected.
values_start() {
	coproc values { "$build/tests/system/sys_extents" "$url" $VALUE_BYTES 2>&1; }
	# shellcheck disable=SC2154 # coproc sets it
	pids+=("$values_PID")
}

# answer, command...: what the client says to it
values_say() {
	local said=
	echo "${*:2}" >&"${values[1]}" && read -rt "$DEADLINE_S" said <&"${values[0]}" &&
		[ "$said" = "$1" ] && return 0
	echo "the client said to ${*:2}: $said"
	return 1
}

# option, text: is refused with that
refused() {
	local url=$admin_url
	expect 70 "$2" config set memory.size "$1"
}

# The log says that the size stays, and so does the option.
stays() {
	log_start=$(($(log_lines) + 1))
	config set memory.size 16m && logged 'memory.size stays 64 MiB.*not all items fit' &&
		[ "$(config get memory.size)" = "memory.size = 64m" ] && region_has 64
}

check "the server starts" start || finish
check "a size that is no multiple of an extent is refused" \
	refused 17m "memory.size .17825792. is no multiple of 4 MiB"
check "a size beyond memory.max is refused" \
	refused 68m "memory.size .68 MiB. is more than memory.max"
check "a small one is refused" refused 12m "12m"
check "clients begin" history_start
check "$changes changes of memory.size" changes_and_changes
history_judge

check "the region is small" becomes 16
check "a client connects" values_start
check "the region is filled" values_say stored put 0 $((VALUES / 2))
check "no more values fit" values_say full put 1000 1200
check "the client READs" values_say read read $((VALUES / 2))
check "it grows" becomes 64
check "values are in the new memory" values_say stored put 0 $((VALUES / 2))
check "the client gets its keys" values_say read read $((VALUES / 2))
check "more values fit" values_say stored put $((VALUES / 2)) $VALUES
check "all are there" values_say got get $VALUES
check "it does not shrink while they are there" stays
check "they are still there" values_say got get $VALUES
check "keys are deleted" kvctl flush
check "now it shrinks" becomes 16
check "some are stored again" values_say stored put 0 $((VALUES / 2))
check "the client READs them, over a new connection" values_say read read $((VALUES / 2))
check "the server stops" server_stop

check "a server starts that evicts" start -o memory.eviction=object-hits -o memory.size=64m
check "the client stores values" values_say stored put 0 $VALUES
check "the region shrinks" becomes 16
check "some keys are left" eval '[ "$(stat_of items)" -gt 50 ]'
check "SIGHUP takes it back" reloaded "memory.size is now 64m"
check "and the region grows" wait_until "$DEADLINE_S" region_has 64
check "the server stops" server_stop

keeps=(-o memory.file="$tmp/region")
check "a server starts that keeps its region" start "${keeps[@]}"
check "it grows" becomes 64
check "the client stores values" values_say stored put 0 $VALUES
check "it is killed" server_kill
check "another one starts, of another size" start "${keeps[@]}" -o memory.size=32m
check "the region gets that size" wait_until "$DEADLINE_S" region_has 32
check "the client READs its values" values_say read read $VALUES
check "keys are deleted" kvctl flush
check "now it shrinks" becomes 16
check "the client stores some" values_say stored put 0 $((VALUES / 2))
check "the server is killed" server_kill
check "another one starts" start "${keeps[@]}"
check "the client READs them" values_say read read $((VALUES / 2))
check "the server stops" server_stop

# The file gets another memory.max, too, which needs a restart.
another_max() {
	sed -i 's/^size = 32m$/size = 192m\nmax = 256m/' "$tmp/kvd.ini" &&
		reloaded 'memory.size stays 32 MiB.*64 MiB at most, until kvd is restarted' &&
		region_has 32 && [ "$(config get memory.size)" = "memory.size = 32m" ]
}

sed -i 's/^size = 32m$/size = 32m\nmax = 64m/' "$tmp/kvd.ini"
check "a server starts with the file's memory.max" server_start
sed -i '/^max = 64m$/d' "$tmp/kvd.ini"
check "SIGHUP with another memory.max changes nothing" another_max
check "the server stops" server_stop

sed -i 's/^size = 192m$/size = 32m/; /^max = 256m$/d' "$tmp/kvd.ini"
check "a server starts without memory.max" server_start
check "memory.size can't change" refused 64m "memory.size needs a restart"
check "the server stops" server_stop
finish
