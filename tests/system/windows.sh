#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of windows that follow use: the first client has the largest, many idle clients leave
# it to one that works, all of them share when they work; an earlier client has one window to its
# end; and clients that exceed theirs lose the connection, and nothing else happens.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

# On verbs fewer: in an emulated machine each takes at least a tenth of a second to set up.
case $device in
softnic) conns=50 admins=4 ;;
*) conns=20 admins=0 ;;
esac
receives=128
conns_max=60
largest=8
share=$((1 + (receives - admins - conns_max) / conns))

none_failed() {
	stat_is connections_failed 0 && stat_is protocol_errors 0 && stat_is srq_limits 0
}

# A new client's window, as kvctl and the server say.
window_is() {
	kvctl info | grep -x "window $1" && kvctl clients | grep " window=$1\$"
}

check "the server starts with one worker" server_start -o server.workers=1 || finish
check "a value that must stay" kvctl put precious intact
check "the first client may have $largest requests outstanding" \
	window_is "$largest"
checks_of rogue window_told window_exceeded
check "the server stops" server_stop

check "the server starts with $receives receives for $conns_max connections" server_start \
	-o server.workers=1 -o server.max_connections=$conns_max -o request.srq_depth=$receives
checks_of "$build/tests/system/sys_window" "$url" "$conns" "$largest" "$share" "$receives"
check "no connection was closed, and receives were left" none_failed
check "all are closed" wait_until "$DEADLINE_S" stat_is connections 1
check "the next client has the largest window again" \
	wait_until "$DEADLINE_S" window_is "$largest"
check "the server stops" server_stop
finish
