#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of submitted operations in a program with an event loop: tests/system/sys_async.c.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

check "the server starts" server_start || finish
checks_of "$build/tests/system/sys_async" "$url" 1000
check "requests shared messages" test "$(stat_of requests)" -gt 0
check "the server stops" server_stop
finish
