#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures what a change of value sizes does to a full store: how much of the item memory holds live
# items when it is full again, whether a PUT fails, and whether the rate of PUTs falls while slabs
# are emptied.
#
#   bench/shift.sh [-m MEGABYTES] [SIZE|SIZE-SIZE...]
#
# One client, one worker, kvd on softnic. bench/shift.h describes the columns.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

megabytes=256
while getopts m: option; do
	case $option in
	m) megabytes=$OPTARG ;;
	*) die "usage: shift.sh [-m MEGABYTES] [SIZE|SIZE-SIZE...]" ;;
	esac
done
shift $((OPTIND - 1))
[ $# != 0 ] || set -- 100 4096 100 64-8192
need "$build/kvbench"

kvd_start softnic -o memory.size="${megabytes}m" -o memory.hugepages=off -o server.workers=1
say "kvd, $megabytes MiB; $(host)"
say
"$build/kvbench" shift -a "$kvd_url" "$@"
status=$?
say
"$build/kvctl" -a "$kvd_url" stats |
	grep -E '^(memory\.|items |evictions |moves |evacuations|index_buckets |put_no_space )'
kvd_stop || status=$?
exit $status
