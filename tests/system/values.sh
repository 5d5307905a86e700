#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of the ways of values, on both devices: tests/system/sys_values.c. On softnic also of
# a device that dies under them. On verbs it is not: the server on an rxe device ends when that is
# removed, and the removal waits until no process has it open.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

CALLS=20000 # of the device, until it dies

dies() {
	KVD_SOFTNIC_FAULTS=kill=$CALLS "$build/tests/system/sys_values" "$url" dies
}

check "the server starts" server_start || finish
checks_of "$build/tests/system/sys_values" "$url"
[ "$device" != softnic ] || checks_of dies
check "the server stops" server_stop
finish
