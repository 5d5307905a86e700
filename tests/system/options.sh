#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of kvd's command line, its signals, and what it reports about its device (guarantee
# H).
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
get100000='' put100='' put1000000='' # set by looping

# status, pattern, kvd's arguments...: kvd exits by itself, with this status and output
kvd_says() {
	local want=$1 pattern=$2 said got
	shift 2
	said=$(timeout "$DEADLINE_S" "$build/kvd" "$@" 2>&1)
	got=$?
	[ "$got" = "$want" ] && [[ $said =~ $pattern ]] && return 0
	echo "kvd $*: status $got instead of $want, or not like '$pattern': ${said:0:300}"
	return 1
}

print_is_accepted() {
	"$build/kvd" -c "$tmp/kvd.ini" -o limits.max_value=3m --print-config >"$tmp/printed.ini" &&
		"$build/kvd" -c "$tmp/printed.ini" --check-config &&
		"$build/kvd" -c "$tmp/printed.ini" --print-config | diff "$tmp/printed.ini" - &&
		grep -qx 'max_value = 3m' "$tmp/printed.ini"
}

# line with the error, pattern of the message, the file's text
bad_config() {
	printf '%b' "$3" >"$tmp/bad.ini"
	kvd_says 78 "$tmp/bad.ini:$1: .*$2" -c "$tmp/bad.ini" --check-config &&
		kvd_says 78 "$tmp/bad.ini:$1: .*$2" -c "$tmp/bad.ini"
}

option_counts() {
	kvctl info | grep -qx 'value_max 2097152' && kvctl stats | grep -qx 'workers 1'
}

# The log, the statistics and the client report the same device, and why it was chosen.
device_is_reported() { # kind, number, pattern of why
	local name
	name=$(kvctl stats | sed -n "s/^device\.$2\.name //p")
	kvctl stats | grep -qx "device.$2.kind $1" &&
		kvctl stats | grep -q "^device.$2.why .*$3" &&
		kvctl stats | grep -q "^device.$2.address ." &&
		kvctl info | grep -qx "device.kind $1" && kvctl info | grep -q "^device.why ." &&
		logged "notice device ${1/+/\\+} $name: .*$3" && logged "notice listening on "
}

log_is_reopened() {
	mv "$log" "$log.1" && kill -HUP "$server_pid" &&
		wait_until "$DEADLINE_S" grep -q 'SIGHUP: log reopened' "$log" &&
		expect 0 pong ping &&
		wait_until "$DEADLINE_S" grep -q 'debug connection .*: closed' "$log"
}

# pattern: the log has such a line after a SIGHUP
after_hangup() {
	log_start=$(($(log_lines) + 1))
	kill -HUP "$server_pid" && logged 'SIGHUP: .*configuration' && logged "$1"
}

level_is_taken_over() {
	sed -i 's/^level = .*/level = info/' "$tmp/kvd.ini"
	after_hangup 'SIGHUP: log.level is now info, it was debug' &&
		logged ' 1 options taken over, 0 need a restart' && expect 0 pong ping &&
		! in_log ' debug '
}

changes_are_named() {
	sed -i 's/^max_connections = .*/max_connections = 7/
		s/^socket_mode = .*/socket_mode = 0666/
		s/^level = .*/level = debug/' "$tmp/kvd.ini"
	after_hangup "warn SIGHUP: server.max_connections was changed from '64' to '7': restart " &&
		logged "warn SIGHUP: softnic.socket_mode was changed from '0600' to '0666'" &&
		logged ' 1 options taken over, 2 need a restart' &&
		[ "$(kvctl config get server.max_connections)" = 'server.max_connections = 64' ]
}

errors_change_nothing() {
	printf 'level = info\nfrobs = 1\n' >>"$tmp/kvd.ini"
	after_hangup "error $tmp/kvd.ini:[0-9]+: unknown option 'frobs' in \[log\]" &&
		logged 'the configuration has errors: kvd keeps the previous one' &&
		expect 0 pong ping && logged ' debug connection'
}

missing_file_changes_nothing() {
	mv "$tmp/kvd.ini" "$tmp/moved.ini"
	after_hangup "error $tmp/kvd.ini: cannot open: No such file" && expect 0 pong ping
}

# Nobody writes to it: the server does not wait for that.
fifo_changes_nothing() {
	mkfifo "$tmp/kvd.ini" &&
		after_hangup "error $tmp/kvd.ini: cannot read: it is not a regular file" &&
		expect 0 pong ping && rm "$tmp/kvd.ini"
}

looping() { # variable, name, mode, bytes
	client_start "$1" "$tmp/$2" loop "$url" "$3" "$2" "$4" 0 &&
		await_line "$tmp/$2" '^looping' "${!1}"
}

# A client whose server stops tries to connect again until its call's deadline, reports that and
# ends, after any number of rounds.
reports_the_stop() { # pid, file
	await_end "$1" && forget "$1"
	tail -n 1 "$2"
	[ "$status" = 3 ] && grep -q '^lost after .*: no connection ' "$2"
}

refused_or_gone() {
	expect 69 '^kvctl: ' ping
}

stops_at_once() { # signal
	kill "-$1" "$server_pid" && await_end "$server_pid" && forget "$server_pid" &&
		[ "$status" = 0 ]
}

address_in_use() {
	kvd_says 1 "" -c "$tmp/kvd.ini" -o "log.file=$tmp/log2" &&
		grep -Eq ' error server.listen = .* is in use: ' "$tmp/log2" &&
		[ "$(grep -c ' error ' "$tmp/log2")" = 1 ]
}

# pattern, arguments...: --check-config says so, and the start fails with the same words
would_not_start() {
	local pattern=$1
	shift
	kvd_says 78 "$pattern" -c "$tmp/kvd.ini" -o log.file= "$@" --check-config &&
		kvd_says 1 "$pattern" -c "$tmp/kvd.ini" -o log.file= "$@"
}

# An address that can't be used is found before the memory is filled, and by one line.
address_comes_first() {
	kvd_says 1 ' error server.listen = softnic:///none/none/s: the parent directory' \
		-c "$tmp/kvd.ini" -o log.file= \
		-o server.listen=softnic:///none/none/s &&
		! "$build/kvd" -c "$tmp/kvd.ini" -o log.file= \
			-o server.listen=softnic:///none/none/s 2>&1 | grep -q ' notice store: '
}

# kvctl without an address says how to give one; with one it does not. On a host that has a kvd at
# the default address there is nothing to say.
default_address_is_said() {
	local said got hint=' (-a URL or $KVD_URL names another server)'
	said=$(env -u KVD_URL XDG_RUNTIME_DIR= "$build/kvctl" ping 2>&1)
	got=$?
	echo "status $got: $said"
	if [ $got = 0 ]; then
		[[ $said == 'pong from softnic:///'* ]] || return 1
	else
		[ $got = 69 ] && [[ $said == 'kvctl: '*'/kvd.sock: '*"$hint" ]] || return 1
	fi
	said=$("$build/kvctl" -a "softnic://$tmp/none" ping 2>&1)
	got=$?
	echo "status $got: $said"
	[ $got = 69 ] && [[ $said == "kvctl: no socket at $tmp/none: "* && $said != *"$hint" ]]
}

makes_nothing() {
	kvd_says 0 '^.*/kvd.ini: ok$' -c "$tmp/kvd.ini" --check-config \
		-o "log.file=$tmp/new.log" -o "server.listen=softnic://$tmp/new/s" &&
		[ ! -e "$tmp/new.log" ] && [ ! -e "$tmp/new" ]
}

address_in_use_is_said() {
	kvd_says 0 'warn server.listen = .* is in use: while that kvd runs' \
		-c "$tmp/kvd.ini" --check-config
}

not_a_socket() {
	echo text >"$tmp/file"
	rm -f "$tmp/log2"
	kvd_says 1 "" -c "$tmp/kvd.ini" -o "log.file=$tmp/log2" \
		-o "server.listen=softnic://$tmp/file" && grep -q text "$tmp/file" &&
		grep -q ' error server.listen = .*: a file that is not a socket' "$tmp/log2" &&
		[ "$(grep -c ' error ' "$tmp/log2")" = 1 ]
}

help_is_complete() {
	local section='' line name
	"$build/kvd" -h >"$tmp/help" && "$build/kvd" -c /dev/null --print-config >"$tmp/all.ini" ||
		return 1
	while read -r line; do
		case $line in
		'#'*) ;;
		'['*) section=${line//[][]/} ;;
		*=*)
			name=$section.${line%% *}
			grep -q "^  $name=" "$tmp/help" || { echo "no $name" && return 1; }
			;;
		esac
	done <"$tmp/all.ini"
	[ "$(grep -c '^  [a-z]*\.[a-z_]*=' "$tmp/help")" = \
		"$(grep -c '^[a-z_]* =' "$tmp/all.ini")" ]
}

# What has nothing to do with the device, so that softnic's run is enough: an emulated machine takes
# a minute for it.
words_and_files() {
	check "-h names every option" help_is_complete
	check "-V" kvd_says 0 '^kvd [0-9]+\.[0-9]+\.[0-9]+$' -V
	check "--check-config of /dev/null, which sets nothing" kvd_says 0 '^/dev/null: ok$' \
		-c /dev/null --check-config -o memory.size=64m
	check "--check-config: no folder for the log" \
		would_not_start 'log.file = /none/log: can.t open' -o log.file=/none/log
	check "--check-config: the log is a folder" \
		would_not_start 'log.file = /tmp: .*Is a directory' -o log.file=/tmp
	check "--check-config: a relative socket" \
		kvd_says 78 'server.listen: softnic://kvd.sock: The path must be absolute' \
		--check-config -o server.listen=softnic://kvd.sock
	check "--check-config: no folder for the socket's folder" \
		would_not_start 'server.listen = softnic:///none/none/s: the parent directory' \
		-o server.listen=softnic:///none/none/s
	check "--check-config: a file at the socket's path" \
		would_not_start 'server.listen = .*: a file that is not a socket' \
		-o "server.listen=softnic://$tmp/kvd.ini"
	check "--check-config: a NUMA node that is not there" would_not_start 'memory.numa = 7' \
		-o memory.numa=7
	if [ "$(cat /proc/sys/vm/nr_hugepages)" = 0 ]; then
		check "--check-config: no huge pages" would_not_start 'memory.hugepages = require' \
			-o memory.hugepages=require -o memory.size=64m
	fi
	check "--check-config: more memory than the host has" would_not_start 'memory.size' \
		-o memory.size=512g
	check "--check-config makes nothing" makes_nothing
	check "a bad address is found before the memory is filled" address_comes_first
	check "kvctl without an address says how to give one" default_address_is_said
	check "--print-config is a good file" print_is_accepted
	check "an unknown option" kvd_says 64 'kvd --help' --frobnicate
	check "a word too many" kvd_says 64 'unexpected argument' serve
	check "no such file" kvd_says 78 "$tmp/none.ini" -c "$tmp/none.ini"
	check "an unknown key" bad_config 3 'frobs' '[server]\nworkers = 2\nfrobs = 2\n'
	check "an unknown section" bad_config 1 'nowhere' '[nowhere]\n'
	check "a repeated key" bad_config 4 'windows' '[rdma]\nwindows = no\n\nwindows = no\n'
	check "a value out of range" bad_config 2 'workers' '[server]\nworkers = 65\n'
	check "a bad size" bad_config 3 'size' '[memory]\n\nsize = much\n'
	check "-o with an unknown key" kvd_says 78 'frobs' -o server.frobs=1
	check "-o with a bad value" kvd_says 78 'server.workers' -o server.workers=x
}

check "--check-config of a good file" kvd_says 0 '/kvd.ini: ok$' \
	-c "$tmp/kvd.ini" --check-config
check "--check-config of conf/kvd.ini" kvd_says 0 '^conf/kvd.ini: ok$' -c conf/kvd.ini \
	--check-config -o memory.size=64m
if [ "$device" = verbs ]; then
	check "--check-config: another host's address" \
		would_not_start 'server.listen = .*://203.0.113.1:.* is not an address of this' \
		-o "server.listen=$scheme://203.0.113.1:$port"
else
	words_and_files
fi

check "-o overrides the file" server_start -o limits.max_value=2m -o server.workers=1 || finish
check "the option of -o holds" option_counts
check "the log, the statistics and the client report the device" device_is_reported "$way" 0 \
	"the configuration asks for it"
check "a second server at the same address is refused" address_in_use
check "a file that is not a socket is left alone" not_a_socket
check "--check-config: that one runs is no error" address_in_use_is_said
check "the first one still works" expect 0 pong ping
check "SIGHUP reopens the log" log_is_reopened
check "SIGTERM" server_stop

# Neither has this.
if [ "$device" = softnic ]; then
	check "the server starts" server_start
	check "SIGHUP takes over log.level" level_is_taken_over
	check "SIGHUP names the options that need a restart" changes_are_named
	check "SIGHUP with errors in the file changes nothing" errors_change_nothing
	check "SIGHUP without the file changes nothing" missing_file_changes_nothing
	check "SIGHUP with a FIFO in its place changes nothing" fifo_changes_nothing
	check "the server stops" server_stop
	config_write
fi

check "the server starts" server_start
export SYS_TIMEOUT_MS=1000 SYS_AGAIN=1
for spec in get:100000 put:100 put:1000000; do
	check "a client that does ${spec%:*} of ${spec#*:} bytes" \
		looping "${spec/:/}" "${spec/:/}" "${spec%:*}" "${spec#*:}"
done
check "SIGTERM under load" server_stop
check "the client in a GET reports it" reports_the_stop "$get100000" "$tmp/get100000"
check "the client in a PUT reports it" reports_the_stop "$put100" "$tmp/put100"
check "the client in a large PUT reports it" reports_the_stop "$put1000000" "$tmp/put1000000"
check "no server is there any more" refused_or_gone
export SYS_TIMEOUT_MS=$CALL_TIMEOUT_MS
unset SYS_AGAIN

check "the server starts" server_start
check "SIGINT" stops_at_once INT

# auto chooses rdma where the host has an RDMA device (default_socket.sh: where it has none).
if [ "$device" = verbs ]; then
	config_write auto
	url=rdma://$KVD_RDMA_ADDR
	check "server.listen = auto" server_start
	check "auto is rdma, since there is an RDMA device" device_is_reported rdma 0 \
		"this host has an RDMA device"
	check "the server stops" server_stop
fi
finish
