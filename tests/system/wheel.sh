#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The wheel of `make wheel`: what is in it, that it is the same if made again, and that pip installs
# it in a virtual environment, where it uses the library inside, and removes it without a trace.
# Also that pip installs the package's sources. No network, and no index of packages.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

if [[ ${KVD_FLAVOUR:-release} == [at]san ]]; then
	echo "python3 is built without a sanitizer's runtime; the release flavour runs this"
	exit 77
fi
python=/usr/bin/python3
"$python" -c 'import ensurepip, setuptools, venv, wheel' || {
	echo "no python3 with setuptools, wheel and venv: conf/install-deps test"
	exit 1
}
# No package, library or option of the caller's; pip asks nobody, and keeps nothing.
for name in "${!KVD_@}" "${!PYTHON@}" "${!PIP_@}"; do
	unset "$name"
done
unset LD_LIBRARY_PATH SOURCE_DATE_EPOCH
export PIP_NO_INDEX=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONFIG_FILE=/dev/null

version=$(sed -n 's/^version = "\(.*\)"/\1/p' client/python/pyproject.toml)
name=kvd-$version-py3-none-linux_$(uname -m).whl
wheel=$tmp/made/$name
library=$build/libkvd.so.0.4
extension=()
[ ! -e "$build/python/_hot.abi3.so" ] || extension=("$build/python/_hot.abi3.so")

files_of() {
	find "$1" | LC_ALL=C sort
}

# The build as it is, whatever flags it was built with.
makes_it() {
	files_of client/python >"$tmp/before"
	MAKEFLAGS='' make --no-print-directory -s -o "$library" -o "$build/python/_hot.abi3.so" \
		B="$build" WHEELDIR="$tmp/made" wheel || return 1
	files_of client/python | diff "$tmp/before" - || return 1
	ls "$tmp/made"
	[ "$(ls "$tmp/made")" = "$name" ]
}

has_what_it_should() {
	local info=kvd-$version.dist-info
	{
		(cd client/python && printf '%s\n' kvd/*.py kvd/names/*/*.py kvd/py.typed)
		printf '%s\n' "$info"/{LICENSE,LICENSE.xxHash,METADATA,RECORD,WHEEL,top_level.txt}
		echo kvd/libkvd.so.0.4
		[ ${#extension[@]} = 0 ] || echo kvd/_hot.abi3.so
	} | LC_ALL=C sort >"$tmp/wanted"
	"$python" -m zipfile -e "$wheel" "$tmp/unpacked" || return 1
	(cd "$tmp/unpacked" && find . -type f | sed 's|^\./||' | LC_ALL=C sort) |
		diff "$tmp/wanted" - || return 1
	for file in client/python/kvd/*.py; do
		cmp "$file" "$tmp/unpacked/kvd/${file##*/}" || return 1
	done
	for file in LICENSE LICENSE.xxHash; do
		cmp "$file" "$tmp/unpacked/$info/$file" || return 1
	done
	grep -x "Tag: py3-none-linux_$(uname -m)" "$tmp/unpacked/$info/WHEEL" &&
		grep -x 'Root-Is-Purelib: false' "$tmp/unpacked/$info/WHEEL" &&
		grep -x 'Requires-Python: >=3.11' "$tmp/unpacked/$info/METADATA" || return 1
	# What the library needs stays the system's.
	diff <(readelf -d "$library" | grep NEEDED) \
		<(readelf -d "$tmp/unpacked/kvd/libkvd.so.0.4" | grep NEEDED)
}

# The library has code of xxhash.h, whose license asks for this. Versions differ in the years.
has_the_notice_of_xxhash() {
	sed -n '/^ \* xxHash - /,/SUCH DAMAGE/s/^ \* \{0,1\}//p' /usr/include/xxhash.h |
		diff -I '^Copyright (C) [-0-9]* Yann Collet$' LICENSE.xxHash -
}

# Elsewhere, by another user's umask, later.
is_the_same_again() {
	(umask 077 && cd / && "$OLDPWD/client/python/wheel" "$tmp/again" "$library" \
		"${extension[@]}") && cmp "$wheel" "$tmp/again/$name"
}

# An environment of its own, with pip.
installs_it() {
	"$python" -m venv "$tmp/venv" && files_of "$tmp/venv/lib" >"$tmp/venv.files" &&
		"$tmp/venv/bin/pip" install "$wheel"
}

# python3...: stores a value and reads it, by the library and extension that are expected
works() {
	local wanted=$1
	shift
	(cd / && "$@" -B - "$url" "$wanted" "$((${#extension[@]}))" <<-'PROGRAM')
		import sys
		import kvd
		url, library, extension = sys.argv[1:]
		assert kvd.library_path == library, kvd.library_path
		assert kvd._fast.extension == bool(int(extension))
		with kvd.Client(url, timeout_ms=300000, connect_timeout_ms=300000) as store:
		    store.set("name", "Ada")
		    assert store.get("name") == b"Ada" and list(store) == [b"name"]
	PROGRAM
}

works_by_the_library_inside() {
	works "$(echo "$tmp"/venv/lib/python3.*/site-packages)/kvd/libkvd.so.0.4" \
		"$tmp/venv/bin/python"
}

works_by_a_named_library() {
	cp "$library" "$tmp/other.so"
	works "$tmp/other.so" env KVD_LIBRARY="$tmp/other.so" "$tmp/venv/bin/python"
}

leaves_nothing() {
	"$tmp/venv/bin/pip" uninstall -y kvd && files_of "$tmp/venv/lib" | diff "$tmp/venv.files" -
}

# As README.md says it; on a copy, since pip builds in the folder.
installs_the_sources() {
	mkdir "$tmp/sources" &&
		git ls-files -z client/python | xargs -0 cp --parents -t "$tmp/sources" &&
		"$python" -m venv --system-site-packages "$tmp/with-system" &&
		"$tmp/with-system/bin/pip" install --no-build-isolation "$tmp/sources/client/python"
}

sources_work() {
	extension=()
	works "$library" env KVD_LIBRARY="$library" "$tmp/with-system/bin/python"
}

check "make wheel, which leaves nothing in the sources" makes_it
check "the files, the tag, and what the library needs" has_what_it_should
check "LICENSE.xxHash is the notice of xxhash.h" has_the_notice_of_xxhash
check "the same wheel once more" is_the_same_again
check "the server starts" server_start
check "pip installs the wheel" installs_it
check "it uses the library inside" works_by_the_library_inside
check "KVD_LIBRARY names another" works_by_a_named_library
check "pip uninstall leaves nothing" leaves_nothing
check "pip install --no-build-isolation ./client/python" installs_the_sources
check "that uses the library of the system" sources_work
check "the server ends" server_stop
finish
