#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares kvd over RDMA with perftest's bare READs and SENDs of the same sizes, and with memcached
# and Redis over TCP, all on the device at KVD_RDMA_ADDR in one run. On Soft-RoCE in the test VM:
#
#   tests/vm/run -- bench/compare-rdma.sh [-n ROUNDS] [-d SECONDS] [-c CONNECTIONS] [-w WORKERS]
#                                         [-S CPUS] [-C CPUS] [PART...]
#
# The parts, all unless some are named:
#   short      against perftest: one operation at a time, and GETs in batches
#   async      against perftest: PUTs of 64 bytes and values of 1 MiB that are under way together
#   alone, saturated, busy
#              against memcached and Redis, GETs and PUTs of 32 and of 1,000 bytes: one client on an
#              idle host; the number of connections that gives each server its best rate, up to
#              CONNECTIONS (64); one client while a process on each CPU burns CPU time.
#              bench/compare-memcached.sh describes these parts and their columns. Each run takes
#              SECONDS (2) after a second that is not counted.
#
# Servers run on the CPUs -S (the first one), clients on -C (the last one). kvd and memcached have
# WORKERS threads, one for each CPU of -S unless given; Redis executes commands in one.
#
# ib_read_lat runs twice: with a queue pair that it connects itself, and with one of rdma_cm (-R),
# as kvd's are. Each figure against perftest is the median of ROUNDS (3) runs. The programs take
# turns, so that a disturbance of the machine affects all of them. perftest polls without a pause;
# kvd gets a long spin time to do the same.
#
# KVD_GID_INDEX is perftest's -x: by default 1, which is the one for IPv4 on Soft-RoCE.
#
# Prints tables with ratios, and against perftest with targets. Fails if a value is wrong or a call
# fails, but not if a target is missed: a busy host changes every ratio.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=bench/rivals.sh
. "$bench_dir/rivals.sh"

rounds=3
seconds=2
connections_max=64
server_cpus=0
client_cpus=$(($(nproc) - 1))
workers=
usage='compare-rdma.sh [-n ROUNDS] [-d SECONDS] [-c CONNECTIONS] [-w WORKERS] [-S CPUS] [-C CPUS]
	[short|async|alone|saturated|busy...]'
while getopts n:d:c:w:S:C: option; do
	case $option in
	n) rounds=$OPTARG ;;
	d) seconds=$OPTARG ;;
	c) connections_max=$OPTARG ;;
	w) workers=$OPTARG ;;
	S) server_cpus=$OPTARG ;;
	C) client_cpus=$OPTARG ;;
	*) die "usage: $usage" ;;
	esac
done
shift $((OPTIND - 1))
[ $# != 0 ] || set -- short async alone saturated busy
for part in "$@"; do
	[[ " short async alone saturated busy " == *" $part "* ]] || die "usage: $usage"
done
[ -n "${KVD_RDMA_ADDR:-}" ] || die "KVD_RDMA_ADDR is not set; try tests/vm/run -- $0"
need_hint="apt-get install perftest" need ib_read_lat ib_send_lat ib_read_bw ib_send_bw
need_hint="run make benchmarks" need "$build/micro"
need_hint="apt-get install memcached redis-server" need memcached redis-server
need "$build/kvbench"

records=200
samples=2000
async_ms=1000
mib=1048576
perftest_port=$((18000 + $$ % 1000))
port=$((20000 + $$ % 10000))
on_server=(taskset -c "$server_cpus")
on_client=(taskset -c "$client_cpus")
workers=${workers:-$("${on_server[@]}" nproc)}

# Fields of these lengths make items, and READs, of those sizes: 24 or 40 bytes of header, 23
# or 24 of key, rounded up to 64 bytes.
field_lengths=(32 1000)
item_bytes=(128 1088)

# port: succeeds if a process listens there on TCP
# shellcheck disable=SC2317 # called by wait_until
listening() {
	local hex
	hex=$(printf ':%04X' "$1")
	awk -v port="$hex" '$4 == "0A" && substr($2, length($2) - 4) == port { found = 1 }
		END { exit !found }' /proc/net/tcp /proc/net/tcp6
}

# program, bytes, column, options...: one run of perftest; prints the column of its result. With
# rdma_cm its server does not listen on TCP, and prints when it is ready.
perftest() {
	local program=$1 bytes=$2 column=$3 server ready
	shift 3
	ready=(listening $((perftest_port + 1)))
	[[ " $* " != *' -R '* ]] ||
		ready=(grep -q 'Waiting for client' "$tmp/perftest-server")
	: >"$tmp/perftest-server"
	perftest_port=$((perftest_port + 1))
	set -- -F -x "${KVD_GID_INDEX:-1}" -p "$perftest_port" -s "$bytes" "$@"
	stdbuf -oL "${on_server[@]}" "$program" "$@" >"$tmp/perftest-server" 2>&1 &
	server=$!
	if ! wait_until "$READY_S" "${ready[@]}"; then
		kill -KILL "$server"
		cat "$tmp/perftest-server" >&2
		return 1
	fi
	"${on_client[@]}" "$program" "$@" "$KVD_RDMA_ADDR" >"$tmp/perftest-client" 2>&1 ||
		cat "$tmp/perftest-client" >&2
	wait "$server"
	awk -v column="$column" '$1 ~ /^[0-9]+$/ && NF >= 5 { print $column }' \
		"$tmp/perftest-client"
}

# field length, figure, options...: one run of kvbench; prints the figure
bench() {
	local length=$1 name=$2
	shift 2
	"${on_client[@]}" "$build/kvbench" run -a "$kvd_url" \
		-P "$bench_dir/workloads/workloadc" --json -p recordcount=$records \
		-p requestdistribution=uniform -p fieldcount=1 \
		-p fieldlength="$length" -p operationcount=$samples -p kvd.timeout_ms=20000 \
		-p kvd.warmup_operations=$samples "$@" >"$tmp/bench" || die "kvbench run $* failed"
	figure "$tmp/bench" "$name"
}

# item bytes, field length: every program once
round() {
	local bytes=$1 length=$2 puts=(-p readproportion=0 -p updateproportion=1)
	note "read-lat-$bytes" "$(perftest ib_read_lat "$bytes" 5 -n $samples)"
	note "read-lat-cm-$bytes" "$(perftest ib_read_lat "$bytes" 5 -R -n $samples)"
	note "warm-$bytes" "$(bench "$length" read_p50_us)"
	note "cold-$bytes" "$(bench "$length" read_p50_us -p kvd.cache_bytes=0)"
	note "send-lat-$bytes" "$(perftest ib_send_lat "$bytes" 5 -n $samples)"
	note "put-$bytes" "$(bench "$length" update_p50_us "${puts[@]}")"
	note "read-bw-1-$bytes" "$(perftest ib_read_bw "$bytes" 5 -n $samples -t 1)"
	note "rate-1-$bytes" "$(bench "$length" read_per_second)"
	note "read-bw-16-$bytes" "$(perftest ib_read_bw "$bytes" 5 -n $samples -t 16)"
	note "rate-16-$bytes" "$(bench "$length" read_per_second -b 16)"
}

# title, a's name, a, b's name, b, target
row() {
	printf '  %-18s %10.1f   %-26s %10.1f   %6s   %s\n' "$1" "$2" "$3" "$4" \
		"$(ratio "$2" "$4")" "$5"
}

# name: perftest's rate, which is in millions
perftest_rate() {
	awk -v r="$(median "$1")" 'BEGIN { print 1000000 * r }'
}

# item bytes
table() {
	local bytes=$1
	printf '  %-18s %10s   %-26s %10s   %6s   %s\n' "READs of $bytes B" kvd beside '' ratio \
		target
	row 'warm GET, p50 us' "$(median "warm-$bytes")" 'ib_read_lat' \
		"$(median "read-lat-$bytes")" '<= 1.15'
	row 'warm GET, p50 us' "$(median "warm-$bytes")" 'ib_read_lat -R (rdma_cm)' \
		"$(median "read-lat-cm-$bytes")" '<= 1.10'
	row 'cold GET, p50 us' "$(median "cold-$bytes")" 'ib_read_lat' \
		"$(median "read-lat-$bytes")" '<= 2.2'
	row 'PUT, p50 us' "$(median "put-$bytes")" '2 x ib_send_lat' \
		"$(awk -v l="$(median "send-lat-$bytes")" 'BEGIN { print 2 * l }')" '<= 1.5'
	row 'GETs/s, 1' "$(median "rate-1-$bytes")" 'ib_read_bw, depth 1' \
		"$(perftest_rate "read-bw-1-$bytes")" ''
	row 'GETs/s, batch 16' "$(median "rate-16-$bytes")" 'ib_read_bw, depth 16' \
		"$(perftest_rate "read-bw-16-$bytes")" '>= 0.9'
	say
}

# name, arguments of micro async...
async_note() {
	local name=$1 rate
	shift
	rate=$("${on_client[@]}" "$build/micro" async "$@" -a "$kvd_url" -t $async_ms) ||
		die "micro async $* failed"
	note "$name" "$rate"
}

# shellcheck disable=SC2317 # a part
async() {
	local n large=(-m -v $mib -k 8 -d 4)
	for ((n = 0; n < rounds; n++)); do
		note send-bw "$(perftest ib_send_bw 64 5 -n 5000 -t 16)"
		async_note put-16 put -v 64 -d 16 -k 200
		note read-bw "$(perftest ib_read_bw $mib 5 -n 100 -t 16)"
		async_note get-large get "${large[@]}"
		async_note put-large put "${large[@]}"
	done
	printf '  %-18s %10s   %-26s %10s   %6s   %s\n' 'under way together' kvd beside '' \
		ratio target
	row 'PUTs/s, 64 B, 16' "$(median put-16)" 'ib_send_bw, depth 16' \
		"$(perftest_rate send-bw)" '>= 2'
	row 'GETs/s, 1 MiB, 4' "$(median get-large)" 'ib_read_bw of 1 MiB' \
		"$(perftest_rate read-bw)" '>= 0.9'
	row 'PUTs/s, 1 MiB, 4' "$(median put-large)" 'ib_read_bw of 1 MiB' \
		"$(perftest_rate read-bw)" '>= 0.9'
}

# field length: stores the records of that size in all servers
load() {
	workload=(-P "$bench_dir/workloads/workloadc" -p recordcount=$records
		-p requestdistribution=uniform -p fieldcount=1 -p fieldlength="$1"
		-p operationcount=0 -p maxexecutiontime="$seconds" -p kvd.warmup=1
		-p kvd.timeout_ms=20000)
	servers_load
}

# shellcheck disable=SC2317 # a part
short() {
	local i n
	for i in "${!item_bytes[@]}"; do
		load "${field_lengths[i]}"
		for ((n = 0; n < rounds; n++)); do
			round "${item_bytes[i]}" "${field_lengths[i]}"
		done
		table "${item_bytes[i]}"
	done
}

kvd_start rdma -o server.workers="$workers" -o server.spin_time=2ms -o memory.size=128m \
	-o index.keys=$records
servers=(
	"kvd, RDMA|kvd|$kvd_url"
	"memcached, TCP|memcached|memcached://$KVD_RDMA_ADDR:$((port + 1))"
	"Redis, TCP|redis|redis://$KVD_RDMA_ADDR:$((port + 2))"
)
memcached_start "${servers[1]##*|}" -t "$workers"
redis_start "${servers[2]##*|}"

say "kvd $(kvd_stat version) on $(kvd_stat device.0.name) ($KVD_RDMA_ADDR)," \
	"$workers workers; beside perftest medians of $rounds rounds; $(host)"
for part in "$@"; do
	case $part in
	short | async)
		say
		"$part"
		;;
	*)
		for length in "${field_lengths[@]}"; do
			load "$length"
			compare "$part" "$(commas "$length") B" get put
		done
		;;
	esac
done
kvd_stop
