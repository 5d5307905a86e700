# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Functions for the scripts in bench/: a temporary folder, start and stop of kvd by its pid, and
# figures from kvbench's JSON. To be sourced.
#
#   KVD_BUILD      folder with kvd, kvctl and kvbench; build/ unless set
#   KVD_RDMA_ADDR  IP address of the RDMA device; the first one found unless set

set -u
bench_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1
build=$(realpath "${KVD_BUILD:-$bench_dir/../build}") || exit 1
tmp=$(mktemp -d "${TMPDIR:-/tmp}/kvd-bench.XXXXXX") || exit 1

READY_S=60 # until a server responds, also in an emulated machine
STOP_S=30  # until it has ended

pids=()
kvd_pid=
kvd_url=
on_server=() # what runs a server, as taskset -c 0
also_at=     # a second URL at which servers listen

# In a subshell, as in say "$(kvd_stat name)", die ends only the subshell: the script ends at the
# next say, and with status 1 in any case.
say() {
	[ ! -e "$tmp/died" ] || exit 1
	printf '%s\n' "$*"
}

die() {
	printf '%s: %s\n' "$(basename "$0")" "$*" >&2
	: >"$tmp/died"
	exit 1
}

# Runs on every way out.
# shellcheck disable=SC2317 # called by trap
cleanup() {
	local pid failed=0
	[ ! -e "$tmp/died" ] || failed=1
	for pid in ${pids[@]+"${pids[@]}"}; do
		kill -KILL "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	rm -rf "$tmp"
	[ $failed = 0 ] || exit 1
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# program...: dies unless each is installed
need() {
	local program
	for program in "$@"; do
		command -v "$program" >/dev/null ||
			die "$program is missing: ${need_hint:-run make}"
	done
}

# [folder]: sets $builds to our build and, if given, the folder with the programs to compare with.
# Both must have micro, which contains libkvd: for another version run `make benchmarks` in a tree
# of that version.
builds_find() {
	local of
	builds=("$build")
	[ -z "${1-}" ] || builds+=("$(realpath "$1")") || exit 1
	for of in "${builds[@]}"; do
		need_hint='run make benchmarks' need "$of/micro"
	done
}

# build, operation, URL, calls: prints the client's instructions of the cheapest of these calls, as
# callgrind counts them; the first calls, which store and read the keys, do not count
call_instructions() {
	rm -f "$tmp"/dump*
	valgrind --tool=callgrind --callgrind-out-file="$tmp/dump" --toggle-collect=call \
		--dump-after=call "$1/micro" calls "$2" "$3" "$4" >"$tmp/valgrind" 2>&1 ||
		die "micro calls failed: $(tail -n 3 "$tmp/valgrind")"
	grep -h '^summary:' $(ls -v "$tmp"/dump.*) | tail -n "$4" | sed 's/.* //' | sort -n |
		head -n 1
}

# Prints cores, CPU and load, for the head of a report.
host() {
	printf '%s cores (%s), load now: %s' "$(nproc)" \
		"$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" \
		"$(cut -d ' ' -f 1 /proc/loadavg)"
}

# A child that has ended is a zombie until it is waited for.
ended() {
	local stat
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
	[[ ${stat##*) } == Z* ]]
}

# seconds, command...: waits until the command succeeds
wait_until() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt "$end" ] || return 1
		sleep 0.05
	done
}

# shellcheck disable=SC2317 # called by wait_until
kvd_responds() {
	ended "$kvd_pid" && return 0
	kvd_url=$(sed -n 's/.* listening on //p' "$tmp/kvd.log" | head -n 1)
	[ -n "$kvd_url" ] && "$build/kvctl" -a "$kvd_url" ping >/dev/null 2>&1
}

# softnic|rdma [-o section.key=value]...: starts kvd; its address is then in $kvd_url
kvd_start() {
	local listen=softnic://$tmp/kvd.sock
	[ "$1" = softnic ] || listen=$1://${KVD_RDMA_ADDR:-}:$((20000 + $$ % 20000))
	shift
	need "$build/kvd" "$build/kvctl" "$build/kvbench"
	listen+=${also_at:+,$also_at}
	${on_server[@]+"${on_server[@]}"} "$build/kvd" -o server.listen="$listen" "$@" \
		>"$tmp/kvd.log" 2>&1 &
	kvd_pid=$!
	pids+=("$kvd_pid")
	if ! wait_until "$READY_S" kvd_responds || ended "$kvd_pid"; then
		cat "$tmp/kvd.log" >&2
		die "kvd did not start"
	fi
}

# Stops kvd and returns its exit status.
kvd_stop() {
	kill -TERM "$kvd_pid"
	if ! wait_until "$STOP_S" ended "$kvd_pid"; then
		cat "$tmp/kvd.log" >&2
		die "kvd did not stop"
	fi
	wait "$kvd_pid"
}

# name: prints kvd's statistic of this name; dies if there is none
kvd_stat() {
	local stats value
	stats=$("$build/kvctl" -a "$kvd_url" stats) || die "kvd's statistics can't be read"
	value=$(sed -n "s/^$1 //p" <<<"$stats")
	[ -n "$value" ] ||
		die "kvd has no statistic $1: kvctl stats prints the names; correct this script"
	printf '%s\n' "$value"
}

# file, name: a figure out of kvbench's JSON
figure() {
	sed -n "s/^  \"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$1"
}

# name, value: records one more value of a figure
note() {
	[ -n "$2" ] || die "no figure for $1"
	echo "$2" >>"$tmp/figure-$1"
}

# name: the median of its values
median() {
	sort -g "$tmp/figure-$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# a, b: a / b with two digits
ratio() {
	awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.2f", a / b; else printf "-" }'
}

# number: with a comma between thousands
commas() {
	awk -v n="$1" 'BEGIN {
		n = sprintf("%.0f", n)
		while (match(n, /^[0-9]+[0-9][0-9][0-9]($|,)/)) {
			rest = ""
			if (i = index(n, ",")) { rest = substr(n, i); n = substr(n, 1, i - 1) }
			n = substr(n, 1, length(n) - 3) "," substr(n, length(n) - 2) rest
		}
		print n
	}'
}
