#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of passwords of users.file in memcached's protocol: what a client may say before it
# has authenticated, how it does, and as whom it goes on; that one which guesses keeps nobody else
# waiting; and what SIGHUP changes beside connections that are open.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

[ "$device" = softnic ] || {
	echo "no device is below memcached's protocol: softnic shows all of it"
	exit 77
}
PORT=$((20000 + $$ % 10000))
USERS=$tmp/users
export PORT USERS
config_write "$url, memcached://127.0.0.1:$PORT"

auth() {
	KVD_PID=$server_pid python3 tests/system/memcached_auth.py "$@"
}

# password: its hash, as an administrator makes it
hash_of() {
	openssl passwd -6 -stdin <<<"$1"
}

# By yescrypt, which openssl does not have: "password".
# shellcheck disable=SC2016 # no variables
yescrypt='$y$j75$HLWUkhBa1UStXuYKVZVY2.$6n8AgVbdhq6CRqN6H1iHQvy8wqVb6r8TTlkBetLHGQ1'
open=$(hash_of open) room=$(hash_of room)

# file: the users, as $rights, $writer, $memory and $without say
users_write() {
	local name
	rm -f "$1"
	(umask 077 && : >"$1") && for name in ops writer reader lodger twice '*'; do
		[ "$name" != "${without:-}" ] || continue
		echo "[user $name]"
		case $name in
		ops) printf 'uid = %s\nrights = all\n' "$(id -u)" ;;
		writer)
			printf 'password = %s\nrights = %s\n' "${writer:-$open}" \
				"${rights:-read write}"
			echo 'write_prefixes = app:'
			;;
		reader) printf 'password = %s\nrights = read stats\n' "$yescrypt" ;;
		lodger)
			printf 'password = %s\nrights = all\nmemory = %s\n' "$room" \
				"${memory:-16m}"
			;;
		twice) printf 'password = %s\nrights = read\nconnections = 2\n' "$open" ;;
		'*') echo 'rights = all' ;;
		esac
	done >>"$1"
}

# text, mode: kvd does not start, and says why; and not what the password is
does_not_start() {
	timeout "$DEADLINE_S" "$build/kvd" -c "$tmp/kvd.ini" --check-config -o log.file= \
		-o "users.file=$tmp/bad" >"$tmp/out" 2>&1 && return 1
	cat "$tmp/out"
	grep -q -- "$1" "$tmp/out" && ! grep -q 'sesame' "$tmp/out"
}

clear_text() {
	printf '[user a]\nrights = all\npassword = %s\n' "$1" >"$tmp/bad"
	does_not_start 'line 3: password'
}

readable() {
	users_write "$tmp/bad" && chmod 640 "$tmp/bad" &&
		"$build/kvd" -c "$tmp/kvd.ini" --check-config -o "users.file=$tmp/bad" \
			-o tenants.memory=64m &&
		chmod 644 "$tmp/bad" &&
		does_not_start 'it has passwords, and other users may read it: `chmod 600` it'
}

mkfifo "$tmp/in" && exec {in}<>"$tmp/in"

# function, text, command...: runs the function, from its line "connected" to that text with the
# thread stopped that checks passwords, and then the command
beside_checks() {
	local function=$1 text=$2 client
	shift 2
	: >"$tmp/beside"
	auth "$function" <"$tmp/in" >>"$tmp/beside" 2>&1 &
	client=$!
	pids+=("$client")
	await_line "$tmp/beside" '^connected' "$client" && freeze passwords && echo >&"$in" &&
		await_line "$tmp/beside" "^$text" "$client" && "$@" && thaw && echo >&"$in" &&
		await_end "$client" && forget "$client" && [ "$status" = 0 ] && return 0
	cat "$tmp/beside"
	return 1
}

# The control thread does not wait for a check either.
control_answers() {
	expect 0 '' put key value && expect 0 'user=.unauthenticated.' clients
}

revoked() {
	: >"$tmp/stays"
	auth stays >>"$tmp/stays" 2>&1 &
	local stays=$!
	pids+=("$stays")
	await_line "$tmp/stays" '^waits' "$stays" && expect 0 '' revoke user=reader &&
		expect 0 '' revoke 'user=(unauthenticated)' && await_end "$stays" &&
		forget "$stays" && [ "$status" = 0 ]
}

# Passwords are in no log, and unknown names neither: some type their password there.
nothing_is_told() {
	in_log 'warn memcached: connection of 127.0.0.1:[0-9]*: wrong password of ' &&
		! grep -E 'opeN|openx|nobody|oops' "$log"
}

stops_with_logins() {
	: >"$tmp/stays"
	auth stays >>"$tmp/stays" 2>&1 &
	local stays=$!
	pids+=("$stays")
	await_line "$tmp/stays" '^waits' "$stays" && server_stop && await_end "$stays" &&
		forget "$stays" && [ "$status" = 0 ]
}

check "a clear-text password is refused" clear_text sesame
check "and so are its words" clear_text "$open sesame"
check "a file with passwords that others may read is refused" readable

check "the server starts without users" server_start || finish
check "a set is a set" auth a_set_is_a_set
check "the server stops" server_stop
printf '[user *]\nrights = all\n' >"$USERS"
check "the server starts without passwords" server_start -o "users.file=$USERS" || finish
check "a set is a set" auth a_set_is_a_set
check "the server stops" server_stop

users_write "$USERS"
cp "$tmp/kvd.ini" "$tmp/kvd.ini.no_users"
printf '[users]\nfile = %s\n' "$USERS" >>"$tmp/kvd.ini"
cp "$tmp/kvd.ini" "$tmp/kvd.ini.users"
check "the server starts with passwords" server_start -o tenants.memory=64m || finish
check "a login" auth statistics 1 0
check "what is refused before it" auth unauthenticated
check "logins that are none" auth malformed
check "lines and logins that are too long" auth too_long
check "wrong passwords, then the right one" auth wrong_then_right
check "a login in pieces" auth in_pieces
check "a login with commands after it" auth pipelined
check "what users may do" auth rights
check "tenants of users" auth tenants
check "connections of a user" auth connections
check "guesses hold nobody up" beside_checks others_go_on 'all went on' control_answers
check "clients can be revoked" revoked
check "the log" nothing_is_told

rights=read users_write "$tmp/new"
check "a right is taken away" auth right_is_lost "$tmp/new"
users_write "$tmp/new"
check "the same passwords again" auth closes "$tmp/new"
writer=$(hash_of other) users_write "$tmp/new"
check "another password" auth closes "$tmp/new" writer
users_write "$tmp/new"
check "the former one" reloaded '\[users\]: 6 users' "$(cp "$tmp/new" "$USERS")"
without=lodger users_write "$tmp/new"
check "a user less" auth closes "$tmp/new" lodger
printf '[user *]\nrights = all\n' >"$tmp/new"
check "no passwords any more" auth no_passwords "$tmp/new"
users_write "$tmp/new"
check "passwords again" auth passwords_again "$tmp/new"
cp "$tmp/kvd.ini.no_users" "$tmp/kvd.ini"
check "no file of users any more" auth no_passwords
cp "$tmp/kvd.ini.users" "$tmp/kvd.ini"
check "the file again" auth passwords_again
memory=32m users_write "$tmp/new"
check "a tenant of another size" auth resized "$tmp/new"
check "it was resized" logged 'tenant lodger: resized'
case $build in
*san) ;; # the memory of sanitizers has more than can be read
*)
	memory=32m writer=$(hash_of C0rundum-and-beryl) users_write "$tmp/new"
	check "passwords are forgotten" auth forgets "$tmp/new"
	users_write "$USERS"
	;;
esac
check "the server stops beside logins" stops_with_logins

check "the server starts with a short time to authenticate" server_start \
	-o tenants.memory=64m -o server.handshake_timeout=1s || finish
check "clients that do not are closed" auth timeout
check "they are counted" stat_above connections_expired 2
check "the server stops" server_stop

check "the server starts for clients that are not idle" server_start \
	-o tenants.memory=64m -o memcached.idle_timeout=1s || finish
check "those that wait for it are not" beside_checks idle 'idle ones were closed' :
check "the server stops" server_stop
finish
