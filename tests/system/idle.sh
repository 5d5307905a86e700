#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# GETs cost the server no CPU time and no request (guarantee E): nothing but GETs for a while,
# against as long a time of nothing.
# KVD_TEST_LONG=1 does it for ten seconds.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

seconds=3
permille=10
if [ "${KVD_TEST_LONG:-}" = 1 ]; then
	seconds=10
fi
# ThreadSanitizer has a thread of its own that wakes up ten times a second.
if [ "${KVD_FLAVOUR:-}" = tsan ]; then
	permille=30
fi

check "the server starts" server_start -o memory.eviction=none || finish
checks_of client gets "$url" "$seconds" "$permille"
check "the server stops" server_stop
finish
