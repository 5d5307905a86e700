#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares kvd's Python clients, synchronous and asyncio, with redis-py, pymemcache and pylibmc: the
# same values, keys and loops (bench/python/clients.py), in one process, in turn.
#
#   bench/python.sh [-r ROUNDS] [-t MS] [-c]
#
# kvd on softnic, redis-server and memcached have one thread each and Unix sockets, and only one is
# measured at a time. Each figure is the median of ROUNDS (3) rounds of MS (200) ms, in keys per
# second. A batch has 32 keys, asyncio 64 outstanding operations, of large values as many as make 16
# MiB. redis-py may open a connection for each outstanding operation; kvd has one. put_from and
# get_into move values in registered memory, which the others do not have. kvd has its extension
# where `make` has built that; -c: it has ctypes alone. On a busy machine only the ratios say
# something.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

rounds=3
ms=200
export KVD_PYTHON_HOT=$build/python/_hot.abi3.so
[ -e "$KVD_PYTHON_HOT" ] || unset KVD_PYTHON_HOT
while getopts r:t:c option; do
	case $option in
	r) rounds=$OPTARG ;;
	t) ms=$OPTARG ;;
	c) export KVD_PYTHON_CTYPES=1 ;;
	*) die "usage: python.sh [-r ROUNDS] [-t MS] [-c]" ;;
	esac
done
need_hint="run conf/install-deps test" need redis-server memcached redis-cli /usr/bin/python3
/usr/bin/python3 -c 'import pylibmc, pymemcache, redis' 2>/dev/null ||
	die "redis-py, pymemcache or pylibmc is missing: run conf/install-deps test"

# shellcheck disable=SC2317 # called by wait_until
redis_responds() {
	redis-cli -s "$tmp/redis.sock" ping >/dev/null 2>&1
}

redis-server --port 0 --unixsocket "$tmp/redis.sock" --save '' --appendonly no \
	--dir "$tmp" >"$tmp/redis.log" 2>&1 &
pids+=($!)
memcached -u "$(id -un)" -t 1 -m 1024 -I 8m -s "$tmp/memcached.sock" >"$tmp/memcached.log" 2>&1 &
pids+=($!)
wait_until "$READY_S" redis_responds || die "redis-server did not start: $(cat "$tmp/redis.log")"
wait_until "$READY_S" test -S "$tmp/memcached.sock" ||
	die "memcached did not start: $(cat "$tmp/memcached.log")"
kvd_start softnic -o server.workers=1 -o memory.size=1g -o memory.eviction=none

say "keys per second, median of $rounds x $ms ms; $(nproc) CPUs," \
	"load $(cut -d ' ' -f 1 /proc/loadavg)"
KVD_LIBRARY=$build/libkvd.so.0.4 PYTHONPATH=$bench_dir/../client/python \
	PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$bench_dir/python/clients.py" "$kvd_url" \
	"$tmp/redis.sock" "$tmp/memcached.sock" "$rounds" "$ms" || die "the loops failed"
kvd_stop || die "kvd failed"
