#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of workers that come and go (server.workers is changed at run time): while histories
# are checked, clients of memcached's protocol store and get, and a tenant is resized, no call of a
# client that connects again fails, no value is wrong and no statistic falls; afterwards the threads
# and what they held are gone. A client that is stopped in the middle of a large value holds nobody
# up; what can't be made, or not now, is refused, and changes nothing.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/puller_lib.sh
. tests/system/puller_lib.sh
# shellcheck source=tests/system/history_lib.sh
. tests/system/history_lib.sh

ROUNDS=3
! brief || ROUNDS=1
[ "${KVD_TEST_LONG:-0}" != 1 ] || ROUNDS=20
HOLDERS=10
mc_port=$((10000 + $$ % 10000)) # below those of clients, and of RDMA devices
http_port=$((mc_port + 10000))
admin_url=softnic://$tmp/s

urls="$admin_url, memcached://127.0.0.1:$mc_port"
[ "$device" = softnic ] || urls+=", $url"
config_write "$urls"

admin() {
	local url=$admin_url
	kvctl "$@"
}

# number
sets() {
	admin config set server.workers "$1"
}

# Prints the number of worker threads.
threads() {
	local comm count=0
	for comm in "/proc/$server_pid/task"/*/comm; do
		[[ $(<"$comm") != worker-* ]] || count=$((count + 1))
	done 2>/dev/null
	echo "$count"
}

# number: that many workers, by the statistics and by the kernel
are() {
	stat_is workers "$1" && [ "$(threads)" = "$1" ]
}

# number: changes it, and waits until it has changed. Others may be changing a tenant.
changes() {
	wait_until "$DEADLINE_S" sets "$1" && wait_until "$DEADLINE_S" are "$1" &&
		counters_grow
}

# Sums over workers and stores: none is less than the last time.
counters=(requests request_bytes batches responses puts deletes sleeps connections_total inserts
	removes replaces_in_place memcached.cmd_set memcached.cmd_get memcached.bytes_read
	worker.turns worker.cpu_useful_us)
before=()
counters_grow() {
	local stats i now fell=0
	stats=$'\n'$(admin stats)$'\n' || return 1
	for i in "${!counters[@]}"; do
		[[ $stats =~ $'\n'"${counters[i]} "([0-9]+)$'\n' ]] ||
			give_up "no statistic ${counters[i]}: correct the test by kvctl stats"
		now=${BASH_REMATCH[1]}
		[ "$now" -ge "${before[i]:-0}" ] || {
			echo "${counters[i]} was ${before[i]} and is $now"
			fell=1
		}
		before[i]=$now
	done
	metrics_grow && return "$fell"
}

# So do all counters of HTTP, those of each worker included; but not those that come and go: of the
# tenant that is resized, and of size classes.
metrics_grow() {
	local fell
	exec 7<>"/dev/tcp/127.0.0.1/$http_port" || return 1
	printf 'GET /metrics HTTP/1.0\r\n\r\n' >&7
	grep -aE '^kvd_[a-z_]*_(total|count|sum|bucket)[ {]' <&7 |
		grep -Ev 'tenant="alpha"|size_class' | tr -d '\r' >"$tmp/metrics"
	exec 7>&-
	[ -s "$tmp/metrics" ] || return 1
	[ -e "$tmp/metrics.before" ] || cp "$tmp/metrics" "$tmp/metrics.before"
	fell=$(awk '{ value = $NF; NF--; }
		NR == FNR { before[$0] = value; next }
		$0 in before && value < before[$0] { print $0, before[$0], value }
		{ seen[$0] = 1 }
		END { for (name in before) if (!(name in seen)) print name, "is gone" }' \
		"$tmp/metrics.before" "$tmp/metrics")
	mv "$tmp/metrics" "$tmp/metrics.before"
	[ -z "$fell" ] || { echo "$fell" && return 1; }
}

# Closes connections of libkvd, which stay with their workers otherwise, until the last worker has
# some.
is_spread() {
	local line list
	list=$(admin clients) || return 1
	while read -r line; do
		[[ $line != *' worker=3 '* || $line == *memcached* ]] || return 0
	done <<<"$list"
	while read -r line; do
		line=${line#id=}
		[[ $line == *memcached* ]] || admin kill "${line%% *}"
	done <<<"$list" >/dev/null 2>&1
	return 1
}
spreads() {
	wait_until "$DEADLINE_S" is_spread
}

mc=
mc_starts() {
	: >"$tmp/mc"
	/usr/bin/python3 tests/system/workers_memcached.py "$mc_port" 8 "$tmp/mc.stop" >>"$tmp/mc" \
		2>&1 &
	mc=$!
	pids+=("$mc")
	await_line "$tmp/mc" '^running' "$mc"
}
mc_ends_well() {
	touch "$tmp/mc.stop"
	await_end "$mc" && forget "$mc"
	cat "$tmp/mc"
	[ "$status" = 0 ]
}

# A tenant is resized again and again, as long as the workers change. A connection that is closed
# meanwhile, by is_spread too, loses the answer.
resizer=
resizes() {
	local size=16m
	while [ ! -e "$tmp/resize.stop" ]; do
		size=$([ "$size" = 16m ] && echo 24m || echo 16m)
		admin tenant resize alpha "$size" 2>"$tmp/resize.out" ||
			grep -q 'connection lost' "$tmp/resize.out" ||
			{ cat "$tmp/resize.out" && return 1; }
		admin --tenant alpha put key "$size" || return 1
	done
}
resizer_starts() {
	resizes >"$tmp/resizer" 2>&1 &
	resizer=$!
	pids+=("$resizer")
}
resizer_ends_well() {
	touch "$tmp/resize.stop"
	await_end "$resizer" && forget "$resizer"
	cat "$tmp/resizer"
	[ "$status" = 0 ]
}

expect_admin() {
	local url=$admin_url
	expect "$@"
}

changes_to_cpus() {
	sets 0 && wait_until "$DEADLINE_S" are "$(nproc)"
}

# As are and changes, without HTTP.
are_quietly() {
	local workers
	workers=$(admin stats | sed -n 's/^workers //p') && [ "$workers" = "$1" ] &&
		[ "$(threads)" = "$1" ]
}
changes_quietly() {
	sets "$1" && wait_until "$DEADLINE_S" are_quietly "$1"
}

# [count]: clients that go on until SIGTERM, and connect again if they have to
holders=()
holders_start() {
	local pid i
	for i in $(seq "${1:-$HOLDERS}"); do
		client_start pid "$tmp/holder.$i" loop "$url" get "held$i" 100 1000
		holders+=("$pid")
	done
	for i in "${!holders[@]}"; do
		await_line "$tmp/holder.$((i + 1))" '^looping' "${holders[i]}" || return 1
	done
}
holders_end_well() {
	local pid bad=0
	for pid in "${holders[@]}"; do
		kill -TERM "$pid" && await_end "$pid" && forget "$pid" && [ "$status" = 0 ] || bad=1
	done
	holders=()
	[ $bad = 0 ] || tail -n 2 "$tmp"/holder.*
	return $bad
}
all_connect() {
	holders_start "$1"
}

# On verbs the server may have the value by then.
not_stored() {
	kill -KILL "$puller" && await_end "$puller" && forget "$puller" || return 1
	[ "$device" = softnic ] || kvctl del kkkkk
	expect 1 'not found' get kkkkk
}

few_descriptors() {
	(ulimit -n 64 && exec "$build/kvd" -c "$tmp/kvd.ini" -o server.workers=1) \
		>>"$tmp/stderr" 2>&1 &
	server_pid=$!
	pids+=("$server_pid")
	log_start=$(($(log_lines) + 1))
	wait_until "$DEADLINE_S" server_is_up && ! ended "$server_pid"
}

# All handles reconnected by themselves, and repeated what had no answer; but of a change that has
# timed out at its client, too, nobody knows the end, and its client takes a new handle.
no_handle_is_lost() {
	local figures
	figures=$(grep '^[0-9]* rounds, ' "$history_out")
	echo "$figures"
	[[ $figures =~ ' unknown '([0-9]+).*' handles lost '([0-9]+)$ ]] &&
		[ "${BASH_REMATCH[2]}" -le "${BASH_REMATCH[1]}" ]
}

check "the server starts" server_start -o server.workers=1 -o memory.size=64m \
	-o memory.eviction=none -o tenants.memory=64m -o server.http="127.0.0.1:$http_port" \
	-o server.pull_stall=600s -o server.pull_timeout=600s || finish
check "a tenant is created" admin tenant create alpha 16m

# A place keeps its mailbox, so the first workers of their number leave a descriptor each.
check "one for each CPU" changes_to_cpus
check "5 workers" changes 5
check "1 worker" changes 1
check "the log says that they are gone" logged ' 1 workers, 4 are gone$'
check "what the server holds is noted" held_note
history_of=("$url" 0 "$seed" faults)
check "clients start" history_start || finish
check "clients of memcached's protocol start" mc_starts || finish
resizer_starts
for round in $(seq $ROUNDS); do
	fault "round $round: 4 workers" changes 4
	check "connections are spread over them" spreads
	fault "round $round: 2 workers" changes 2
	fault "round $round: 1 worker" changes 1
done
check "the tenant's resizes did not fail" resizer_ends_well
check "clients of memcached's protocol saw nothing wrong" mc_ends_well && tail -n 1 "$tmp/mc"
check "the clients saw nothing wrong (seed $seed)" history_end
history_figures
check "each of them connected again by itself" no_handle_is_lost
check "all keys are deleted" kvctl flush
check "the server holds what it held before" nothing_is_held 1

# By SIGHUP, which takes the option from the command line; and one for each CPU.
check "5 workers" changes 5
check "SIGHUP: 1 worker" reloaded 'SIGHUP: server.workers is now 1, it was 5, set by kvctl'
check "4 are gone" wait_until "$DEADLINE_S" are 1

# Connections go to the worker that has fewest, so these of the first worker leave the next ones to
# the second.
check "clients of the first worker" holders_start
check "2 workers" changes 2
check "a value that must stay" kvctl put precious intact
check "a client of the second worker is stopped while the server reads its value" puller_stops
check "that worker goes all the same" changes 1
check "nothing of the value is stored" not_stored
check "the clients of the first worker saw no error" holders_end_well
check "all keys are deleted" kvctl flush
check "the server holds nothing of it" nothing_is_held 1

check "more than there may be are refused" expect_admin 70 'give 0 to 64' \
	config set server.workers 65
check "that changes nothing" are 1
check "the server stops" server_stop

# Connections beyond the share of one of four workers, when it is the only one that is left: all of
# server.max_connections still connect.
check "the server starts with 4 workers for 40 connections" server_start -o server.workers=4 \
	-o server.max_connections=40 -o request.srq_depth=64 || finish
check "1 worker" changes_quietly 1
check "it takes 40 connections" all_connect 40
check "4 workers" changes_quietly 4
check "1 worker" changes_quietly 1
check "the clients of all of them saw no error" holders_end_well
check "the server stops" server_stop

# A limit that no more workers fit: none comes, and the answer says so.
check "the server starts with few descriptors" few_descriptors || finish
refused="server.workers = 32: worker [0-9]+ can't be added: Too many open files: .*ulimit -n"
check "32 workers are refused" expect_admin 70 "$refused" config set server.workers 32
check "that changes nothing" are_quietly 1
check "2 are not" changes_quietly 2
check "the server stops" server_stop
finish
