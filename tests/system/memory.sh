#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of hugepages and NUMA nodes: the server places its memory as the options say and
# serves clients from it, or gives an error or one notice that says what to do. As root the test
# configures 2 MiB pages for a short time, if the kernel allows it; tests/unit/server/test_region.c
# does the same with the same lock.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

pool=/sys/kernel/mm/hugepages/hugepages-2048kB
pages=16 # of 2 MiB: the 32 MiB that config_write configures
pool_before=

pool_restore() {
	[ -z "$pool_before" ] || echo "$pool_before" >"$pool/nr_hugepages"
	pool_before=
}
# A second trap on EXIT replaces the first.
trap 'pool_restore; cleanup' EXIT

# number: configures that many pages; fails unless all are free then
pool_set() {
	echo "$1" 2>/dev/null >"$pool/nr_hugepages" && [ "$(cat "$pool/nr_hugepages")" = "$1" ] &&
		[ "$(cat "$pool/free_hugepages")" = "$1" ]
}

# Works only as root, and if no other process uses hugepages.
pool_begin() {
	[ -w "$pool/nr_hugepages" ] && exec 9<"$pool/nr_hugepages" && flock 9 || return 1
	[ "$(cat "$pool/nr_hugepages")" = "$(cat "$pool/free_hugepages")" ] || return 1
	pool_before=$(cat "$pool/nr_hugepages")
	pool_set "$pages" && return 0
	pool_restore
	return 1
}

# pattern, -o...: the server does not start and gives the reason in one line
start_fails() {
	local pattern=$1 got start
	shift
	start=$(($(log_lines) + 1))
	timeout "$DEADLINE_S" "$build/kvd" -c "$tmp/kvd.ini" "$@" 2>&1
	got=$?
	[ "$got" = 1 ] &&
		[ "$(tail -n "+$start" "$log" | grep -Ec " error (region: |memory\.)")" = 1 ] &&
		tail -n "+$start" "$log" | grep -Eq -- "$pattern" && return 0
	echo "status $got, or not like '$pattern':"
	tail -n "+$start" "$log"
	return 1
}

# A client on this host maps the region's file; that works with pages of any size.
serves() {
	expect 0 '^$' put key value && expect 0 '^value$' get key
}

# number, level: lines of that level about the region since the server started
logged_lines() {
	[ "$(tail -n "+$log_start" "$log" | grep -c " $2 region: ")" = "$1" ]
}

# number
page_bytes_are() {
	stat_is region_page_bytes "$1"
}

check "an unknown node" start_fails \
	'memory.numa = 999: .* the nodes it may use are: |no NUMA policies' -o memory.numa=999
# value of memory.numa: what the kernel does for the region, and what the statistics say
placed() {
	local policy=bind:[0-9] said="^nodes $1\$"
	case $1 in
	local) said='^local, ' ;;
	interleave) policy=interleave: said='^interleave' ;;
	esac
	[[ $(kvctl stats | sed -n 's/^region_numa //p') =~ $said ]] &&
		grep -E " $policy.*/memfd:kvd-region" "/proc/$server_pid/numa_maps" && return 0
	kvctl stats | grep region_numa
	grep /memfd:kvd-region "/proc/$server_pid/numa_maps"
	return 1
}

if [ -d /sys/devices/system/node/node0 ]; then
	for numa in 0 local interleave; do
		check "memory.numa = $numa" server_start -o memory.numa=$numa
		check "its memory is so placed" placed $numa
		check "it serves" serves
		check "it stops" server_stop
	done
fi

# MiB: the process holds that much of the region, within its megabyte of other shared memory
holds() {
	local kib
	kib=$(awk '/^RssShmem:/ { print $2 }' "/proc/$server_pid/status")
	[ "$kib" -ge $(($1 * 1024)) ] && [ "$kib" -lt $((($1 + 2) * 1024)) ] && return 0
	echo "$kib KiB"
	return 1
}

holds_less() {
	[ "$(awk '/^RssShmem:/ { print $2 }' "/proc/$server_pid/status")" -lt $(($1 * 1024)) ]
}

# What the server says about its pages is what the kernel says.
large_pages_are_said() {
	local large mib
	large=$(stat_of region_large_bytes) || return 1
	echo "$large bytes"
	if [ "$large" -gt 0 ]; then
		mib=$((large >> 20))
		logged " store: .* $mib MiB of them on transparent huge pages, allocated in " &&
			awk '/^ShmemPmdMapped:/ { n += $2 } END { exit n * 1024 < '"$large"' }' \
				"/proc/$server_pid/smaps"
	else
		logged ' notice region: .*; using .*[0-9]* KiB pages'
	fi
}

# The kernel maps large pages as such only where the address is a multiple of their size.
client_maps_aligned() {
	local start
	client_start reader "$tmp/reader" loop "$url" mix key 100 0 &&
		await_line "$tmp/reader" '^looping' "$reader" || return 1
	start=$(awk -F- '/memfd:kvd-region/ { print $1 }' "/proc/$reader/maps")
	kill -TERM "$reader" && await_end "$reader" && forget "$reader"
	echo "mapped at '$start'"
	[ -n "$start" ] && [ $((16#$start % (2 << 20))) = 0 ]
}

check "all memory is allocated at the start" server_start -o memory.hugepages=auto
check "the process holds it" holds 32
check "the server says what pages it has" large_pages_are_said
[ "$device" != softnic ] || check "a client maps them at a multiple" client_maps_aligned
check "it serves" serves
check "it stops" server_stop
check "memory.hugepages = off" server_start
check "that is allocated, too" holds 32
check "no page is large" stat_is region_large_bytes 0
check "it stops" server_stop
if [ "$device" = softnic ]; then
	check "memory.prefault = no" server_start -o memory.prefault=no
	check "allocates as items come" holds_less 16
	check "it serves" serves
	check "it stops" server_stop
fi

# Before it is allocated, which takes minutes if there is much.
too_large_for_the_device() {
	local start said
	start=$(($(log_lines) + 1))
	KVD_SOFTNIC_FAULTS=mr_max=1000000 timeout "$DEADLINE_S" "$build/kvd" -c "$tmp/kvd.ini" \
		>/dev/null 2>&1 && return 1
	said=$(tail -n "+$start" "$log")
	grep -q "error device .*: it registers at most 976.5 KiB in one piece (max_mr_size), \
and the region has 32 MiB: lower memory.size" <<<"$said" &&
		! grep -q ' store: ' <<<"$said" && [ ! -e "$tmp/s" ] && return 0
	echo "$said"
	return 1
}
if [ "$device" = softnic ]; then
	check "memory.size beyond the device's max_mr_size" too_large_for_the_device
fi

# More than this host has, and more than a control group has.
total=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)
for prefault in yes no; do
	check "memory.size beyond the host's, prefault = $prefault" start_fails \
		"needs [0-9]* MiB, $((total + 1)) MiB of region and about [0-9]* MiB beside it, \
and can have $total MiB at most, by MemTotal of /proc/meminfo: lower memory.size" \
		-o memory.size=$((total + 1))m -o memory.prefault=$prefault
done

# Makes a group of 60 MiB below this process's own, of either version; fails if it may not.
group=
group_begin() {
	local path mounts=/proc/self/mountinfo
	path=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
	if [ -n "$path" ]; then
		group=$(awk '/ - cgroup .*memory/ { print $5; exit }' $mounts)$path/kvd.$$
		mkdir "$group" && echo 60M >"$group/memory.limit_in_bytes"
	else
		path=$(sed -n 's/^0:://p' /proc/self/cgroup)
		group=$(awk '/ - cgroup2 / { print $5; exit }' $mounts)$path/kvd.$$
		mkdir "$group" && echo 60M >"$group/memory.max"
	fi 2>/dev/null && [ -w "$group/cgroup.procs" ] && return 0
	rmdir "$group" 2>/dev/null
	group=
	return 1
}

in_group() {
	(echo "$BASHPID" >"$group/cgroup.procs" && start_fails "$@")
}

group_end() {
	[ -z "$group" ] || wait_until "$DEADLINE_S" rmdir "$group"
}

if group_begin; then
	check "memory.size beyond the control group's" in_group \
		'memory.size: kvd needs .*, 64 MiB of region .* 60 MiB at most, by .*/memory\.' \
		-o memory.size=64m
	check "and what does not fit beside it" in_group \
		'memory.size: kvd needs .* MiB, 59 MiB of region ' -o memory.size=59m
	check "the group can be removed" group_end
else
	echo "control groups are left out: none can be made here"
fi

if pool_begin; then
	for mode in auto 2m require; do
		check "memory.hugepages = $mode with enough of them" server_start \
			-o memory.hugepages=$mode
		check "it has them" page_bytes_are 2097152
		check "it logs no warning about them" logged_lines 0 warn
		check "and no notice" logged_lines 0 notice
		check "it serves" serves
		check "it stops" server_stop
	done
	check "all pages are free again" pool_set "$pages"
	check "one page too few" pool_set $((pages - 1))
	missing="too few huge pages: $pages x 2 MiB needed .*$((pages - 1)) of $((pages - 1)) .*"
	check "required, it is an error with the command that helps" start_fails \
		"memory.hugepages = require: $missing: sysctl vm.nr_hugepages=$pages\$" \
		-o memory.hugepages=require
	# A verbs device has prefaulting at any rate.
	if [ "$device" = softnic ]; then
		check "otherwise the server uses normal pages" server_start \
			-o memory.hugepages=auto -o memory.prefault=no
		check "with one notice" logged_lines 1 notice
		check "and no warning" logged_lines 0 warn
		using="using $(($(getconf PAGESIZE) / 1024)) KiB pages"
		check "the notice has the command that helps" logged "= auto: $missing; $using; \
optional: memory.prefault = yes, or sysctl vm.nr_hugepages=$pages\$"
		check "it serves" serves
		check "it stops" server_stop
	fi
	pool_restore
else
	echo "hugepages are left out: $pool can't be set here, or is in use"
fi
finish
