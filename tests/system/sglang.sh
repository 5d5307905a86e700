#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# kvd.sglang, the storage for SGLang's HiCache: tests/python/engines/test_sglang.py by pytest, with
# a driver in the place of SGLang's controller. Batches of 128 pages of 128 KiB; in the long form 32
# of 32 MiB, and over RDMA, which takes part in it, 32 of 1 MiB.
# shellcheck source=tests/system/engines_lib.sh
. "$(dirname "$0")/engines_lib.sh"

engine_test tests/python/engines/test_sglang.py
finish
