#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of restarts: a client that holds versions of keys, of a lock say, connects to the
# restarted server, and none of them matches what is stored there now.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

versions() { # take or return
	checks_of "$build/tests/system/sys_restart" "$1" "$url" "$tmp/versions"
}

check "the server starts" server_start || finish
versions take
check "kill -9 of the server" server_kill
# A second of the host's time: versions are above those of a start that began as much earlier.
sleep 1
check "the server starts again" server_start || finish
versions return
check "the server stops" server_stop
sleep 1
check "and starts again, with other workers" server_start -o server.workers=1 || finish
versions return
check "the server stops" server_stop
finish
