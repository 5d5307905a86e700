#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of client/rust: the crates' own tests and examples against a real kvd; on softnic also
# that the bindings are those of kvd.h. KVD_TEST_LONG=1 adds what compiles anew: that misuse which
# the types forbid does not compile, documentation and lint without warnings, the ways to link, the
# packages. In the short form nothing stands for these.
#
# The programs are built by `make tests` (build/rust/programs), with the release flavour only: what
# they add to a sanitizer's is Rust, which no sanitizer of C has seen.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

programs=$build/rust/programs
crates=client/rust
rustc=${KVD_RUST_BIN:-/usr/bin}/rustc
[[ ${KVD_FLAVOUR:-release} != [at]san ]] || { echo "Rust is tested without sanitizers" && exit 77; }
[ -e "$programs" ] || { echo "there is no /usr/bin/cargo: make deps-test installs it" && exit 77; }
export KVD_TEST_URL=$url LD_LIBRARY_PATH=$build KVD_BUILD=$build

# name: runs the crates' test of that name, and prints its checks as checks of this test
program_tests() {
	local path
	path=$(sed -n "s|^$1 ||p" "$programs")
	"$path" --test-threads 2 >"$tmp/tests.out" 2>&1
	local status=$?
	sed -n 's/^test \(.*\) \.\.\. ok$/\1/p' "$tmp/tests.out" >"$tmp/tests.ok"
	[ "$status" = 0 ] && [ -s "$tmp/tests.ok" ] && return 0
	cat "$tmp/tests.out"
	return 1
}

# name, line...: the example ends well, and prints the lines
example() {
	local path said line
	path=$(sed -n "s|^examples/$1 ||p" "$programs")
	shift
	said=$("$path" "$url" 2>&1) || { echo "$said" && return 1; }
	for line; do
		[[ $'\n'$said$'\n' =~ $'\n'$line$'\n' ]] ||
			{ echo "no line like '$line' in:" && echo "$said" && return 1; }
	done
}

bindings_are_of_the_header() {
	$crates/kvd-sys/bindgen.sh "$tmp/bindings.rs" &&
		diff -u $crates/kvd-sys/src/bindings.rs "$tmp/bindings.rs" && return 0
	echo "kvd.h has changed: run $crates/kvd-sys/bindgen.sh"
	return 1
}

# Each status is a variant, and each function is used, but for those that a Rust program has no use
# for: its heap is its own, scopes and drivers count what is under way themselves, and two texts are
# for kvctl.
all_of_the_header() {
	local name missing=0 row='^\tX(\(\(ERR_\|NOT_\)[A-Z_]*\), [0-9]*, .*'
	for name in $(sed -n "s/$row/KVD_\1/p" client/kvd.h); do
		grep -Eq "= $name,|sys::$name\b" $crates/kvd/src/error.rs ||
			{ echo "no variant of kvd::Error is $name" && missing=1; }
	done
	[ -n "${name:-}" ] || { echo "no statuses found in kvd.h" && return 1; }
	for name in $(sed -n 's/^    pub fn \(kvd_[a-z_]*\)(.*/\1/p' \
		$crates/kvd-sys/src/bindings.rs); do
		case $name in
		kvd_set_allocator | kvd_outstanding | kvd_server_report | kvd_sample) ;;
		*) grep -q "sys::$name\b" $crates/kvd/src/*.rs ||
			{ echo "the crate kvd does not use $name()" && missing=1; } ;;
		esac
	done
	return $missing
}

fleet_write() {
	printf '%s\n' '[fleet]' 'name = demo' 'seed = 0x1234567890abcdef' 'epoch = 7' '[member a]' \
		"url = $url,rdma://127.0.0.1:1" 'weight = 3'
}

# Without RUSTC_BOOTSTRAP rustdoc compares no error codes: any error would do.
documented_code() {
	RUSTC_BOOTSTRAP=1 $crates/cargo test --doc
}

# codes: the examples in the documentation that don't compile with one of these codes, each as a
# module; what they do wrong is marked as in tests/misuse
misuse_of_examples() {
	awk -v codes="$1" '
		{ sub(/^ *\/\/[\/!] ?/, "") }
		/^```compile_fail/ { code = substr($0, 17); inside = code ~ codes; lines = "" }
		inside && !/^```/ { sub(/^# /, ""); lines = lines $0 "\n" }
		inside && /^```$/ {
			inside = 0
			sub(/\/\/ error:/, "// error[" code "]:", lines)
			if (lines !~ /fn main/)
				lines = "fn example() {\n" lines "}\n"
			print "mod example" ++n " {\n" lines "}"
		}' $crates/kvd/src/*.rs
}

# Each error is the one that was meant, where it was meant, and there is no other one. Errors of
# types (E0277) keep the compiler from looking at borrows, so these have a file of their own.
misuse() {
	local kind codes said=$tmp/misuse.said error='error[^[]*\(\[E[0-9]*\]\).*'
	$crates/cargo build || return 1
	for kind in types:E0277 borrows:E0[^2]; do
		codes=${kind#*:} kind=${kind%:*}
		{ cat $crates/kvd/tests/misuse/$kind.rs && misuse_of_examples "$codes"; } \
			>"$tmp/$kind.rs"
		"$rustc" --edition 2021 --crate-type lib --emit metadata --out-dir "$tmp" \
			-A warnings -L "dependency=$build/rust/debug/deps" --error-format short \
			--extern "kvd=$build/rust/debug/libkvd.rlib" "$tmp/$kind.rs" 2>"$said"
		sed -n "s/^[^:]*:\([0-9]*\):[0-9]*: $error/\1 \2/p" "$said" |
			sort -u >"$tmp/seen"
		sed -n "/\/\/ error\[/{=;s/.*$error/\1/p}" "$tmp/$kind.rs" | paste -d ' ' - - |
			sort >"$tmp/meant"
		# The compiler may have two errors of one line.
		[ -s "$tmp/meant" ] && [ -z "$(comm -23 "$tmp/meant" "$tmp/seen")" ] &&
			diff <(cut -d " " -f 1 "$tmp/meant") \
				<(cut -d " " -f 1 "$tmp/seen" | uniq) &&
			continue
		cat "$tmp/$kind.rs" && echo "of this the compiler says:" && cat "$said"
		return 1
	done
}

documentation() {
	KVD_RUSTDOCFLAGS='-D warnings' $crates/cargo doc --no-deps
}

lint() {
	$crates/cargo clippy --all-targets -- -D warnings
}

# [VAR=value...]: kvd-sys's own tests link and run with these variables
links() {
	KVD_CARGO_TARGET=$tmp/linked env "$@" $crates/cargo test -p kvd-sys --test links
}

# As an installed libkvd has it.
links_by_pkg_config() {
	mkdir -p "$tmp/pc" && sed -e "s|@PREFIX@|$tmp|" -e "s|@LIBDIR@|$build|" \
		-e 's|@VERSION@|0.4.0|' -e 's|@INCLUDEDIR@|client|' client/libkvd/kvd.pc.in \
		>"$tmp/pc/kvd.pc" && links KVD_LIB_DIR= PKG_CONFIG_PATH="$tmp/pc" &&
		links KVD_LIB_DIR= PKG_CONFIG_PATH="$tmp/pc" KVD_STATIC=1 || return 1
	sed -i 's/^Version: .*/Version: 0.5.0/' "$tmp/pc/kvd.pc"
	! links KVD_LIB_DIR= PKG_CONFIG_PATH="$tmp/pc" >"$tmp/refused" 2>&1 &&
		grep -q 'finds no libkvd 0.4' "$tmp/refused" && return 0
	echo "libkvd 0.5 was accepted, or refused without a reason:" && cat "$tmp/refused"
	return 1
}

packages() {
	$crates/package "$tmp/crates" && [ -s "$tmp/crates/kvd-0.4.0.crate" ] &&
		[ -s "$tmp/crates/kvd-sys-0.4.0.crate" ]
}

tree_is_clean() {
	local new
	new=$(find $crates -newer "$tmp/began" ! -type d) && [ -z "$new" ] && return 0
	echo "written into the source tree:" && echo "$new"
	return 1
}

: >"$tmp/began"
check "the server starts" server_start -o tenants.memory=128m
# A flush takes the keys of all others.
for name in $(sed -n 's|^\(kvd/[a-z]*\) .*|\1|p' "$programs" | grep -Ev 'admin|fleet') kvd/admin; do
	check "$name" program_tests "$name" && sed 's/^/      | /' "$tmp/tests.ok"
done
check "example sync" example sync 'name is Ada' 'visits: 3' 'nobody: None' \
	'the second change with the old version: the key has version [0-9]+, not [0-9]+;.*'
check "example zero_copy" example zero_copy '16 blocks stored, and read back' \
	'8 MiB moved without a copy'
check "example async_poll" example async_poll '100 tasks have stored and read .*'
check "the server stops" server_stop
[ "$device" = softnic ] || finish
fleet_write >"$tmp/fleet"
check "a fleet starts" server_start -o "fleet.file=$tmp/fleet" -o fleet.member=a
KVD_TEST_FLEET=fleet+$url/demo check "kvd/fleet" program_tests kvd/fleet &&
	sed 's/^/      | /' "$tmp/tests.ok"
check "it stops" server_stop
check "layouts are the C compiler's" program_tests kvd_sys/src
check "the library's version" program_tests kvd_sys/links
check "the bindings are those of kvd.h" bindings_are_of_the_header
check "all of kvd.h is there" all_of_the_header
if [ "${KVD_TEST_LONG:-0}" = 1 ]; then
	check "misuse does not compile, where and why it was meant" misuse
	check "code in the documentation, and what must not compile" documented_code
	check "documentation without warnings" documentation
	check "clippy" lint
	check "libkvd.a" links KVD_STATIC=1
	check "libkvd by pkg-config" links_by_pkg_config
	check "packages" packages
fi
check "nothing is written into the source tree" tree_is_clean
finish
