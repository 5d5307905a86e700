#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The Python package: tests/python/unit/ by pytest without a server, tests/python/ against a real
# kvd, and what README.md of the package shows. The tests start the servers themselves; libkvd's own
# code runs in other tests under sanitizers, whose runtimes an ordinary python3 does not have.
# shellcheck source=tests/system/pytest.sh
. "$(dirname "$0")/pytest.sh"

# Over RDMA, which takes part in the long form: what depends on the device.
if [ "$device" != softnic ]; then
	export KVD_PYTHON_OUTSTANDING=100
	check "tests/python" tests_pass -m device tests/python/test_*.py
	finish
fi
check "tests/python/unit" tests_pass --confcutdir=tests/python/unit tests/python/unit
check "tests/python" tests_pass tests/python/test_*.py
if [ -e "$build/python/_hot.abi3.so" ]; then
	export KVD_PYTHON_HOT=$build/python/_hot.abi3.so
	check "the synchronous client by the extension" tests_pass -m extension \
		tests/python/test_client.py tests/python/test_habits.py
fi
finish
