#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of users.file: who may connect, what each user may do and what the others get as text
# and status; limits of a user, beside others who notice nothing; memory of its own; and that SIGHUP
# changes all of it beside connections that are open. On softnic users are recognised by their uid,
# on an RDMA device by their key over rdma+tls://, and by where they are over rdma://.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

names=(ops loader reader picker noisy stranger)

if [ "$device" = softnic ]; then
	[ "$(id -u)" = 0 ] || {
		echo "this test takes the place of other users: run it as root"
		exit 77
	}
	# Other users get to the socket and to the programs by this folder.
	chmod 711 "$tmp"
	cp "$build/kvctl" "$build/tests/system/sys_client" "$tmp/"
	setpriv --reuid=61001 --regid=61001 --clear-groups "$tmp/kvctl" -V >/dev/null 2>&1 || {
		echo "other users can't run programs in $tmp"
		exit 77
	}
else
	way=rdma+tls
	url=rdma+tls://$KVD_RDMA_ADDR:$port
	number=0
	for name in "${names[@]}"; do
		number=$((number + 1))
		(umask 077 &&
			echo "$name:${number}00102030405060708090a0b0c0d0e0f" >"$tmp/key.$name")
	done
	(umask 077 && cat "$tmp"/key.* >"$tmp/psk")
	export KVD_TLS_PSK=$tmp/psk
	config_write
	export KVD_TLS_PSK=$tmp/key.ops
fi

# name: its number on softnic
uid_of() {
	local i
	[ "$1" != ops ] || { echo 0 && return; }
	for i in "${!names[@]}"; do
		[ "${names[i]}" != "$1" ] || echo $((61000 + i))
	done
}

# name: what that user is recognised by
who() {
	if [ "$device" = softnic ]; then
		echo "uid = $(uid_of "$1")"
	else
		echo "identity = psk:$1"
	fi
}

# name, command...: runs it as that user
as() {
	local name=$1 uid
	shift
	if [ "$device" = softnic ]; then
		uid=$(uid_of "$name")
		setpriv --reuid="$uid" --regid="$uid" --clear-groups "$@"
	else
		KVD_TLS_PSK=$tmp/key.$name "$@"
	fi
}

# name, status, pattern, arguments...: as expect, but by that user
gets() {
	local name=$1 want=$2 pattern=$3 said got program=$build/kvctl
	shift 3
	[ "$device" != softnic ] || program=$tmp/kvctl
	said=$(as "$name" "$program" -a "$url" -t "$CALL_TIMEOUT_MS" "$@" 2>&1)
	got=$?
	[ "$got" = "$want" ] && [[ $said =~ $pattern ]] && return 0
	echo "kvctl $* of $name: status $got, not $want, or not like '$pattern': ${said:0:300}"
	return 1
}

# variable, name, file, arguments...: starts a sys_client of that user
client_of() {
	local -n of_started=$1
	local name=$2 out=$3 program=$build/tests/system/sys_client uid
	shift 3
	: >"$out"
	if [ "$device" = softnic ]; then
		uid=$(uid_of "$name")
		setpriv --reuid="$uid" --regid="$uid" --clear-groups "$tmp/sys_client" "$@" \
			<"${input:-/dev/null}" >>"$out" 2>&1 &
	else
		KVD_TLS_PSK=$tmp/key.$name "$program" "$@" <"${input:-/dev/null}" >>"$out" 2>&1 &
	fi
	of_started=$!
	pids+=("$of_started")
}

# [rights of reader]: the users, but for those whose name is in $without
users_write() {
	local name
	: >"$tmp/users"
	for name in "${names[@]}"; do
		[[ " stranger ${without:-} " != *" $name "* ]] || continue
		printf '[user %s]\n%s\n' "$name" "$(who "$name")" >>"$tmp/users"
		case $name in
		ops) echo 'rights = all' ;;
		loader) printf '%s\n' 'rights = write delete' 'write_prefixes = app:' ;;
		reader) echo "rights = ${1:-read write scan}" ;;
		picker) printf '%s\n' 'rights = read scan' 'read_prefixes = pub: p%20q' ;;
		noisy)
			echo 'rights = read'
			printf '%s\n' 'requests = 5' 'bytes = 1k' 'connections = 2'
			;;
		esac >>"$tmp/users"
	done
}

not_allowed='user [a-z]+ (has no right .[a-z]+|may not (read|change) this key)'

# text, option...: kvd does not start, and says why; nor does --check-config pass
does_not_start() {
	local text=$1 mode
	shift
	for mode in '' --check-config; do
		timeout "$DEADLINE_S" "$build/kvd" -c "$tmp/kvd.ini" ${mode:+"$mode"} \
			-o log.file= "$@" >"$tmp/out" 2>&1 && return 1
		cat "$tmp/out"
		grep -q -- "$text" "$tmp/out" || return 1
	done
}

bad_file() {
	users_write && echo 'rights = everything' >>"$tmp/users" &&
		does_not_start "users.file = $tmp/users: line [0-9]*: 'everything' is no right" \
			-o "users.file=$tmp/users"
}

open_file() {
	users_write && chmod 666 "$tmp/users" &&
		does_not_start 'other users may write to it' -o "users.file=$tmp/users" &&
		chmod 644 "$tmp/users"
}

# Where clients are not asked who they are, that can't be required.
nobody_is_asked() {
	does_not_start 'users.require_identity = yes: clients of rdma:// and rdma+tcp:// have no' \
		-o users.require_identity=yes -o server.listen=rdma+tcp://,softnic://
}

all_of_ops() {
	gets ops 0 '^$' put app:x 1 && gets ops 0 '^$' put other 2 && gets ops 0 '^$' put pub:x 3 &&
		gets ops 0 '^1$' get app:x && gets ops 0 '^$' del other &&
		gets ops 0 ' user=ops ' clients && gets ops 0 'users 5' stats && gets ops 0 '' scan
}

what_loader_may() {
	gets loader 0 '^$' put app:y 5 && gets loader 0 '^6$' incr app:y &&
		gets loader 0 '^$' touch app:y 1000 && gets loader 0 '^$' del app:y &&
		gets loader 0 '' ping && gets ops 1 '' get app:y
}

what_loader_may_not() {
	local words
	for words in 'put pub:x 5' 'del pub:x' 'incr pub:x' 'touch pub:x 1' 'get app:x' \
		'-r get app:x' 'gat app:x 1' scan flush stats clients 'kill 1' 'revoke user=ops' \
		'tenant list' 'tenant create mine 16m' 'tenant drop loader'; do
		# shellcheck disable=SC2086 # words
		gets loader 77 "$not_allowed" $words || return 1
	done
	gets ops 0 '^3$' get pub:x
}

# By READs, which the server does not see: it knows of them from the client alone, when that ends.
reader_reads() {
	local gets reported
	gets=$(stat_of gets) && reported=$(stat_of gets_reported) &&
		gets reader 0 '^3$' get pub:x && gets reader 0 '^1$' get app:x &&
		wait_until "$DEADLINE_S" stat_is gets_reported $((reported + 2)) &&
		stat_is gets $((gets + 2)) && gets reader 77 "$not_allowed" del pub:x
}

# By requests.
picker_picks() {
	local before
	before=$(stat_of gets) && gets picker 0 '^3$' get pub:x && stat_is gets $((before + 1)) &&
		gets picker 1 '' get pub:none && gets ops 0 '' put 'p q' 9 &&
		gets picker 0 '^9$' get 'p q' && gets picker 77 "$not_allowed" get app:x &&
		gets picker 0 '^pub:x' scan pub: && gets picker 77 "$not_allowed" scan &&
		gets picker 77 "$not_allowed" scan pu && gets picker 77 "$not_allowed" -v scan app:
}

# file: the ranges, of one piece of the value, two and none, as reader READs and picker gets them
ranges_are_of() {
	local name range
	for name in reader picker; do
		for range in 0:1 65535:2 70000:100000 99999:1 100000:1; do
			as "$name" "${by[@]}" -a "$url" -t "$CALL_TIMEOUT_MS" \
				get --range "$range" pub:large >"$tmp/got" &&
				tail -c +$((${range%:*} + 1)) "$1" | head -c "${range#*:}" |
				cmp - "$tmp/got" || return 1
		done
	done
}

# One is of READs and the other of requests; what may not be read may not be in part.
ranges_of_users() {
	local before reported by=("$build/kvctl")
	[ "$device" != softnic ] || by=("$tmp/kvctl")
	reported=$(stat_of gets_reported) && ranges_are_of "$tmp/large" &&
		wait_until "$DEADLINE_S" stat_is gets_reported $((reported + 5)) &&
		before=$(stat_of gets) && gets picker 0 '^3$' get --range 0:9 pub:x &&
		stat_is gets $((before + 1)) &&
		gets picker 1 '' get --range 0:1 pub:none &&
		gets picker 77 "$not_allowed" get --range 0:1 app:x &&
		gets picker 77 "$not_allowed" get --range 0:0 app:x &&
		gets loader 77 "$not_allowed" get --range 0:1 pub:large
}

# A value that does not fit a message comes in parts.
picker_gets_parts() {
	local before by=("$build/kvctl")
	[ "$device" != softnic ] || by=("$tmp/kvctl")
	head -c 100000 /dev/urandom >"$tmp/large"
	kvctl put pub:large <"$tmp/large" && before=$(stat_of requests) &&
		as picker "${by[@]}" -a "$url" -t "$CALL_TIMEOUT_MS" get pub:large >"$tmp/got" &&
		cmp "$tmp/large" "$tmp/got" && [ "$(stat_of requests)" -gt $((before + 40)) ] &&
		as reader "${by[@]}" -a "$url" get pub:large >"$tmp/got" &&
		cmp "$tmp/large" "$tmp/got"
}

stranger_is_refused() {
	local before seen='identity=psk:stranger'
	[ "$device" != softnic ] || seen="uid=$(uid_of stranger)"
	before=$(stat_of connections_not_allowed) &&
		gets stranger 77 "users.file has no user for $seen" ping &&
		stat_is connections_not_allowed $((before + 1))
}

# The third connection of noisy has no place; that of another user has.
too_many_connections() {
	mkfifo "$tmp/fifo" && exec {held}<>"$tmp/fifo"
	input=$tmp/fifo client_of holder noisy "$tmp/holder" hold "$url" 2 &&
		await_line "$tmp/holder" '^holding 2' "$holder" &&
		gets noisy 75 'user=noisy is at its limit of connections' ping &&
		gets reader 0 '' ping && gets ops 0 'connections_over_limit 1' stats &&
		kill -KILL "$holder" && forget "$holder" &&
		wait_until "$DEADLINE_S" gets noisy 0 '' ping
}

# A burst passes; then it is over.
noisy_pings() {
	local program=$build/kvctl
	[ "$device" != softnic ] || program=$tmp/kvctl
	as noisy "$program" -a "$url" -c 1000 ping >"$tmp/pings" 2>&1
	[ $? = 75 ] && grep -q 'over its limit' "$tmp/pings"
}

# After the burst; tries that follow one another fast would never be admitted, since each is charged
# for its own welcome.
debt_is_made() {
	gets noisy 0 '' -r get pub:debt || { sleep 3 && false; }
}

# A value of 900 KB is paid for in a quarter of an hour, by all connections of the user. What it
# asks for in vain is of no other's share: none of theirs is refused.
over_the_limit() {
	local i
	head -c 900000 /dev/zero >"$tmp/debt" && kvctl put pub:debt <"$tmp/debt" &&
		wait_until "$DEADLINE_S" debt_is_made || return 1
	for i in {1..10}; do
		gets noisy 75 'over its limit' -r get pub:x && gets ops 0 '^3$' -r get pub:x &&
			gets picker 0 '^3$' get pub:x || return 1
	done
	[ "$(stat_of requests_over_limit)" -gt 10 ] && gets noisy 0 '^3$' get pub:x
}

# Connections and tenants are its matter now, also if it is not root and not on the Unix socket.
stop_is_for_administrators() {
	gets loader 77 "user loader has no right 'admin'" shutdown &&
		gets loader 0 'user loader.*rights [a-z,]*write' whoami
}

admin_of_the_server() {
	gets reader 0 'user reader.*rights read,.*admin.tenant' whoami &&
		gets reader 0 ' user=reader ' clients && gets reader 1 '' kill 999999 &&
		gets reader 1 '' revoke user=stranger && gets reader 0 'name=default' tenant list
}

reader_loops() {
	client_of looper reader "$tmp/looper" loop "$url" mix app:loop 100 1000 &&
		await_line "$tmp/looper" '^looping' "$looper"
}

loops_on() {
	: >"$tmp/looper" && kill -USR1 "$looper" && await_line "$tmp/looper" '^round' "$looper"
}

# The looper is still connected, and may not PUT any more.
looper_ends() { # text
	await_end "$looper"
	forget "$looper"
	grep "$1" "$tmp/looper" && return 0
	cat "$tmp/looper"
	return 1
}

# memory of loader, name...: users with memory of their own, those of the names with 16m, and ops
memory_write() {
	local name
	printf '[user ops]\n%s\nrights = all\n' "$(who ops)" >"$tmp/users"
	[ "$1" = none ] || printf '[user loader]\n%s\nrights = all\nmemory = %s\n' \
		"$(who loader)" "$1" >>"$tmp/users"
	shift
	for name in "$@"; do
		printf '[user %s]\n%s\nrights = all\nmemory = 16m\n' "$name" "$(who "$name")" \
			>>"$tmp/users"
	done
}

more_than_there_is() {
	memory_write 16m reader &&
		does_not_start 'need 32 MiB of memory, and tenants.memory is 16 MiB: raise that' \
			-o "users.file=$tmp/users" -o tenants.memory=16m
}

two_sizes() {
	memory_write 16m reader && echo 'tenant = loader' >>"$tmp/users" &&
		does_not_start "the tenant 'loader' has the memory of user 'loader', line" \
			-o "users.file=$tmp/users" -o tenants.memory=64m
}

# name, pattern: the tenant, as an administrator sees it
tenant_is() {
	expect 0 "name=$1 bytes=$2" tenant list
}

# name, statistic: as the user has it
stat_of_user() {
	local program=$build/kvctl
	[ "$device" != softnic ] || program=$tmp/kvctl
	as "$1" "$program" -a "$url" -t "$CALL_TIMEOUT_MS" stats | sed -n "s/^$2 //p"
}

# More than it has: its own items go, and nobody else's.
loader_fills() {
	local i
	gets reader 0 '^$' put key reader && gets ops 0 '^$' put key ops &&
		head -c 900000 /dev/zero >"$tmp/value" || return 1
	for i in {1..20}; do
		gets loader 0 '^$' put "fill-$i" <"$tmp/value" || return 1
	done
	[ "$(stat_of_user loader evictions)" -gt 0 ] &&
		[ "$(stat_of_user loader region_bytes)" = 16777216 ] &&
		[ "$(stat_of_user reader evictions)" = 0 ] && stat_is evictions 0 &&
		gets reader 0 '^reader$' get key && gets ops 0 '^ops$' get key &&
		gets reader 1 '' get fill-20 && gets ops 1 '' get fill-20
}

tenants_of_users_stay() {
	expect 70 'it is the tenant of user loader in users.file' tenant drop loader &&
		expect 70 'users.file sets its size, with user loader' \
			tenant resize loader 32m && tenant_is loader 16777216
}

# A connection that is open goes on in the larger store, with what was in the smaller one, the
# flushes that wait among it.
loader_grows() {
	local before
	gets loader 0 '' flush 1000s || return 1
	before=$(stat_of_user loader items) && client_of looper loader "$tmp/looper" \
		loop "$url" mix app:loop 100 1000 &&
		await_line "$tmp/looper" '^looping' "$looper" &&
		memory_write 32m reader && reloaded 'tenant loader: resized' &&
		tenant_is loader 33554432 && loops_on &&
		kill -KILL "$looper" && await_end "$looper" && forget "$looper" &&
		[ "$(stat_of_user loader items)" -ge "$before" ] &&
		[ "$(stat_of_user loader region_bytes)" = 33554432 ] &&
		gets loader 0 '^1 flush' flush --cancel --all &&
		gets loader 0 '' get fill-20 && gets reader 0 '^reader$' get key
}

# What there is no memory for stays as it was; the rest of the file counts. A new user is
# refused until its tenant is made.
loader_has_no_room() {
	memory_write 64m reader picker &&
		reloaded "the tenant loader can't be resized: .* 64 MiB wanted" &&
		wait_until "$DEADLINE_S" gets picker 0 '^$' put key picker &&
		logged 'tenant picker: created' &&
		tenant_is loader 33554432 && gets loader 0 '' get fill-20 &&
		gets picker 0 '^picker$' get key &&
		gets reader 0 '^reader$' get key
}

# A user has one tenant, and may name no other.
tenants_of_others() {
	local text='refuses the connection: user reader has the tenant reader, not'
	gets reader 69 "$text loader" --tenant loader ping &&
		gets reader 69 "$text default" --tenant default ping &&
		gets reader 69 "$text nowhere" --tenant nowhere ping &&
		gets reader 0 '^reader$' --tenant reader get key
}

# The loader's tenant stays with its items, when the loader comes again, until somebody drops it.
loader_goes() {
	memory_write none reader && reloaded '\[users\]: 2 users' &&
		gets loader 77 'users.file has no user for' ping && tenant_is loader 33554432 &&
		memory_write 32m && reloaded '\[users\]: 2 users' &&
		gets loader 0 '' get fill-20 && memory_write none &&
		reloaded '\[users\]: 1 users' && expect 0 '^$' tenant drop loader
}

if [ "$device" = verbs ]; then
	check "identities can't be required where there are none" nobody_is_asked
fi
check "kvd does not start with a bad file" bad_file
check "nor with one to which others may write" open_file
users_write
check "the server starts" server_start -o "users.file=$tmp/users" -o softnic.socket_mode=0666 ||
	finish
check "a user that may do all" all_of_ops
check "a user who may change some keys" what_loader_may
check "and nothing else" what_loader_may_not
check "a user who reads" reader_reads
check "a user who reads some keys" picker_picks
check "a value that does not fit a message" picker_gets_parts
check "ranges of values" ranges_of_users
check "a client that is no user" stranger_is_refused
check "more connections than a user may have" too_many_connections
check "more requests than a user may send" noisy_pings
check "others are not refused meanwhile" over_the_limit

check "a client of reader" reader_loops
users_write
check "the same file again" reloaded '\[users\]: 5 users'
check "the client goes on" loops_on
echo 'rights = everything' >>"$tmp/users"
check "a bad file" reloaded "line [0-9]*: 'everything' is no right"
check "is not taken" logged 'the users stay as they were'
check "the client goes on" loops_on
check "what each may do is as it was" what_loader_may_not
users_write 'read'
check "a right is taken away" reloaded '\[users\]: 5 users'
check "at once, from the connection that is open" looper_ends 'has no right'
check "reads go on" gets reader 0 '^3$' get pub:x
users_write 'read admin'
check "to stop the server takes the right admin" stop_is_for_administrators
check "a user gets the right admin" reloaded '\[users\]: 5 users'
check "connections and tenants are its matter" admin_of_the_server
users_write
check "it gets the right back" reloaded '\[users\]: 5 users'
check "a client of reader" reader_loops
without=reader users_write
check "the user is taken out" reloaded 'closed: users.file has no user for this client any more'
check "its client can't connect again, and says why" looper_ends 'users.file has no user for'
check "nor can another one" gets reader 77 'users.file has no user for' ping
check "others have their rights" what_loader_may
check "the server stops" server_stop

check "users whose memory is more than there is" more_than_there_is
check "two users with memory for one tenant" two_sizes
memory_write 16m reader
check "the server starts with memory for users" server_start -o "users.file=$tmp/users" \
	-o softnic.socket_mode=0666 -o tenants.memory=64m || finish
check "a user fills its memory" loader_fills
check "its tenant is not an administrator's" tenants_of_users_stay
check "a user is in no other tenant" tenants_of_others
check "it gets more, beside a client of it" loader_grows
check "it gets no more than there is" loader_has_no_room
check "it goes, and its items stay" loader_goes
check "the server stops" server_stop

if [ "$device" = verbs ]; then
	unset KVD_TLS_PSK
	way=rdma url=rdma://$KVD_RDMA_ADDR:$port
	config_write
	printf '[user near]\nnetworks = %s\nrights = read write stats\n' "$KVD_RDMA_ADDR" \
		>"$tmp/users"
	check "the server starts on rdma://" server_start -o "users.file=$tmp/users"
	check "a client in the network may write" expect 0 '^$' put key value
	check "and not delete" expect 77 "$not_allowed" del key
	printf '[user far]\nnetworks = 192.0.2.0/24\nrights = all\n' >"$tmp/users"
	check "the network is another one" reloaded '\[users\]: 1 users'
	check "a client elsewhere is refused" expect 77 \
		"users.file has no user for addr=$KVD_RDMA_ADDR" ping
	check "the server stops" server_stop
	check "the server starts for another network" server_start -o rdma.networks=192.0.2.0/24
	check "and refuses a client elsewhere" expect 77 \
		"$KVD_RDMA_ADDR:[0-9]* is in none of rdma.networks" ping
	check "the server stops" server_stop
	check "the server starts for this network" server_start \
		-o "rdma.networks=192.0.2.0/24,$KVD_RDMA_ADDR"
	check "a client in the networks gets in" expect 0 '' ping
	check "the server stops" server_stop
fi
finish
