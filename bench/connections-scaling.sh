#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures PUTs of one client thread over many connections in turn, and while other connections are
# idle, on softnic with one worker.
#
#   bench/connections-scaling.sh [-s SECONDS] [-r ROUNDS] [-c "1 16 256 1000"] [-i "1000 10000"]
#                                [-t PAUSE_US] [-B OTHER_BUILD]
#
# One line for each number of active connections (-c; none of them idle), then for each number of
# idle ones (-i) with one active connection. The figures are those of the round with the median
# rate, which is that of the 90th percentile of intervals of 20 ms; the ratio is to one connection
# of the same build. Targets: 0.5 with 1,000 active, 0.95 with 10,000 idle. "us CPU" is kvd's CPU
# time per PUT, "KiB each" its resident memory per connection. With -t the client sleeps between
# two PUTs: then kvd's worker sleeps, too, and its CPU time is the figure to compare. With -B each
# line also runs with the programs in that folder, in turn.
#
# Root may open as many files as it needs; others need ulimit -n 40000.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

seconds=2
rounds=3
active_list='1 16 256 1000'
idle_list='1000 10000'
pause_us=0
other=
usage='connections-scaling.sh [-s SECONDS] [-r ROUNDS] [-c "1 16"] [-i "1000"] [-t US] [-B BUILD]'
while getopts s:r:c:i:t:B: option; do
	case $option in
	s) seconds=$OPTARG ;;
	r) rounds=$OPTARG ;;
	c) active_list=$OPTARG ;;
	i) idle_list=$OPTARG ;;
	t) pause_us=$OPTARG ;;
	B) other=$OPTARG ;;
	*) die "usage: $usage" ;;
	esac
done
builds_find "$other"
ulimit -n 40000 2>/dev/null || ulimit -n "$(ulimit -H -n)"

# build, active, idle: one run, in a line of $tmp/lines
measure() {
	local figures
	build=$1
	kvd_start softnic -o server.workers=1 -o server.max_connections=12000 \
		-o request.srq_depth=12000 -o request.window=1 -o memory.size=256m \
		-o memory.hugepages=off
	figures=$("$build/micro" connections -a "$kvd_url" -c "$2" -i "$3" -s "$seconds" \
		-t "$pause_us" -p "$kvd_pid") || {
		tail -n 5 "$tmp/kvd.log" >&2
		die "$2 active and $3 idle connections: the client failed"
	}
	kvd_stop || die "kvd failed"
	printf '%s %s %s %s\n' "$1" "$2" "$3" "$figures" >>"$tmp/lines"
	printf '%s\n' "$(basename "$(dirname "$1")"): $2 active, $3 idle: $figures" >&2
}

# build: the medians, with ratios to one connection
table() {
	sort -k 2,2n -k 3,3n -k 4,4n "$tmp/lines" | awk -v build="$1" '
	function flush(m) {
		if (!n) return
		m = int((n + 1) / 2)
		if (key == "1 0") one = rate[m]
		split(key, of, " ")
		split(rest[m], f, " ")
		printf "%7d %7d %9d %6.2f %9d %8.1f %8.1f %8.1f %9d %8.2f %8.1f\n", of[1], of[2],
			rate[m], one ? rate[m] / one : 0, f[1], f[2], f[3], f[4], f[5], f[6], f[7]
		n = 0
	}
	$1 == build {
		if ($2 " " $3 != key) flush()
		key = $2 " " $3
		rate[++n] = $4
		rest[n] = $5 " " $6 " " $7 " " $8 " " $9 " " $10 " " $11
	}
	END { flush() }'
}

for ((round = 0; round < rounds; round++)); do
	for active in $active_list; do
		for of in "${builds[@]}"; do
			measure "$of" "$active" 0
		done
	done
	for idle in $idle_list; do
		for of in "${builds[@]}"; do
			measure "$of" 1 "$idle"
		done
	done
done

say "kvd on softnic, PUTs of 48 bytes, 1 worker, 1 client thread, $seconds s each, medians of" \
	"$rounds; $(host)"
for of in "${builds[@]}"; do
	say "$of:"
	printf '%7s %7s %9s %6s %9s %8s %8s %8s %9s %8s %8s\n' active idle 'PUT/s' ratio \
		overall 'p50 us' p99 p99.9 'opened/s' 'us CPU' 'KiB each'
	table "$of"
done
