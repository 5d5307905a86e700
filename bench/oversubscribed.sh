#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures PUTs where kvd's workers and its clients share few CPUs: any number of threads, pinned in
# the best way, the worst way and not at all, alone and together with busy loops, one on each CPU.
#
#   bench/oversubscribed.sh [-q] [-s SECONDS] [-w "1 2 4"] [-c "1 2 4 8"] [-b "0 2"]
#                           [-B BUILD_BEFORE]
#
# One line for each number of busy loops (-b), workers (-w), clients (-c) and placement:
#   across  client pinned to another CPU than its worker's (with 2 workers the best for one client)
#   beside  client pinned to its worker's CPU
#   free    neither clients nor workers are pinned
# The ratios are to the best placement of the same number of workers, clients and busy loops: the
# highest rate, and the p99.9 of that line; "of all" is the ratio to the highest rate of all lines
# with that number of loops. A target is missed if a rate is below 0.9 of that placement's, or p99.9
# above 5 x. `beside` with one worker or one client does not count: one CPU does all the work there.
# With -B each line also runs with the programs in that folder, in turn.
# -q: only 2 workers with 2 clients, 1 with 1, and 4 with 8.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

seconds=1
workers_list='1 2 4'
clients_list='1 2 4 8'
loops_list='0 2'
before=
quick=
usage='oversubscribed.sh [-q] [-s SECONDS] [-w "1 2"] [-c "1 2"] [-b "0 2"] [-B BUILD_BEFORE]'
while getopts qs:w:c:b:B: option; do
	case $option in
	q) quick=1 ;;
	s) seconds=$OPTARG ;;
	w) workers_list=$OPTARG ;;
	c) clients_list=$OPTARG ;;
	b) loops_list=$OPTARG ;;
	B) before=$OPTARG ;;
	*) die "usage: $usage" ;;
	esac
done
builds_find "$before"

# workers, clients: whether this combination is measured
wanted() {
	[ -z "$quick" ] || [[ " 1-1 2-2 4-8 " == *" $1-$2 "* ]]
}

# build, workers, clients, placement, loops: one run, in a line of $tmp/lines
measure() {
	local pin=yes figures
	[ "$4" != free ] || pin=no
	build=$1
	kvd_start softnic -o server.workers="$2" -o server.pin=$pin -o memory.size=256m \
		-o memory.hugepages=off
	# Connections that checked whether kvd responds must be gone before the clients connect.
	wait_until 5 only_this_connection || die "connections stay"
	figures=$("$build/micro" crowd -a "$kvd_url" -w "$2" -c "$3" -p "$4" -b "$5" \
		-s "$seconds") || die "micro crowd failed"
	kvd_stop || die "kvd failed"
	printf '%s %s %s %s %s %s\n' "$1" "$5" "$2" "$3" "$4" "$figures" >>"$tmp/lines"
}

# shellcheck disable=SC2317 # called by wait_until
only_this_connection() {
	[ "$(kvd_stat connections)" = 1 ]
}

# build, loops: the lines, with ratios to the best placement of each
table() {
	awk -v build="$1" -v loops="$2" '
	$1 == build && $2 == loops {
		n++
		for (i = 3; i <= NF; i++) f[n, i] = $i
		threads[n] = $3 " " $4
		if ($6 > best[threads[n]]) { best[threads[n]] = $6; best_p999[threads[n]] = $9 }
		if ($6 > of_all) of_all = $6
	}
	END {
		for (i = 1; i <= n; i++) {
			rate = f[i, 6] / best[threads[i]]; tail = f[i, 9] / best_p999[threads[i]]
			one_cpu = f[i, 5] == "beside" && (f[i, 3] == 1 || f[i, 4] == 1)
			missed = rate < 0.9 ? " rate" : ""
			if (tail > 5) missed = missed " p99.9"
			printf "%7d %7d  %-7s %9d %6.2f %6.2f %8.1f %8.1f ", f[i, 3], f[i, 4],
				f[i, 5], f[i, 6], rate, f[i, 6] / of_all, f[i, 7], f[i, 8]
			printf "%9.1f %7.2f %9.1f %6.2f %7.2f %s\n", f[i, 9], tail, f[i, 10],
				f[i, 11], f[i, 12], one_cpu ? " (one CPU)" : missed
			if (one_cpu) continue
			lines++; rates += rate < 0.9; tails += tail > 5
		}
		printf "%d of %d below 0.9 of the best placement, %d above 5 x its p99.9\n\n",
			rates, lines, tails
	}' "$tmp/lines"
}

for loops in $loops_list; do
	for workers in $workers_list; do
		for clients in $clients_list; do
			wanted "$workers" "$clients" || continue
			for placement in across beside free; do
				for of in "${builds[@]}"; do
					measure "$of" "$workers" "$clients" "$placement" "$loops"
				done
			done
		done
	done
done

say "kvd on softnic, PUTs of 48 bytes, $seconds s each; $(host)"
for loops in $loops_list; do
	for of in "${builds[@]}"; do
		say "$of, $loops busy loops:"
		printf '%7s %7s  %-7s %9s %6s %6s %8s %8s %9s %7s %9s %6s %7s\n' workers clients \
			clients 'PUT/s' ratio 'of all' 'p50 us' p99 p99.9 ratio max fair switches
		table "$of" "$loops"
	done
done
