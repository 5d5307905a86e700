#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures how long a kvd with memory.file takes to serve again what it had stored, and whether all
# of it is there: after a stop, and after kill -9.
#
#   bench/restart.sh [-n KEYS] [-l BYTES] [-r ROUNDS]
#
# Stores KEYS (10 million) records of BYTES (740), which fill about 8 GiB, by YCSB's load, without
# eviction. Then kvd is started again ROUNDS (3) times after a stop and as often after a kill.
# Prints seconds from the start of the process until it answers, the milliseconds in which pages
# were mapped and items verified, as kvd logs them, the number of keys, and the most memory that the
# process had beside the region. The files are in /dev/shm.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

keys=10000000
bytes=740
rounds=3
while getopts n:l:r: option; do
	case $option in
	n) keys=$OPTARG ;;
	l) bytes=$OPTARG ;;
	r) rounds=$OPTARG ;;
	*) die "usage: restart.sh [-n KEYS] [-l BYTES] [-r ROUNDS]" ;;
	esac
done
file=$(mktemp -u /dev/shm/kvd-bench-XXXXXX)
# shellcheck disable=SC2317 # called by trap
files_remove() {
	cleanup
	rm -f "$file" "$file".*
}
trap files_remove EXIT

start() {
	kvd_start softnic -o memory.file="$file" -o memory.eviction=none \
		-o memory.size=$((keys * (bytes + 200) + (64 << 20)))
}

# text: the last number in the line of the log that has it
logged_ms() {
	sed -n "s/.*$1.* \([0-9]*\) ms.*/\1/p" "$tmp/kvd.log" | tail -n 1
}

kvd_kill() {
	kill -KILL "$kvd_pid"
	! wait "$kvd_pid" 2>/dev/null
}

# name, how it ends
restart() {
	local begin seconds beside
	"$2" || die "kvd did not end well"
	begin=$EPOCHREALTIME
	start
	seconds=$(awk "BEGIN { printf \"%.2f\", $EPOCHREALTIME - $begin }")
	beside=$(awk '/^VmHWM/ { all = $2 } /^RssShmem/ { shared = $2 }
		END { printf "%d", (all - shared) / 1024 }' "/proc/$kvd_pid/status")
	printf '%-10s %8s s  pages %6s ms  verified %6s ms  keys %12s  beside %6s MiB\n' "$1" \
		"$seconds" "$(logged_ms 'allocated in')" "$(logged_ms 'that took')" \
		"$(commas "$(kvd_stat items)")" "$beside"
	[ "$(kvd_stat items)" = "$keys" ] || die "keys are missing"
}

say "$(commas "$keys") keys of $bytes bytes; $(host)"
start
"$build/kvbench" load -a "$kvd_url" -P "$bench_dir/workloads/workloadc" -D 32 \
	-p recordcount="$keys" -p fieldcount=1 -p fieldlength="$bytes" >"$tmp/load" ||
	die "kvbench load failed"
say "bytes: region $(commas "$(kvd_stat region_bytes)")," \
	"items $(commas "$(kvd_stat item_memory_live_bytes)")"
for ((round = 0; round < rounds; round++)); do
	restart stopped kvd_stop
	restart killed kvd_kill
done
kvd_stop
