#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Test of the Debian packages: builds them (conf/deb), has lintian look at them, installs, upgrades,
# removes and purges them in a clean root that mmdebstrap makes, and runs their own tests there by
# autopkgtest. In the long form all of these run, that of the systemd unit in a virtual machine; in
# the short form the server's does. KVD_DEBS=FOLDER takes packages that are there.
#
# It needs root, for the clean root, and the archive that apt uses.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
	echo "deb.sh: $*" >&2
	exit 1
}

if [ "$(id -u)" != 0 ]; then
	echo "not root: there can be no clean root"
	exit 77
fi
command -v dpkg-buildpackage >/dev/null || { echo "there is no dpkg-buildpackage" && exit 77; }
# What is mounted below the clean root goes with this process.
if [ -z "${KVD_DEB_INSIDE:-}" ]; then
	exec env KVD_DEB_INSIDE=1 unshare -m "$0" "$@"
fi

tmp=$(mktemp -d "${TMPDIR:-/tmp}/kvd-deb.XXXXXX")
clean_up() {
	mapfile -t mounted < <(awk -v r="$tmp/" 'index($2, r) == 1 { print $2 }' /proc/mounts)
	for f in "${mounted[@]}"; do
		umount -l "$f"
	done
	rm -rf --one-file-system "$tmp"
}
trap clean_up EXIT
chmod 755 "$tmp" # apt reads packages as another user

step() {
	printf '%4d s  %s\n' "$SECONDS" "$*"
}

# words...: runs them, and prints what they said if they fail
quiet() {
	"$@" >"$tmp/said" 2>&1 || { cat "$tmp/said" && die "failed: $*"; }
}

debs=${KVD_DEBS:-$tmp/debs}
if [ -z "${KVD_DEBS:-}" ]; then
	step "the packages are built"
	DEB_BUILD_OPTIONS="parallel=$(nproc) noautodbgsym" quiet conf/deb "$debs"
fi
debs=$(realpath "$debs")
mapfile -t packages < <(find "$debs" -name '*.deb' ! -name '*dbgsym*' | LC_ALL=C sort)
[ "$(printf '%s\n' "${packages[@]##*/}" | cut -d_ -f1 | paste -sd ' ')" = \
	"kvd-tools kvd libkvd-dev libkvd0.4 python3-kvd" ] || die "packages: ${packages[*]}"
(cd "$debs" && stat -c '        %s %n' ./*.deb)

# lintian formats manual pages of 66 lines, and a table cell may cross the end of one: it does not
# count. Readers get one long page, which tests/man.sh checks. Three bytes of machine code may spell
# a word wrong by chance.
step "lintian has nothing to say"
lintian --allow-root --suppress-tags groff-message,spelling-error-in-binary \
	--display-info --pedantic --fail-on none \
	"$debs"/*.changes >"$tmp/lintian" 2>&1 || die "lintian: $(cat "$tmp/lintian")"
[ ! -s "$tmp/lintian" ] || die "lintian: $(cat "$tmp/lintian")"

step "a clean root"
root=$tmp/root
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
quiet mmdebstrap --quiet --variant=apt --skip=cleanup/apt/lists \
	--dpkgopt=force-unsafe-io --include=man-db "$suite" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
mount --bind /dev/pts "$root/dev/pts"
mkdir "$root/debs"
cp "$debs"/kvd_*.deb "$root/debs/new.deb"
cp "$debs"/kvd-tools_*.deb "$root/debs/tools.deb"

in_root() {
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
		chroot "$root" "$@"
}

apt() {
	quiet in_root apt-get -q -y --no-install-recommends "$@"
}

# The files that may stay: of dpkg, apt, and those that are made anew when any package is installed.
list_files() {
	(cd "$root" && find etc usr lib var home root opt -xdev ! -type d |
		grep -Ev -e '^var/(lib/(dpkg|apt|systemd)|cache|log/(apt|dpkg|alternatives))' \
			-e '^etc/(passwd|group|shadow|gshadow|ld\.so\.cache|systemd/system/)' \
			-e '/__pycache__/' | LC_ALL=C sort)
}

# What an older version looks like: the same with another number and another configuration.
older_package() {
	local old=$tmp/old
	dpkg-deb -R "$debs"/kvd_*.deb "$old"
	sed -i 's/^Version: .*/Version: 0.2.0-1/' "$old/DEBIAN/control"
	echo '; of 0.2' >>"$old/etc/kvd/kvd.ini"
	(cd "$old" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | xargs -0 md5sum \
		>DEBIAN/md5sums)
	quiet dpkg-deb --root-owner-group -b "$old" "$root/debs/old.deb"
}

# A kvd that takes any configuration, and does not serve.
bad_package() {
	local bad=$tmp/bad
	dpkg-deb -R "$debs"/kvd_*.deb "$bad"
	sed -i 's/^Version: .*/Version: 99.0-1/' "$bad/DEBIAN/control"
	printf '%s\n' '#!/bin/sh' '[ "$3" = --check-config ]' >"$bad/usr/bin/kvd"
	(cd "$bad" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | xargs -0 md5sum \
		>DEBIAN/md5sums)
	quiet dpkg-deb --root-owner-group -b "$bad" "$root/debs/bad.deb"
}

version_is() { # package, version
	[ "$(in_root dpkg-query -W -f '${db:Status-Abbrev}${Version}' "$1")" = "ii $2" ] ||
		die "$1 is: $(in_root dpkg-query -W "$1")"
}

version=$(dpkg-parsechangelog -l conf/debian/changelog -S Version)
older_package
step "0.2 is installed"
# What it depends on stays when it is removed.
depends=$(dpkg-deb -f "$debs"/kvd_*.deb Depends | tr ',' '\n' | sed 's/[|(].*//')
# shellcheck disable=SC2086 # a list
apt install --no-install-recommends $depends libedit2 libncursesw6
list_files >"$tmp/before"
apt install /debs/old.deb
version_is kvd 0.2.0-1
in_root getent passwd kvd | grep '^kvd:x:[0-9]*:[0-9]*:.*:/usr/sbin/nologin$' >/dev/null ||
	die "no user kvd: $(in_root getent passwd kvd)"
for folder in run/kvd var/log/kvd; do
	[ "$(in_root stat -c '%U:%G %a' "/$folder")" = "kvd:kvd 755" ] ||
		die "$folder: $(in_root stat -c '%U:%G %a' "/$folder")"
done
! find "$root"/etc/systemd -name 'kvd.service' | grep . || die "the unit is on"

step "an upgrade brings the new configuration"
apt install /debs/new.deb
version_is kvd "$version"
! grep -q 'of 0.2' "$root/etc/kvd/kvd.ini" || die "kvd.ini is that of 0.2"

step "and keeps a changed one, beside which the new one is"
apt install --allow-downgrades -o Dpkg::Options::=--force-confnew /debs/old.deb
sed -i 's/^level = .*/level = debug/' "$root/etc/kvd/kvd.ini"
grep -q '^level = debug' "$root/etc/kvd/kvd.ini" || die "kvd.ini has no level"
apt install -o Dpkg::Options::=--force-confold /debs/new.deb
grep -q '^level = debug' "$root/etc/kvd/kvd.ini" || die "the changed kvd.ini is lost"
cmp -s conf/kvd.ini "$root/etc/kvd/kvd.ini.dpkg-dist" || die "there is no kvd.ini.dpkg-dist"
quiet in_root kvd -c /etc/kvd/kvd.ini --check-config

step "a removal keeps the configuration, and a purge removes all"
apt remove kvd
[ -e "$root/etc/kvd/kvd.ini" ] && [ ! -e "$root/usr/bin/kvd" ] || die "remove: not as it should be"
: >"$root/var/log/kvd/kvd.log"
apt purge kvd
for f in etc/kvd var/log/kvd etc/logrotate.d/kvd usr/bin/kvd lib/systemd/system/kvd.service; do
	[ ! -e "$root/$f" ] || die "left: $f"
done
list_files >"$tmp/after"
diff "$tmp/before" "$tmp/after" || die "left, or removed"

step "its own tests, by autopkgtest"
mkdir "$tmp/built"
cp -r conf/debian "$tmp/built/debian"
: >"$tmp/built/debian/files" # the mark of a tree that is built
names=(--test-name=server)
[ "${KVD_TEST_LONG:-0}" = 0 ] || names=()
status=0
# The folder has to be in the clean root, too.
env TMPDIR=/tmp autopkgtest -q "${names[@]}" -B "${packages[@]}" "$tmp/built/" -- chroot "$root" \
	>"$tmp/autopkgtest" 2>&1 || status=$?
grep -E '^(server|library|python|service) +(PASS|FAIL|SKIP)' "$tmp/autopkgtest" || true
# 2 and 8: tests were skipped; that of the unit is, without a systemd.
[[ $status = [028] ]] && ! grep -Eq '^[a-z]+ +FAIL' "$tmp/autopkgtest" ||
	{ tail -n 60 "$tmp/autopkgtest" && die "autopkgtest ended with $status"; }
tests=1
[ "${KVD_TEST_LONG:-0}" = 0 ] || tests=3
[ "$(grep -Ec '^[a-z]+ +PASS' "$tmp/autopkgtest")" = $tests ] || die "not $tests tests passed"
[ "${KVD_TEST_LONG:-0}" = 1 ] || { step "ok" && exit 0; }

step "its unit, under a systemd in the virtual machine"
bad_package
apt install ibverbs-providers /debs/new.deb /debs/tools.deb
umount "$root/dev/pts" "$root/dev/shm" "$root/proc"
quiet tests/vm/run -t 1800 -- tests/deb_service.sh "$root"
grep "ms at most" "$tmp/said" || die "no upgrade was measured"
step "ok"
