#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Test of `make install` and `make uninstall`: installs the build into temporary folders, checks the
# files and the exported symbols, compiles and runs a program with pkg-config, shared and static,
# uninstalls, and checks that nothing is left. As root it also installs for real, into /usr/local
# and /usr, on overlays that only this test sees. KVD_BUILD is the build folder (default build).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${KVD_BUILD:-build}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/kvd-install.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

die() {
	echo "install.sh: $*" >&2
	exit 1
}

[ -x "$build/kvd" ] || die "$build/kvd is not built: run make"

# What dpkg-buildpackage asks for on a machine without a package, `make deps-deb` installs.
if command -v dpkg-checkbuilddeps >/dev/null; then
	mkdir "$tmp/dpkg" && : >"$tmp/dpkg/status"
	for package in $(dpkg-checkbuilddeps --admindir="$tmp/dpkg" conf/debian/control 2>&1 |
		sed 's/.*dependencies: //; s/([^)]*)//g'); do
		[[ $package =~ ^(dh-sequence-.*|debhelper-compat)$ ]] ||
			tr ' \t()' '\n' <conf/install-deps | grep -x "${package%:*}" >/dev/null ||
			die "conf/install-deps has no ${package%:*}, which debian/control wants"
	done
fi

# `-o all`: installs the build as it is, whatever flags it was built with.
make_install() {
	MAKEFLAGS='' make --no-print-directory -s -o all B="$build" "$@"
}

version=$(awk '/define KVD_VERSION_(MAJOR|MINOR|PATCH)/ { v = v s $3; s = "." } END { print v }' \
	client/kvd.h)

examples=$(for f in client/examples/*.c; do echo "share/doc/kvd/examples/${f##*/}"; done)
man=$(conf/man/generate "$build" "$tmp/man" &&
	for page in "$tmp"/man/*; do echo "share/man/man${page##*.}/${page##*/}"; done)
expected="bin/kvbench bin/kvctl bin/kvd etc/kvd/kvd.ini include/kvd.h lib/libkvd.a lib/libkvd.so
lib/libkvd.so.0.4 lib/libkvd.so.$version lib/pkgconfig/kvd.pc
lib/systemd/system/kvd.service lib/systemd/system/kvd@.service lib/sysusers.d/kvd.conf
lib/tmpfiles.d/kvd.conf share/doc/kvd/examples/Makefile
$(printf 'share/kvd/%s\n' workloads/workload{a,b,c,d,f} prometheus/kvd.rules.yml grafana/kvd.json \
	kubernetes/kvd.yaml kubernetes/prometheus.yml upgrade)
$man share/bash-completion/completions/kvctl share/zsh/site-functions/_kvctl $examples"

list_files() {
	(cd "$1" && find . ! -type d | sed 's|^\./||' | LC_ALL=C sort)
}

echo "DESTDIR: the tree that a package would hold"
root=$tmp/root
make_install DESTDIR="$root" PREFIX=/opt/kvd install
diff <(tr ' ' '\n' <<<"$expected" | LC_ALL=C sort) <(list_files "$root/opt/kvd") ||
	die "installed other files than expected"
[ "$(list_files "$root" | grep -cv '^opt/kvd/')" = 0 ] || die "files outside of PREFIX"
! grep -rlF "$tmp" "$root" --include=*.pc --include=*.service || die "DESTDIR is in a file"
! grep -rn '@[A-Z]*@' "$root" --include=*.pc --include=*.service || die "a placeholder is left"
grep -qx 'prefix=/opt/kvd' "$root/opt/kvd/lib/pkgconfig/kvd.pc" || die "kvd.pc has another prefix"
grep -q '^ExecStart=/opt/kvd/bin/kvd -c /opt/kvd/etc/kvd/kvd.ini' \
	"$root/opt/kvd/lib/systemd/system/kvd.service" || die "kvd.service has other paths"
grep -q '^ExecStart=/opt/kvd/bin/kvd -c /opt/kvd/etc/kvd/%i.ini' \
	"$root/opt/kvd/lib/systemd/system/kvd@.service" || die "kvd@.service has other paths"

echo "DESTDIR: a changed kvd.ini survives install and uninstall"
echo "; changed" >>"$root/opt/kvd/etc/kvd/kvd.ini"
make_install DESTDIR="$root" PREFIX=/opt/kvd install
make_install DESTDIR="$root" PREFIX=/opt/kvd uninstall
[ "$(list_files "$root")" = opt/kvd/etc/kvd/kvd.ini ] || die "left: $(list_files "$root")"
grep -qx '; changed' "$root/opt/kvd/etc/kvd/kvd.ini" || die "kvd.ini was written over"

echo "PREFIX: programs and libraries"
prefix=$tmp/prefix
make_install PREFIX="$prefix" install
"$prefix/bin/kvd" -V | grep -F "$version" >/dev/null || die "kvd -V does not say $version"
"$prefix/bin/kvd" -c "$prefix/etc/kvd/kvd.ini" --check-config || die "kvd.ini is refused"
readelf -d "$prefix/lib/libkvd.so" | grep 'SONAME.*\[libkvd\.so\.0\.4\]' >/dev/null ||
	die "wrong soname"
nm -D --defined-only "$prefix/lib/libkvd.so" >"$tmp/shared"
nm -g --defined-only "$prefix/lib/libkvd.a" >"$tmp/static"
for list in shared static; do
	awk 'NF == 3 && $3 !~ /^kvd_/ && $3 !~ /^KVD_0$/ { print; bad = 1 }
		END { exit bad }' "$tmp/$list" ||
		die "the $list library exports what is not in kvd.h"
done
# kvd_prep*() are inline.
for name in $(grep -o '\bkvd_[a-z_]*(' client/kvd.h | tr -d '(' | grep -v '^kvd_prep' | sort -u); do
	grep -qE " T $name(@|\$)" "$tmp/shared" || die "libkvd.so does not export $name of kvd.h"
	grep -q " T $name\$" "$tmp/static" || die "libkvd.a does not have $name of kvd.h"
done

# A program may use the names that libkvd uses inside.
cat >"$tmp/program.c" <<'PROGRAM'
#include <kvd.h>
#include <stdio.h>
int log_write(void);
int log_write(void) { return 7; }
int main(void)
{
	printf("%s %s %d\n", kvd_version(), kvd_status_text(KVD_NOT_FOUND), log_write());
	return 0;
}
PROGRAM
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
[ "$(pkg-config --modversion kvd)" = "$version" ] || die "kvd.pc does not say $version"
read -ra cflags <<<"$(pkg-config --cflags kvd)"
read -ra shared_libs <<<"$(pkg-config --libs kvd)"
read -ra static_libs <<<"$(pkg-config --static --libs kvd)"
warnings=(-Wall -Wextra -Wstrict-prototypes -Werror)

run_program() {
	local said
	said=$("$@")
	[ "$said" = "$version not found 7" ] || die "the program said: $said"
}

echo "shared: $(pkg-config --libs kvd)"
"${CC:-cc}" "${warnings[@]}" "${cflags[@]}" -o "$tmp/shared-program" "$tmp/program.c" \
	"${shared_libs[@]}"
readelf -d "$tmp/shared-program" | grep 'NEEDED.*\[libkvd\.so\.0\.4\]' >/dev/null ||
	die "not linked to the library"
run_program env LD_LIBRARY_PATH="$prefix/lib" "$tmp/shared-program"

echo "examples: built as they are installed"
cp -r "$prefix/share/doc/kvd/examples" "$tmp/examples"
(cd "$tmp/examples" && MAKEFLAGS= make -s CC="${CC:-cc}" CFLAGS="-Wall -Wextra -Werror" \
	all libuv_server)
said=$(LD_LIBRARY_PATH="$prefix/lib" "$tmp/examples/sync" "softnic://$tmp/nobody" 2>&1) &&
	die "the example sync found a server"
grep -q 'is kvd running?' <<<"$said" || die "the example sync said: $said"

# Fully static: this proves that kvd.pc names all that libkvd.a needs.
echo "static: ${#static_libs[@]} flags"
"${CC:-cc}" -static "${cflags[@]}" -o "$tmp/static-program" "$tmp/program.c" "${static_libs[@]}" \
	2>"$tmp/static-warnings" || die "static link: $(cat "$tmp/static-warnings")"
! readelf -d "$tmp/static-program" | grep NEEDED >/dev/null ||
	die "the static program needs libraries"
run_program env -i "$tmp/static-program"

echo "uninstall"
make_install PREFIX="$prefix" uninstall
[ -z "$(list_files "$prefix")" ] || die "left: $(list_files "$prefix")"
[ ! -e "$prefix/etc/kvd" ] || die "left: etc/kvd"

echo "Python: the package, and the extension if there is python3-dev"
make_python() {
	make_install -o "$build/python/_hot.abi3.so" DESTDIR="$root" PREFIX=/usr "$1"
}
make_python install-python
packages=$root/usr/lib/python3/dist-packages
files=$(cd client/python && printf '%s\n' kvd/*.py kvd/names/*/*.py kvd/py.typed)
extension=False
if compgen -G '/usr/include/python3.*/Python.h' >/dev/null; then
	extension=True files+=$'\nkvd/_hot.abi3.so'
fi
diff <(LC_ALL=C sort <<<"$files") <(list_files "$packages") || die "not the files of the package"
said=$(KVD_LIBRARY=$(realpath "$build")/libkvd.so.0.4 PYTHONDONTWRITEBYTECODE=1 \
	PYTHONPATH=$packages /usr/bin/python3 -c '
import kvd, kvd.aio, kvd.lmcache, kvd.mooncake, kvd.sglang, kvd.vllm
print(kvd.__file__, kvd.library_version(), kvd._fast.extension)')
[ "$said" = "$packages/kvd/__init__.py $version $extension" ] || die "the package said: $said"
# The library is beside the package, where the dynamic linker does not look.
mkdir -p "$tmp/venv/lib/python3.11/site-packages"
cp -r "$packages/kvd" "$tmp/venv/lib/python3.11/site-packages/"
cp "$build/libkvd.so.0.4" "$tmp/venv/lib/"
said=$(PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$tmp/venv/lib/python3.11/site-packages \
	/usr/bin/python3 -c 'import kvd; print(kvd.library_path)')
[ "$said" = "$tmp/venv/lib/libkvd.so.0.4" ] || die "the library that was found is $said"
make_python uninstall-python
[ -z "$(list_files "$packages")" ] || die "left: $(list_files "$packages")"

echo "a library or a header that is missing"
said=$(MAKEFLAGS='' make --no-print-directory B="$tmp/missing" CPPFLAGS=-nostdinc 2>&1) &&
	die "it builds without headers"
grep -q '^missing: .*run `make deps` first' <<<"$said" || die "no word of make deps: $said"
[ "$(wc -l <<<"$said")" -le 2 ] || die "more than the one line: $said"

echo "the group of the systemd unit"
make_install DESTDIR="$root" PREFIX=/usr install
unit=$root/usr/lib/systemd/system/kvd.service
grep -qx 'Group=kvd' "$unit" || die "kvd.service has no group"
if command -v systemd-analyze >/dev/null && command -v systemd-sysusers >/dev/null; then
	mkdir -p "$root/etc"
	systemd-sysusers --root="$root" 2>"$tmp/sysusers" || die "sysusers: $(cat "$tmp/sysusers")"
	grep -q '^kvd:' "$root/etc/group" || die "sysusers.d/kvd.conf makes no group kvd"
	systemd-tmpfiles --root="$root" --create kvd.conf 2>"$tmp/tmpfiles" ||
		die "tmpfiles: $(cat "$tmp/tmpfiles")"
	[ -d "$root/run/kvd" ] && [ -d "$root/var/log/kvd" ] ||
		die "tmpfiles.d/kvd.conf makes no folders"
	# The programs that the unit names have to exist.
	sed "s|=/usr/bin/kvd|=$root/usr/bin/kvd|" "$unit" >"$tmp/kvd.service"
	said=$(systemd-analyze verify --man=no "$tmp/kvd.service" 2>&1) || die "kvd.service: $said"
	[ -z "$said" ] || die "kvd.service: $said"
else
	echo "no systemd here: the unit is not verified"
fi

# Installing for real needs root, and is kept from the host: /usr and /etc are overlays.
if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
	echo "ok, but not root, or no mount namespaces: nothing was installed for real"
	exit 0
fi
mkdir -p "$tmp"/{usr,etc}.{new,work}
export -f make_install die list_files run_program
export build tmp version
unshare -m bash -euo pipefail -c '
	for f in usr etc; do
		mount -t overlay overlay "/$f" \
			-o "lowerdir=/$f,upperdir=$tmp/$f.new,workdir=$tmp/$f.work"
	done
	rm -rf /usr/local/etc/kvd /etc/kvd # of an installation on this host
	unset PKG_CONFIG_PATH LD_LIBRARY_PATH

	echo "/usr/local: a program starts without LD_LIBRARY_PATH"
	make_install install
	# shellcheck disable=SC2046 # a list of flags
	"${CC:-cc}" -o "$tmp/program" "$tmp/program.c" $(pkg-config --cflags --libs kvd)
	run_program "$tmp/program"
	make_install uninstall
	! ldconfig -p | grep libkvd || die "the cache of the linker still has libkvd"

	echo "/usr: the configuration is in /etc"
	said=$(make_install PREFIX=/usr install)
	[ -z "$said" ] || die "make install says: $said"
	[ -e /etc/kvd/kvd.ini ] && [ ! -e /usr/etc/kvd ] || die "kvd.ini is not in /etc/kvd"
	grep -q "kvd -c /etc/kvd/kvd.ini" /usr/lib/systemd/system/kvd.service ||
		die "kvd.service has another path"
	make_install PREFIX=/usr uninstall
	[ ! -e /etc/kvd ] || die "left: /etc/kvd"
'
# Whiteouts and folders that were looked at may be there, files and links may not.
left=$(find "$tmp/usr.new" "$tmp/etc.new" ! -type d ! -type c ! -name ld.so.cache)
[ -z "$left" ] || die "uninstall left: $left"
echo "ok"
