#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of a host without free memory: another process takes all until the kernel kills it, or
# nearly all, while clients work; and the kernel moves pages to have larger ones. Nothing of kvd's
# ends, and no value is wrong. Only in the machine of tests/vm/run, since it is the host's memory.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/history_lib.sh
. tests/system/history_lib.sh

if [ ! -e /run/kvd-vm-command ]; then
	echo "it takes the host's memory, which only the machine of tests/vm/run is for"
	exit 77
fi
if [ "${KVD_TEST_LONG:-0}" != 1 ]; then
	echo "it takes minutes until the kernel has given all memory away: make check-long has it"
	exit 77
fi

KILLED=137
LEFT_MIB=96 # of some GiB; the programs' own files are read again and again
HUGE_MIB=2
TIMES=3

available_mib() {
	awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo
}

# The rest goes to large pages, which need not be written. The kernel may find fewer than it is
# asked for: then it is asked again.
large_pages_take() {
	left=$(available_mib)
	echo $(($(cat /proc/sys/vm/nr_hugepages) + (left - LEFT_MIB) / HUGE_MIB)) \
		>/proc/sys/vm/nr_hugepages
	left=$(available_mib)
	[ "$left" -lt $((2 * LEFT_MIB)) ]
}
little_is_left() {
	local left
	wait_until "$DEADLINE_S" large_pages_take
	status=$?
	echo "$left MiB are left"
	return $status
}

# The kernel kills it, and nobody else.
all_is_taken() {
	"$build/tests/system/sys_hog"
	status=$?
	[ $status = $KILLED ] && kill -0 "$server_pid" && ! history_ended
}

# Registered memory stays where it is.
pages_are_moved() {
	echo 3 >/proc/sys/vm/drop_caches && echo 1 >/proc/sys/vm/compact_memory
}

check "the server starts" server_start -o memory.size=64m -o memory.eviction=none || finish
check "clients work" history_start || finish
pages=$(cat /proc/sys/vm/nr_hugepages)
for ((i = 0; i < TIMES; i++)); do
	fault "little memory is left" little_is_left
	fault "another process takes that, and is killed" all_is_taken
	fault "the kernel moves pages" pages_are_moved
	check "the memory is free again" tee /proc/sys/vm/nr_hugepages <<<"$pages"
done
history_judge
check "no connection was lost" stat_is connections_failed 0
check "the server stops" server_stop
finish
