# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The options of sanitizers in tests, for whatever runs them; to be sourced in the tree's root.
# Scripts that start servers add where reports go to.
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=suppressions=$PWD/tests/tsan.supp:halt_on_error=1:second_deadlock_stack=1
