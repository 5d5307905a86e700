#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of a log that takes nothing: while the server's stderr is a full pipe that nobody
# reads, requests and new connections go on; when it is read again, the lines are there and the
# number of those that were lost. And a log file that can't be opened again is reported.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

connections=600
[ "$device" = softnic ] || connections=100

pipe_fill() {
	# A descriptor of its own: O_NONBLOCK belongs to the open file, not to the pipe.
	mkfifo "$tmp/pipe" && exec {pipe}<>"$tmp/pipe" &&
		dd if=/dev/zero of="$tmp/pipe" oflag=nonblock bs=4096 count=100000 2>/dev/null
	[ -p "$tmp/pipe" ]
}

serves() {
	expect 0 '^pong ' ping
}

# The server's log can't be read: it is up when it answers.
start_on_pipe() {
	"$build/kvd" -c "$tmp/kvd.ini" -o log.file= -o server.max_connections=2000 2>&"$pipe" &
	server_pid=$!
	pids+=("$server_pid")
	wait_until "$DEADLINE_S" serves
}

# A value of 64 KiB waits for a grace period, which every thread has to pass.
large_puts() {
	local i
	head -c 65536 /dev/zero | tr '\0' v >"$tmp/value" || return 1
	for i in $(seq 20); do
		expect 0 '^$' put "large$((i % 2))" - <"$tmp/value" || return 1
	done
}

lost_is_counted() {
	[ "$(stat_of log_lines_lost)" -gt 0 ]
}

# The pipe's zeros are still in it. Reads it until the server has said how many lines were lost.
pipe_is_read() {
	cat <"$tmp/pipe" >"$tmp/lines" &
	pids+=("$!")
	wait_until "$DEADLINE_S" grep -aq 'were lost: stderr was full' "$tmp/lines"
}

lines_are_there() {
	local said lost
	said=$(tr -d '\0' <"$tmp/lines" |
		awk '/ warn log: .* lines were lost: / { n += $4 } END { print n }')
	lost=$(stat_of log_lines_lost)
	grep -aq ' notice kvd .* starts$' "$tmp/lines" && grep -aq ' ready: ' "$tmp/lines" &&
		[ "$said" = "$lost" ] && return 0
	echo "said $said, counted $lost"
	tr -d '\0' <"$tmp/lines" | head -n 5
	return 1
}

stopped() {
	kill -TERM "$server_pid" && await_end "$server_pid" && forget "$server_pid" &&
		[ "$status" = 0 ]
}

says_stopped() {
	wait_until "$DEADLINE_S" grep -aq ' kvd stopped$' "$tmp/lines"
}

check "a pipe that takes nothing more" pipe_fill || finish
check "a server that logs to it starts" start_on_pipe || finish
check "values of 64 KiB are stored" large_puts
checks_of client connections "$url" "$connections" 20
if [ "$device" = softnic ]; then
	check "lines that found no room are counted" lost_is_counted
	check "values of 64 KiB are still stored" large_puts
	check "when the pipe is read, the server says how many" pipe_is_read
	check "and the lines before them are there" lines_are_there
	check "the server stops" stopped
	check "its last line comes" says_stopped
else
	check "the server stops though its last line can't be written" stopped
fi

reopen_fails() {
	mv "$log" "$log.1" && mkdir "$log" && kill -HUP "$server_pid" &&
		wait_until "$DEADLINE_S" grep -q "SIGHUP: log.file = $log: can't open" "$log.1" &&
		wait_until "$DEADLINE_S" grep -q "open it again: Is a directory" "$tmp/stderr" &&
		expect 0 pong ping && rmdir "$log"
}

reopens() {
	kill -HUP "$server_pid" &&
		wait_until "$DEADLINE_S" grep -q 'SIGHUP: log reopened' "$log" && : >"$tmp/stderr"
}

: >"$log"
check "a server with a log file starts" server_start
check "a file that can't be opened again is reported there and on stderr" reopen_fails
check "later it can" reopens
check "the server stops" server_stop

# file: each line is a JSON object, and has what a line has
is_json() {
	python3 - "$1" <<-'END'
		import datetime, json, sys
		for line in open(sys.argv[1], encoding='utf-8'):
		    line = json.loads(line)
		    assert list(line) == ['ts', 'level', 'thread', 'msg'], line
		    datetime.datetime.strptime(line['ts'], '%Y-%m-%dT%H:%M:%S.%fZ')
	END
}

# server_start waits for a line of text.
json_start() {
	: >"$log"
	grep -q '^format = json' "$tmp/kvd.ini" || sed -i '$aformat = json' "$tmp/kvd.ini"
	"$build/kvd" -c "$tmp/kvd.ini" 2>>"$tmp/stderr" &
	server_pid=$!
	pids+=("$server_pid")
	wait_until "$DEADLINE_S" grep -q '"msg":"ready: ' "$log" && expect 0 '^pong' ping &&
		is_json "$log"
}

text_again() {
	sed -i '/^format = json/d' "$tmp/kvd.ini"
	reloaded '^2[-0-9T:.]*Z notice SIGHUP: log.format is now text, it was json'
}

json_dies() {
	kill -ABRT "$server_pid" && await_end "$server_pid" &&
		forget "$server_pid" && [ "$status" = 134 ] && is_json "$log" &&
		grep -q '"level":"error","thread":"kvd","msg":"crash: signal 6 ' "$log" &&
		: >"$tmp/stderr"
}

# A file that is the journal, for kvd. It has what the journal itself does not take: all, if there
# is none.
journal_shows() {
	: >"$tmp/journal"
	JOURNAL_STREAM=$(stat -c %d:%i "$tmp/journal") "$build/kvd" -c "$tmp/kvd.ini" \
		-o log.file= 2>>"$tmp/journal" &
	server_pid=$!
	pids+=("$server_pid")
	wait_until "$DEADLINE_S" grep -q '^<4>log: the journal takes no entries' "$tmp/journal" &&
		wait_until "$DEADLINE_S" grep -q '^<5>ready: ' "$tmp/journal" &&
		kill -TERM "$server_pid" && await_end "$server_pid" && forget "$server_pid" &&
		[ "$(tail -n 1 "$tmp/journal")" = '<5>kvd stopped' ] &&
		! grep -v '^<[3-7]>[^<]' "$tmp/journal" &&
		[ "$(grep -c 'the journal takes no entries' "$tmp/journal")" = 1 ]
}

# As a service does that starts kvd with a pipe, and keeps the journal itself.
not_the_journal() {
	: >"$tmp/journal"
	JOURNAL_STREAM=$(stat -c %d:%i "$tmp/kvd.ini") "$build/kvd" -c "$tmp/kvd.ini" \
		-o log.file= 2>>"$tmp/journal" &
	server_pid=$!
	pids+=("$server_pid")
	wait_until "$DEADLINE_S" grep -q '^2[^<]*Z notice ready: ' "$tmp/journal" &&
		kill -TERM "$server_pid" && await_end "$server_pid" && forget "$server_pid"
}

check "lines of a server are JSON" json_start
check "they are text after a reload" text_again
check "the server stops" server_stop
check "lines of a server are JSON" json_start
check "so is the report of its crash" json_dies
sed -i '/^format = json/d' "$tmp/kvd.ini"
# tests/deb_service.sh looks into a journal.
[ -S /run/systemd/journal/socket ] ||
	check "stderr gets priorities and no times where the journal takes nothing" journal_shows
check "stderr that is not the journal gets lines with times" not_the_journal
finish
