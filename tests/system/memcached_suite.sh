#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of the memcached front with memcached's own tests (t/*.t of its source, in Perl) and
# libmemcached's memccapable. tests/memcached/list says which of the tests have to pass, and why the
# others do not apply; tests/memcached/memcached-debug starts kvd with memcached's options.
#
#   KVD_TEST_MC="getset touch"   runs these tests alone, also if the list has none for them
#   KVD_TEST_MC_PROGRAM=FILE     runs the tests against a memcached, to check this script: all pass
#
# The source is Debian's, of one version. apt-get fetches it once, to a cache, with an index of its
# own, so that the system's stays as it is. Without source and network the script is skipped.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

VERSION=1.6.18
ARCHIVE='http://deb.debian.org/debian bookworm main'
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
SOURCE=memcached_$VERSION.orig.tar.xz
SOURCE_SHA256=35872bd25f8d29d7cc2072d23e74344530891bfd0aa4f4f64184a8ae7291164b
AT_A_TIME=2 # tests, which sleep most of the time
TEST_SECONDS_MAX=600
SIGNALLED=124 # exit status of a test that a signal ended, or more
ASCII_CHECKS=27 # of memccapable

cache=${KVD_MEMCACHED_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/kvd-memcached}
program=${KVD_TEST_MC_PROGRAM:-}
chosen=${KVD_TEST_MC:-}
source=$tmp/memcached-$VERSION
runs=$tmp/runs # a folder for each test: out, err, its exit status, and what it left
list=tests/memcached/list

for tool in perl memccapable xz; do
	command -v $tool >/dev/null || { echo "needs $tool: conf/install-deps test" && exit 1; }
done
ulimit -Sn "$(ulimit -Hn)" # maxconns opens 1,024 connections

source_is_there() {
	echo "$SOURCE_SHA256  $cache/$SOURCE" | sha256sum --check --status 2>/dev/null
}

# words...: runs apt-get in a folder of its own, with an index of its own, of ARCHIVE alone
apt_alone() {
	local apt=$tmp/apt
	mkdir -p "$apt/lists/partial" "$apt/archives/partial" &&
		echo "deb-src [signed-by=$KEYRING] $ARCHIVE" >"$apt/sources.list" && cd "$apt" &&
		apt-get -q -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=- \
			-o Dir::State::Lists="$apt/lists" -o Dir::Cache="$apt" \
			-o APT::Update::Error-Mode=any -o APT::Sandbox::User="$(id -un)" \
			-o Acquire::Retries=3 "$@"
}

# Several scripts may do so at the same time.
source_fetch() {
	(apt_alone --only-source --download-only --tar-only source memcached) &&
		mkdir -p "$cache" && mv "$tmp/apt/$SOURCE" "$cache/$SOURCE.$$" &&
		mv "$cache/$SOURCE.$$" "$cache/$SOURCE" && source_is_there
}

# Changes three things. The tests move the clock by a command of memcached's debug build: here they
# wait, a second longer, since an item of kvd lives up to a second longer. Ports are below those
# that the kernel gives to clients. A killed server has more than half a second to disappear.
source_unpack() {
	local library=$source/t/lib/MemcachedTest.pm
	# shellcheck disable=SC2016 # Perl's
	tar -C "$tmp" -xf "$cache/$SOURCE" "${source##*/}/t" && sed -i \
		-e '/^sub mem_move_time/,/^}/c sub mem_move_time { sleep($_[1] + 1); }' \
		-e 's/int(rand(20000)) + 30000/int(rand(9000)) + 11000/' "$library" &&
		sed -i 's/^sleep 0.5;/sleep 3;/' "$source/t/daemonize.t" &&
		grep -q '^sub mem_move_time { sleep' "$library" &&
		grep -q 'rand(9000)) + 11000' "$library" &&
		[ "$(grep -c '^sleep 3;' "$source/t/daemonize.t")" = 2 ]
}

# Reads the list to `names`, and by the name `verdict` and `again`.
declare -A verdict again
list_read() {
	local name what
	while IFS='|' read -r name what _; do
		[[ $name =~ ^[0-9a-zA-Z] ]] || continue
		read -r name <<<"$name"
		read -r what <<<"$what"
		[[ $what =~ ^(pass|unix|none|fails( [0-9]+)+)( again)?$ && ! -v verdict[$name] ]] ||
			give_up "$list: the row of $name has '$what', or is its second"
		verdict[$name]=${BASH_REMATCH[1]}
		again[$name]=${BASH_REMATCH[3]}
	done <"$list"
	for name in $chosen; do
		[ -v "verdict[$name]" ] || give_up "KVD_TEST_MC: $list has no $name"
	done
	mapfile -t names < <(printf '%s\n' "${!verdict[@]}" | sort)
}

list_is_whole() {
	diff <(printf '%s\n' "${names[@]}") <(basename -as .t "$source"/t/*.t | sort)
}

# Prints the names of the tests that run, the longest first.
wanted() {
	local name
	for name in dash-M getset chunked-items "${names[@]}"; do
		if [ -n "$chosen" ]; then
			[[ " $chosen " == *" $name "* ]] || continue
		else
			[ "${verdict[$name]}" != none ] || continue
		fi
		echo "$name"
	done | awk '!seen[$0]++'
}

# folder: prints the processes of the test that has run there
processes_of() {
	grep -lszx "MEMCACHED_RUN=$1" /proc/[0-9]*/environ | cut -d / -f 3
}

# A test sends SIGINT to its servers at its end.
servers_ended() {
	[ -z "$(processes_of "$1")" ]
}

processes_kill() {
	local pid
	for pid in $(processes_of "$1"); do
		kill -KILL "$pid" 2>/dev/null
	done
}

# name: runs a test
run_test() {
	local run=$runs/$1 unix=
	[ "${verdict[$1]}" != unix ] || unix=1
	mkdir "$run" && cp -r "$source/t" tests/memcached/memcached-debug "$run" && cd "$run" ||
		return
	# The program of this name ends the server after a time, its first argument.
	printf '#!/bin/sh\nshift\nexec "$@"\n' >timedrun && chmod +x timedrun
	# A shell's background jobs ignore SIGINT.
	env --default-signal=INT,QUIT MEMCACHED_RUN="$run" MEMCACHED_KVD="$build/kvd" \
		MEMCACHED_UNIX=$unix MEMCACHED_PROGRAM="$program" \
		timeout --foreground -k 10 "$TEST_SECONDS_MAX" perl "t/$1.t" >out 2>err
	echo $? >status
	# One that a signal has ended sends none.
	[ "$(cat status)" -lt $SIGNALLED ] || processes_kill "$run"
	wait_until "$DEADLINE_S" servers_ended "$run" >left || processes_kill "$run"
}

# name: whether the test came out as the list says: which of its checks failed, these alone making
# its exit status, and no server is left
came_out() {
	local run=$runs/$1 ended failed want=
	[[ ${verdict[$1]} != fails* || -n $program ]] || want=${verdict[$1]#fails }
	ended=$(cat "$run/status") &&
		failed=$(sed -n 's/^not ok \([0-9]*\).*/\1/p' "$run/out" | paste -sd ' ') &&
		[ "$ended" = "$(wc -w <<<"$failed")" ] && [ "$failed" = "$want" ] &&
		grep -q '^ok ' "$run/out" && [ ! -s "$run/left" ] && return 0
	echo "status $ended, failed: ${failed:-none}; $list has: ${verdict[$1]}"
	cat "$run/left"
	tail -n 4 "$run/out"
	tail -n 12 "$run/err"
	return 1
}

run_tests() {
	local name
	for name; do
		while [ "$(jobs -pr | wc -l)" -ge $AT_A_TIME ]; do
			wait -n
		done
		run_test "$name" &
	done
	wait
}

# name...: of these tests, runs those again, alone, for which the list says so
run_again() {
	local name
	for name; do
		[ -n "${again[$name]}" ] && ! came_out "$name" >"$tmp/first" || continue
		echo "again: $name"
		sed 's/^/      | /' "$tmp/first"
		rm -r "${runs:?}/$name"
		run_tests "$name"
	done
}

# Before lib.sh removes the folder.
# shellcheck disable=SC2317 # called by trap
tests_end() {
	local run
	for run in "$runs"/*/; do
		processes_kill "${run%/}"
	done
}
trap 'tests_end; cleanup' EXIT

# port: whether memccapable finds nothing wrong with the text protocol
all_is_capable() {
	memccapable -v -a -h 127.0.0.1 -p "$1" >"$tmp/capable" 2>&1 &&
		[ "$(grep -c '\[pass\]' "$tmp/capable")" = $ASCII_CHECKS ] && return 0
	grep -v '\[pass\]' "$tmp/capable"
	return 1
}

capable() {
	local mc_port=$((11000 + $$ % 9000))
	config_write "$url,memcached://127.0.0.1:$mc_port"
	check "the server starts" server_start || finish
	check "memccapable -a" all_is_capable "$mc_port"
	check "the server stops" server_stop
}

mkdir "$runs"
list_read
[ -n "$chosen$program" ] || capable
if ! source_is_there && ! (apt_alone update) >"$tmp/update" 2>&1; then
	tail -n 5 "$tmp/update"
	[ $failures = 0 ] && no_sanitizer_reports || finish
	echo "$cache has no $SOURCE, and apt-get can't fetch it: is there a network?"
	exit 77
fi
source_is_there || check "apt-get fetches the source" source_fetch || finish
check "the source is unpacked" source_unpack || finish
check "the list has a row for each test" list_is_whole
mapfile -t wanted < <(wanted)
run_tests "${wanted[@]}"
run_again "${wanted[@]}"
for name in "${wanted[@]}"; do
	check "$name" came_out "$name"
done
finish
