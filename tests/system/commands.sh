#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of kvctl: its commands with every result, keys and values of all lengths, and the
# limits that the server itself checks.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

key_1024=$(printf 'K%.0s' $(seq 1024))
hex_1024=$(printf '00ff%.0s' $(seq 512))

round_trip() { # file, key...
	local file=$1
	shift
	kvctl "${@:2}" put "$1" - <"$file" && kvctl "${@:2}" get "$1" >"$tmp/got" &&
		cmp "$file" "$tmp/got"
}

empty_value() {
	: >"$tmp/empty"
	round_trip "$tmp/empty" empty && expect 0 '^$' put empty2 '' && expect 0 '^$' get empty2
}

any_bytes() {
	round_trip "$tmp/binary" 00 -x && round_trip "$tmp/binary" "$hex_1024" -x &&
		expect 0 '^$' -x put 6b6579 by-hex && expect 0 '^by-hex$' get key
}

overwrite() {
	expect 0 '^$' put over first && expect 0 '^first$' get over && expect 0 '^$' put over 2 &&
		expect 0 '^2$' get over
}

delete_twice() {
	expect 0 '^$' put gone value && expect 0 '^$' del gone && expect 1 'not found' get gone &&
		expect 1 'not found' del gone
}

# file, key: the key has the content of the file, by READ and by request
holds_file() {
	kvctl get "$2" | cmp - "$1" && kvctl -r get "$2" | cmp - "$1"
}

holds_precious() {
	expect 0 '^intact$' get precious && expect 0 '^intact$' -r get precious
}

# key, flags: that are stored with it, by READ and by request
flags_are() {
	kvctl -v get "$1" 2>&1 >/dev/null | grep -q " flags $2 " &&
		kvctl -r -v get "$1" 2>&1 >/dev/null | grep -q " flags $2 " && return 0
	kvctl -v get "$1"
	return 1
}

# Both ends of their range; a value that is stored anew has those of the last PUT.
flags_are_stored() {
	expect 0 '^$' -f 4294967295 put flagged value && flags_are flagged 4294967295 &&
		expect 0 '^value$' get flagged && expect 0 '^$' -f 1 put flagged value &&
		flags_are flagged 1 && expect 0 '^$' put flagged value && flags_are flagged 0
}

# Several keys at a time, and of any bytes; each result as text and as JSON.
several_keys() {
	kvctl put one 1 && kvctl put two 2 && kvctl -x put ff00 binary &&
		expect 0 $'^one\t1\ntwo\t2$' get one two &&
		expect 1 'three: not found' get one three two &&
		expect 0 '^2$' exists one two && expect 1 '^2$' exists one three two &&
		expect 1 '"key": "three", "exists": false' exists --json one three &&
		expect 0 '"value": "1", "version"' get --json one &&
		expect 0 '"hex": "ff00".*"value": "binary"' -x get --json ff00 &&
		expect 0 '^$' del one two && expect 1 'one: not found' del one two &&
		expect 0 '^$' -x del ff00
}

keys_are_chosen() {
	kvctl put chosen/1 a && kvctl put chosen/2 bc && expect 0 '^2$' count chosen/ &&
		expect 0 '^1$' count --match '*/2' &&
		expect 0 '^chosen/2$' scan --match 'c*[2-9]' &&
		expect 0 '"key": "chosen/2", "value": "bc"' scan --json -v chosen/2 &&
		[ "$(kvctl scan -0 chosen/ | tr '\0\n' '\nX' | sort)" = chosen/1$'\n'chosen/2 ] &&
		kvctl scan -0 chosen/ | xargs -0 "$build/kvctl" -a "$url" del &&
		expect 0 '^0$' count chosen/
}

lives() {
	expect 0 '^$' -e 1000 put lives value && expect 0 '^(9[0-9][0-9]|1000)$' ttl lives &&
		expect 0 '^$' touch lives 0 && expect 0 '^never$' ttl lives &&
		expect 0 '"ttl": null' ttl --json lives && expect 1 'not found' ttl missing &&
		expect 0 '^$' del lives
}

# A file, and hexadecimal digits, both ways.
other_values() {
	expect 0 '^$' put --file "$tmp/binary" filed && kvctl get filed | cmp - "$tmp/binary" &&
		kvctl get --hex-values filed >"$tmp/digits" &&
		expect 0 '^$' put --hex-values -F "$tmp/digits" again &&
		kvctl get again | cmp - "$tmp/binary" && expect 0 '^$' del filed again &&
		expect 74 'No such file' put --file "$tmp/none" filed &&
		expect 1 'not found' get filed
}

shuts_down() {
	expect 69 'would lose' shutdown --keep || return 1
	expect 0 '^$' shutdown && [ ! -e "${url#softnic://}" ] && await_end "$server_pid" &&
		forget "$server_pid" && [ "$status" = 0 ] &&
		tail -n 1 "$log" | grep -q ' kvd stopped$' && expect 69 'no socket' shutdown
}

overwrite_with_1() { # key
	expect 0 '^$' put "$1" 1 && expect 0 '^1$' get "$1" && expect 0 '^1$' -r get "$1"
}

pings() {
	[ "$(kvctl -c 5 ping | grep -c "^pong from $url: [0-9.]* us$")" = 5 ]
}

info_is_complete() {
	local name
	kvctl info >"$tmp/info" || return 1
	for name in device.kind device.name device.why incarnation region_bytes value_max window \
		request_bytes cache_bytes; do
		grep -Eq "^$name ." "$tmp/info" || { echo "no $name" && return 1; }
	done
	grep -qx "device.kind $way" "$tmp/info" && grep -qx "value_max 1048576" "$tmp/info"
}

# kvctl stats has exactly the names of kvd --help, apart from the numbers of devices
# and workers, and the sizes of classes.
stats_are_those_of_help() {
	kvctl flush 3600 || return 1
	kvctl stats | sed -E 's/ .*//; s/^(device|worker|size_class|flush|curve)\.[0-9]+/\1.N/' |
		sort -u >"$tmp/stats"
	expect 0 '^1 flushes cancelled$' flush --cancel || return 1
	"$build/kvd" --help | sed '1,/^Statistics/d' | awk '{ print $1 }' | sort >"$tmp/help"
	diff "$tmp/help" "$tmp/stats"
}

# words..., of which the last one is completed: what bash offers, on a line
completed() {
	(
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
		eval "$("$build/kvctl" completion bash)"
		_kvctl
		echo "${COMPREPLY[*]}"
	)
}

bash_completes() {
	[ "$(completed kvctl in)" = "incr info" ] &&
		[ "$(completed kvctl -a url -x --ttl 5 rep)" = replace ] &&
		[ "$(completed kvctl incr k --in)" = --initial ] &&
		[ "$(completed kvctl get k --in)" = "" ] &&
		[ "$(completed kvctl --pip)" = --pipe ] &&
		[ "$(completed kvctl put --ttl a)" = "" ] &&
		[ "$(completed kvctl help tou)" = touch ] &&
		[ "$(completed kvctl --tls-ca README)" = README.md ] &&
		"$build/kvctl" completion zsh | sed '1,2d;$d' |
			cmp - <("$build/kvctl" completion bash)
}

# Each statistic has a heading for people, who see them on a terminal; a size class is a row.
stats_have_groups() {
	script -qec "$build/kvctl -a $url stats -v" /dev/null </dev/null | tr -d '\r' >"$tmp/groups"
	grep -qx Server "$tmp/groups" && ! grep -x Other "$tmp/groups" &&
		kvctl stats --json | grep -q '^{"version": "[0-9.]*", "pid": [0-9]*, .*}$' &&
		[ "$(grep -c '^  [a-z]' "$tmp/groups")" = \
			"$(kvctl stats | grep -vc ^size_class)" ] &&
		[ "$(grep -cE '^ +[1-9][0-9]* +[0-9]+ +[0-9.]+ [KMG]iB ' "$tmp/groups")" = \
			"$(kvctl stats | grep -c '^size_class.*\.used')" ] &&
		grep -q '^  *ITEM BYTES .* USED ' "$tmp/groups" &&
		expect 0 'gets +[0-9.]+/s.*gets +[0-9.]+/s' stats -v --watch 1 --count 3
}

# Each path has its time, also if the command is interrupted, and nothing is left.
latency_of_paths() {
	local some='"count": [1-9][0-9]*, "min_us": [0-9.]+, [^}]*"max_us": [0-9.]+'
	local gets pid
	expect 0 "\"warm\": .$some.*\"cold\": .$some.*\"request\": .$some" latency -c1 --json &&
		gets=$(stat_of gets) || return 1
	env --default-signal=INT "$build/kvctl" -a "$url" latency -c 1000 >"$tmp/latency" &
	pid=$!
	pids+=("$pid")
	# By request, the last of the paths.
	wait_until "$DEADLINE_S" stat_above gets $((gets + 1)) && kill -INT "$pid" &&
		await_end "$pid" && forget "$pid" && [ "$status" = 0 ] &&
		grep -q '^cold: two READs.* [1-9]' "$tmp/latency" &&
		grep -q '^ *[0-9.]* .* [0-9.]* % #' "$tmp/latency" &&
		expect 0 '^0$' count kvctl-latency:
}

usage_error() { # pattern, words...
	local pattern=$1
	shift
	expect 64 "$pattern" "$@"
}

unreachable() {
	local said='^kvctl: '
	[ "$device" != softnic ] || said="^kvctl: no socket at $tmp/s9: is kvd running\?"
	url=${url}9 expect 69 "$said" ping
}

# As a user whom the socket, or a folder on its path, keeps out.
no_permission() {
	local said
	chmod 711 "$tmp" && cp "$build/kvctl" "$tmp/kvctl" && chmod 755 "$tmp/kvctl" || return 1
	said=$(setpriv --reuid=65534 --clear-groups "$tmp/kvctl" -a "$url" ping 2>&1)
	[ $? = 69 ] && [[ $said =~ "no permission for $tmp/s: ".*softnic\.socket_mode ]] && return 0
	echo "$said"
	return 1
}

no_rdma_device() {
	local way
	for way in rdma rdma+tcp rdma+tls; do
		url=$way://127.0.0.1:7471 \
			expect 69 'no RDMA device; .* use softnic:///PATH' ping || return 1
	done
	"$build/kvd" -o server.listen=rdma+tcp:// 2>"$tmp/no-device" && return 1
	grep -q 'error server.listen = rdma+tcp://:7472: this host has no RDMA' "$tmp/no-device"
}

bad_url() {
	url=http://example.org expect 69 'softnic:///' ping
}

standard_output_full() {
	local words
	kvctl get big >/dev/full 2>"$tmp/full"
	[ $? = 74 ] && grep -q 'standard output' "$tmp/full" || return 1
	for words in 'kvd -h' 'kvd -V' 'kvd --print-config' 'kvctl -h' 'kvbench -h' 'kvbench -V'; do
		# shellcheck disable=SC2086
		! "$build"/$words >/dev/full 2>"$tmp/full" &&
			grep -qx "${words% *}: standard output: No space left on device" \
				"$tmp/full" || { echo "$words" && return 1; }
	done
}

# What the user closed is not the descriptor of the connection.
standard_descriptors_closed() {
	kvctl get precious >&- 2>"$tmp/closed"
	[ $? = 74 ] && grep -q 'standard output: Bad file' "$tmp/closed" &&
		kvctl put closed <&- 2>"$tmp/closed"
	[ $? = 74 ] && grep -q 'standard input: Bad file' "$tmp/closed" &&
		kvctl put closed value <&- >&- 2>&- && expect 0 '^value$' get closed
}

head -c 3000 /dev/urandom >"$tmp/binary"
head -c 1048576 /dev/urandom >"$tmp/1m"
head -c 1048577 /dev/urandom >"$tmp/1m+1"

# The functions that kvd.h declares, but inline ones, after the preprocessor: comments are gone.
declared() {
	cc -E -P -I. client/kvd.h | sed '/^static/,/^}/d' | grep -o '\<kvd_[a-z0-9_]*(' |
		tr -d '(' | sort -u
}

exported() {
	nm -D --defined-only "$build/libkvd.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
		sort -u
}

exports_are_those_of_header() {
	declared >"$tmp/declared" && exported >"$tmp/exported" && [ -s "$tmp/declared" ] &&
		diff "$tmp/declared" "$tmp/exported"
}

check "libkvd.so exports what kvd.h declares" exports_are_those_of_header
check "the server starts" server_start -o memory.curve=yes || finish
check "put and get" round_trip "$tmp/binary" key
check "a key of 1 byte" round_trip "$tmp/binary" k
check "a key of 1024 bytes" round_trip "$tmp/binary" "$key_1024"
check "keys of any bytes" any_bytes
check "a key of 1025 bytes is refused" usage_error '1 to 1024 bytes' put "${key_1024}K" value
check "an empty key is refused" usage_error '1 to 1024 bytes' get ''
check "a hexadecimal key of 1025 bytes is refused" usage_error '1 to 1024 bytes' \
	-x get "${hex_1024}00"
check "a key that is not hexadecimal is refused" usage_error 'hexadecimal' -x get 0g
check "half a byte is refused" usage_error 'hexadecimal' -x get 123
check "an empty value" empty_value
check "overwriting" overwrite
check "deleting twice" delete_twice
check "a missing key" expect 1 'not found' get missing
check "a value of max_value bytes" round_trip "$tmp/1m" big
check "one byte more: the client refuses it" expect 70 'at most 1 MiB \(limits.max_value\)' \
	put big - <"$tmp/1m+1"
check "the old value stays" holds_file "$tmp/1m" big
check "a value that can't be read" expect 74 "can't read the value" put overread - <"$tmp"
check "nothing is stored for it" expect 1 'not found' get overread
kvctl put precious intact
check "one byte more: the server refuses it" rogue pull_too_large
check "what is precious stays" holds_precious
check "flags are stored" flags_are_stored
check "flags out of range are refused" usage_error 'from 0 to 4294967295' \
	-f 4294967296 put flagged other
check "negative ones, too" usage_error '^kvctl: --initial -1: not a number' -i -1 incr count 5
check "the flags stay" flags_are flagged 0
check "several keys" several_keys
check "keys of a pattern" keys_are_chosen
check "times to live" lives
check "values of files, and in hexadecimal" other_values
check "ping" pings
check "info" info_is_complete
check "stats and --help agree" stats_are_those_of_help
check "stats in groups, as JSON, and again and again" stats_have_groups
check "latency" latency_of_paths
check "no command" usage_error "^kvctl: no command, and none on .*kvctl -h"
check "an unknown command" usage_error "no command .frobnicate.*kvctl -h" frobnicate
check "the name that redis has" usage_error "no command .keys.: it is .scan" keys
check "too few words" usage_error 'number of arguments' get
check "too many words" usage_error 'number of arguments' touch a 1 2
check "an unknown option" usage_error 'kvctl -h' -Z
check "kvctl -h" expect 0 '^Usage: kvctl' -h
check "kvctl -V" expect 0 '^kvctl [0-9]+\.[0-9]+\.[0-9]+$' -V
check "no server" unreachable
check "not a URL" bad_url
if [ "$device" = softnic ] && [ "$(id -u)" = 0 ]; then
	check "no permission for the socket" no_permission
fi
if [ -z "$(ls -A /sys/class/infiniband 2>/dev/null)" ]; then
	check "no RDMA device" no_rdma_device
fi
check "a standard output that is full" standard_output_full
check "standard descriptors that are closed" standard_descriptors_closed
checks_of client values "$url"
check "the server stops" server_stop

check "the server starts with max_value = 1000" server_start -o limits.max_value=1000
kvctl put precious intact
check "one byte more in a message: the server refuses it" rogue put_too_large
check "what is precious stays there, too" holds_precious
check "the server stops again" server_stop

# 8 MiB is longer than one READ of a pull, and than the longest message of Soft-RoCE.
check "the server starts with max_value = 9m" server_start -o limits.max_value=9m \
	-o memory.pull_share=15 -o memory.size=64m
head -c 8388608 /dev/urandom >"$tmp/8m"
check "a value of 8 MiB" round_trip "$tmp/8m" eight
head -c 9437184 /dev/urandom >"$tmp/9m"
check "a value of 9 MiB over it" round_trip "$tmp/9m" eight
check "a value of 1 byte over that" overwrite_with_1 eight
check "bash completes commands and options" bash_completes
check "whoami" expect 0 'rights read,write,.*,admin.tenant default' whoami
if [ "$device" = softnic ]; then
	check "kvctl shutdown stops the server, and waits for it" shuts_down
else
	check "not over the network, without users" expect 77 'only root' shutdown
	check "the server stops once more" server_stop
fi
finish
