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

# number: configures so many pages; fails unless all are free then
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
	expect 0 '' put key value && expect 0 '^value' get key
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
if [ -d /sys/devices/system/node/node0 ]; then
	for numa in 0 local interleave; do
		check "memory.numa = $numa" server_start -o memory.numa=$numa
		check "it serves" serves
		check "it stops" server_stop
	done
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
	check "otherwise the server uses normal pages" server_start -o memory.hugepages=auto
	check "with one notice" logged_lines 1 notice
	check "and no warning" logged_lines 0 warn
	using="using $(($(getconf PAGESIZE) / 1024)) KiB pages"
	check "the notice has the command that helps" logged \
		"= auto: $missing; $using; optional: sysctl vm.nr_hugepages=$pages\$"
	check "it serves" serves
	check "it stops" server_stop
	pool_restore
else
	echo "hugepages are left out: $pool can't be set here, or is in use"
fi
finish
