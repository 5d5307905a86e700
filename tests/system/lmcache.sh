#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# kvd.lmcache, the connector for LMCache: tests/python/lmcache/ by pytest, with a driver in the
# place of LMCache. Chunks of 1 MiB, and 32 MiB in the long form; over RDMA, which takes part in the
# long form, 4 MiB: in the emulated machine memory is as slow as the network.
# shellcheck source=tests/system/pytest.sh
. "$(dirname "$0")/pytest.sh"

mib=1048576
chunk=$mib
if [ "${KVD_TEST_LONG:-0}" = 1 ]; then
	chunk=$((32 * mib))
	export KVD_LMCACHE_ROUNDS=4
fi
if [ "$device" != softnic ]; then
	chunk=$((4 * mib))
	export KVD_LMCACHE_TIMEOUT_MS=30000 # 128 MiB take that machine seconds
fi
export KVD_LMCACHE_CHUNK=$chunk
max=$((chunk * 2 > 2 * mib ? chunk * 2 : 2 * mib))
# Room for a batch and a half.
size=$((chunk * 48))
[ $size -ge $((32 * mib)) ] || size=$((32 * mib))
sed -i -e "s/^size = .*/size = $((size / mib))m/" -e "s/^max_value = .*/max_value = $max/" \
	"$tmp/kvd.ini"
check "tests/python/lmcache, chunks of $((chunk / 1024)) KiB" \
	tests_pass tests/python/lmcache
finish
