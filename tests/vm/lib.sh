# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2015,SC2154 # A && B || fail is meant so; the including script sets "here"
#
# Functions that fetch, check and build the kernel and the initramfs of the test machine, and keep
# them in a cache.
# Guarantee: cache_prepare returns 0 only with KERNEL and INITRAMFS set to files whose checksums
# match those stored when they were made from a package that matched apt's (signed) metadata.
# Any number of callers may run it at the same time.

# shellcheck disable=SC2034 # read by the script that includes this file
GUEST_NET=10.9.0	# the host's number follows: 1, or 2 for the second of a pair
KERNEL_META=linux-image-amd64	# the cloud flavour has no rdma_rxe
BOOTS_KEPT_MAX=2

# In any order, since modprobe gives the order. No module depends on crc32_generic, but rdma_rxe
# asks for "crc32" by name when a link is added.
MODULES=(crc32_generic crc32-pclmul virtio_pci virtio_net 9p 9pnet_virtio overlay
	rdma_rxe ib_uverbs rdma_ucm dummy veth bridge sch_netem)

cache=${KVD_VM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/kvd-vm}

say() {
	printf 'tests/vm/run: %s\n' "$*" >&2
}

fail() {
	say "$*"
	exit 125
}

tools_check() {
	local dir pair missing=()
	for dir in /usr/sbin /sbin; do	# not in an ordinary user's PATH; passed to the guest, too
		[[ :$PATH: == *:$dir:* ]] || PATH+=:$dir
	done
	for pair in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio \
		xz:xz-utils modprobe:kmod \
		rdma:iproute2 ibv_devinfo:ibverbs-utils dpkg-deb:dpkg apt-get:apt \
		flock:util-linux setpriv:util-linux; do
		command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
	done
	if ((${#missing[@]})); then
		mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
		fail "missing packages; try: apt-get install ${missing[*]}"
	fi
	# ldd fails for a static program, which the loader does not run.
	! LC_ALL=C ldd "$(command -v busybox)" >/dev/null 2>&1 ||
		fail "busybox is not statically linked; try: apt-get install busybox-static"
	[[ $(uname -m) == x86_64 ]] || fail "only x86_64 hosts are supported, this is $(uname -m)"
}

sums_match() {	# folder, file of sums in it
	[[ -s $1/$2 ]] && (cd "$1" && sha256sum --check --status "$2" 2>/dev/null)
}

apt_update() {
	say "running apt-get update"
	apt-get -q update >"$cache/apt.log" 2>&1 ||
		{ say "apt-get update failed (as root?); see $cache/apt.log"; return 1; }
}

# Downloads the kernel that the meta package depends on; apt compares its sum with the index's.
kernel_download() {
	local package dir
	package=$(apt-cache depends --important "$KERNEL_META" 2>/dev/null |
		sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1)
	[[ -n $package ]] && dir=$(mktemp -d "$cache/download.XXXXXX") || return 1
	say "fetching $package (about 70 MB, once)"
	# apt's sandbox user could not write to this folder.
	(cd "$dir" && apt-get -q -o APT::Sandbox::User=root download "$package") \
		>"$cache/apt.log" 2>&1 &&
		mv "$dir"/*.deb "$cache/kernel.deb" &&
		(cd "$cache" && sha256sum kernel.deb >kernel.sha256)
	local err=$?
	rm -rf -- "$dir"
	return $err
}

# apt's lists may be missing, or so old that the mirror has dropped the version.
kernel_fetch() {
	kernel_download || { apt_update && kernel_download; } ||
		{ say "apt can't fetch the kernel of $KERNEL_META: $cache/apt.log"; return 1; }
}

initramfs_tree() {	# work folder holding the unpacked package in pkg
	local lib file n=0 name
	lib=$(echo "$1"/pkg/lib/modules/*)
	mkdir -p "$1"/root/{bin,modules,proc,sys,dev,host,share,root} &&
		cp "$(command -v busybox)" "$1/root/bin/busybox" &&
		cp "$here/init" "$1/root/init" && chmod 755 "$1/root/init" &&
		depmod -b "$1/pkg" "${lib##*/}" &&
		modprobe -C /dev/null -d "$1/pkg" -S "${lib##*/}" -a -D "${MODULES[@]}" \
			>"$1/order" || return 1
	while read -r file; do
		# The number makes the shell's sorted glob the order of loading.
		printf -v name '%03d-%s' $((n++)) "${file##*/}"
		cp "$file" "$1/root/modules/$name" || return 1
	done < <(awk '$1 == "insmod" && !seen[$2]++ { print $2 }' "$1/order")
}

# Unpacks the kernel from its self-extracting image: QEMU starts it directly (PVH), which saves the
# seconds that unpacking takes in emulation. Offsets: x86 boot protocol, 2.08 and later.
kernel_unpack() {	# image, output
	local setup_sectors offset length
	setup_sectors=$(od -An -tu1 -j 497 -N 1 "$1")
	read -r offset length < <(od -An -tu4 -j 584 -N 8 "$1")
	# The last 4 bytes are the unpacked size, not part of the stream.
	tail -c +$(((setup_sectors + 1) * 512 + offset + 1)) "$1" | head -c $((length - 4)) |
		xz -dc >"$2"
	# head ends before tail does.
	((PIPESTATUS[2] == 0)) || { say "$1 is not compressed with xz"; return 1; }
}

# Makes boot-KEY, so that kernel, initramfs and their sums appear together or not at all.
boot_build() {	# folder
	local work
	work=$(mktemp -d "$cache/build.XXXXXX") || return 1
	say "building the initramfs"
	# Uncompressed: unpacking in emulation costs more than loading.
	dpkg-deb -x "$cache/kernel.deb" "$work/pkg" && initramfs_tree "$work" &&
		mkdir "$work/boot" &&
		(cd "$work/root" && find . | cpio --quiet -o -H newc -R 0:0) \
			>"$work/boot/initramfs" &&
		kernel_unpack "$work"/pkg/boot/vmlinuz-* "$work/boot/vmlinux" &&
		(cd "$work/boot" && sha256sum initramfs vmlinux >SHA256SUMS) &&
		rm -rf -- "$1" && mv "$work/boot" "$1"
	local err=$?
	rm -rf -- "$work"
	((err)) && say "building the initramfs in $cache failed"
	return $err
}

# Keeps the newest folders: other versions of these scripts may share the cache.
boots_prune() {
	local old
	# shellcheck disable=SC2012 # names are ours: boot-HEX
	ls -dt "$cache"/boot-* | tail -n +$((BOOTS_KEPT_MAX + 1)) | while read -r old; do
		rm -rf -- "$old"
	done
}

boot_key() {
	local sum
	sum=$(cat "$here/lib.sh" "$here/init" "$(command -v busybox)" "$cache/kernel.sha256" |
		sha256sum)
	printf '%s\n' "${sum:0:16}"
}

do_cache_prepare() {	# with the lock held
	local boot
	# An earlier, killed run left these; with the lock no other run is using them.
	rm -rf -- "$cache"/download.?????? "$cache"/build.??????
	if [[ -s $cache/kernel.sha256 ]]; then
		boot=$cache/boot-$(boot_key)
		sums_match "$boot" SHA256SUMS && touch "$boot" && return 0
		[[ -d $boot ]] && say "$boot is damaged"
	fi
	sums_match "$cache" kernel.sha256 || kernel_fetch || return 1
	boot=$cache/boot-$(boot_key)
	boot_build "$boot" && boots_prune
}

cache_prepare() {
	mkdir -p -- "$cache" ||
		{ say "cannot make the cache folder $cache; see KVD_VM_CACHE"; return 1; }
	(
		flock -n 9 || { say "waiting for another run to fill $cache" && flock 9; } || exit 1
		do_cache_prepare
	) 9>"$cache/lock" || return 1
	KERNEL=$cache/boot-$(boot_key)/vmlinux
	INITRAMFS=$cache/boot-$(boot_key)/initramfs
}
