#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures operations that are under way together, large values, and the cost of a look-up and of a
# handle, on softnic; compared with memcached over loopback TCP and with memcpy().
#
#   bench/async.sh [-r ROUNDS] [-t MS] [-k "64 1024 16384"] [small|large|memcpy|cost]...
#
# All parts unless some are named; -k: the sizes of large values, in KiB. Each side is measured for
# MS (200) ms in each of ROUNDS (3) rounds, in turn, in a process of its own (bench/micro/async.c);
# the figures are medians. Both servers have one worker thread and run all the time; one is idle
# while the other is measured. Only kvd's worker is pinned.
#
# memcached is measured in two ways where it matters: "one by one" sends each command with a system
# call of its own and takes 16 responses together; "together" sends all with one system call.
#
# A missed target is no failure: a busy machine changes every ratio.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=bench/rivals.sh
. "$bench_dir/rivals.sh"

rounds=3
ms=200
sizes_kib='64 1024 16384'
usage='async.sh [-r ROUNDS] [-t MS] [-k "64 1024"] [small|large|memcpy|cost...]'
while getopts k:r:t: option; do
	case $option in
	k) sizes_kib=$OPTARG ;;
	r) rounds=$OPTARG ;;
	t) ms=$OPTARG ;;
	*) die "usage: $usage" ;;
	esac
done
shift $((OPTIND - 1))
[ $# != 0 ] || set -- small large memcpy cost
for part in "$@"; do
	case $part in
	small | large | memcpy | cost) ;;
	*) die "usage: $usage" ;;
	esac
done
need_hint='run make benchmarks' need "$build/micro"
need_hint='apt-get install memcached' need memcached

kib=1024
mib=$((kib * kib))
mc_url=memcached://127.0.0.1:$((20000 + $$ % 20000))

# name, arguments of micro async...: keeps one more figure
measure() {
	local name=$1 figure
	shift
	figure=$("$build/micro" async "$@" -t "$ms") || die "micro async $* failed"
	note "$name" "$figure"
}

# label, kvd's figure's name, label and name of the other's, target
row() {
	local a b
	a=$(median "$2")
	b=$(median "$4")
	printf '%-34s %12s  %-26s %12s %7s  %s\n' "$1" "$(commas "$a")" "$3" "$(commas "$b")" \
		"$(ratio "$a" "$b")" "$5"
}

head_of() {
	say
	printf '%-34s %12s  %-26s %12s %7s  %s\n' "$1" kvd beside '' ratio target
}

small() {
	local i args=(-v 64 -d 16 -k 10000)
	for ((i = 0; i < rounds; i++)); do
		measure small-kvd put -a "$kvd_url" "${args[@]}"
		measure small-mc put -a "$mc_url?pipeline=16" -v 64 -d 1 -k 10000
		measure small-mc-batch put -a "$mc_url" "${args[@]}"
		measure small-kvd-1 put -a "$kvd_url" -v 64 -d 1 -k 10000
		measure small-mc-1 put -a "$mc_url" -v 64 -d 1 -k 10000
	done
	head_of 'operations per second'
	row 'PUT 64 B, depth 16' small-kvd 'memcached, one by one' small-mc '>= 12'
	row 'PUT 64 B, depth 16' small-kvd 'memcached, together' small-mc-batch ''
	row 'PUT 64 B, depth 1' small-kvd-1 memcached small-mc-1 ''
}

# bytes: the number of keys whose values take 64 MiB, 8 to 256
keys_of() {
	local keys=$((64 * mib / $1))
	printf '%s\n' $((keys < 8 ? 8 : keys > 256 ? 256 : keys))
}

large() {
	local i size bytes depth op name args target
	head_of 'values per second'
	for depth in 1 8; do
		target='>= 3'
		[ $depth = 1 ] || target='>= 5'
		for size in $sizes_kib; do
			bytes=$((size * kib))
			args=(-v "$bytes" -d $depth -k "$(keys_of "$bytes")")
			for op in put get; do
				name=$op-$depth-$size
				for ((i = 0; i < rounds; i++)); do
					measure $name $op -a "$kvd_url" "${args[@]}"
					measure $name-m $op -a "$kvd_url" -m "${args[@]}"
					measure mc-$name $op -a "$mc_url" "${args[@]}"
				done
				row "${op^^} $size KiB, $depth under way" $name memcached \
					mc-$name "$target"
				row '    registered memory' $name-m memcached mc-$name "$target"
			done
		done
	done
}

# 64 values of 1 MiB: none of them is in the cache when its turn comes. memcpy() is measured in two
# directions: from many to one, as for a GET, and from one to many, as for a PUT. They hardly differ
# on machines where memcpy() bypasses the cache for that many bytes. The targets are those of GETs.
memcpy() {
	local i op depth name target args=(-v "$mib" -k 64)
	for ((i = 0; i < rounds; i++)); do
		for op in put get; do
			for depth in 1 8; do
				name=cpy-$op-$depth
				measure $name $op -a "$kvd_url" -d $depth "${args[@]}"
				measure cpy memcpy "${args[@]}"
				measure cpy-to-many memcpy-put "${args[@]}"
				measure $name-m $op -a "$kvd_url" -m -d $depth "${args[@]}"
			done
		done
	done
	head_of 'values of 1 MiB per second'
	for op in put get; do
		target='>= 0.5'
		[ $op = put ] || target='>= 0.75'
		for depth in 1 8; do
			name=cpy-$op-$depth
			row "${op^^}, registered, $depth under way" $name-m memcpy cpy "$target"
			row "${op^^}, other memory, $depth under way" $name memcpy cpy ''
			[ $op = put ] || continue
			row '    registered' $name-m 'memcpy, one to many' cpy-to-many ''
			row '    other memory' $name 'memcpy, one to many' cpy-to-many ''
		done
	done
}

cost() {
	local i n figures
	for ((i = 0; i < rounds; i++)); do
		measure exists exists -a "$kvd_url" -k 256
	done
	say
	say "exists of 256 keys whose buckets are cached: $(median exists) us each (target 0.15)"
	say "KiB of private memory and descriptors:"
	for n in 1 64 1000; do
		figures=$("$build/micro" async handles -a "$kvd_url" -k $n) ||
			die 'micro async handles failed'
		if [ $n = 1 ]; then
			say "    1 handle           $figures, with what all of a process share"
		else
			say "$(printf '%5d' $n) handles, each     $figures, beyond the first" \
				"(target 48, 2)"
		fi
	done
}

memcached_start "$mc_url" -t 1 -m 1024 -I 32m
kvd_start softnic -o server.workers=1 -o memory.size=1g
say "kvd $(kvd_stat version) on softnic beside memcached $(memcached -V | awk '{ print $2 }')," \
	"one worker thread each; $ms ms, medians of $rounds rounds; $(host)"
for part in "$@"; do
	"$part"
done
kvd_stop
