#!/bin/sh
# SPDX-License-Identifier: MIT
# Writes src/bindings.rs anew from kvd.h, with the bindgen of Debian (0.60).
#
# Usage: client/rust/kvd-sys/bindgen.sh [OUT]   (OUT: a file instead of src/bindings.rs)
#
# Enumerations become integers: a later library may return a number that this header has not, which
# must not be undefined behaviour. The layout tests that bindgen adds hold the sizes and offsets
# that the C compiler (clang) has.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/src/bindings.rs}

"${BINDGEN:-bindgen}" --size_t-is-usize --default-enum-style consts --no-prepend-enum-name \
	--no-doc-comments --disable-header-comment --no-copy 'kvd_op' \
	--allowlist-function 'kvd_.*' --allowlist-type 'kvd_.*' --allowlist-var 'KVD_.*' \
	--raw-line '// SPDX-License-Identifier: MIT' \
	--raw-line '// Made from kvd.h by bindgen.sh. Do not edit.' \
	"$here/../../kvd.h" -o "$out" -- -std=gnu11
