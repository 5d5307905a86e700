#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Test that libkvd's ABI is the one in conf/libkvd.abi (conf/abi says how to change it). First the
# comparison is seen failing: with records that lack a function, have another size of a struct,
# another offset, member or enumerator, which is what the library would have if it had changed.
# KVD_BUILD is the build folder (default build).
set -u
cd "$(dirname "$0")/.." || exit 1
library=$(realpath "${KVD_BUILD:-build}/libkvd.so") || exit 1
tmp=$(mktemp -d "${TMPDIR:-/tmp}/kvd-abi.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0

fail() {
	echo "FAIL  $*"
	failed=1
}

# what, sed script, what abidiff has to say: compares the library with a record that was changed
notices() {
	sed "$2" conf/libkvd.abi >"$tmp/record"
	! cmp -s "$tmp/record" conf/libkvd.abi || fail "$1: the record has no such line any more"
	if conf/abi compare "$library" "$tmp/record" >"$tmp/said" 2>&1; then
		fail "$1 is not noticed"
	elif ! grep -q "$3" "$tmp/said"; then
		fail "$1: abidiff says:"
		head -n 20 "$tmp/said"
	fi
}

notices "a function more" "/elf-symbol name='kvd_touch'/d" 'A.*kvd_touch'
notices "a function less" \
	"/elf-symbol name='kvd_touch'/{p; s/kvd_touch/kvd_touched/}" '1 Removed'
notices "a larger struct" \
	"s/\(name='kvd_options' size-in-bits='\)[0-9]*/\164/" 'type size changed'
notices "a member elsewhere" "/name='kvd_op' size/,/class-decl>/s/bits='64'/bits='72'/" 'offset'
notices "a member of another name" "s/var-decl name='expires_s'/var-decl name='expires'/" expires
notices "an enumerator more" "/enumerator name='KVD_OP_EXISTS'/d" 'enumerator insertion'
notices "an enumerator of another value" \
	"s/\(enumerator name='KVD_OP_EXISTS' value='\)/\19/" KVD_OP_EXISTS
wide=$(sed -n "s/.*<typedef-decl name='size_t'.* id='\([^']*\)'.*/\1/p" conf/libkvd.abi)
notices "a parameter of another type" \
	"/-decl name='kvd_touch'/,/-decl>/s/'[^']*' name='ttl_s'/'$wide' name='ttl_s'/" \
	'parameter 4'

conf/abi compare "$library" || fail "the library is not what conf/libkvd.abi says"
[ $failed != 0 ] ||
	echo "the ABI is as recorded: $(grep -c '<elf-symbol ' conf/libkvd.abi) functions"
exit $failed
