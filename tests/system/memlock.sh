#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of an ordinary user whose limit of locked memory (RLIMIT_MEMLOCK) is too low: of the
# server, which does not start, and of a client. What fails names the limit, its value and the
# remedies. On softnic no memory is locked, so there the lowest limit does.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

USER_ID=61234 # has no entry in any user database
CLIENT_KIB=256

if [ "$(id -u)" != 0 ]; then
	echo "this test needs root, to become another user"
	exit 77
fi
mkdir "$tmp/user" && cp "$build/kvd" "$build/tests/system/sys_values" "$tmp/user" || exit 1
chmod 755 "$tmp/user" "$tmp/user"/*
chmod 711 "$tmp"
: >"$log"
chmod 666 "$log"
chmod 644 "$tmp/kvd.ini"
chown "$USER_ID" "$tmp/user"

# KiB, command...: becomes that command, of that user, with that limit; in a subshell
limited() {
	ulimit -l "$1" && cd "$tmp/user" &&
		exec setpriv --reuid "$USER_ID" --regid "$USER_ID" --clear-groups -- "${@:2}"
}

does_not_start() {
	(limited 1024 ./kvd -c "$tmp/kvd.ini" >>"$tmp/refused" 2>&1)
	[ $? = 1 ] && logged 'this process may lock 1 MiB of memory \(RLIMIT_MEMLOCK\)' &&
		logged 'ulimit -l.*LimitMEMLOCK=.*CAP_IPC_LOCK'
}

# On softnic: with a socket of its own, where the user may make one.
serves() {
	limited 0 ./kvd -c "$tmp/kvd.ini" -o "server.listen=softnic://$tmp/user/s" \
		>>"$tmp/stderr" 2>&1 &
	server_pid=$!
	pids+=("$server_pid")
	wait_until "$DEADLINE_S" server_is_up && url=softnic://$tmp/user/s kvctl ping && server_stop
}

client_limited() {
	(limited "$1" ./sys_values "$url" "${@:2}")
}

cannot_open() {
	client_limited 8 >"$tmp/refused"
	[ $? = 1 ] && grep 'this process may lock 8 KiB of memory (RLIMIT_MEMLOCK)' "$tmp/refused" |
		grep 'ulimit -l.*LimitMEMLOCK=' | grep -q CAP_IPC_LOCK && return 0
	cat "$tmp/refused"
	return 1
}

head -c $((700 << 10)) /dev/zero | tr '\0' x >"$tmp/large"
if [ "$device" = verbs ]; then
	check "a server that may lock too little does not start" does_not_start
else
	check "softnic locks nothing: the server starts" serves
fi
check "the server starts" server_start -o softnic.socket_mode=0666 || finish
check "a large value is stored" kvctl put large - <"$tmp/large"
if [ "$device" = verbs ]; then
	check "a client that may lock hardly anything can't connect" cannot_open
	checks_of client_limited $CLIENT_KIB locked
else
	checks_of client_limited 0
fi
check "the server stops" server_stop
finish
