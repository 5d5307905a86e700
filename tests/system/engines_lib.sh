# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Shared by the tests of the adapters for inference engines: sets how large chunks and batches are,
# and a server that has room for a batch and a half. To be sourced.
# shellcheck source=tests/system/pytest.sh
. "$(dirname "$0")/pytest.sh"

kib=1024 mib=1048576
chunk=$((128 * kib)) batch=128
if [ "${KVD_TEST_LONG:-0}" = 1 ]; then
	chunk=$((32 * mib)) batch=32
fi
if [ "$device" != softnic ]; then
	chunk=$mib batch=32
	export KVD_ENGINES_TIMEOUT_MS=30000 # 32 MiB take that machine seconds
fi
export KVD_ENGINES_CHUNK=$chunk KVD_ENGINES_BATCH=$batch
size=$((chunk * batch * 3 / 2))
[ $size -ge $((32 * mib)) ] || size=$((32 * mib))
max=$((chunk * 2 > 2 * mib ? chunk * 2 : 2 * mib))
sed -i -e "s/^size = .*/size = $((size / mib))m/" -e "s/^max_value = .*/max_value = $max/" \
	"$tmp/kvd.ini"

engine_test() {
	check "$1, $batch chunks of $((chunk / kib)) KiB" tests_pass "$1"
}
