#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of a log file on a full disk (/dev/full, which a link leads to): the server serves on,
# says so on stderr, counts the lines that find no room in memory, and when the file takes lines
# again, it writes what waited and says how many were lost. Clients whose histories are checked work
# meanwhile. And a log file that reaches RLIMIT_FSIZE does not end the server.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/history_lib.sh
. tests/system/history_lib.sh

# On softnic more lines than the memory for them holds.
connections=700
[ "$device" = softnic ] || connections=20

link=$tmp/link

disk_is_full() {
	ln -sfn /dev/full "$link" && kill -HUP "$server_pid"
}
said_on_stderr() {
	wait_until "$DEADLINE_S" grep -q \
		"error log.file = $link: can't write to it: No space left .*; lines wait" \
		"$tmp/stderr"
}
said_once() {
	[ "$(wc -l <"$tmp/stderr")" = 1 ]
}
lines_are_lost() {
	[ "$(stat_of log_lines_lost)" -gt 0 ]
}
disk_has_room() {
	local line='notice SIGHUP: log reopened'
	[ "$device" = verbs ] || line='warn log: [0-9]+ lines were lost: '
	ln -sfn "$log" "$link" && kill -HUP "$server_pid" &&
		logged "$line"
}
# All lines are whole, and it says how many it counted: each connection has three that it wrote, or
# counted.
lines_are_there() {
	local said lost written
	lost=$(stat_of log_lines_lost)
	said=$(awk '/ warn log: .* lines were lost: / { n += $4 } END { print n + 0 }' "$log")
	written=$(grep -Ec ' debug connection [^ ]+: (worker [0-9]+|closing|closed)$' "$log")
	echo "said $said, counted $lost, written $written of $connections connections"
	[ "$said" = "$lost" ] && [ $((written + lost)) -ge $((3 * connections)) ] &&
		! grep -Ev '^20[^ ]*Z (debug|info|notice|warn|error) .' "$log"
}

# The limit is below the size that the file has, and for files alone: a new connection of softnic
# needs one.
limit_is_reached() {
	prlimit --pid "$server_pid" --fsize=$(($(stat -c %s "$log") + 10)): &&
		kill -HUP "$server_pid" &&
		wait_until "$DEADLINE_S" grep -q "write to it: File too large" "$tmp/stderr" &&
		history_goes_on && prlimit --pid "$server_pid" --fsize=unlimited:
}

ln -s "$log" "$link"
check "the server starts" server_start -o log.file="$link" -o memory.size=64m \
	-o memory.eviction=none -o server.max_connections=2000 || finish
check "clients work" history_start || finish
fault "the disk is full" disk_is_full
checks_of client connections "$url" $connections 20
check "stderr says so" said_on_stderr
check "that was said once" said_once
if [ "$device" = softnic ]; then
	check "lines that found no room are counted" lines_are_lost
	fault "there is room again: the log says how many lines were lost" disk_has_room
else
	fault "there is room again" disk_has_room
fi
check "all that were not are whole" wait_until "$DEADLINE_S" lines_are_there
: >"$tmp/stderr"
fault "the file reaches RLIMIT_FSIZE: the server goes on" limit_is_reached
: >"$tmp/stderr"
history_judge
check "the server stops" server_stop
finish
