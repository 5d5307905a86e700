#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares kvd on softnic with memcached and Redis on this host, over loopback TCP and Unix sockets.
# kvbench drives all of them: the same keys, values, checks, clock and CPUs.
#
#   bench/compare-memcached.sh [-d SECONDS] [-r RECORDS] [-v "SIZE..."] [-o "OPERATION..."]
#                              [-w WORKERS] [-c CONNECTIONS] [-S CPUS] [-C CPUS] [PART...]
#
# The parts, all unless some are named:
#   alone      one client with one connection, idle host
#   saturated  the number of connections that gives each server its best rate: 1, 2, 4 and so on,
#              until two doublings in turn bring less than 2 % more; up to CONNECTIONS (256; a +
#              after the number marks this end). Each connection has a client thread of its own.
#   busy       one client, while a process on each CPU burns CPU time. A server that sleeps between
#              two requests pays for waking an idle CPU in `alone`, and for waiting until it gets
#              the CPU here.
#
# Operations: get, put, get16 (16 GETs that are sent together, whose latency is that of all 16); get
# and put unless given. Values have SIZE (1000) bytes; several sizes are measured in turn. Keys are
# uniform over RECORDS (100000), and every byte that is read is checked. Each run takes SECONDS (2)
# after a second that is not counted; so with the defaults and seven numbers of connections all
# parts take about six minutes.
#
# kvd and memcached have WORKERS threads, one for each CPU unless given; Redis executes commands in
# one. All servers run the whole time, and all but the one that is measured are idle. -S and -C bind
# servers and clients to CPUs, as 0-3,8; unless given both may use all, and kvd's workers bind
# themselves, one to each CPU. bench/async.sh compares PUTs that are under way together.
#
# Columns: connections; operations per second; p50 and p99 in us; the CPU time of the server's
# process for an operation in us; and kvd's rate over this one's. Fails if a value is wrong or a
# call fails. Targets, of one client over TCP on an idle host: GET >= 20 x memcached, PUT >= 8 x.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=bench/rivals.sh
. "$bench_dir/rivals.sh"

seconds=2
records=100000
sizes=1000
operations='get put'
workers=
usage='compare-memcached.sh [-d SECONDS] [-r RECORDS] [-v "SIZE..."] [-o "OPERATION..."]
	[-w WORKERS] [-c CONNECTIONS] [-S CPUS] [-C CPUS] [alone|saturated|busy...]'
while getopts d:r:v:o:w:c:S:C: option; do
	case $option in
	d) seconds=$OPTARG ;;
	r) records=$OPTARG ;;
	v) sizes=$OPTARG ;;
	o) operations=$OPTARG ;;
	w) workers=$OPTARG ;;
	c) connections_max=$OPTARG ;;
	S) on_server=(taskset -c "$OPTARG") ;;
	C) on_client=(taskset -c "$OPTARG") ;;
	*) die "usage: $usage" ;;
	esac
done
shift $((OPTIND - 1))
[ $# != 0 ] || set -- alone saturated busy
for word in "$@" $operations; do
	[[ " alone saturated busy get put get16 " == *" $word "* ]] || die "usage: $usage"
done
need "$build/kvbench"
need_hint="apt-get install memcached redis-server" need memcached redis-server
workers=${workers:-$(${on_server[@]+"${on_server[@]}"} nproc)}

port=$((20000 + $$ % 10000))
largest=$(tr ' ' '\n' <<<"$sizes" | sort -n | tail -n 1)
mib=$((1024 + records * (largest + 200) * 2 / 1048576))
servers=(
	'' # kvd's address is known when it runs
	"memcached, TCP|memcached|memcached://127.0.0.1:$((port + 1))"
	"memcached, Unix socket|memcached|$memcached_url"
	"Redis, TCP|redis|redis://127.0.0.1:$((port + 2))"
	"Redis, Unix socket|redis|$redis_url"
)
kvd_start softnic -o server.workers="$workers" -o memory.size=${mib}m -o index.keys="$records"
servers[0]="kvd, softnic|kvd|$kvd_url"
for row in "${servers[@]:1:2}"; do
	memcached_start "${row##*|}" -t "$workers" -m $mib -I 32m
done
for row in "${servers[@]:3}"; do
	redis_start "${row##*|}"
done

say "kvd $(kvd_stat version), memcached $(memcached -V | awk '{ print $2 }')," \
	"Redis $(redis-server --version | sed 's/.*v=\([^ ]*\).*/\1/'); $(host)"
say "$workers workers; $(commas "$records") records, uniform keys, every byte read is checked;" \
	"$seconds s each"
for size in $sizes; do
	workload=(-P "$bench_dir/workloads/workloadc" -p recordcount="$records"
		-p requestdistribution=uniform -p fieldcount=1 -p fieldlength="$size"
		-p operationcount=0 -p maxexecutiontime="$seconds" -p kvd.warmup=1
		-p kvd.cache_bytes=64m)
	servers_load
	for part in "$@"; do
		# shellcheck disable=SC2086 # a word for each operation
		compare "$part" "$(commas "$size") B" $operations
	done
done
kvd_stop
