#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The Python package: tests/python/ by pytest against a real kvd, and what README.md of the package
# shows. The tests start the servers themselves; libkvd's own code runs in other tests under
# sanitizers, whose runtimes an ordinary python3 does not have.
# shellcheck source=tests/system/pytest.sh
. "$(dirname "$0")/pytest.sh"

# What is Python alone is tested on softnic; the emulated machine takes seconds to start python3.
short=()
if [ "$device" != softnic ] && [ "${KVD_TEST_LONG:-0}" != 1 ]; then
	short=(-m device)
	export KVD_PYTHON_OUTSTANDING=100
fi
check "tests/python" tests_pass "${short[@]}" tests/python/test_*.py
if [ -e "$build/python/_hot.abi3.so" ] && [ ${#short[@]} = 0 ]; then
	export KVD_PYTHON_HOT=$build/python/_hot.abi3.so
	check "the synchronous client by the extension" tests_pass tests/python/test_client.py
fi
finish
