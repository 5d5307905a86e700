# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Functions for the scripts that compare kvd with memcached and Redis: start and stop of these
# servers, the CPU time and memory of a process, and tables of each server's rate and latencies:
# with one client, with the number of connections that gives the best rate, and with processes that
# burn CPU. Source bench/lib.sh first.

memcached_pid=
memcached_url=memcached://$tmp/memcached.sock
redis_pid=
redis_url=redis://$tmp/redis.sock

# pid: of a process that was waited for; the number may soon be that of another process
forget() {
	local pid kept=()
	for pid in ${pids[@]+"${pids[@]}"}; do
		[ "$pid" = "$1" ] || kept+=("$pid")
	done
	pids=(${kept[@]+"${kept[@]}"})
}

# name, pid
rival_stop() {
	kill -TERM "$2"
	wait_until "$STOP_S" ended "$2" || die "$1 did not stop"
	wait "$2"
	forget "$2"
}

# store, pid, url
# shellcheck disable=SC2317 # called by wait_until
rival_responds() {
	ended "$2" || "$build/kvbench" count -d "$1" -a "$3" >/dev/null 2>&1
}

# url, program with its options...: starts it, and waits until it responds; its pid is then in
# $rival_pid
rival_start() {
	local url=$1 store=${1%%:*}
	shift
	${on_server[@]+"${on_server[@]}"} "$@" >"$tmp/$store.log" 2>&1 &
	rival_pid=$!
	pids+=("$rival_pid")
	if ! wait_until "$READY_S" rival_responds "$store" "$rival_pid" "$url" ||
		ended "$rival_pid"; then
		cat "$tmp/$store.log" >&2
		die "$store did not start at $url"
	fi
}

# url, options of memcached...: starts one at memcached://HOST:PORT or memcached://SOCKET
memcached_start() {
	local url=$1 at=${1#memcached://}
	shift
	if [[ $at = /* ]]; then
		rm -f "$at"
		set -- -s "$at" "$@"
	else
		set -- -l "${at%:*}" -p "${at##*:}" -U 0 "$@"
	fi
	rival_start "$url" memcached -u "$(id -un)" "$@"
	memcached_pid=$rival_pid
}

# url, options of redis-server...: starts one at redis://HOST:PORT or redis://SOCKET, without
# persistence, else with its defaults
redis_start() {
	local url=$1 at=${1#redis://}
	shift
	if [[ $at = /* ]]; then
		set -- --port 0 --unixsocket "$at" "$@"
	else
		set -- --bind "${at%:*}" --port "${at##*:}" --protected-mode no "$@"
	fi
	rival_start "$url" redis-server --dir "$tmp" --save '' --appendonly no "$@"
	redis_pid=$rival_pid
}

# Stops kvd so that another one can be started.
kvd_end() {
	kvd_stop || die "kvd ended with status $?"
	forget "$kvd_pid"
	kvd_url=
}

# pid: CPU time of all its threads, in user mode and in the kernel, in microseconds each
cpu_us() {
	local stat
	stat=$(cat "/proc/$1/stat") || die "no process $1"
	# The name in parentheses may have blanks; user and system time are fields 12 and 13 after
	# it.
	awk -v hz="$(getconf CLK_TCK)" '{ printf "%.0f %.0f\n", $12 * 1e6 / hz, $13 * 1e6 / hz }' \
		<<<"${stat##*) }"
}

# pid: proportional set size in KiB, memory files included
pss_kib() {
	awk '$1 == "Pss:" { print $2 }' "/proc/$1/smaps_rollup"
}

# pid: its proportional set size once it is stable: tables grow for a while after the last key
pss_settled_kib() {
	local before now change same=0
	before=$(pss_kib "$1")
	while [ $same -lt 4 ]; do
		sleep 0.5
		now=$(pss_kib "$1")
		change=$((now > before ? now - before : before - now))
		if [ $change -le $((before / 2000)) ]; then
			same=$((same + 1))
		else
			same=0
		fi
		before=$now
	done
	printf '%s\n' "$now"
}

# What compare() measures. Every run of kvbench has the same workload, and runs on the same CPUs.
servers=()          # a row for each: "NAME|STORE|URL"; the first is kvd
workload=()         # options of kvbench
on_client=()        # what runs it, as taskset -c 1
connections_max=256 # at which a sweep ends
busy_pids=()

# get|put|get16, store, url, connections: one run; prints the connections, the rate, p50 and p99 in
# us, and the server's CPU time for an operation, in us
alone() {
	local name=read of=(-p readproportion=1 -p updateproportion=0)
	case $1 in
	put) name=update of=(-p readproportion=0 -p updateproportion=1) ;;
	get16) of+=(-b 16) ;;
	esac
	${on_client[@]+"${on_client[@]}"} "$build/kvbench" run -d "$2" -a "$3" --json \
		"${workload[@]}" -t "$4" "${of[@]}" >"$tmp/run" ||
		die "kvbench run at $3 failed with $4 connections"
	printf '%s' "$4"
	for of in "${name}_per_second" "${name}_p50_us" "${name}_p99_us" \
		server_cpu_us_per_operation; do
		printf ' %s' "$(figure "$tmp/run" "$of")"
	done
}

# operation, store, url: one run with the number of connections that has the best rate: 1, 2, 4 and
# so on, until two doublings in turn bring less than 2 % more than the best rate so far. A + after
# the number says that the sweep ended at $connections_max instead.
saturated() {
	local connections line rate best='' best_rate=0 vain=0
	for ((connections = 1; connections <= connections_max; connections *= 2)); do
		line=$(alone "$1" "$2" "$3" $connections) || exit 1
		read -r _ rate _ <<<"$line"
		vain=$((vain + 1))
		if awk "BEGIN { exit !($rate > 1.02 * $best_rate) }"; then
			best=$line best_rate=$rate vain=0
		fi
		[ $vain -lt 2 ] || break
	done
	[ $vain -gt 0 ] || best=${best/ /+ }
	printf '%s' "$best"
}

# One process on each CPU that only burns CPU time.
busy_start() {
	local cpu
	for ((cpu = 0; cpu < $(nproc --all); cpu++)); do
		taskset -c "$cpu" true 2>/dev/null || continue
		taskset -c "$cpu" bash -c 'while :; do :; done' &
		busy_pids+=($!)
		pids+=($!)
	done
}

busy_stop() {
	local pid
	for pid in "${busy_pids[@]}"; do
		kill -KILL "$pid"
		wait "$pid" 2>/dev/null
		forget "$pid"
	done
	busy_pids=()
}

# Loads the records into each of $servers.
servers_load() {
	local row store url
	for row in "${servers[@]}"; do
		IFS='|' read -r _ store url <<<"$row"
		"$build/kvbench" load -d "$store" -a "$url" "${workload[@]}" \
			-p maxexecutiontime=0 >"$tmp/load" || die "kvbench load at $url failed"
	done
}

# alone|saturated, title, operation: a row for each of $servers
compare_rows() {
	local row name store url line connections rate p50 p99 cpu kvd_rate=''
	say "$2"
	for row in "${servers[@]}"; do
		IFS='|' read -r name store url <<<"$row"
		line=$("$1" "$3" "$store" "$url" 1) || exit 1
		read -r connections rate p50 p99 cpu <<<"$line"
		kvd_rate=${kvd_rate:-$rate}
		printf '  %-24s %11s %12s %10.1f %10.1f %10.2f %9s\n' "$name" "$connections" \
			"$(commas "$rate")" "$p50" "$p99" "${cpu:-0}" \
			"$(ratio "$kvd_rate" "$rate")"
	done
}

# alone|saturated|busy, what is stored, operations...: a table
compare() {
	local part=$1 what=$2 how=$1 operation title
	shift 2
	case $part in
	alone) title='one client, idle host' ;;
	saturated) title='best rate of each' ;;
	busy) title='one client, busy host' how=alone ;;
	esac
	say
	printf '%-26s %11s %12s %10s %10s %10s %9s\n' "$title" connections 'per second' 'p50 us' \
		'p99 us' 'CPU us/op' 'kvd over'
	[ "$part" != busy ] || busy_start
	for operation in "$@"; do
		title=${operation^^}
		compare_rows "$how" "${title/16/ 16 together}, $what" "$operation"
	done
	[ "$part" != busy ] || busy_stop
}
