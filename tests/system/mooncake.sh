#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# kvd.mooncake, Mooncake's Python store over kvd: tests/python/mooncake/ by pytest, with a driver in
# the place of SGLang. Batches of 128 chunks of 128 KiB and of 32 of 1 MiB; in the long form of 128
# of 1 MiB and 32 of 32 MiB. Over RDMA, which takes part in the long form, 32 of 4 MiB: in the
# emulated machine memory is as slow as the network.
# shellcheck source=tests/system/pytest.sh
. "$(dirname "$0")/pytest.sh"

kib=1024
batches=("128 128 1" "32 1024 1") # chunks, KiB of each, rounds
if [ "${KVD_TEST_LONG:-0}" = 1 ]; then
	batches=("128 1024 4" "32 32768 1")
	export KVD_MOONCAKE_TIMEOUT_MS=3000 # a batch has 1 GiB
fi
if [ "$device" != softnic ]; then
	batches=("32 4096 1")
	export KVD_MOONCAKE_TIMEOUT_MS=30000 # 128 MiB take that machine seconds
fi
cp "$tmp/kvd.ini" "$tmp/as_written.ini"
for batch in "${batches[@]}"; do
	read -r count chunk_kib KVD_MOONCAKE_ROUNDS <<<"$batch"
	export KVD_MOONCAKE_BATCH=$count KVD_MOONCAKE_CHUNK=$((chunk_kib * kib)) KVD_MOONCAKE_ROUNDS
	# Room for a batch and a half.
	size_mib=$((count * chunk_kib * 3 / 2 / kib))
	[ $size_mib -ge 32 ] || size_mib=32
	max_kib=$((chunk_kib * 2 > 2 * kib ? chunk_kib * 2 : 2 * kib))
	sed -e "s/^size = .*/size = ${size_mib}m/" -e "s/^max_value = .*/max_value = ${max_kib}k/" \
		"$tmp/as_written.ini" >"$tmp/kvd.ini"
	check "tests/python/mooncake, batches of $count chunks of $chunk_kib KiB" \
		tests_pass tests/python/mooncake
done
finish
