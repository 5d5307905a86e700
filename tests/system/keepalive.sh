#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of keepalive: a client whose host vanished loses its connection, and one that is idle,
# stopped or busy keeps it. On softnic nothing is probed, since the kernel reports the end of a
# process. With KVD_TEST_LONG=1 on verbs it also waits until the transport's retries are exhausted.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
stopped='' busy='' # set by client_start
QUIET_S=4 # on softnic: as long as a vanished client would have

looping() { # variable, pause
	client_start "$1" "$tmp/$1" loop "$url" mix "$1" 100 "$2" &&
		await_line "$tmp/$1" '^looping' "${!1}"
}

ends_well() { # variable
	kill -CONT "${!1}" && kill -TERM "${!1}" && await_end "${!1}" && forget "${!1}" &&
		[ "$status" = 0 ]
}

probes() {
	[ "$(stat_of keepalive_probes)" -ge "$1" ]
}

quiet() {
	case $device in
	verbs) wait_until "$DEADLINE_S" probes 4 ;;
	*) sleep "$QUIET_S" && stat_is keepalive_probes 0 ;;
	esac
}

none_expired() {
	stat_is connections_expired 0 && stat_is connections_failed 0
}

check "the server starts" server_start -o server.keepalive_interval=500ms \
	-o server.handshake_timeout=2s || finish
check "a value that must stay" kvctl put precious intact
check "a client that will be stopped" looping stopped 0
kill -STOP "$stopped"
check "a client that works" looping busy 20000
check "time passes" quiet
check "no connection was closed" none_expired
if [ "$device" = verbs ]; then
	checks_of rogue vanish
	check "the vanished client's connection is released" \
		wait_until "$DEADLINE_S" stat_is connections 3
fi
check "the stopped client goes on" ends_well stopped
check "the busy one ended well" ends_well busy
check "what the server holds is noted" held_note
check "a client that is killed" looping busy 0
kill -KILL "$busy" && await_end "$busy" && forget "$busy"
check "its connection is released" wait_until "$DEADLINE_S" stat_is connections 1
check "and all that it held" nothing_is_held 1
check "the server stops" server_stop

if [ "$device" = verbs ] && [ "${KVD_TEST_LONG:-}" = 1 ]; then
	# A probe finds out, long before the server gives the client up.
	check "the server starts" server_start -o server.keepalive_interval=30s \
		-o server.handshake_timeout=1s
	check "a value that must stay" kvctl put precious intact
	checks_of rogue vanish
	check "the transport gave up" logged 'closed: transport retry'
	check "the server stops" server_stop
fi
finish
