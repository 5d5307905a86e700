#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of guarantee F, one client can't harm another: beside each kind of noisy client
# (tests/system/sys_noise.c) kvbench reads and writes, on softnic by memcached's protocol, too, and
# every operation succeeds with the right value; when the noise ends, all that it held is free
# again. How fast the operations are is measured by bench/noisy-neighbour.sh.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

records=200
operations=2000 # beside each
mc_operations=100 # each waits for a turn of all connections of the noise
[ "$device" = softnic ] || operations=200
value_bytes=1000
if [ "${KVD_TEST_LONG:-0}" != 0 ]; then
	operations=$((operations * 10))
	mc_operations=$((mc_operations * 10))
fi
kinds="scan churn large deaf stats"
keepers="large deaf" # of keys
mc_url=memcached://127.0.0.1:$((10000 + $$ % 10000)) # below those of clients, and of RDMA devices
# Only softnic needs a client's process for a pull, or shares descriptors with it. No device has to
# do with clients of memcached's protocol.
if [ "$device" = softnic ]; then
	kinds+=" pulls flood mc-gets mc-line mc-deaf mc-sets mc-junk mc-churn"
	keepers+=" mc-gets mc-deaf"
fi

# command, properties...: runs the victim
victim() {
	"$build/kvbench" "$1" -a "$url" -P bench/workloads/workloada --json \
		-p recordcount=$records -p fieldcount=1 -p fieldlength=$value_bytes \
		"${PATIENT[@]}" "${@:2}" >"$tmp/victim" 2>"$tmp/victim.err"
}

# Runs it by libkvd and by memcached's protocol.
victims() {
	victim run -p operationcount=$operations || return 1
	[ "$device" != softnic ] ||
		victim run -d memcached -a "$mc_url" -p operationcount=$mc_operations
}

# kind: starts that noise
noise_start() {
	local to=$url
	[[ $1 != mc-* ]] || to=$mc_url
	: >"$tmp/noise" # what the noise before said
	"$build/tests/system/sys_noise" "$to" "$1" >"$tmp/noise" 2>&1 &
	noise=$!
	pids+=("$noise")
	await_line "$tmp/noise" '^begins' "$noise"
}

# sys_noise may wait for the server in a call, and is killed then: a client that vanishes.
noise_stop() {
	kill -TERM "$noise" 2>/dev/null
	wait_until 3 ended "$noise" || kill -KILL "$noise"
	await_end "$noise"
	forget "$noise"
}

noisy() { # kind
	local result
	noise_start "$1" || return 1
	victims
	result=$?
	ended "$noise" && cat "$tmp/noise" && result=1
	noise_stop
	[ $result = 0 ] && return 0
	cat "$tmp/victim.err" "$tmp/noise"
	grep -E '"(ended|failed|not_found|wrong)"' "$tmp/victim"
	return 1
}

# What a flush removes is not found; nothing else may go wrong.
flushed() {
	noise_start flush || return 1
	victim run -p operationcount=$operations
	noise_stop
	grep -q '"failed": 0,' "$tmp/victim" && grep -q '"wrong": 0$' "$tmp/victim" && return 0
	cat "$tmp/victim.err" "$tmp/noise"
	return 1
}

config_write "$url,$mc_url"
# mc-churn must not take all places, on a machine so busy that the worker can't end them.
check "the server starts" server_start -o memory.size=64m -o memory.eviction=none \
	-o server.pull_timeout=2s -o server.max_connections=10000
check "records are loaded" victim load
# The keys that noise itself stores stay, so they are there before the memory is noted.
for kind in $keepers; do
	check "noise of $kind, for its keys" noisy "$kind"
done
check "what the server holds is noted" held_note
for kind in $kinds; do
	check "beside $kind every operation succeeds" noisy "$kind"
	check "all that $kind held is free" nothing_is_held 1
done
check "beside flush no operation fails" flushed
check "all that flush held is free" nothing_is_held 1
check "the server stops" server_stop
finish
