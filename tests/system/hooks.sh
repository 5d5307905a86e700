#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of the hooks of libkvd: its log lines.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

check "the server starts" server_start || finish
checks_of "$build/tests/system/sys_hooks" "$url"
check "the server stops" server_stop
finish
