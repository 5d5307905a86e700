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
# get_into move values in registered memory, which the other clients do not have. kvd uses its
# extension if `make` has built it; -c: only ctypes. On a busy machine only the ratios are
# meaningful.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=bench/rivals.sh
. "$bench_dir/rivals.sh"

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
need_hint="run conf/install-deps test" need redis-server memcached /usr/bin/python3
/usr/bin/python3 -c 'import pylibmc, pymemcache, redis' 2>/dev/null ||
	die "redis-py, pymemcache or pylibmc is missing: run conf/install-deps test"

redis_start "$redis_url"
memcached_start "$memcached_url" -t 1 -m 1024 -I 8m
kvd_start softnic -o server.workers=1 -o memory.size=1g -o memory.eviction=none

say "keys per second, median of $rounds x $ms ms; $(host)"
KVD_LIBRARY=$build/libkvd.so.0.4 PYTHONPATH=$bench_dir/../client/python \
	PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$bench_dir/python/clients.py" "$kvd_url" \
	"$tmp/redis.sock" "$tmp/memcached.sock" "$rounds" "$ms" || die "the loops failed"
kvd_stop || die "kvd failed"
