#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of the sockets at which clients of memcached's protocol connect, of TCP and of Unix:
# what happens to the file of a Unix socket when servers start, die, stop and meet, and what
# --check-config says of it; that the uid of a client is known, so that it is shown, may be revoked,
# and decides which user of users.file it is; how connections are refused and closed.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

if [ "$device" != softnic ]; then
	echo "no device is used for this: set KVD_TEST_DEVICE=softnic"
	exit 77
fi
[ "$(id -u)" = 0 ] || {
	echo "this test takes the place of other users: run it as root"
	exit 77
}

LOADER=61001
READER=61002
STRANGER=61003
folder=$tmp/run # kvd makes it
socket=$folder/mc.sock
tcp=127.0.0.1:$((20000 + $$ % 10000)) # below those of clients
chmod 711 "$tmp" # other users get to the socket

config_write "$url,memcached://$tcp,memcached://$socket"

mc_client=(/usr/bin/python3 tests/system/memcached_client.py)
mc() {
	"${mc_client[@]}" "$@"
}

# address, lines as a pattern, text...: the server answers so
answers() {
	local address=$1 want=$2 said
	shift 2
	said=$(mc say "$address" "$@" 2>&1)
	[[ $said =~ $want ]] && return 0
	echo "the answers to '$*' at $address are not like '$want': ${said:0:300}"
	return 1
}

# uid, as answers: the Unix socket answers that user
tells() {
	local uid=$1
	shift
	MC_UID=$uid answers "$socket" "$@"
}

# count, [uid]: opens connections in the background: $holder
holder=
holds() {
	: >"$tmp/holder"
	MC_UID=${2:-} "${mc_client[@]}" hold "$socket" "$1" >>"$tmp/holder" 2>&1 &
	holder=$!
	pids+=("$holder")
	await_line "$tmp/holder" "^holding $1\$" "$holder"
}

# All connections of the holder are closed, the last of which has that number.
holder_ends() { # count
	await_end "$holder" && forget "$holder" && [ "$status" = 0 ] &&
		says "$tmp/holder" "^closed $1\$" && return 0
	cat "$tmp/holder"
	return 1
}

holder_is_killed() {
	kill -KILL "$holder" && await_end "$holder" && forget "$holder"
}

number_of_file() {
	stat -c %i "$socket"
}

listens() {
	logged "listening on memcached://$tcp\$" && logged "listening on memcached://$socket\$"
}

both_serve() {
	answers "$socket" '^STORED$' 'set unix 0 0 1\r\n1' &&
		answers "$tcp" $'^STORED\nVALUE unix 0 1\n1\nEND$' 'set tcp 0 0 1\r\n2' \
			'get unix' &&
		answers "$socket" $'^VALUE tcp 0 1\n2\nEND$' 'get tcp' && expect 0 '^1$' get unix
}

# The socket has softnic.socket_mode, and the folder is for all who may connect.
permissions() {
	[ "$(stat -c '%a %F' "$socket")" = '600 socket' ] &&
		[ "$(stat -c %a "$folder")" = 755 ] &&
		MC_UID=$STRANGER answers "$socket" 'Permission denied' version
}

# text, URLs, [-o ...]: kvd does not start, and says why
does_not_start() {
	local text=$1 urls=$2 got
	shift 2
	timeout "$DEADLINE_S" "$build/kvd" -c "$tmp/kvd.ini" -o log.file= -o server.listen="$urls" \
		"$@" >"$tmp/out" 2>&1
	got=$?
	[[ $got == 1 || $got == 78 ]] && grep -qF -- "$text" "$tmp/out" && return 0
	echo "status $got" && cat "$tmp/out"
	return 1
}

# status, text, URLs: what --check-config says of them, which is all of its errors and warnings
check_says() {
	local said got
	said=$("$build/kvd" -c "$tmp/kvd.ini" --check-config -o log.file= \
		-o server.listen="$3" 2>&1)
	got=$?
	[ "$got" = "$1" ] && [[ $said == *"$2"* ]] &&
		[ "$(grep -c ' error \| warn ' <<<"$said")" = 1 ] && return 0
	echo "status $got, and: $said"
	return 1
}

second_is_refused() {
	local before
	before=$(number_of_file)
	does_not_start "server.listen = memcached://$socket is in use: stop the program that \
listens there, or set another path" "softnic://$tmp/s2,memcached://$socket" &&
		[ ! -e "$tmp/s2" ] && [ "$(number_of_file)" = "$before" ] && both_serve
}

checked() {
	local nobody
	check_says 0 "memcached://$socket is in use: while that program runs, kvd can't start" \
		"memcached://$socket" || return 1
	: >"$tmp/file"
	check_says 78 "memcached://$tmp/file: a file that is not a socket is there: remove it" \
		"memcached://$tmp/file" &&
		check_says 78 "memcached://$tmp/no/x/s: the parent directory does not exist" \
			"memcached://$tmp/no/x/s" && [ ! -e "$tmp/no" ] &&
		does_not_start "memcached://$tmp/no/x/s: the parent directory does not exist" \
			"softnic://$tmp/s2,memcached://$tmp/no/x/s" || return 1
	"$build/kvd" -c "$tmp/kvd.ini" --check-config -o log.file= \
		-o server.listen="softnic://$tmp/s2,memcached://$tmp/new/s" >"$tmp/out" 2>&1 ||
		return 1
	[ ! -e "$tmp/new" ] && [ -f "$tmp/file" ] || return 1
	# Another user may not make the socket in this folder.
	cp "$build/kvd" "$tmp/kvd"
	nobody=$(setpriv --reuid=$STRANGER --regid=$STRANGER --clear-groups "$tmp/kvd" \
		--check-config -o memory.size=32m \
		-o server.listen="softnic:///tmp/kvd-none/s,memcached://$tmp/s3" 2>&1)
	[[ $nobody == *"memcached://$tmp/s3: this user may not create it (Permission denied)"* ]] ||
		{ echo "$nobody" && return 1; }
}

# kvctl shows who is connected.
are_shown() {
	holds 2 && [ "$(kvctl clients |
		grep -c "device=memcached addr=pid:$holder uid=$(id -u) worker=")" = 2 ] &&
		answers "$socket" 'STAT [0-9]+:addr unix:pid:[0-9]+' 'stats conns' &&
		answers "$tcp" 'STAT [0-9]+:addr tcp:127\.0\.0\.1:[0-9]+' 'stats conns'
}

# One by its number, the other one by another way.
are_killed() {
	local id
	id=$(kvctl clients | sed -n "s/^id=\([0-9]*\) .*addr=pid:$holder .*/\1/p" | head -n 1)
	expect 0 '' kill "$id" && await_line "$tmp/holder" '^closed 1$' "$holder" &&
		wait_until "$DEADLINE_S" stat_is connections 2 && expect 1 '' kill "$id" &&
		expect 0 '' revoke "addr=pid:$holder" && holder_ends 2 &&
		stat_is connections_revoked 1
}

# The value does not come whole: it is not stored, and nothing is left.
half_a_value() {
	local large
	large=$(printf '%0100000d' 0)
	answers "$socket" '^STORED$' 'set half 0 0 1\r\nx' &&
		mc cut "$socket" 'set half 0 0 10\r\nabc' &&
		mc cut "$socket" "set half 0 0 500000\r\n$large" &&
		mc cut "$socket" 'set half 0 0 1' &&
		wait_until "$DEADLINE_S" stat_is connections 1 &&
		answers "$socket" $'^VALUE half 0 1\nx\nEND$' 'get half'
}

# The client does not wait for answers: what it has sent is executed all the same.
whole_commands() {
	after_is_there() { answers "$socket" $'^VALUE after 0 1\ny\nEND$' 'get after'; }
	mc cut "$socket" 'set before 0 0 1 noreply\r\nx' 'flush_all noreply' \
		'set after 0 0 1 noreply\r\ny' '' &&
		wait_until "$DEADLINE_S" after_is_there && answers "$socket" '^END$' 'get before'
}

is_idle() {
	server_start -o memcached.idle_timeout=1s && holds 3 && holder_ends 3 &&
		answers "$socket" 'STAT idle_kicks 3' stats && server_stop
}

# The third has no place, but for kvctl's connection, which is one of an administrator.
too_many() {
	server_start -o server.max_connections=2 && holds 2 || return 1
	[ "$(mc read "$socket")" = 'ERROR Too many open connections' ] &&
		[ "$(mc read "$tcp")" = 'ERROR Too many open connections' ] &&
		stat_is connections_rejected 2 && holder_is_killed &&
		wait_until "$DEADLINE_S" answers "$socket" '^VERSION ' version && server_stop
}

# Connections that were closed before the server took them have no place, nor are they refused one.
closed_at_once() {
	local i failed=0
	server_start -o server.max_connections=2 && kill -STOP "$server_pid" || return 1
	for ((i = 0; i < 3; i++)); do
		mc cut "$tcp" && mc cut "$socket" || failed=1
	done
	kill -CONT "$server_pid" && answers "$socket" '^VERSION ' version &&
		stat_is connections_rejected 0 && server_stop && return $failed
}

# The server removes what it made: the socket, and the folder.
nothing_is_left() {
	server_stop && [ ! -e "$folder" ]
}

# The server that died had made it.
folder_is_left() {
	server_stop && [ ! -e "$socket" ] && rmdir "$folder"
}

stale_is_replaced() {
	server_kill && [ -S "$socket" ] && ! mc say "$socket" version >"$tmp/out" 2>&1 &&
		grep -q refused "$tmp/out" && server_start &&
		logged "notice memcached: replacing $socket, which a dead server left" && both_serve
}

# A file of another process is left where it is.
other_is_left() {
	local other
	rm "$socket"
	"${mc_client[@]}" listen "$socket" >"$tmp/other" 2>&1 &
	other=$!
	pids+=("$other")
	await_line "$tmp/other" '^listening' "$other" && server_stop && [ -S "$socket" ] &&
		does_not_start "memcached://$socket is in use" "$url,memcached://$socket" &&
		kill "$other" && await_end "$other" && forget "$other" && rm -r "$folder"
}

# A file that is not a socket, which a mistake in the URL may name.
file_is_kept() {
	echo precious >"$tmp/file"
	does_not_start "memcached://$tmp/file: a file that is not a socket is there: remove it, or \
set another path" "$url,memcached://$tmp/file" && [ "$(cat "$tmp/file")" = precious ]
}

users_write() {
	cat >"$tmp/users" <<-END
		[user ops]
		uid = 0
		rights = all
		[user loader]
		uid = $LOADER
		rights = write delete
		write_prefixes = app:
		[user reader]
		uid = $READER
		rights = read
		read_prefixes = pub:
		requests = ${1:-1000}
		connections = 1
	END
}

ops_may() {
	tells 0 $'^STORED\nSTORED\nVALUE pub:a 0 1\n1\nEND$' 'set pub:a 0 0 1\r\n1' \
		'set other 0 0 1\r\n2' 'get pub:a' && tells 0 'STAT pid ' stats
}

loader_may() {
	tells $LOADER $'^STORED\n6\nTOUCHED\nDELETED\nSTORED$' 'set app:x 0 0 1\r\n5' \
		'incr app:x 1' 'touch app:x 1000' 'delete app:x' 'set app:y 0 0 1\r\n7'
}

# Each refused command has its line, and the data block of a refused one is no command.
loader_may_not() {
	local key='CLIENT_ERROR user loader may not change this key[^'$'\n'']*'$'\n'
	local right='CLIENT_ERROR user loader has no right [^'$'\n'']*'$'\n'
	tells $LOADER "^$key$key$key${key}STORED\$" 'set pub:a 0 0 7\r\nget tcp' 'delete other' \
		'incr pub:a 1' 'touch other 1' 'set app:y 0 0 1\r\n7' &&
		tells $LOADER "^$right$right${right}VERSION " 'get app:y' flush_all stats version &&
		tells $LOADER '^STORED$' 'set pub:a 0 0 1 noreply\r\n9' 'delete other noreply' \
			'set app:y 0 0 1\r\n8' &&
		tells 0 $'^VALUE pub:a 0 1\n1\nVALUE other 0 1\n2\nEND$' 'get pub:a other'
}

reader_may() {
	local key="CLIENT_ERROR user reader may not read this key: [^"$'\n'"]*"
	tells $READER $'^VALUE pub:a 0 1\n1\nEND$' 'get pub:a' &&
		tells $READER "^$key"$'\n'"CLIENT_ERROR user reader has no right" 'get app:y' \
			'set pub:a 0 0 1\r\n9' &&
		tells 0 $'^VALUE pub:a 0 1\n1\nEND$' 'get pub:a'
}

stranger_is_refused() {
	local before
	before=$(stat_of connections_not_allowed)
	[ "$(MC_UID=$STRANGER mc read "$socket")" = \
		"SERVER_ERROR users.file has no user for uid=$STRANGER" ] &&
		stat_is connections_not_allowed $((before + 1)) &&
		[ "$(mc read "$tcp")" = 'SERVER_ERROR users.file has no user for addr=127.0.0.1' ]
}

# By the number of connections, and by their user.
reader_is_revoked() {
	holds 1 $READER && [ "$(MC_UID=$READER mc read "$socket")" = \
		'SERVER_ERROR user=reader is at its limit of connections (1)' ] &&
		stat_is connections_over_limit 1 &&
		expect 0 "addr=pid:$holder uid=$READER user=reader worker=" clients &&
		expect 1 'not found' revoke uid=$STRANGER && ! says "$tmp/holder" '^closed' &&
		expect 0 '' revoke uid=$READER && holder_ends 1 && stat_is connections_revoked 1
}

# The burst is executed, and then nothing, which changes no other user's limit.
reader_is_limited() {
	local said gets=() i
	users_write 5 && reloaded '\[users\]: 3 users' || return 1
	for ((i = 0; i < 100; i++)); do gets+=('get pub:a'); done
	said=$(MC_UID=$READER mc say "$socket" "${gets[@]}")
	[[ $said == $'VALUE pub:a 0 1\n1\nEND\n'* ]] &&
		[[ $said == *'SERVER_ERROR beyond a limit of the user (users.file)'* ]] && ops_may
}

# A user who is taken out of the file loses the connection.
reader_is_withdrawn() {
	holds 1 $READER && sed -i '/user reader/,$d' "$tmp/users" &&
		reloaded '\[users\]: 2 users' && holder_ends 1 &&
		stat_is connections_withdrawn 1
}

# A Unix socket tells who a client is; TCP does not.
identity_is_required() {
	does_not_start 'users.require_identity = yes: clients of memcached://HOST:PORT have no' \
		"$url,memcached://$socket,memcached://$tcp" -o users.require_identity=yes &&
		server_start -o server.listen="$url,memcached://$socket" \
			-o users.require_identity=yes &&
		answers "$socket" '^VERSION ' version && server_stop
}

check "the server starts" server_start || finish
check "its sockets are in the log" listens
check "both kinds serve" both_serve
check "the socket's permissions" permissions
check "a second server is refused" second_is_refused
check "--check-config says what is wrong, and changes nothing" checked
check "kvctl shows who is connected" are_shown
check "kill and revoke close connections" are_killed
check "clients that end within a value" half_a_value
check "a client that ends without waiting" whole_commands
check "a stopping server removes its socket" nothing_is_left
check "the server starts" server_start || finish
check "a socket that a dead server left is replaced" stale_is_replaced
check "the server stops, and leaves the other one's folder" folder_is_left
check "idle connections are closed" is_idle
check "no more connections than server.max_connections" too_many
check "connections that were closed at once take no place" closed_at_once
check "the server starts" server_start || finish
check "another process's socket is left" other_is_left
check "a file that is not a socket is kept" file_is_kept
check "who must be known" identity_is_required

users_write
check "the server starts with users" server_start -o "users.file=$tmp/users" \
	-o softnic.socket_mode=0666 || finish
check "what ops may" ops_may
check "what loader may" loader_may
check "what loader may not" loader_may_not
check "what reader may" reader_may
check "an unknown user is refused" stranger_is_refused
check "reader's connections are limited, and revoked" reader_is_revoked
check "reader's requests are limited" reader_is_limited
check "reader is taken out of the file" reader_is_withdrawn
check "the server stops" nothing_is_left
finish
