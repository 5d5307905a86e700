#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of many connections: hundreds opened and closed, hundreds of idle ones beside one that
# works, one above the limit, and the release of all that they held; thousands with KVD_TEST_LONG=1.
# On verbs there are fewer: in an emulated machine each takes a tenth of a second to set up.
# Where connections are set up over TCP, also of those who connect and say nothing.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

case $device in
softnic) held=300 total=300 at_once=100 ;;
*) held=50 total=150 at_once=30 ;;
esac
if [ "${KVD_TEST_LONG:-}" = 1 ]; then
	held=1000 total=10000 at_once=250
	[ "$device" = softnic ] || held=200 total=1000
fi
ulimit -Sn "$(ulimit -Hn)"

# file, number: opens connections in the background and holds them until `release`
hold() {
	mkfifo "$tmp/hold.in"
	: >"$1"
	"$build/tests/system/sys_client" hold "$url" "$2" <"$tmp/hold.in" >>"$1" 2>&1 &
	holder=$!
	pids+=("$holder")
	exec 9>"$tmp/hold.in"
	rm "$tmp/hold.in"
	await_line "$1" '^holding' "$holder"
}

release() { # file, number
	exec 9>&-
	await_end "$holder" && forget "$holder"
	cat "$1"
	[ "$status" = 0 ] && grep -qx "alive $2" "$1"
}

works() {
	expect 0 '^$' put key value && expect 0 '^value$' get key
}

# All are open, and the server counts them.
held_connections() {
	grep -qx "holding $held" "$tmp/held" && stat_is connections $((held + 1))
}

# The list of clients takes many responses.
all_are_listed() {
	kvctl clients >"$tmp/clients" || return 1
	wc -l "$tmp/clients"
	[ "$(wc -l <"$tmp/clients")" = $((held + 1)) ] &&
		[ "$(sort -u "$tmp/clients" | wc -l)" = $((held + 1)) ]
}

# Each has sent a HELLO at least, to one of two workers.
all_workers_are_counted() {
	[ $(($(stat_of responses) - responses)) -ge "$held" ]
}

one_too_many() { # limit, reason
	grep -q "^refused after $1: .*$2" "$tmp/held" && grep -qx "holding $1" "$tmp/held" &&
		logged "connection refused: $2"
}

none_logged() {
	! in_log "$1"
}

refused() {
	expect 69 "$1" ping
}

# The server may need a moment to release the last of the closed ones.
can_open_again() {
	wait_until "$DEADLINE_S" kvctl ping && wait_until "$DEADLINE_S" stat_is connections 1
}

check "the server starts" server_start -o server.max_connections=1024 \
	-o request.srq_depth=4096 -o log.level=info || finish
checks_of client connections "$url" "$total" "$at_once"
check "all are closed" wait_until "$DEADLINE_S" stat_is connections 1
responses=$(stat_of responses)
check "$held idle connections at once" hold "$tmp/held" "$held"
check "all are open" wait_until "$DEADLINE_S" held_connections
check "each is listed, once" wait_until "$DEADLINE_S" all_are_listed
check "the statistics are those of all workers" all_workers_are_counted
check "another client works beside them" works
check "each of them still works" release "$tmp/held" "$held"
check "all are closed again" wait_until "$DEADLINE_S" stat_is connections 1
check "the server stops" server_stop

# A connection that begins must not be taken for the one whose number its queue pair got.
if [ "$device" = softnic ]; then
	export KVD_SOFTNIC_FAULTS=reuse=1
	check "the server starts with numbers of queue pairs used again at once" \
		server_start -o server.workers=1
	unset KVD_SOFTNIC_FAULTS
	checks_of client connections "$url" 200 8
	check "all are closed" wait_until "$DEADLINE_S" stat_is connections 1
	check "the server stops" server_stop
fi

# Root, which runs this, has places beyond server.max_connections.
admins=0
[ "$device" != softnic ] || admins=4

# What it held is back, so all places can be taken.
if [ "$device" = softnic ]; then
	export KVD_SOFTNIC_FAULTS=fail=accept:1
	check "the server starts; it can't accept the first connection" server_start \
		-o server.max_connections=1
	unset KVD_SOFTNIC_FAULTS
	check "the client gets the reason" refused 'the server could not set up the connection'
	check "all places can be used" hold "$tmp/held" 5
	check "and no more" grep -qx "holding 5" "$tmp/held"
	check "kvctl prints the reason" refused 'server.max_connections is reached'
	check "they work" release "$tmp/held" 5
	check "the server stops" server_stop
fi

check "the server starts with max_connections = 20" server_start -o server.max_connections=20
check "one connection more than that" hold "$tmp/held" $((21 + admins))
check "the last one is refused with the reason" one_too_many $((20 + admins)) \
	"server.max_connections is reached"
check "kvctl prints the reason" refused 'refuses the connection: server.max_connections is reached'
check "the earlier ones still work" release "$tmp/held" $((20 + admins))
check "then a client can connect again" can_open_again
check "the server stops" server_stop

# The completion queue of a worker holds what its connections are granted (rxe has 32,767 entries).
check "the server starts with one worker for 4,096 connections" server_start -o server.workers=1 \
	-o server.max_connections=4096 -o request.srq_depth=4096
check "its completion queue has room for all of them" none_logged 'a completion queue of the device'
check "the server stops" server_stop

# Each connection needs some open files of a server on softnic. It says why it can't take one more,
# and not once for each attempt.
few_files() {
	local hard started
	hard=$(ulimit -Sn)
	ulimit -Sn 64
	server_start -o server.workers=1 -o server.max_connections=1000
	started=$?
	ulimit -Sn "$hard" && return $started
}

# Each attempt is an error of the same kinds, of which one line a second is logged.
lines_are_few() {
	local from seconds=$SECONDS lines
	from=$(log_lines)
	rogue storm || return 1
	lines=$(tail -n "+$((from + 1))" "$log" |
		grep -c "error device softnic: can't accept a connection, [0-9]* are open")
	seconds=$((SECONDS - seconds + 2))
	echo "$lines lines in $seconds s"
	[ "$lines" -ge 1 ] && [ "$lines" -le $seconds ]
}

# 64 descriptors are enough for a handful of connections, and not for 100.
some_are_held() {
	local number
	number=$(sed -n 's/^holding //p' "$tmp/held")
	echo "$number"
	[ "$number" -ge 5 ] && [ "$number" -lt 100 ] &&
		grep -q "^refused after $number: " "$tmp/held"
}

if [ "$device" = softnic ]; then
	check "the server starts with few open files" few_files
	check "a value that must stay" kvctl put precious intact
	check "a storm of attempts causes few lines" lines_are_few
	check "it says what to do" logged "raise the limit of open files"
	check "as many connections as it can take" hold "$tmp/held" 100
	check "it takes some, and not all" some_are_held
	check "the earlier ones still work" release "$tmp/held" \
		"$(sed -n 's/^holding //p' "$tmp/held")"
	check "then a client can connect again" can_open_again
	check "the server stops" server_stop
fi

# Every place is taken: one of root or of the server's user still gets in, one of others does not.
other_user_refused() {
	local said
	chmod 711 "$tmp" && chmod 666 "$tmp/s"
	said=$(setpriv --reuid=65534 --regid=65534 --clear-groups \
		"$build/kvctl" -a "$url" ping 2>&1)
	[ $? = 69 ] && [[ $said =~ 'server.max_connections is reached' ]] && return 0
	echo "$said"
	return 1
}

may_be_another_user() {
	setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$build/kvctl" 2>/dev/null
}

kill_one() {
	local id
	id=$(kvctl clients | sed -n 's/^id=\([0-9]*\) .*/\1/p' | head -n 1)
	expect 0 '^$' kill "$id"
}

if [ "$device" = softnic ]; then
	check "the server starts again" server_start -o server.max_connections=20
	check "all other places are taken" hold "$tmp/held" 20
	check "an administrator gets in" expect 0 ' window=1$' clients
	! may_be_another_user || check "another user does not" other_user_refused
	check "an administrator makes room" kill_one
	check "then there is a place" wait_until "$DEADLINE_S" stat_is connections 20
	exec 9>&-
	await_end "$holder" && forget "$holder"
	check "all places can be used" hold "$tmp/held" 24
	check "these too, and no more" grep -qx "holding 24" "$tmp/held"
	check "kvctl prints the reason" refused 'server.max_connections is reached'
	check "they work" release "$tmp/held" 24
	check "all are free again" can_open_again
	check "the server stops" server_stop
fi

# Any host that reaches a TCP port can open connections there and send nothing, or no message.
SILENT=10000
SETUPS_MAX=256 # of common/util/setups.h

silent_peers() { # file
	local n fd garbage
	ulimit -Sn "$(ulimit -Hn)"
	garbage=$(printf 'x%.0s' {1..400})
	for ((n = 0; n < SILENT; n++)); do
		exec {fd}<>"/dev/tcp/$KVD_RDMA_ADDR/$port" || break
		((n % 100)) || echo "$garbage" >&"$fd" 2>/dev/null
	done 2>/dev/null
	echo "opened $n" >>"$1"
	read -r
}

silent_peers_connect() {
	mkfifo "$tmp/silent.in"
	: >"$tmp/silent"
	silent_peers "$tmp/silent" <"$tmp/silent.in" &
	silent=$!
	pids+=("$silent")
	exec 8>"$tmp/silent.in"
}

works_meanwhile() {
	while ! grep -q ^opened "$tmp/silent"; do
		works || return 1
	done
	works && grep -x "opened $SILENT" "$tmp/silent"
}

fds_of_server() {
	find "/proc/$server_pid/fd" -mindepth 1 2>/dev/null | wc -l
}

rss_kib() {
	awk '/^RssAnon:/ { print $2 }' "/proc/$server_pid/status"
}

# What is kept of one that is being set up is some 900 bytes, and with TLS a session: of all it
# would be 9 MB, or over 100. The allocator keeps some MB in store.
costs_little() {
	local kib=6144
	[ "$way" != rdma+tls ] || kib=16384
	echo "descriptors $fds, then $(fds_of_server); KiB $rss, then $(rss_kib)"
	[ "$(fds_of_server)" -le $((fds + SETUPS_MAX + 8)) ] && [ "$(rss_kib)" -le $((rss + kib)) ]
}

none_is_left() {
	[ "$(fds_of_server)" -le "$fds" ]
}

silent_peers_end() {
	exec 8>&-
	await_end "$silent" && forget "$silent"
}

if [ "$way" = rdma+tcp ] || [ "$way" = rdma+tls ]; then
	check "the server starts" server_start
	check "a client works" works
	fds=$(fds_of_server) rss=$(rss_kib)
	check "$SILENT connect and say nothing" silent_peers_connect
	check "clients connect and work meanwhile" works_meanwhile
	check "they cost little" costs_little
	check "the log says so" logged 'too many are being set up'
	check "another one is not taken for one of them" \
		wait_until "$DEADLINE_S" stat_is connections 1
	check "they are closed in time" wait_until "$DEADLINE_S" none_is_left
	check "they end" silent_peers_end
	check "clients connect and work afterwards" works
	check "the server stops" server_stop
fi

# 64 receives make 64 windows of 1, if more connections than that are allowed.
check "the server starts with few receives" server_start -o server.workers=1 \
	-o server.max_connections=1000 -o request.srq_depth=64
check "more connections than it has windows for" hold "$tmp/held" 65
check "the last one is refused with the reason" one_too_many 64 "every receive is taken"
check "kvctl prints the reason" refused 'taken by a connection \(request.srq_depth\)'
check "the earlier ones still work" release "$tmp/held" 64
check "then a client can connect again" can_open_again
check "all windows are free again" hold "$tmp/held" 64
check "and each connection works" release "$tmp/held" 64
check "the server stops" server_stop
finish
