#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of changes that are sent again (server/worker/answers.h, server/control/identity.h):
# those of a connection that is cut are executed once; a new connection of a client ends the old
# one, with what it had begun; and what is kept of clients that left is bounded, for each peer.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

IDENTITIES=16

once() {
	"$build/tests/system/sys_once" "$url" "$@"
}

# As another user of the host, which only root can be: the principal is another one, too.
others=
if [ "$device" = softnic ] && [ "$(id -u)" = 0 ]; then
	others="setpriv --reuid=61001 --regid=61001 --clear-groups"
	cp "$build/tests/system/sys_once" "$tmp/others" && chmod 755 "$tmp/others"
fi
# shellcheck disable=SC2086,SC2317 # words; called by check
others_once() {
	if [ -z "$others" ]; then
		once "$@"
		return
	fi
	chmod 711 "$tmp" && chmod 666 "$tmp/s" && $others "$tmp/others" "$url" "$@"
}

# name, number
# shellcheck disable=SC2317 # called by check
stat_at_most() {
	local value
	value=$(stat_of "$1") && [ "$value" -le "$2" ]
}

# shellcheck disable=SC2317 # called by check
stat_at_least() {
	! stat_at_most "$1" $(($2 - 1))
}

# No pull stalls for so long before its client connects anew, on a slow machine either.
check "the server starts" server_start -o limits.identities=$IDENTITIES -o server.pull_stall=5m ||
	finish
check "a new connection while the old one's pull is under way" once takeover taken
check "closes the old one" stat_is connections_replaced 1
check "changes of connections that are cut" once cut cuts
check "many connections with one identity" once twins

# Three clients leave, since one may share a group with the principal that makes the storm.
check "a client leaves" once leave left-1 0
check "another one leaves" once leave left-2 0
check "a third one leaves" once leave left-3 0
check "100 clients of one principal leave" others_once leave storm 100
check "no more are kept than there is room for" stat_at_most identities_kept $IDENTITIES
known=0
for i in 1 2 3; do
	! once return left-$i known 2 >"$tmp/return" || known=$((known + 1))
done
if [ -n "$others" ]; then # RDMA peers are hosts
	check "a storm is the loss of its own principal" [ $known -gt 0 ]
fi
check "the first client of the storm is forgotten: unknown, not executed twice" \
	others_once return storm unknown 2
check "the server stops" server_stop

# hold or wait: starts a connection that stays; its pid is in $held
# shellcheck disable=SC2317 # called by check
stays() {
	: >"$tmp/$1"
	"$build/tests/system/sys_once" "$url" "$1" stays >>"$tmp/$1" 2>&1 &
	held=$!
	pids+=("$held")
	await_line "$tmp/$1" "^$1" "$held"
}

# Prints the worker of each connection, as the server logged it.
workers_logged() {
	sed -n 's/.*: worker \([0-9]*\)$/worker-\1/p' "$log"
}

# shellcheck disable=SC2317 # called by wait_until
more_workers_than() {
	[ "$(workers_logged | wc -l)" -gt "$1" ]
}

# The worker of the first connection does not take part, so the second one's HELLO waits. It is not
# always the first worker: that of the client before may still have that one's connection.
# shellcheck disable=SC2317 # called by check
waits_and_gives_up() {
	stays wait && logged 'closed: its client connected anew' &&
		kill -KILL "$held" && await_end "$held" && forget "$held" &&
		wait_until "$DEADLINE_S" stat_is connections 2
}

# Whatever comes of it, the worker goes on.
# shellcheck disable=SC2317 # called by check
the_next_one_gives_up() {
	local failed=0 before
	before=$(workers_logged | wc -l)
	stays hold && holder=$held && wait_until "$DEADLINE_S" more_workers_than "$before" &&
		freeze "$(workers_logged | tail -n 1)" || return 1
	waits_and_gives_up || failed=1
	thaw && kill -KILL "$holder" && await_end "$holder" && forget "$holder" &&
		[ $failed = 0 ]
}

check "another server" server_start -o limits.identities=$IDENTITIES -o server.workers=3 || finish
check "knows nobody: unknown" once return left-1 unknown 1
check "a HELLO that waits for the end of another connection gives up" the_next_one_gives_up
check "the client is known by the next one" once return stays known 2
check "all connections are gone" wait_until "$DEADLINE_S" stat_is connections 1
check "the server stops" server_stop

check "a server that keeps nobody" server_start -o server.identity_time=0 || finish
check "a client leaves" once leave short 0
check "it is forgotten" wait_until "$DEADLINE_S" stat_is identities_kept 0
check "unknown, not executed twice" once return short unknown 2
check "nobody was evicted" stat_is identities_evicted 0
check "the server stops" server_stop

check "a server without identities" server_start -o limits.identities=0 || finish
check "works without" once without
check "and counts it" stat_at_least identities_refused 1
check "the server stops" server_stop
finish
