# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Shared by the system tests on two hosts: starts the two machines of tests/vm/pair. Host 1 runs the
# script that sources this file, with tests/system/lib.sh; host 2 runs the commands that it is told
# to. To be sourced first, with limit_s set to the seconds that the test may take.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P) || exit 1

# Host 2: runs the scripts 1.run, 2.run, ... as they appear.
hosts_serve() {
	local n
	cd "$here/../.." || exit 1
	for ((n = 1; ; n++)); do
		until [ -e "$KVD_OUT/$n.run" ]; do
			sleep 0.05
		done
		bash "$KVD_OUT/$n.run" >"$KVD_OUT/$n.out" 2>&1 </dev/null
		echo $? >"$KVD_OUT/status" && mv "$KVD_OUT/status" "$KVD_OUT/$n.status"
	done
}

# The key of the clients on host 2, by rdma+tls://. Its /tmp is its own.
remote_psk=/tmp/kvd-remote-psk

# script
hosts_start() {
	local out pair
	out=$(mktemp -d "${TMPDIR:-/tmp}/two.XXXXXX") || exit 1
	# shellcheck disable=SC2064 # this folder
	trap "rm -rf '$out'" EXIT
	export KVD_TEST_DEVICE=${KVD_TEST_DEVICE:-rdma}
	[ "${KVD_TEST_LONG:-0}" != 1 ] || limit_s=$((10 * limit_s))
	"$here/pair" -t "$limit_s" -m 1024 -o "$out" "$1" direct -- "$1" serve &
	pair=$!
	# shellcheck disable=SC2064 # this process
	trap "kill $pair && wait $pair; exit 143" TERM INT HUP
	wait $pair
	exit
}

case ${1:-} in
serve) hosts_serve ;;
'') hosts_start "$here/${0##*/}" ;;
esac

# shellcheck source=tests/system/lib.sh
. "$here/../system/lib.sh"

# command...: runs it on host 2, and prints what it prints
remote() {
	local n
	# In a file, since the caller may be a subshell.
	n=$(($(cat "$tmp/remote_number" 2>/dev/null || echo 0) + 1))
	echo $n >"$tmp/remote_number"
	printf '%q ' "$@" >"$KVD_OUT/new.run" && mv "$KVD_OUT/new.run" "$KVD_OUT/$n.run" &&
		wait_until "$DEADLINE_S" [ -e "$KVD_OUT/$n.status" ] || return 1
	cat "$KVD_OUT/$n.out"
	return "$(cat "$KVD_OUT/$n.status")"
}

# What clients on host 2 need to connect.
remote_prepare() {
	[ "$way" = rdma+tls ] || return 0
	# shellcheck disable=SC2016 # for host 2
	remote bash -c 'umask 077 && echo "$1" >"$0"' $remote_psk "$(cat "$KVD_TLS_PSK")"
}

# name, line, program, arguments...: starts a test program on host 2, and waits for the line
remote_start() {
	local name=$1 line=$2 program=$3
	shift 3
	# The standard input never ends. In a folder of its own: /tmp shows the names of the host's.
	# shellcheck disable=SC2016 # for host 2
	remote bash -c 'dir=$(mktemp -d) && mkfifo "$dir/in" && {
			"$@" <>"$dir/in" >"$KVD_OUT/$0" 2>&1 &
			echo $! >"$KVD_OUT/$0.pid"
		}' "$name" \
		env SYS_TIMEOUT_MS="$timeout_ms" KVD_TLS_PSK=$remote_psk \
		"$build/tests/system/$program" "$@" &&
		wait_until "$DEADLINE_S" remote_says "$name" "$line"
}
timeout_ms=$CALL_TIMEOUT_MS

# name, pattern
remote_says() {
	grep -Eq -- "$2" "$KVD_OUT/$1" && return 0
	tail -n 3 "$KVD_OUT/$1"
	return 1
}

# name: a client on host 2 that loops ends well
remote_ends_well() {
	remote kill -TERM "$(cat "$KVD_OUT/$1.pid")" &&
		wait_until "$DEADLINE_S" remote_says "$1" '^ended well'
}

# name, pattern: a client on host 2 ends with such an error
remote_lost() {
	wait_until "$DEADLINE_S" remote_says "$1" '^lost after .*' && remote_says "$1" "$2"
}

machine() {
	"$here/pair" --ask "$@"
}
