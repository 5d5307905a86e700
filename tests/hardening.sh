#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Test of how kvd, kvctl, kvbench and libkvd.so were compiled and linked: that what the Makefile
# asks for (HARDEN, FORTIFY, K_LDFLAGS, LINK) has come to the files, as checksec(1) looks for it.
# Each check is first seen failing, with a small program that was made without that. KVD_BUILD is
# the build folder (default build).
set -u
cd "$(dirname "$0")/.." || exit 1
build=${KVD_BUILD:-build}
cc=${CC:-cc}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/kvd-hardening.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0

# The checks have the file in $1, and whether it is a `program` or a `library` in $2.

random_address() {
	readelf -hW "$1" | grep -q 'Type: *DYN' || return 1
	[ "$2" = library ] || readelf -dW "$1" | grep -q 'FLAGS_1.* PIE'
}

# What the dynamic linker has written to is read-only when main() begins.
full_relro() {
	readelf -lW "$1" | grep -q GNU_RELRO && readelf -dW "$1" | grep -q 'FLAGS_1.* NOW'
}

stack_not_executable() {
	readelf -lW "$1" | grep -q '^ *GNU_STACK .* RW *0x'
}

no_memory_to_write_and_execute() {
	! readelf -lW "$1" | grep -q '^ *LOAD .* RWE '
}

# Only code is in pages that can be executed, and nothing of another section.
separate_code() {
	readelf -lW "$1" | awk '
		/^ *LOAD / { executable[segments] = / R E / }
		/^ *(PHDR|INTERP|LOAD|DYNAMIC|NOTE|GNU_[A-Z_]*|TLS) / { segments++ }
		/Segment Sections/ { sections = 1; next }
		sections && executable[$1 + 0] {
			for (i = 2; i <= NF; i++)
				if ($i !~ /^\.(init|plt|plt\.got|plt\.sec|text|fini)$/)
					mixed = 1
		}
		END { exit mixed }'
}

no_search_path() {
	! readelf -dW "$1" | grep -qE 'RPATH|RUNPATH|TEXTREL'
}

imports() { # file, pattern
	nm -uD "$1" | grep -qE " $2(@|\$)"
}

stack_protector() {
	imports "$1" __stack_chk_fail
}

fortified() {
	imports "$1" '__[a-z_]*(cpy|printf|set|move|bzero|read)_chk'
}

# A frame that is larger than a page touches each page, so that it can't step over the guard page.
stack_probes() {
	objdump -d --no-show-raw-insn "$1" |
		grep -qE 'or[lq] +\$0x0,(0x[0-9a-f]+)?\(%[er]sp\)|str +xzr, \[sp, #1024\]'
}

# Functions that are called by address begin with an instruction that says so.
control_flow() {
	local functions
	functions=$(objdump -d --no-show-raw-insn "$1" |
		awk -v names="$([ "$2" = library ] && nm -D --defined-only "$1" |
			awk '$2 == "T" { print $3 }' | sed 's/@.*//' || echo main)" '
		BEGIN { n = split(names, list); for (i in list) wanted[list[i]] = 1 }
		/^[0-9a-f]+ <.*>:$/ { name = $2; gsub(/[<>:]/, "", name); next }
		name in wanted { print $2; name = "" }')
	[ -n "$functions" ] && ! grep -qvE '^(endbr64|bti|paciasp)$' <<<"$functions"
}

CHECKS='random_address full_relro stack_not_executable no_memory_to_write_and_execute separate_code
	no_search_path stack_protector fortified stack_probes control_flow'

# What takes each of them away.
declare -A without=(
	[random_address]='-no-pie'
	[full_relro]='-Wl,-z,lazy'
	[stack_not_executable]='-Wl,-z,execstack'
	[no_memory_to_write_and_execute]=-DWRITE_AND_EXECUTE
	[separate_code]='-Wl,-z,noseparate-code'
	[no_search_path]='-Wl,-rpath,/tmp'
	[stack_protector]='-fno-stack-protector'
	[fortified]='-U_FORTIFY_SOURCE'
	[stack_probes]='-fno-stack-clash-protection'
	[control_flow]='-fcf-protection=none'
)

cat >"$tmp/program.c" <<'PROGRAM'
#include <stdio.h>
#include <string.h>
#ifdef WRITE_AND_EXECUTE
__asm__(".section .both, \"awx\"\n\t.quad 0\n\t.text");
#endif
int main(int argc, char **argv)
{
	char large[70000], small[8];

	memset(large, argc, sizeof(large));
	memcpy(small, argv[0], (size_t)argc);
	return printf("%s%s", large, small);
}
PROGRAM

# The flags of the build, for the program of this test.
flags=(-O2 -D_FORTIFY_SOURCE=2 -fPIE -pie -fstack-protector-strong -fstack-clash-protection
	-Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code)
case $("$cc" -dumpmachine) in
x86_64*) flags+=(-fcf-protection=full) ;;
aarch64*)
	flags+=(-mbranch-protection=standard)
	without[control_flow]=-mbranch-protection=none
	;;
*)
	# No instructions for it.
	CHECKS=${CHECKS/control_flow/}
	;;
esac

compile() { # output, flag...
	local out=$1
	shift
	"$cc" "${flags[@]}" "$@" -o "$out" "$tmp/program.c" 2>"$tmp/cc" || {
		cat "$tmp/cc"
		return 1
	}
}

fail() {
	echo "FAIL  $*"
	failed=1
}

compile "$tmp/with" || fail "the test's own program can't be compiled"
for check in $CHECKS; do
	"$check" "$tmp/with" program || fail "$check: not of a program that has it"
	# shellcheck disable=SC2086 # several flags
	compile "$tmp/without" ${without[$check]} || fail "$check: can't compile"
	! "$check" "$tmp/without" program || fail "$check does not notice ${without[$check]}"
done

for file in kvd kvctl kvbench libkvd.so; do
	kind=program
	[ "$file" != libkvd.so ] || kind=library
	for check in $CHECKS; do
		"$check" "$build/$file" $kind || fail "$file: $check"
	done
	echo "$file: $(wc -w <<<"$CHECKS") checks"
done
exit $failed
