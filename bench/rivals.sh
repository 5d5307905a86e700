# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Functions for the scripts that compare kvd with memcached and Redis: start and stop of these on
# Unix sockets in $tmp, and the CPU time and memory of a process. To be sourced after bench/lib.sh.

memcached_pid=
memcached_url=memcached://$tmp/memcached.sock
redis_pid=
redis_url=redis://$tmp/redis.sock

# pid: of a process that was waited for; the number may soon be that of another process
forget() {
	local pid kept=()
	for pid in ${pids[@]+"${pids[@]}"}; do
		[ "$pid" = "$1" ] || kept+=("$pid")
	done
	pids=(${kept[@]+"${kept[@]}"})
}

# name, pid
rival_stop() {
	kill -TERM "$2"
	wait_until "$STOP_S" ended "$2" || die "$1 did not stop"
	wait "$2"
	forget "$2"
}

# store, pid, url
# shellcheck disable=SC2317 # called by wait_until
rival_responds() {
	ended "$2" || "$build/kvbench" count -d "$1" -a "$3" >/dev/null 2>&1
}

# megabytes, threads
memcached_start() {
	rm -f "$tmp/memcached.sock"
	memcached -u "$(id -un)" -t "$2" -m "$1" -s "$tmp/memcached.sock" \
		>"$tmp/memcached.log" 2>&1 &
	memcached_pid=$!
	pids+=("$memcached_pid")
	if ! wait_until "$READY_S" rival_responds memcached "$memcached_pid" "$memcached_url" ||
		ended "$memcached_pid"; then
		cat "$tmp/memcached.log" >&2
		die "memcached did not start"
	fi
}

# Without persistence, otherwise with its defaults.
redis_start() {
	redis-server --port 0 --unixsocket "$tmp/redis.sock" --dir "$tmp" --save '' \
		--appendonly no >"$tmp/redis.log" 2>&1 &
	redis_pid=$!
	pids+=("$redis_pid")
	if ! wait_until "$READY_S" rival_responds redis "$redis_pid" "$redis_url" ||
		ended "$redis_pid"; then
		cat "$tmp/redis.log" >&2
		die "redis-server did not start"
	fi
}

# Stops kvd so that another one can be started.
kvd_end() {
	kvd_stop || die "kvd ended with status $?"
	forget "$kvd_pid"
	kvd_url=
}

# pid: CPU time of all its threads, in user mode and in the kernel, in microseconds each
cpu_us() {
	local stat
	stat=$(cat "/proc/$1/stat") || die "no process $1"
	# The name in parentheses may have blanks; user and system time are fields 12 and 13 after
	# it.
	awk -v hz="$(getconf CLK_TCK)" '{ printf "%.0f %.0f\n", $12 * 1e6 / hz, $13 * 1e6 / hz }' \
		<<<"${stat##*) }"
}

# pid: proportional set size in KiB, memory files included
pss_kib() {
	awk '$1 == "Pss:" { print $2 }' "/proc/$1/smaps_rollup"
}

# pid: the same once it no longer changes: tables grow for a while after the last key
pss_settled_kib() {
	local before now change same=0
	before=$(pss_kib "$1")
	while [ $same -lt 4 ]; do
		sleep 0.5
		now=$(pss_kib "$1")
		change=$((now > before ? now - before : before - now))
		if [ $change -le $((before / 2000)) ]; then
			same=$((same + 1))
		else
			same=0
		fi
		before=$now
	done
	printf '%s\n' "$now"
}
