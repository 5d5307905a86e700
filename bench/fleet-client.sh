#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures what a client of a fleet needs that uses all of its members, on softnic: memory,
# descriptors and threads, and the time to connect to all.
#
#   bench/fleet-client.sh [-m "1 3 30 300"]
#
# The client is a kvctl that puts 40 keys for each member, and so connects to all of them. Memory is
# what no other process shares (of softnic: without the servers' memory), as the kernel counts it.
# A member needs some 15 MiB and 5 threads of the machine.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

list='1 3 30 300'
while getopts m: option; do
	case $option in
	m) list=$OPTARG ;;
	*) die 'usage: fleet-client.sh [-m "1 3 30 300"]' ;;
	esac
done
KEYS=40 # for each member
need "$build/kvd" "$build/kvctl"
ulimit -n "$(ulimit -H -n)"
options=(-o server.workers=1 -o memory.size=16m -o memory.eviction=none -o memory.hugepages=off)

responds() { # member
	"$build/kvctl" -a "softnic://$tmp/$1" ping >/dev/null 2>&1
}

start() { # members
	local i
	printf '%s\n' '[fleet]' 'name = bench' 'seed = 0x8f3a5c0de1b24697' 'epoch = 1' >"$tmp/fleet"
	for ((i = 0; i < $1; i++)); do
		printf '%s\n' "[member m$i]" "url = softnic://$tmp/m$i" >>"$tmp/fleet"
	done
	for ((i = 0; i < $1; i++)); do
		"$build/kvd" -c /dev/null -o server.listen="softnic://$tmp/m$i" \
			-o fleet.file="$tmp/fleet" -o fleet.member="m$i" "${options[@]}" \
			>"$tmp/kvd.log" 2>&1 &
		pids+=($!)
	done
	for ((i = 0; i < $1; i++)); do
		wait_until "$READY_S" responds "m$i" ||
			die "member m$i did not start: $(tail -n 2 "$tmp/kvd.log")"
	done
}

stop() {
	local pid
	for pid in "${pids[@]}"; do
		kill -TERM "$pid"
	done
	wait "${pids[@]}"
	pids=()
}

answers_are() {
	[ "$(wc -l <"$tmp/out")" -ge "$1" ]
}

# pid, name: a number of the kernel's
status_of() {
	sed -n "s/^$2:[^0-9]*\([0-9]*\).*/\1/p" "/proc/$1/status"
}

private_kib() { # pid
	awk '/^Private_/ { sum += $2 } END { print sum }' "/proc/$1/smaps_rollup"
}

measure() { # members
	local i client start keys=$((KEYS * $1))
	mkfifo "$tmp/in"
	"$build/kvctl" -a "fleet+softnic://$tmp/m0/bench" <"$tmp/in" >"$tmp/out" 2>"$tmp/err" &
	client=$!
	exec 3>"$tmp/in"
	rm "$tmp/in"
	start=$(date +%s%N)
	for ((i = 0; i < keys; i++)); do
		echo "put k$i v"
	done >&3
	echo "get k0" >&3
	wait_until "$READY_S" answers_are 1 || die "the client failed: $(head -n 1 "$tmp/err")"
	note "ms-$1" $((($(date +%s%N) - start) / 1000000))
	note "kib-$1" "$(private_kib $client)"
	note "fds-$1" "$(find "/proc/$client/fd" -mindepth 1 | wc -l)"
	note "threads-$1" "$(status_of $client Threads)"
	exec 3>&-
	wait $client || die "the client failed: $(head -n 1 "$tmp/err")"
}

for members in $list; do
	start "$members"
	measure "$members"
	stop
done
say "$(host)"
printf '%8s %12s %12s %8s %16s\n' members 'memory, KiB' descriptors threads 'ms, with PUTs'
for members in $list; do
	printf '%8s %12s %12s %8s %16s\n' "$members" "$(median "kib-$members")" \
		"$(median "fds-$members")" "$(median "threads-$members")" "$(median "ms-$members")"
done
