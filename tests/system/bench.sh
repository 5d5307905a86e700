#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of kvbench: every workload on a real server; options that it refuses; that it finds
# wrong values, lost records and a lost server and reports them in its exit status; and the same on
# memcached and Redis.
# shellcheck disable=SC2086,SC2317 # words without blanks; functions called by check
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

records=500
operations=1000
# An emulated machine on a busy host does a few hundred PUTs a second.
[ "$device" = softnic ] || { records=100 && operations=300; }
out=$tmp/out

# status, arguments...: runs kvbench with its output to $out, and compares its exit status
bench() {
	local want=$1 got
	shift
	"$build/kvbench" "$@" -a "$url" "${PATIENT[@]}" >"$out" 2>"$out.err"
	got=$?
	[ "$got" = "$want" ] && return 0
	echo "kvbench $*: exit status $got instead of $want"
	tail -n "$CHECK_LINES_SHOWN" "$out" "$out.err"
	return 1
}

# status, arguments...: the same without a URL and a timeout, for commands that take no properties
# and for other stores
bare() {
	local want=$1 got
	shift
	"$build/kvbench" "$@" >"$out" 2>"$out.err"
	got=$?
	[ "$got" = "$want" ] && return 0
	echo "kvbench $*: exit status $got instead of $want"
	tail -n "$CHECK_LINES_SHOWN" "$out" "$out.err"
	return 1
}

# name: prints a figure of the JSON in $out
figure() {
	sed -n "s/^  \"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$out"
}

# name, awk condition: on the figure v; n is the number of operations
figure_is() {
	local value
	value=$(figure "$1")
	[ -n "$value" ] && awk -v v="$value" -v n=$operations "BEGIN { exit !($2) }" && return 0
	echo "$1 is '$value', not $2"
	return 1
}

said() {
	grep -q -- "$1" "$out" "$out.err" && return 0
	echo "not in the output: $1"
	tail -n "$CHECK_LINES_SHOWN" "$out" "$out.err"
	return 1
}

load() { # file, options...
	bench 0 load -P "$1" -p recordcount=$records --json "${@:2}" &&
		figure_is insert_count "v == $records" && figure_is failed 'v == 0'
}

run() { # file, options...
	bench 0 run -P "$1" -p recordcount=$records -p operationcount=$operations --json "${@:2}" &&
		figure_is operations "v == $operations" && figure_is failed 'v == 0' &&
		figure_is wrong 'v == 0' && figure_is not_found 'v == 0' &&
		figure_is device_kind "v == \"$way\""
}

workload_a() {
	run "$1/workloada" -t 2 && figure_is read_count 'v > 0.35 * n && v < 0.65 * n' &&
		figure_is update_count 'v > 0.35 * n && v < 0.65 * n' &&
		figure_is client_puts "v == $(figure update_count)" &&
		figure_is read_p50_us "v > 0 && v <= $(figure read_max_us)"
}

# A worker that other threads keep from its CPU does not poll at all: its figure may be 0.
workload_b() {
	run "$1/workloadb" && figure_is update_count 'v > 0 && v < 0.12 * n' &&
		figure_is server_useful_us 'v > 0' &&
		figure_is server_polling_us 'v ~ /^[0-9.]+$/'
}

# With a warm cache a GET takes one READ, and the server does not wake up.
workload_c() {
	run "$1/workloadc" -p kvd.warmup_operations=$((10 * records)) &&
		figure_is read_count "v == $operations" &&
		figure_is client_puts 'v == 0' && figure_is client_requests 'v == 0' &&
		figure_is reads_per_get 'v >= 1 && v <= 1.05'
}

workload_d() {
	run "$1/workloadd" -t 2 && figure_is insert_count 'v > 0 && v < 0.12 * n'
}

workload_f() {
	run "$1/workloadf" && figure_is rmw_count 'v > 0.35 * n && v < 0.65 * n' &&
		figure_is read_count "v == $operations" &&
		figure_is update_count "v == $(figure rmw_count)"
}

all_workloads() { # folder
	local name
	load "$1/workloada" -t 2 || return 1
	for name in a b c d f; do
		"workload_$name" "$1" || return 1
	done
}

own=bench/workloads

files_of_ycsb() {
	all_workloads ../shared/ycsb && run ../shared/ycsb/workload_template &&
		bench 2 run -P ../shared/ycsb/workloade && said 'workloade:.*scanproportion'
}

batches() {
	run $own/workloadc -b 16 -p kvd.warmup_operations=$((10 * records)) &&
		figure_is round_trips_per_get 'v < 0.2' &&
		figure_is read_count "v == $operations" &&
		run $own/workloadf -b 16 -t 2
}

# Operations under way together: small PUTs share messages, and values of 20 KB in registered
# memory are not copied.
under_way_together() {
	local small=(-p fieldcount=1 -p fieldlength=20)
	local large=(-p fieldcount=1 -p fieldlength=20000)
	load $own/workloada "${small[@]}" -D 16 && run $own/workloada "${small[@]}" -t 2 -D 16 &&
		figure_is read_count 'v > 0.35 * n && v < 0.65 * n' &&
		figure_is client_puts "v == $(figure update_count)" &&
		figure_is client_requests "v < $(figure client_puts)" &&
		figure_is depth 'v == 16' && load $own/workloada -t 2 -D 16 &&
		run $own/workloadf --depth 8 && figure_is read_count "v == $operations" &&
		figure_is update_count "v == $(figure rmw_count)" &&
		run $own/workloadd -D 1024 && figure_is insert_count 'v > 0 && v < 0.12 * n' &&
		load $own/workloada "${large[@]}" -D 8 --registered &&
		figure_is client_direct_bytes "v >= 20000 * $records" &&
		run $own/workloada "${large[@]}" -D 8 --registered &&
		figure_is client_direct_bytes 'v >= 20000 * n' &&
		figure_is registered 'v == "true"' &&
		run $own/workloada "${large[@]}" -D 8 && figure_is client_direct_bytes 'v == 0' &&
		figure_is registered 'v == "false"' &&
		run $own/workloada "${large[@]}" --registered -b 4 &&
		figure_is client_direct_bytes 'v >= 20000 * n' && load $own/workloada
}

distributions() {
	local name
	for name in uniform zipfian latest sequential hotspot exponential; do
		run $own/workloadb -p requestdistribution=$name || return 1
	done
}

lengths_that_vary() {
	local name
	for name in uniform zipfian; do
		load $own/workloada -p fieldlengthdistribution=$name -p fieldlength=400 &&
			run $own/workloada -p fieldlengthdistribution=$name -p fieldlength=400 ||
			return 1
	done
	load $own/workloada
}

keys_in_order() {
	local last
	last=$(printf 'user%020d' $((records - 1)))
	load $own/workloada -p insertorder=ordered -p zeropadding=20 &&
		run $own/workloadc -p insertorder=ordered -p zeropadding=20 &&
		kvctl get "$last" | head -c 4 | grep -q kvr1 &&
		expect 1 'not found' get "$(printf 'user%020d' $records)"
}

parts_of_a_load() {
	bench 0 load -P $own/workloada -p recordcount=100 -p insertorder=ordered -p insertstart=40 \
		-p insertcount=30 --json && figure_is insert_count 'v == 30' &&
		expect 1 'not found' get user39 && expect 1 'not found' get user70 &&
		kvctl get user40 >"$tmp/got" && kvctl get user69 >"$tmp/got"
}

refusals() {
	bench 2 run -P $own/workloada -p scanproportion=0.5 &&
		said 'scanproportion.*ordered scans' &&
		bench 2 run -P $own/workloada -p recordcont=5 && said 'recordcont=5' &&
		bench 2 run -P $own/workloada -p recordcount=5x && said '5x' &&
		bench 2 run -P "$tmp/none" && said "$tmp/none" &&
		bench 2 frobnicate && said frobnicate &&
		bench 2 run load && said 'one command only' &&
		bench 2 run -b 0 && said "-b: '0' is out of range" &&
		bench 2 run --frobnicate && said "unrecognized option '--frobnicate'" &&
		bench 2 run -P $own/workloada -t 0 && said "threadcount=0: '0' is out of range"
}

# An unknown store, URLs of another store, and options that a store or command does not support
store_refusals() {
	local mc=memcached://$tmp/none
	bare 2 run -d etcd -a "$url" -P $own/workloadc && said 'etcd.*kvd, memcached or redis' &&
		bare 2 run -d memcached -a "$url" -P $own/workloadc &&
		said 'memcached://HOST:PORT' &&
		bare 2 run -a "$mc" -P $own/workloadc && said 'd kvd takes.*for -d memcached' &&
		bare 2 run -d memcached -a "$mc" -P $own/workloadc -p zeropadding=247 &&
		said 'zeropadding.*250' && bare 2 count -d memcached -a "$mc?pipeline=0" &&
		said pipeline && bare 2 shift -d redis -a redis:///none 100 &&
		said 'needs -d kvd' &&
		bare 2 shift -a "$url" && said 'at least one SIZE' &&
		bare 2 shift -a "$url" 100-50 && said 100-50 &&
		bare 2 put -a "$url" && said 'needs -n' && bare 2 put -n 5 -b 2 -a "$url" &&
		said '-b is not an option of put' && bare 2 get -n 5 -D 4 -a "$url" &&
		said '-D is not an option of get' && bare 2 put -n 5 -D 65 -a "$url" &&
		said '-D is at most 64 for put' &&
		bare 2 run -a "$url" -P $own/workloadc -D 1025 && said '^kvbench: -D:.*1024' &&
		bare 2 run -a "$url" -P $own/workloadc -D 2 -b 2 && said 'give one' &&
		bare 2 run -d memcached -a "$mc" -P $own/workloadc -D 2 &&
		said 'D of load and run needs -d kvd, not -d memcached' &&
		bare 2 load -d memcached -a "$mc" -P $own/workloadc --registered &&
		said 'registered needs -d kvd, not -d memcached' &&
		bare 2 count -a "$url" --registered &&
		said 'registered is not an option of count' &&
		bare 2 run -a "$url" -P $own/workloadc -p recordcount=5 -p maxexecutiontime=1 \
			-t 65 --registered && said '64 threads at most, not 65' &&
		bare 69 count -d memcached -a "$mc" &&
		said "can't connect to $mc"
}

# store, url: 1,000 records besides the existing ones
small_records() {
	local store=(-d "$1" -a "$2") before
	before=$("$build/kvbench" count "${store[@]}") && bare 0 put "${store[@]}" -n 1000 &&
		bare 0 get "${store[@]}" -n 1000 && said '^records 1000$' &&
		bare 0 miss "${store[@]}" -n 1000 && bare 1 get "${store[@]}" -n 1001 &&
		said 'not found' &&
		[ "$("$build/kvbench" count "${store[@]}")" = $((before + 1000)) ] &&
		bare 0 put "${store[@]}" -D 16 -n 2000 && bare 0 get "${store[@]}" -n 2000 &&
		[ "$("$build/kvbench" count "${store[@]}")" = $((before + 2000)) ] &&
		bare 0 delete "${store[@]}" --depth 64 -n 2000 &&
		bare 1 delete "${store[@]}" -n 1000 && said 'not found' &&
		[ "$("$build/kvbench" count "${store[@]}")" = "$before" ]
}

# store, url
store_workloads() {
	local store=(-d "$1" -a "$2" -p "recordcount=$records")
	bare 0 load "${store[@]}" -P $own/workloada -t 2 --json &&
		figure_is insert_count "v == $records" && figure_is db "v == \"$1\"" &&
		bare 0 run "${store[@]}" -P $own/workloadf -p operationcount=$operations -t 2 \
			-b 16 --json && figure_is operations "v == $operations" &&
		figure_is read_count "v == $operations" && figure_is wrong 'v == 0' &&
		figure_is not_found 'v == 0' && figure_is failed 'v == 0' &&
		figure_is server_cpu_us 'v ~ /^[0-9.]+$/' &&
		bare 1 run "${store[@]}" -P $own/workloadc -p recordcount=$((records * 2)) \
			-p requestdistribution=sequential -p operationcount=$((records * 2)) &&
		said "^$records GETs found no record" && said '^server.*(' && ! grep bucket "$out"
}

# store, url, command...: starts the server of another store
store_start() {
	local name=$1 store_url=$2
	shift 2
	"$@" >"$tmp/store.log" 2>&1 &
	store_pid=$!
	pids+=("$store_pid")
	store_is_up() { ended "$store_pid" || bare 0 count -d "$name" -a "$store_url"; }
	wait_until "$DEADLINE_S" store_is_up && ! ended "$store_pid"
}

store_stop() {
	kill -TERM "$store_pid" && await_end "$store_pid" && forget "$store_pid"
}

# kvbench finds a wrong value in memcached, as in kvd.
memcached_wrong_value() {
	local key=user6284781860667377211 line
	exec 3<>"/dev/tcp/127.0.0.1/$mc_port" &&
		printf 'set %s 0 0 7\r\ngarbage\r\n' $key >&3 && read -r line <&3
	exec 3>&-
	[ "$line" = $'STORED\r' ] &&
		bare 1 run -d memcached -a "$mc_url" -P $own/workloadc --json \
			-p recordcount=$records -p requestdistribution=sequential \
			-p operationcount=$records && figure_is wrong 'v == 1' &&
		said "WRONG VALUE of $key"
}

# A small record of the right length with another value.
small_record_is_wrong() {
	local key
	bare 0 put -a "$url" -n 100 && key=$(kvctl scan | grep -Ex '[0-9a-f]{16}' | head -n 1) &&
		[ -n "$key" ] && kvctl put "$key" "$(printf '%032d' 0 | tr 0 x)" &&
		bare 1 get -a "$url" -n 100 && said 'WRONG VALUE' &&
		bare 0 delete -a "$url" -n 100
}

# The option wins over a file, wherever it stands; and no thread is without an operation.
threads_of_a_run() {
	echo threadcount=7 >"$tmp/threads"
	bench 0 run -t 3 -P $own/workloadc -P "$tmp/threads" -p recordcount=$records \
		-p operationcount=$operations --json && figure_is threads 'v == 3' &&
		bench 0 run -P $own/workloadc -P "$tmp/threads" -p recordcount=$records \
			-p operationcount=$operations --json && figure_is threads 'v == 7' &&
		bench 0 run -P $own/workloadc -P "$tmp/threads" -p recordcount=$records \
			-p operationcount=5 -p maxexecutiontime=60 --json &&
		figure_is threads 'v == 5' && figure_is operations 'v == 5' &&
		said 'only 5 threads'
}

missing_records_in_text() {
	bench 1 run -P $own/workloadc -p recordcount=$((records * 2)) \
		-p requestdistribution=sequential -p operationcount=$((records * 2)) &&
		said "^[0-9]* GETs found no record.* (0 evictions" && said 'memory.size'
}

shifts() {
	bare 0 shift --times 1 -a "$url" 8192 4096-8192 && said '^ *8192-8192 .* 0$' &&
		said '^ *4096-8192 .* 0$'
}

# The first server evicts nothing.
shift_without_room() {
	bare 1 shift --times 1 -a "$url" 8192 && said 'PUT of 8192 bytes: ' &&
		said '^ *8192-8192 .* 100$'
}

help_and_version() {
	bench 0 -h && said 'requestdistribution' && said 'measurementtype' &&
		bench 0 -V && grep -Eqx 'kvbench [0-9]+\.[0-9]+\.[0-9]+' "$out"
}

url_from_environment() {
	KVD_URL=$url "$build/kvbench" run -P $own/workloadc -p recordcount=$records \
		-p operationcount=10 "${PATIENT[@]}" >"$out" 2>"$out.err" &&
		said '^READ  *10 ' && said '^wrong values  *0 of 10 checked' &&
		! env -u KVD_URL "$build/kvbench" run -d redis -P $own/workloadc \
			>"$out" 2>"$out.err" &&
		said 'KVD_URL'
}

nobody_listens() {
	local nobody=softnic://$tmp/nobody
	[ "$device" = softnic ] || nobody=$scheme://$KVD_RDMA_ADDR:$((port + 1))
	"$build/kvbench" run -P $own/workloadc -a "$nobody" >"$out" 2>"$out.err"
	[ $? = 69 ] && said "can't connect to $nobody"
}

records_that_are_missing() {
	bench 1 run -P $own/workloadc -p recordcount=$((records * 2)) \
		-p requestdistribution=sequential -p operationcount=$((records * 2)) --json &&
		figure_is not_found "v > 0 && v <= $records" && figure_is wrong 'v == 0'
}

# file, pattern: puts the file as the first record; one GET of each record finds that one value
# wrong and prints the pattern
wrong_value_is_found() {
	local key=user6284781860667377211
	kvctl put $key - <"$1" || return 1
	bench 1 run -P $own/workloadc -p recordcount=$records -p requestdistribution=sequential \
		-p operationcount=$records --json && figure_is wrong 'v == 1' &&
		said "WRONG VALUE of $key" && said "$2" &&
		bench 0 run -P $own/workloadc -p recordcount=$records -p operationcount=$records \
			-p requestdistribution=sequential -p dataintegrity=false
}

# Byte 700 of the record is changed.
one_byte_changed() {
	local byte
	kvctl get user6284781860667377211 >"$tmp/record" || return 1
	byte=$(tail -c +701 "$tmp/record" | head -c 1 | od -An -tu1)
	{
		head -c 700 "$tmp/record"
		# shellcheck disable=SC2059 # an escape that names the byte
		printf "\\x$(printf %02x $(((byte + 1) % 256)))"
		tail -c +702 "$tmp/record"
	} >"$tmp/changed"
	wrong_value_is_found "$tmp/changed" 'at byte 700 in field 6'
}

another_keys_record() {
	kvctl get user8517097267634966620 >"$tmp/record" &&
		wrong_value_is_found "$tmp/record" 'does not fit'
}

not_a_record() {
	echo garbage >"$tmp/record" && wrong_value_is_found "$tmp/record" "shorter than" &&
		load $own/workloada
}

server_is_full() {
	bench 1 load -P $own/workloada -p recordcount=100 -p fieldlength=90000 --json &&
		said "memory is full" && figure_is insert_failed 'v == 1' &&
		figure_is insert_count 'v > 0'
}

# options...: starts a run in the background and waits for its first line of progress
bench_start() {
	"$build/kvbench" run -P $own/workloada -a "$url" -p recordcount=$records -s --json \
		-p operationcount=0 -p maxexecutiontime=600 \
		"${PATIENT[@]}" "$@" \
		>"$out" 2>"$out.err" &
	bench_pid=$!
	pids+=("$bench_pid")
	await_line "$out.err" 'operations' "$bench_pid"
}

# The rate in the first line, whose time begins with the measured part.
rate_is_right() {
	awk '/operations/ && !seen++ { right = $5 + 0 > 0 && $5 + 0 > $3 / ($1 + 1) / 2 }
		END { if (!right) exit 1 }' "$out.err" && return 0
	echo "the rate is not that of the operations:"
	head -n 1 "$out.err"
	return 1
}

interrupted() {
	bench_start -t 2 && kill -INT "$bench_pid" && await_end "$bench_pid" &&
		forget "$bench_pid" && [ "$status" = 0 ] && figure_is interrupted 'v == "true"' &&
		figure_is operations 'v > 0' && figure_is wrong 'v == 0' && rate_is_right
}

target_is_kept() {
	bench 0 run -P $own/workloadc -p recordcount=$records -p operationcount=0 --json \
		-p maxexecutiontime=2 -p target=100 -t 2 &&
		figure_is seconds 'v >= 1.9' &&
		figure_is operations "v > 0 && v <= 100 * $(figure seconds) + 10"
}

# Each thread tries to connect again until its call times out.
server_is_killed() {
	bench_start -p kvd.timeout_ms=5000 && server_kill && await_end "$bench_pid" &&
		forget "$bench_pid" && [ "$status" = 69 ] && figure_is wrong 'v == 0'
}

check "the server starts" server_start -o limits.max_value=3m -o memory.eviction=none
check "no server" nobody_listens
check "the project's own workloads" all_workloads $own
check "batches" batches
check "operations under way together" under_way_together
check "SIGINT ends a run" interrupted
# Checks that do not depend on the device.
if [ "$device" = softnic ]; then
	check "the URL from the environment" url_from_environment
	check "threads" threads_of_a_run
	check "a small record that is wrong" small_record_is_wrong
	check "records that are missing" records_that_are_missing
	check "one byte changed" one_byte_changed
	check "another key's record" another_keys_record
	check "not a record" not_a_record
	check "target and maxexecutiontime" target_is_kept
	check "help and version" help_and_version
	check "refusals by name" refusals
	check "every request distribution" distributions
	check "field lengths that vary" lengths_that_vary
	check "keys in order" keys_in_order
	check "a part of a load" parts_of_a_load
	check "refusals of stores and commands" store_refusals
	check "small records" small_records kvd "$url"
	check "records that are missing: the text output" missing_records_in_text
	mc_port=$((20000 + $$ % 10000)) # below those of clients
	mc_url=memcached://127.0.0.1:$mc_port
	redis_url=redis://$tmp/redis
	if command -v memcached >/dev/null; then
		check "memcached starts" store_start memcached "$mc_url" \
			memcached -u "$(id -un)" -t 1 -l 127.0.0.1 -p "$mc_port" -U 0
		check "memcached: workloads" store_workloads memcached "$mc_url"
		check "memcached: a wrong value" memcached_wrong_value
		check "memcached: small records" small_records memcached "$mc_url"
		check "memcached stops" store_stop
	else
		echo "      left out: memcached is not installed"
	fi
	if command -v redis-server >/dev/null; then
		check "Redis starts" store_start redis "$redis_url" redis-server --port 0 \
			--unixsocket "$tmp/redis" --dir "$tmp" --save '' --appendonly no
		check "Redis: workloads" store_workloads redis "$redis_url"
		check "Redis: small records" small_records redis "$redis_url"
		check "Redis stops" store_stop
	else
		echo "      left out: redis-server is not installed"
	fi
	if [ -r ../shared/ycsb/workloada ]; then
		check "YCSB's own files" files_of_ycsb
	else
		echo "      left out: YCSB's own files are not in ../shared/ycsb"
	fi
fi
check "the server is full" server_is_full
[ "$device" != softnic ] || check "a shift finds no room" shift_without_room
check "the server stops" server_stop
check "the server starts again" server_start
[ "$device" != softnic ] || check "shifts of value sizes" shifts
check "loads again" load $own/workloada
check "the server is killed" server_is_killed
finish
