#!/bin/sh
# SPDX-License-Identifier: MIT
# Generates src/bindings.rs from kvd.h, with the bindgen of Debian (0.60).
#
# Usage: client/rust/kvd-sys/bindgen.sh [OUT]   (OUT: a file instead of src/bindings.rs)
#
# Enumerations become integers: a later library may return a number that this header does not have,
# which must not be undefined behaviour. bindgen adds layout tests: they compare sizes and offsets
# with those of the C compiler (clang).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/src/bindings.rs}

"${BINDGEN:-bindgen}" --size_t-is-usize --default-enum-style consts --no-prepend-enum-name \
	--no-doc-comments --disable-header-comment --no-copy 'kvd_op' \
	--allowlist-function 'kvd_.*' --allowlist-type 'kvd_.*' --allowlist-var 'KVD_.*' \
	--raw-line '// SPDX-License-Identifier: MIT' \
	--raw-line '// Made from kvd.h by bindgen.sh. Do not edit.' \
	"$here/../../kvd.h" -o "$out" -- -std=gnu11
