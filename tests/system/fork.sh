#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of fork(2) in a client, and of the memory that must not be in a child: the server's.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

# The region has 32 MiB; `dc` among its flags: do not copy to a child.
region_stays_here() {
	awk '/^Size:/ { size = $2 }
	     /^VmFlags:/ && size >= 32768 && / dc( |$)/ { found = 1 }
	     END { exit !found }' "/proc/$server_pid/smaps"
}

check "the server starts" server_start || finish
check "a child of the server would not have its region" region_stays_here
checks_of "$build/tests/system/sys_fork" "$url"
check "all connections are closed" wait_until "$DEADLINE_S" stat_is connections 1
check "the server stops" server_stop
finish
