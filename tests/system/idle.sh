#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of guarantee E, that GETs cost the server no CPU time and no request: compares some
# seconds of GETs with as many without. With KVD_TEST_LONG=1 it takes ten seconds instead of three.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

seconds=3
permille=10
if [ "${KVD_TEST_LONG:-}" = 1 ]; then
	seconds=10
fi
# ThreadSanitizer's background thread wakes up ten times a second.
if [ "${KVD_FLAVOUR:-}" = tsan ]; then
	permille=30
fi

check "the server starts" server_start -o memory.eviction=none || finish
checks_of client gets "$url" "$seconds" "$permille"
check "the server stops" server_stop
finish
