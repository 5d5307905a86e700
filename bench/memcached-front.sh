#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares kvd's front for memcached's protocol with memcached: the same commands over loopback TCP,
# one server thread each on CPU 0, the clients on CPU 1, in turn.
#
#   bench/memcached-front.sh [-r ROUNDS] [-t MS] [ROW...]
#
# Each row of the table is a load of `micro sockets` (bench/micro/sockets.c), by default all: get,
# set: 100 B, 50 connections; get16, set16: pipelines of 16; multiget: gets of 100 keys; get1m,
# set1m: 1 MiB, 8 connections; one: a GET from 1 connection; many: GETs from 1,000 connections;
# idle: 50 active connections beside 10,000 idle ones; open: GETs at 70 % of memcached's top rate,
# open loop. Prints the medians of all rounds: operations per second, the server's CPU time for each
# operation, the 99th percentile of the latency, and kvd's ratio of each; for idle the memory of
# each idle connection, too. A client on one core may be slower than a server is: then the rates are
# its own, and the CPU times compare the servers. The row beside is another: the 50th percentile of
# GETs by softnic on CPU 1, alone and while 50 connections of CPU 0 keep the server busy.
#
# memcached's settings are its best for this: one thread, no LRU crawler or maintainer that takes
# CPU time, hash table of its final size. kvd sleeps at once when there is nothing to do, as
# memcached does, so that its CPU time is for work.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=bench/rivals.sh
. "$bench_dir/rivals.sh"

rounds=5
ms=2000
usage="usage: memcached-front.sh [-r ROUNDS] [-t MS] [ROW...]"
while getopts r:t: option; do
	case $option in
	r) rounds=$OPTARG ;;
	t) ms=$OPTARG ;;
	*) die "$usage" ;;
	esac
done
shift $((OPTIND - 1))
rows=("$@")
[ $# -gt 0 ] || rows=(get set get16 set16 multiget get1m set1m one many open beside idle)
need_hint="run make benchmarks" need "$build/micro"
need_hint="apt-get install memcached" need memcached

kvd_port=$((20000 + $$ % 10000))
mc_port=$((kvd_port + 1))
declare -A port=([kvd]=$kvd_port [mc]=$mc_port) pid

start() {
	on_server=(taskset -c 0)
	also_at=memcached://127.0.0.1:$kvd_port
	kvd_start softnic \
		-o server.workers=1 -o server.pin=no -o memory.size=512m \
		-o server.max_connections=20000 -o server.spin_time=0
	pid[kvd]=$kvd_pid
	taskset -c 0 memcached -u nobody -l 127.0.0.1 -p "$mc_port" -U 0 -t 1 -m 512 -c 20000 \
		-o no_lru_crawler,no_lru_maintainer,hashpower=18 >"$tmp/memcached.log" 2>&1 &
	pid[mc]=$!
	pids+=("${pid[mc]}")
}

# server, arguments of micro sockets: notes its figures as ROW-SERVER-FIGURE
measure() {
	local server=$1 name value
	shift
	taskset -c 1 "$build/micro" sockets "$@" -a "127.0.0.1:${port[$server]}" \
		-p "${pid[$server]}" -t "$ms" >"$tmp/measured" || die "micro sockets $* failed"
	while read -r name value; do
		note "$row-$server-$name" "$value"
	done <"$tmp/measured"
}

load() {
	case $1 in
	get) echo get ;;
	set) echo set ;;
	get16) echo get -d 16 ;;
	set16) echo set -d 16 ;;
	multiget) echo get -m 100 ;;
	get1m) echo get -v 1048000 -c 8 ;;
	set1m) echo set -v 1048000 -c 8 ;;
	one) echo get -c 1 ;;
	many) echo get -c 1000 ;;
	idle) echo get -i 10000 ;;
	open) echo get -r $(($(median get-mc-rate | cut -d . -f 1) * 7 / 10)) ;;
	*) die "$1: no such row; $usage" ;;
	esac
}

# figure: kvd's median of the row to memcached's
ratio_of() {
	ratio "$(median "$row-kvd-$1")" "$(median "$row-mc-$1")"
}

# row: measures both servers in turn, and prints the medians
compare() {
	local row=$1 i of arguments
	[ "$row" != open ] || [ -e "$tmp/figure-get-mc-rate" ] ||
		die "open needs the row get before it"
	read -ra arguments < <(load "$row")
	for ((i = 0; i < rounds; i++)); do
		for of in kvd mc; do
			measure "$of" "${arguments[@]}"
		done
	done
	printf '%-9s' "$row"
	printf ' %11s %11s %5s' "$(commas "$(median "$row-kvd-rate")")" \
		"$(commas "$(median "$row-mc-rate")")" "$(ratio_of rate)"
	for of in cpu_us p99_us; do
		printf ' %9s %9s %5s' "$(median "$row-kvd-$of")" "$(median "$row-mc-$of")" \
			"$(ratio_of "$of")"
	done
	[ "$row" != idle ] || printf '  %s and %s KiB for an idle connection' \
		"$(median idle-kvd-idle_kib)" "$(median idle-mc-idle_kib)"
	printf '\n'
}

# load|run, properties...
softnic() {
	taskset -c 1 "$build/kvbench" "$1" -a "$kvd_url" --json \
		-P "$bench_dir/workloads/workloadc" -p recordcount=100000 -p fieldcount=1 \
		-p fieldlength=100 "${@:2}" >"$tmp/gets" 2>"$tmp/gets.err" ||
		die "kvbench $1: $(cat "$tmp/gets.err")"
}

# alone|busy: GETs of a one-sided client
softnic_gets() {
	softnic run -p operationcount=0 -p maxexecutiontime="$(((ms + 999) / 1000))"
	note "beside-$1" "$(figure "$tmp/gets" read_p50_us)"
}

beside() {
	local i
	softnic load
	for ((i = 0; i < rounds; i++)); do
		softnic_gets alone
		taskset -c 0 "$build/micro" sockets get -a "127.0.0.1:$kvd_port" \
			-t $((ms + 4000)) >"$tmp/measured" &
		pids+=($!)
		sleep 2 # it stores its values first
		softnic_gets busy
		wait $!
	done
	printf '%-9s p50 of softnic GETs: %s us alone, %s us beside 50 connections: %s\n' beside \
		"$(median beside-alone)" "$(median beside-busy)" \
		"$(ratio "$(median beside-busy)" "$(median beside-alone)")"
}

say "kvd and memcached $(memcached -V | awk '{ print $2 }') on one core each, $rounds rounds of" \
	"$ms ms; $(host)"
printf '%-9s %11s %11s %5s %9s %9s %5s %9s %9s %5s\n' load kvd/s memcached/s ratio \
	'kvd CPU' 'mc CPU' ratio 'kvd p99' 'mc p99' ratio
start
for row in "${rows[@]}"; do
	if [ "$row" = beside ]; then
		beside
	else
		compare "$row"
	fi
done
