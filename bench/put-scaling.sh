#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures PUTs per second of one worker and of two, with one client thread and with two.
#
#   bench/put-scaling.sh [-r RECORDS] [-d SECONDS] [-n ROUNDS]
#
# Updates of uniform keys, values of 80 bytes, over softnic. The combinations take turns, ROUNDS
# times; the median is printed. Each worker and each client is a busy thread: a line says if there
# are more of them than cores.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=bench/rivals.sh
. "$bench_dir/rivals.sh"

records=100000
seconds=3
rounds=3
while getopts r:d:n: option; do
	case $option in
	r) records=$OPTARG ;;
	d) seconds=$OPTARG ;;
	n) rounds=$OPTARG ;;
	*) die "usage: put-scaling.sh [-r RECORDS] [-d SECONDS] [-n ROUNDS]" ;;
	esac
done
need "$build/kvbench"

# file, command, threads, properties...
bench() {
	local file=$1 command=$2 threads=$3
	shift 3
	"$build/kvbench" "$command" -a "$kvd_url" -P "$bench_dir/workloads/workloadc" --json \
		-t "$threads" -p recordcount="$records" -p requestdistribution=uniform \
		-p fieldcount=1 -p fieldlength=48 "$@" >"$file" || die "kvbench $command failed"
}

# workers: one start of kvd, with one client thread and with two
round() {
	local clients
	kvd_start softnic -o server.workers="$1" -o memory.size=1g -o memory.hugepages=off
	bench "$tmp/load" load 1
	for clients in 1 2; do
		bench "$tmp/run" run "$clients" -p readproportion=0 -p updateproportion=1 \
			-p operationcount=0 -p maxexecutiontime="$seconds" -p kvd.warmup=1
		printf '%s %s %s %s\n' "$(figure "$tmp/run" update_per_second)" \
			"$(figure "$tmp/run" update_p50_us)" \
			"$(figure "$tmp/run" server_useful_us_per_operation)" \
			"$(figure "$tmp/run" server_polling_us_per_operation)" >>"$tmp/$1-$clients"
	done
	kvd_end
}

# workers, clients: the round with the median rate
middle() {
	sort -n "$tmp/$1-$2" | sed -n "$(((rounds + 1) / 2))p"
}

for ((i = 0; i < rounds; i++)); do
	round 1
	round 2
done

say "kvd on softnic, PUTs of $(commas "$records") keys, 80 bytes; $seconds s each, median of" \
	"$rounds; $(nproc) cores, load now: $(cut -d ' ' -f 1 /proc/loadavg)"
say "Of the server's CPU: useful is in turns that found work; polling is the rest of it."
printf '%7s %7s %12s %8s %15s %15s %10s\n' workers clients 'per second' 'p50 us' \
	'useful us/PUT' 'polling us/PUT' 'over 1, 1'
read -r one _ <<<"$(middle 1 1)"
for workers in 1 2; do
	for clients in 1 2; do
		read -r rate p50 useful polling <<<"$(middle $workers $clients)"
		note=
		[ $((workers + clients)) -le "$(nproc)" ] || note='  more threads than cores'
		printf '%7s %7s %12s %8s %15s %15s %10s%s\n' $workers $clients "$(commas "$rate")" \
			"$p50" "$useful" "$polling" "$(ratio "$rate" "$one")" "$note"
	done
done
