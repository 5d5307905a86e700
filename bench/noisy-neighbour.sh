#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures how much one client (the victim) suffers from noisy neighbours.
#
#   bench/noisy-neighbour.sh [--rdma] [-m] [-r RECORDS] [-d SECONDS] [-w WORKERS]
#			     [-o SECTION.KEY=VALUE]... [KIND...]
#
# The victim is kvbench with one thread: half GETs, half PUTs of uniform keys, 1,000 bytes; with -m
# it speaks memcached's protocol over TCP, as the kinds of noise do that begin with mc-. It runs
# together with each kind of noise (tests/system/sys_noise.c; needs `make tests`), each time against
# a fresh server. 4xKIND is four noisy clients.
#
# "x busy" compares with the same number of processes that only burn CPU (busy), since any other
# process takes CPU time from the victim, client or not. The last two columns are how long the
# worker's turns took, us: the time that a request waits in the server itself.
#
# -o is an option of kvd, as on its command line. Three kinds need some: append, extend (by 1
# MiB) and touch change a value of 64 MiB, with -o limits.max_value=128m -o memory.size=2g.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

records=5000
seconds=3
workers=1
device=softnic
options=()
mc_url=memcached://127.0.0.1:$((10000 + $$ % 10000))
also_at=$mc_url
victim_is=libkvd
usage="usage: noisy-neighbour.sh [--rdma] [-m] [-r RECORDS] [-d SECONDS] [-w WORKERS]
	[-o SECTION.KEY=VALUE]... [KIND...]"
if [ "${1:-}" = --rdma ]; then
	device=rdma
	shift
fi
while getopts mr:d:w:o: option; do
	case $option in
	m) victim_is=memcached ;;
	r) records=$OPTARG ;;
	d) seconds=$OPTARG ;;
	w) workers=$OPTARG ;;
	o) options+=(-o "$OPTARG") ;;
	*) die "$usage" ;;
	esac
done
shift $((OPTIND - 1))
kinds=("$@")
[ $# -gt 0 ] || kinds=(scan 4xscan churn large deaf pulls flood stats flush mc-gets mc-line \
	mc-deaf mc-sets mc-junk mc-churn)
noise=$build/tests/system/sys_noise
columns='%-8s %10s %8s %8s %8s %8s %6s %9s %8s %8s %8s %6s %9s %8s\n'
need_hint="run make tests"
need "$noise"

# file, command, properties...
bench() {
	local file=$1 command=$2 to=(-a "$kvd_url")
	shift 2
	[ $victim_is = libkvd ] || to=(-d memcached -a "$mc_url")
	# Keys that a flush removed are not found, which is no failure here.
	"$build/kvbench" "$command" "${to[@]}" -P "$bench_dir/workloads/workloada" --json \
		-p recordcount="$records" -p requestdistribution=uniform -p fieldcount=1 \
		-p fieldlength=1000 "$@" >"$file" 2>"$file.err"
	[ -n "$(figure "$file" operations)" ] || die "kvbench $command: $(cat "$file.err")"
}

# file, seconds: runs the victim
victim() {
	bench "$1" run -p operationcount=0 -p maxexecutiontime="$2"
	[ "$(figure "$1" wrong)" = 0 ] || die "a wrong value was read"
}

noise_pids=()
# count, kind
noise_start() {
	local i to=$kvd_url
	[[ $2 != mc-* ]] || to=$mc_url
	noise_pids=()
	for ((i = 0; i < $1; i++)); do
		"$noise" "$to" "$2" >"$tmp/noise.$i" 2>&1 &
		noise_pids+=($!)
	done
	pids+=("${noise_pids[@]}")
	sleep 0.3
	for ((i = 0; i < $1; i++)); do
		! ended "${noise_pids[$i]}" || die "$2: $(tail -n 1 "$tmp/noise.$i")"
	done
}

noise_stop() {
	local pid
	kill -TERM "${noise_pids[@]}" 2>/dev/null
	for pid in "${noise_pids[@]}"; do
		wait_until 1 ended "$pid" || kill -KILL "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	pids=("$kvd_pid")
	# Wait until the server has noticed that the last clients have ended.
	wait_until 10 only_me || true
}

# shellcheck disable=SC2317 # called by wait_until
only_me() {
	[ "$(kvd_stat connections)" -le 1 ]
}

# Starts a server with the records, after a run of the victim alone.
server_start() {
	kvd_start "$device" -o server.workers="$workers" -o memory.size=256m \
		${options[@]+"${options[@]}"}
	bench "$tmp/load" load
	victim "$tmp/warm" 1
}

server_stop() {
	kvd_stop || die "kvd's exit status was $?"
	pids=()
}

# label, file, file to compare with
line() {
	local op p cells=()
	for op in read update; do
		for p in p50 p99 p99_9 max; do
			cells+=("$(awk -v x="$(figure "$2" "${op}_${p}_us")" 'BEGIN {
				printf(x < 100 ? "%.1f" : "%.0f", x) }')")
		done
		cells+=("$(ratio "$(figure "$2" "${op}_p99_us")" "$(figure "$3" "${op}_p99_us")")")
	done
	for p in p99 p99_9; do
		cells+=("$(awk -v ns="$(kvd_stat worker.turn_ns_$p)" 'BEGIN {
			printf("%.1f", ns / 1000) }')")
	done
	# shellcheck disable=SC2059 # the columns
	printf "$columns" "$1" "$(commas "$(figure "$2" operations_per_second)")" "${cells[@]}"
}

# count, kind, file, file to compare with: one line of the table
beside() {
	local label=$2
	[ "$1" = 1 ] || label=$1x$2
	server_start
	noise_start "$1" "$2"
	victim "$3" "$seconds"
	noise_stop
	line "$label" "$3" "$4"
	server_stop
}

server_start
victim "$tmp/alone" "$seconds"
say "$("$build/kvd" --version) at $kvd_url, workers: $workers; victim: 1 thread ($victim_is)," \
	"$(commas "$records") records of 1,000 B, half GETs, half PUTs; $seconds s each;" \
	"$(nproc) cores"
# shellcheck disable=SC2059
printf "$columns" '' 'ops/s' 'GET p50' p99 p99.9 max 'x busy' 'PUT p50' p99 p99.9 max 'x busy' \
	'turn p99' p99.9
line alone "$tmp/alone" "$tmp/alone"
server_stop
for kind in "${kinds[@]}"; do
	count=1
	name=$kind
	if [[ $kind =~ ^([0-9]+)x(.*)$ ]]; then
		count=${BASH_REMATCH[1]}
		name=${BASH_REMATCH[2]}
	fi
	[ -e "$tmp/busy$count" ] || beside "$count" busy "$tmp/busy$count" "$tmp/busy$count"
	beside "$count" "$name" "$tmp/run" "$tmp/busy$count"
done
