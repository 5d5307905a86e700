#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The Python package: tests/python/ by pytest against a real kvd, and what README.md of the package
# shows. The tests start the servers themselves; libkvd's own code runs in other tests under
# sanitizers, whose runtimes an ordinary python3 does not have.
# shellcheck source=tests/system/pytest.sh
. "$(dirname "$0")/pytest.sh"

check "tests/python" tests_pass tests/python/test_*.py
finish
