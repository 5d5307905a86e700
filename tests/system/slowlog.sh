#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of what a server shows of the requests that it has executed: the slow log, on which
# SIGHUP switches the limit; a stream of all of them; who may see them, and the keys in them; and of
# the archive for reports of bugs, which has no keys. A limit of 1 ns makes each request slow.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

port=$((20000 + $$ % 10000))
config_write "$url, memcached://127.0.0.1:$port"
sed -i 's/^\[log\]$/&\nslow = 1ns/' "$tmp/kvd.ini"

# A line for each kind: a request of one message, one in pieces, one that is pulled, and that of a
# memcached client which has closed its connection since.
executes() {
	kvctl put 'my key' value && kvctl get -r 'my key' && kvctl incr -i 5 number &&
		! kvctl del nokey && kvctl scan >/dev/null &&
		head -c 100000 /dev/zero | kvctl put large && memcached_says
}
memcached_says() {
	local socket line
	exec {socket}<>"/dev/tcp/127.0.0.1/$port" &&
		printf 'set from_memcached 0 0 3\r\nabc\r\nquit\r\n' >&"$socket" &&
		read -rt "$DEADLINE_S" -u "$socket" line && [[ $line == STORED* ]]
	exec {socket}>&-
}
# pattern: the slow log has a line that matches
has() {
	local text
	text=$(kvctl slowlog) && grep -Eq "$1" <<<"$text" && return 0
	echo "no line like '$1' in: $text"
	return 1
}
notes() {
	has "number=1 time=[-0-9]*T[:0-9.]*Z took_us=[0-9]+ op=PUT status=OK value_bytes=5 \
worker=0 id=[0-9]+ way=[a-z+]+ addr=[^ ]+ tenant=default key_bytes=6 key=my%20key\$" &&
		has 'op=GET status=OK value_bytes=5 .* key=my%20key$' &&
		has 'op=ARITH status=OK .* key=number$' &&
		has 'op=DELETE status=NOT_FOUND .* key=nokey$' && has 'op=SCAN ' &&
		has 'op=PUT status=OK value_bytes=100000 .* key=large$' &&
		has 'op=PUT .* way=memcached addr=127.0.0.1:[0-9]+ .* key=from_memcached$'
}
newest_first() {
	local numbers
	numbers=$(kvctl slowlog | sed 's/^number=\([0-9]*\) .*/\1/') &&
		[ "$numbers" = "$(sort -rn <<<"$numbers")" ] &&
		[ "$(kvctl slowlog -c 1 --json | grep -c '^{"number": [0-9]*, "time": "')" = 1 ]
}
is_logged() {
	grep -q 'slow: PUT, with a key of 6 bytes and a value of 5, of .* took [0-9]* us' "$log" &&
		! grep -q 'my key\|nokey\|from_memcached' "$log"
}
switches_off() {
	sed -i 's/^slow = .*/slow = 0/' "$tmp/kvd.ini" && kill -HUP "$server_pid" &&
		wait_until "$DEADLINE_S" grep -q 'log.slow is now 0, it was 1ns' "$log" &&
		kvctl slowlog reset && kvctl put unnoticed x && [ -z "$(kvctl slowlog)" ]
}

# A PUT, until the monitor has seen enough: it begins some time after it was started.
puts_more() {
	ended "$monitor" || { kvctl put "seen $((n += 1))" x && kvctl put other x && false; }
}
# argument...: what kvctl monitor says
watches() {
	kvctl monitor "$@" >"$tmp/monitor" &
	monitor=$! n=0
	pids+=("$monitor")
	wait_until "$DEADLINE_S" puts_more && await_end "$monitor" && forget "$monitor" &&
		[ "$status" = 0 ]
}
lines_are() {
	[ "$(grep -Ec "$1" "$tmp/monitor")" = "$2" ] && return 0
	cat "$tmp/monitor"
	return 1
}
monitors() {
	watches -c 4 &&
		lines_are '^number=[0-9]+ time=.* op=PUT .* value_bytes=1 .*key=(seen|other)' 4
}
monitors_some() {
	watches -c 2 --json --match 'seen [0-9]*' --sample 1/3 &&
		lines_are '^{"number": .*"op": "PUT", .*"key": "seen%20' 2 &&
		lines_are other 0
}

check "a server starts" server_start -o server.workers=1 || finish
check "it executes requests" executes
check "each is in the slow log" notes
check "the newest one first" newest_first
check "and counted" eval '[ "$(stat_of slow_requests)" -ge 7 ]'
check "the log has a line for some, without keys" is_logged
check "the slow log is switched off, and emptied" switches_off
check "a monitor shows what is executed" monitors
check "with a pattern, and of a sample, as JSON" monitors_some
check "it ends" server_stop

# What a user may not GET it does not see here.
as() {
	printf '%s\n' '[user me]' "uid = $(id -u)" "rights = $1" >"$tmp/users.new" &&
		mv "$tmp/users.new" "$tmp/users" && kill -HUP "$server_pid" &&
		wait_until "$DEADLINE_S" may "${1// /,}"
}
may() {
	[[ $(kvctl whoami) == *$'\n'"rights $1"$'\n'* ]]
}
logs_in() {
	local socket line
	exec {socket}<>"/dev/tcp/127.0.0.1/$port" &&
		printf '%s\r\n' 'set x 0 0 18' 'cache the password' 'set from_cache 0 0 5' value \
			>&"$socket" &&
		read -rt "$DEADLINE_S" -u "$socket" line && [[ $line == STORED* ]] &&
		read -rt "$DEADLINE_S" -u "$socket" line && [[ $line == STORED* ]]
	exec {socket}>&-
}
dumps() {
	expect 0 "^$tmp/debug.tar.gz\$" debug dump -o "$tmp/debug.tar.gz" &&
		[ "$(stat -c %a "$tmp/debug.tar.gz")" = 600 ] && mkdir "$tmp/debug" &&
		tar xzf "$tmp/debug.tar.gz" -C "$tmp/debug" --strip-components 1 &&
		kvctl debug dump -o - | tar tzf - | grep -q '^kvd-debug-[0-9]*T[0-9]*Z/slowlog$'
}
# file, pattern
contains() {
	grep -Eq "$2" "$tmp/debug/$1" && return 0
	echo "$1 has no line like '$2'"
	return 1
}
has_all() {
	contains client '^kernel Linux ' && contains client "^server $url" &&
		contains config '^log[.]slow = 1ns$' &&
		contains process "^kernel $(uname -r)" && contains process ' r-xp /.*/kvd$' &&
		contains process ' /.*/libibverbs\.so' && contains log ' notice ready: ' &&
		contains stats '^version ' && contains clients '^id=.* user=me ' &&
		contains slowlog '^number=[0-9]* .* op=PUT .* key_bytes=6$' &&
		contains doctor '^The server ' && [ ! -e "$tmp/debug/errors" ]
}
has_no_secret() {
	! grep -rE 'hidden|secret value|from_cache|the password|[$]6[$]| key=' "$tmp/debug"
}
if [ "$device" = softnic ]; then
	hash=$(openssl passwd -6 -stdin <<<'the password')
	(umask 077 && printf '%s\n' '[user me]' "uid = $(id -u)" 'rights = all' '[user cache]' \
		"password = $hash" 'rights = write' >"$tmp/users")
	printf '[users]\nfile = %s\n' "$tmp/users" >>"$tmp/kvd.ini"
	sed -i 's/^slow = 0/slow = 1ns/' "$tmp/kvd.ini"
	check "a server with users starts" server_start
	check "it executes a request" kvctl put hidden "secret value"
	check "shows its key to one that may read" has 'user=me .*key=hidden$'
	check "a client gives a password" logs_in
	check "an archive for a report of a bug" dumps
	check "has all that it should have" has_all
	check "without keys, values and passwords" has_no_secret
	check "it replaces no file" expect 74 'debug.tar.gz: can.t create it: File exists' \
		debug dump -o "$tmp/debug.tar.gz"
	check "an administrator that may not read" eval 'kvctl put hidden x && as "scan admin"'
	check "sees no key" has 'op=PUT .*user=me .*key_bytes=6$'
	check "a user that is no administrator" as 'read stats'
	check "sees nothing" expect 77 "has no right 'admin'" slowlog
	check "and empties nothing" expect 77 "has no right 'admin'" slowlog reset
	check "and has no archive" expect 77 "has no right 'admin'" debug dump -o "$tmp/denied"
	check "which is not there" [ ! -e "$tmp/denied" ]
	check "and watches nothing" expect 77 "has no right 'admin'" monitor
fi
finish
