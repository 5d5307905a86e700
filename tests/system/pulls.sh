#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of the memory of large values that are not finished (server/worker/budget.h): clients
# that ask the server to READ a large value and never serve that READ leave the others the memory,
# are closed after server.pull_stall, and are counted; those that serve some READs and then stall
# hold no other user up; and clients that append to large values, all at once, leave it, too. On a
# verbs device the client's device serves READs by itself, so only softnic has such clients.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

if [ "$device" != softnic ]; then
	echo "a verbs device serves READs without its client"
	exit 77
fi

# Nothing that waits here is closed by pull_timeout before a deadline of this test.
check "the server starts" server_start -o memory.size=64m -o memory.eviction=none \
	-o server.max_connections=128 -o request.srq_depth=4096 -o server.pull_timeout=600s \
	-o server.pull_stall=600s || finish
check "a value that must stay" kvctl put precious intact
check "what the server holds is noted" held_note || finish
checks_of rogue pull_hoard
check "all of them were probed first" stat_above pulls_probed 79
check "none of them waited for memory" stat_is pulls_waited 0
check "none was closed for standing still" stat_is pulls_stalled 0
check "all memory is back, before the timeouts" nothing_is_held 1
check "the server stops" server_stop

# Processes of another user, and those that come in their places when these are closed: they hold
# all the memory that a user gets, and ask for more. Only root can be another user.
stallers_start() {
	chmod 711 "$tmp" && chmod 666 "$tmp/s" && : >"$tmp/stall" || return 1
	"$build/tests/system/sys_rogue" "$url" "$log" pull_stall >>"$tmp/stall" 2>&1 &
	stallers=$!
	pids+=("$stallers")
	await_line "$tmp/stall" '^stalling' "$stallers"
}
# What the last ones stored, if any did, is nobody's.
stallers_end() {
	kill -KILL "$stallers" && await_end "$stallers" && forget "$stallers" || return 1
	kvctl del kkkkk || [ $? = 1 ]
}
# For a server.pull_stall of $1; "$2" tells what is to come of the stalled ones.
beside_stall() {
	check "a server starts that waits for $1" server_start -o memory.size=64m \
		-o memory.eviction=none -o server.workers=1 -o server.max_connections=128 \
		-o request.srq_depth=4096 -o server.pull_timeout=600s \
		-o server.pull_stall="$1" || finish
	check "a value that must stay" kvctl put precious intact
	check "what the server holds is noted" held_note || finish
	check "processes of another user stall in large values" stallers_start || finish
	checks_of rogue beside_stall
	"$2"
	check "they end" stallers_end
	check "all memory is back" nothing_is_held 1
	check "the server stops" server_stop
}
stay() {
	check "they still wait" stat_is pulls_stalled 0
}
are_closed() {
	check "the stalled ones are closed" wait_until "$DEADLINE_S" stat_above pulls_stalled 0
	check "those that follow them are late" wait_until "$DEADLINE_S" stat_above pulls_late 0
}
if [ "$(id -u)" = 0 ]; then
	beside_stall 600s stay
	beside_stall 2s are_closed
else
	echo "only root can be another user, whose processes stall"
fi

check "a server starts for larger values" server_start -o memory.size=64m \
	-o memory.eviction=none -o memory.pull_share=13 -o limits.max_value=8m \
	-o server.workers=1 || finish
check "a value that must stay" kvctl put precious intact
check "what the server holds is noted" held_note || finish
checks_of rogue append_hoard
check "appends waited" stat_above large_waited 0
check "no PUT found no memory" stat_is put_no_space 0
check "all memory is back" nothing_is_held 1
check "the server stops" server_stop

check "a server starts that waits for 200 ms" server_start -o server.pull_timeout=600s \
	-o server.pull_stall=200ms || finish
check "a value that must stay" kvctl put precious intact
check "what the server holds is noted" held_note || finish
checks_of rogue pull_stalled
check "it is counted" stat_is pulls_stalled 1
check "with the connections that failed" stat_is connections_failed 1
check "its memory is back" nothing_is_held 1
check "the server stops" server_stop
finish
