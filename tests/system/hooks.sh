#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of the hooks of libkvd: its log lines, and its memory.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

# No other object of the library calls malloc() and its kin. Sanitizers do not change the names.
heap_alone() {
	nm -A -u "$build"/obj/client/libkvd/*.o "$build"/obj/common/*.o "$build"/obj/common/*/*.o \
		"$build"/obj/common/*/*/*.o >"$tmp/undefined" || return 1
	grep -E ' U (malloc|calloc|realloc|free|strdup|strndup|asprintf|posix_memalign)$' \
		"$tmp/undefined" >"$tmp/callers"
	grep '/util/heap\.o: .* malloc$' "$tmp/callers" &&
		! grep -v '/util/heap\.o:' "$tmp/callers"
}

check "only heap.c calls malloc() and its kin" heap_alone
check "the server starts" server_start || finish
checks_of "$build/tests/system/sys_hooks" "$url"
check "the server stops" server_stop
finish
