#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures what one operation costs in kvd's table and in liburcu's cds_lfht, in one process without
# a network, and in memcached's process.
#
#   bench/table-bench.sh [-q]
#
# 1 million keys and 10 million (-q: 1 million), 16 bytes each with values of 32. memcached can't be
# called in-process: its figure is the CPU time of its process for an operation, at its cheapest:
# one connection over a Unix socket, one worker thread, 64 keys in one get, 64 sets or deletes sent
# with one system call. That includes its protocol and, as "kernel", its socket calls, which kvd's
# and liburcu's figures do not. All responses are checked.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=bench/rivals.sh
. "$bench_dir/rivals.sh"

sizes=(1000000 10000000)
while getopts q option; do
	case $option in
	q) sizes=(1000000) ;;
	*) die "usage: table-bench.sh [-q]" ;;
	esac
done
need_hint="run make benchmarks" need "$build/table-bench"
need_hint="apt-get install memcached" need memcached

# name, kvbench's command, records: CPU time of memcached's process for each
cost() {
	local before after
	before=$(cpu_us "$memcached_pid")
	"$build/kvbench" "$2" -d memcached -a "$memcached_url" -n "$3" >/dev/null ||
		die "kvbench $2 failed"
	after=$(cpu_us "$memcached_pid")
	awk -v name="$1" -v n="$3" '{
		user = ($3 - $1) * 1000 / n; kernel = ($4 - $2) * 1000 / n
		printf "%-10s %9.0f %9.0f %9.0f\n", name, user + kernel, user, kernel
	}' <<<"$before $after"
}

# records
memcached_costs() {
	memcached_start "$memcached_url" -t 1 -m 8192
	printf '%-10s %9s %9s %9s\n' '' memcached user kernel
	cost insert put "$1"
	cost 'get, hit' get "$1"
	cost 'get, miss' miss "$1"
	cost replace put "$1"
	cost delete delete "$1"
	rival_stop memcached "$memcached_pid"
}

say "$(host)"
for records in "${sizes[@]}"; do
	say
	"$build/table-bench" "$records" || die "table-bench failed"
	say
	say "memcached $(memcached -V | awk '{ print $2 }'), the same records:" \
		"ns of its process's CPU for an operation, protocol and socket included"
	memcached_costs "$records"
done
