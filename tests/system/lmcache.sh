#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# kvd.lmcache, the connector for LMCache: tests/python/lmcache/ by pytest, with a driver in the
# place of LMCache. Chunks of 4 MiB, and 32 MiB in the long form; in the emulated machine, whose
# memory is as slow as its network, 64 KiB and 4 MiB, and in the short form what depends on the
# device.
# shellcheck source=tests/system/pytest.sh
. "$(dirname "$0")/pytest.sh"

mib=1048576
chunk=$((4 * mib))
what=test
if [ "$device" != softnic ]; then
	chunk=65536 what='batches or eviction or killed or adapter'
fi
if [ "${KVD_TEST_LONG:-0}" = 1 ]; then
	# 128 MiB take that machine seconds.
	[ "$device" = softnic ] || export KVD_LMCACHE_TIMEOUT_MS=30000
	chunk=$((chunk == 65536 ? 4 * mib : 32 * mib))
	what=test KVD_LMCACHE_ROUNDS=4
	export KVD_LMCACHE_ROUNDS
fi
export KVD_LMCACHE_CHUNK=$chunk
max=$((chunk * 2 > 2 * mib ? chunk * 2 : 2 * mib))
# Room for a batch and a half.
size=$((chunk * 48))
[ $size -ge $((16 * mib)) ] || size=$((16 * mib))
sed -i -e "s/^size = .*/size = $((size / mib))m/" -e "s/^max_value = .*/max_value = $max/" \
	"$tmp/kvd.ini"
check "tests/python/lmcache, chunks of $((chunk / 1024)) KiB" \
	tests_pass -k "$what" tests/python/lmcache
finish
