#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares kvd on softnic with memcached, in one run on the same cores. kvbench drives both, with
# the same keys, values, threads, checks and clock.
#
#   bench/compare-memcached.sh [-t THREADS] [-w SERVER_THREADS] [-r RECORDS] [-d SECONDS]
#
# Both servers have the same number of worker threads and run all the time; only one is measured at
# a time, the other is idle. kvd's workers pin themselves, one to a core; nothing else is pinned.
# memcached gets its best: TCP over loopback and a Unix socket, multi-key `get`, pipelined `set`.
#
# Prints rates and ratios, kvd's over memcached's. Fails if a value is wrong or a call fails.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

threads=1
workers=$(nproc)
records=100000
seconds=3
while getopts t:w:r:d: option; do
	case $option in
	t) threads=$OPTARG ;;
	w) workers=$OPTARG ;;
	r) records=$OPTARG ;;
	d) seconds=$OPTARG ;;
	*) die "usage: compare-memcached.sh [-t THREADS] [-w WORKERS] [-r RECORDS] [-d SECONDS]" ;;
	esac
done
need "$build/kvbench"
need_hint="apt-get install memcached" need memcached

mc_port=$((20000 + $$ % 20000))
mc_tcp=memcached://127.0.0.1:$mc_port
mc_unix=memcached://$tmp/memcached.sock
failures=0

# shellcheck disable=SC2317 # called by wait_until
memcached_responds() {
	"$build/kvbench" count -d memcached -a "$1" >"$tmp/probe" 2>&1
}

# url, address options...: one memcached serves either TCP or a Unix socket
memcached_start() {
	local url=$1
	shift
	memcached -u "$(id -un)" -t "$workers" -m 1024 "$@" >"$tmp/memcached.log" 2>&1 &
	pids+=($!)
	wait_until "$READY_S" memcached_responds "$url" || die "memcached did not start at $url"
}

# store, name, command, url, batch, properties...: the figures are then in $tmp/NAME
measure() {
	local store=$1 name=$2 command=$3 url=$4 batch=$5 property args=() result
	shift 5
	for property in "$@"; do
		args+=(-p "$property")
	done
	"$build/kvbench" "$command" -d "$store" -a "$url" --json \
		-P "$bench_dir/workloads/workloadc" -t "$threads" -b "$batch" \
		-p recordcount="$records" -p requestdistribution=uniform "${args[@]}" \
		>"$tmp/$name"
	result=$?
	if [ $result != 0 ]; then
		failures=$((failures + 1))
		say "kvbench $command at $url: exit status $result"
	fi
}

# store, name, url, batch
gets() {
	measure "$1" "$2" run "$3" "$4" maxexecutiontime="$seconds" operationcount=0 \
		kvd.warmup=1 kvd.cache_bytes=64m
}

# store, name, url
sets() {
	measure "$1" "$2" run "$3" 1 maxexecutiontime="$seconds" operationcount=0 kvd.warmup=1 \
		readproportion=0 updateproportion=1
}

# title, operation, name of kvd's figures, names of memcached's over TCP and the Unix socket
row() {
	local rate=${2}_per_second p50=${2}_p50_us name
	printf '%-28s' "$1"
	for name in "$3" "$4" "$5"; do
		printf ' %12s %8.1f' "$(commas "$(figure "$tmp/$name" "$rate")")" \
			"$(figure "$tmp/$name" "$p50")"
	done
	printf ' %9s %9s\n' \
		"$(ratio "$(figure "$tmp/$3" "$rate")" "$(figure "$tmp/$4" "$rate")")" \
		"$(ratio "$(figure "$tmp/$3" "$rate")" "$(figure "$tmp/$5" "$rate")")"
}

# name: of the server's CPU for an operation
cpu() {
	figure "$tmp/$1" server_cpu_us_per_operation
}

# name: of kvd's CPU for an operation, with the parts of its workers
kvd_cpu() {
	printf '%s us (useful %s, polling %s)' "$(cpu "$1")" \
		"$(figure "$tmp/$1" server_useful_us_per_operation)" \
		"$(figure "$tmp/$1" server_polling_us_per_operation)"
}

memcached_start "$mc_tcp" -l 127.0.0.1 -p "$mc_port" -U 0
memcached_start "$mc_unix" -s "$tmp/memcached.sock"
kvd_start softnic -o server.workers="$workers" -o memory.size=1g -o index.keys="$records"
# Idle workers of kvd sleep, so they take nothing from memcached while that is measured.
measure kvd load load "$kvd_url" 1
measure memcached load load "$mc_tcp" 1
measure memcached load load "$mc_unix" 1

gets kvd kvd-get-1 "$kvd_url" 1
gets memcached tcp-get-1 "$mc_tcp" 1
gets memcached unix-get-1 "$mc_unix" 1
gets kvd kvd-get-16 "$kvd_url" 16
gets memcached tcp-get-16 "$mc_tcp" 16
gets memcached unix-get-16 "$mc_unix" 16
sets kvd kvd-set "$kvd_url"
sets memcached tcp-set "$mc_tcp"
sets memcached unix-set "$mc_unix"
sets memcached tcp-set-16 "$mc_tcp?pipeline=16"
sets memcached unix-set-16 "$mc_unix?pipeline=16"

say "kvd $(kvd_stat version) on softnic beside memcached $(memcached -V | awk '{ print $2 }')"
say "$(nproc) cores ($(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1))," \
	"$workers worker threads each, $threads client thread$([ "$threads" = 1 ] || echo s)"
say "$(commas "$records") records of $(figure "$tmp/load" record_bytes_max) bytes, uniform keys," \
	"every byte read is checked, $seconds s each; load now: $(cut -d ' ' -f 1 /proc/loadavg)"
say
printf '%-28s %21s %21s %21s %9s %9s\n' '' kvd 'memcached TCP' 'memcached Unix' \
	'kvd over' 'kvd over'
printf '%-28s %12s %8s %12s %8s %12s %8s %9s %9s\n' '' 'per second' 'p50 us' 'per second' 'p50 us' \
	'per second' 'p50 us' TCP Unix
row 'GET, one at a time' read kvd-get-1 tcp-get-1 unix-get-1
row 'GET, 16 together' read kvd-get-16 tcp-get-16 unix-get-16
row 'PUT, one at a time' update kvd-set tcp-set unix-set
row 'PUT, memcached pipelines 16' update kvd-set tcp-set-16 unix-set-16
say
say "Targets: GET of one thread >= 20 x, PUT >= 8 x memcached over TCP, one at a time."
say "kvd's figures in the last line are those of the line before: bench/async.sh has PUTs of kvd" \
	"that are under way together."
say "In 'GET, 16 together' p50 is that of all 16; that of a pipelined PUT means nothing."
say "READs per GET: $(figure "$tmp/kvd-get-1" reads_per_get)." \
	"Server's CPU per GET: kvd $(kvd_cpu kvd-get-1), memcached $(cpu tcp-get-1) us over TCP;" \
	"per PUT: $(kvd_cpu kvd-set) and $(cpu tcp-set) us."

kvd_stop || failures=$((failures + 1))
[ "$failures" = 0 ]
