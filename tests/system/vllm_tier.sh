#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# kvd.vllm, the secondary tier for vLLM: tests/python/engines/test_vllm.py by pytest, with a driver
# in the place of vLLM's scheduler, for both interfaces. The sizes are those of sglang.sh.
# shellcheck source=tests/system/engines_lib.sh
. "$(dirname "$0")/engines_lib.sh"

engine_test tests/python/engines/test_vllm.py
finish
