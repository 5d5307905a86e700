#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of the tables in conf/SIZING.md: a server that kvbench fills holds as many keys as the
# page says, kvd counts on as much memory for its process, memory.file takes as much room, and a
# connection takes as many open files. The long form has every row of the keys, the short one three.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

if [ "$device" != softnic ]; then
	echo "items take the same memory on every device"
	exit 77
fi

PAGE=conf/SIZING.md
REGION_MIB=64
KEY_BYTES=24     # of kvbench's, with 20 digits
RECORD_HEADER=32 # of kvbench's values
INDEX_BYTES=17   # a key, as the page says
PERCENT_MAX=2    # that a table may differ from what is measured

rows=(100 4096 65536)
[ "${KVD_TEST_LONG:-0}" != 1 ] || rows=(32 100 1000 4096 65536 1048576)

# heading of a column: prints the rows of the table that has it, cells with | between them, without
# the commas and units of numbers
table() {
	awk -v heading="$1" '/^\|/ {
			if (index($0, heading)) found = 1
			if (found && !/^\|-/) print
			next
		}
		{ found = 0 }' "$PAGE" | tail -n +2 |
		sed -E 's/^\| *//; s/ *\| */|/g; s/([0-9]),/\1/g; s/ B\|/|/g'
}

# number, number, what: whether they differ by PERCENT_MAX at most
is_near() {
	echo "$3: $1, $2"
	awk -v a="$1" -v b="$2" -v p=$PERCENT_MAX \
		'BEGIN { d = a > b ? a - b : b - a; exit !(b > 0 && d * 100 <= p * b) }'
}

# value: prints the row of the table of keys
row_of() {
	table 'region for a key' | grep "^$1|"
}

# value
fill() {
	local records=$((REGION_MIB * 1048576 * 3 / 2 / ($1 + 64)))
	"$build/kvbench" load -a "$url" -P bench/workloads/workloada -p recordcount=$records \
		-p fieldcount=1 -p fieldlength=$(($1 - RECORD_HEADER)) -D 16 \
		-p insertorder=ordered -p zeropadding=20 "${PATIENCE[@]}" \
		>"$tmp/load" && stat_above evictions 0
}

# value: what is measured, and what the page's formula gives, are as in the row
holds_the_keys() {
	local value block region gib items item each
	IFS='|' read -r value block region gib <<<"$(row_of "$1")"
	[ "$value" = "$1" ] || return 1
	items=$(stat_of items) && each=$((REGION_MIB * 1048576 / items)) || return 1
	item=$((24 + KEY_BYTES + value))
	[ $((KEY_BYTES + value)) -le 100 ] || item=$((item + 16))
	is_near "$each" "$region" "bytes a key of the region" &&
		is_near "$((block + INDEX_BYTES))" "$region" "formula" &&
		is_near "$gib" "$((1073741824 / region))" "keys in 1 GiB" &&
		[ "$block" -ge "$item" ]
}

for value in "${rows[@]}"; do
	check "a server of $REGION_MIB MiB" server_start -o memory.size=${REGION_MIB}m \
		-o limits.max_value=auto
	check "is filled with values of $value bytes" fill "$value"
	check "and holds as many as the page says" holds_the_keys "$value"
	check "it stops" server_stop
done

# first words: prints the number before "KiB" or "MiB" in the row of the table of the process
process_figure() {
	table 'for | memory' | sed -n "s/^$1[^|]*|[^0-9]*\([0-9.]*\) [KM]iB.*/\1/p"
}

# More than the host has, so that kvd says what it counts on: by its defaults, which are 1,024
# connections and 2,048 identities.
process_is() {
	local region total beside said sum
	total=$(awk '/^MemTotal:/ { print int($2 / 1024) + 1 }' /proc/meminfo)
	said=$("$build/kvd" -o "server.listen=$url" -o memory.size="${total}m" \
		-o server.workers=3 -o memory.hugepages=off 2>&1)
	[[ $said =~ ([0-9]+)" MiB of region and about "([0-9]+)" MiB beside it" ]] ||
		{ echo "$said" && return 1; }
	region=${BASH_REMATCH[1]} beside=${BASH_REMATCH[2]}
	sum=$(awk -v region="$region" -v conn="$(process_figure 'each of `server')" \
		-v identity="$(process_figure 'each of `limits')" \
		-v rest="$(process_figure 'the rest')" 'BEGIN {
			workers = 3 * 2.25 * 4096 * (2048 + 128) / 1048576
			print int(region / 128 + workers + conn + 2 * identity + rest)
		}')
	echo "MiB of the process: $sum, $beside"
	[ $((sum - beside)) -ge -1 ] && [ $((sum - beside)) -le 1 ]
}
check "the process needs what the page says" process_is

kept=
if [ "$(stat -f -c %T /dev/shm)" = tmpfs ]; then
	kept=/dev/shm/kvd-sizing.$$
	trap 'rm -rf "$kept"; cleanup' EXIT
	mkdir "$kept"
fi
clients_change() {
	local i
	for i in 1 2 3 4; do
		kvctl put "key$i" value || return 1
	done
}
files_are() {
	local state=$((REGION_MIB * 1048576 / 48 + (5 << 20)))
	grep -q '^| FILE.state | `memory.size` / 48 + 5 MiB |$' "$PAGE" &&
		[ "$(stat -c %s "$kept/k")" = $((REGION_MIB << 20)) ] &&
		is_near "$(stat -c %s "$kept/k.state")" $state "FILE.state" &&
		is_near "$(stat -c %s "$kept/k.answers")" $((4 * 51 * 1024 / 10)) "FILE.answers" &&
		grep -q '^| FILE.answers.* 5.1 KiB for each of `limits.identities`' "$PAGE"
}
if [ -n "$kept" ]; then
	check "a server with memory.file" server_start -o memory.size=${REGION_MIB}m \
		-o "memory.file=$kept/k" -o limits.max_value=auto
	check "clients change something" clients_change
	check "it stops" server_stop
	check "its files have the sizes of the page" files_are
fi

# way: prints the number of open files in its row
row_files() {
	table 'open files of the server' | awk -F '|' -v way="\`$1" 'index($1, way) { print $4 }'
}
files_open() {
	local fds=("/proc/$server_pid/fd/"*)
	echo ${#fds[@]}
}
# number
files_are_open() {
	[ "$(files_open)" = "$1" ]
}
port=$((20000 + $$ % 10000))
mkfifo "$tmp/in"
descriptors() {
	local before client in conn result=0
	before=$(files_open)
	kvctl <"$tmp/in" >/dev/null &
	client=$!
	pids+=("$client")
	exec {in}>"$tmp/in"
	echo "put key value" >&"$in"
	wait_until "$DEADLINE_S" files_are_open $((before + $(row_files softnic:))) || result=1
	exec {conn}<>"/dev/tcp/127.0.0.1/$port"
	wait_until "$DEADLINE_S" files_are_open \
		$((before + $(row_files softnic:) + $(row_files memcached:))) || result=1
	exec {conn}>&- {in}>&-
	await_end "$client" && forget "$client" && return $result
}
check "a server for memcached's clients, too" server_start \
	-o "server.listen=$url,memcached://127.0.0.1:$port"
check "connections take as many files as the page says" descriptors
check "it stops" server_stop

# The links' bounds follow from the text above them.
network_is() {
	local value item read wire slow middle fast count=0
	while IFS='|' read -r value read wire slow middle fast; do
		item=$((24 + 16 + KEY_BYTES + value))
		[ "$read" = $(((item + 63) / 64 * 64)) ] &&
			[ "$wire" = $((read + 86 * ((read + 4095) / 4096))) ] &&
			is_near "$slow" $((25000000000 / 8 / wire)) "25 Gbit/s" &&
			is_near "$middle" $((100000000000 / 8 / wire)) "100 Gbit/s" &&
			is_near "${fast%|}" $((400000000000 / 8 / wire)) "400 Gbit/s" || return 1
		count=$((count + 1))
	done <<<"$(table 'on the wire')"
	[ $count = 4 ]
}
check "the bounds of links are calculated right" network_is

finish
