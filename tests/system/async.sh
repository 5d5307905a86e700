#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of submitted operations in a program with an event loop: tests/system/sys_async.c.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

messages_are_shared() {
	local batched
	batched=$(stat_of batched) && [ "$batched" -gt 0 ]
}

check "the server starts" server_start || finish
checks_of "$build/tests/system/sys_async" "$url" 1000
check "requests shared messages" messages_are_shared
check "the server stops" server_stop
finish
