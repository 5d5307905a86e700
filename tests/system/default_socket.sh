#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of the default socket: kvd, kvctl and kvbench meet at it without being told, as root
# and as an ordinary user, with and without XDG_RUNTIME_DIR; its folder is made and removed; and
# another user's folder in /tmp is refused. In a mount namespace with a /run of its own.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

USER_ID=$((200000 + $$ % 100000)) # of no account; tests of other builds may run beside this one
if [ "$device" != softnic ]; then
	echo "this test is about softnic's socket: set KVD_TEST_DEVICE=softnic"
	exit 77
fi
if [ "${KVD_TEST_UNSHARED:-}" != 1 ]; then
	if [ "$(id -u)" != 0 ] || ! unshare -m true; then
		echo "this test needs root, and a kernel that lets it have a mount namespace"
		exit 77
	fi
	KVD_TEST_UNSHARED=1 unshare -m "$0"
	exit
fi
mount -t tmpfs tmpfs /run || exit 1
mkdir /run/runtime /run/runtime-open /run/build /run/log
chown "$USER_ID" /run/runtime /run/runtime-open
chmod 700 /run/runtime
chmod 777 /run/runtime-open /run/log
# The user need not have the right to pass the folders above these two.
mount --bind "$build" /run/build || exit 1
[ -z "${LLVM_PROFILE_FILE:-}" ] || # with make coverage: the counters are there, too
	export LLVM_PROFILE_FILE="${LLVM_PROFILE_FILE/#"$build"//run/build}"
build=/run/build
log=/run/log/log
unset KVD_URL XDG_RUNTIME_DIR

# Run a command as root, and as an ordinary user. env replaces itself by the command, which so has
# the pid that the shell knows.
root=(env)
user=(setpriv --reuid "$USER_ID" --regid "$USER_ID" --clear-groups env)
as=("${root[@]}")

# [-o section.key=value]...: starts a server, with the default socket if none is given
start() {
	: >"$log"
	chmod 666 "$log"
	"${as[@]}" "$build/kvd" -o server.listen=softnic:// \
		-o memory.size=16m -o limits.max_value=64k -o memory.hugepages=off \
		-o server.workers=1 -o log.file="$log" "$@" >>"$tmp/stderr" 2>&1 &
	server_pid=$!
	pids+=("$server_pid")
	wait_until "$DEADLINE_S" server_is_up && ! ended "$server_pid"
}

# socket: kvctl and kvbench find the server there; the folder's mode
found_at() {
	local said
	start || return 1
	[ -S "$1" ] && logged "listening on softnic://$1\$" &&
		said=$("${as[@]}" "$build/kvctl" ping) &&
		[[ $said == "pong from softnic://$1:"* ]] &&
		"${as[@]}" "$build/kvbench" put -n 100 &&
		[ "$("${as[@]}" "$build/kvbench" count)" = 100 ] &&
		[ "$(stat -c %a "$(dirname "$1")")" = "$2" ] &&
		server_stop && [ ! -e "$(dirname "$1")" ] && return 0
	echo "said: $said"
	ls -la "$(dirname "$1")"
	return 1
}

# Without an RDMA device auto is softnic, at the default socket.
auto_is_softnic() {
	start -o server.listen=auto &&
		logged "softnic: server.listen = auto, and this host has no RDMA device" &&
		logged "listening on softnic:///run/kvd/kvd.sock\$" && server_stop
}

# pattern: the server does not start, and says so in one line of errors
refused() {
	start >/dev/null
	await_end "$server_pid" && forget "$server_pid"
	: >"$tmp/stderr"
	[ "$status" = 1 ] && [ "$(grep -c ' error ' "$log")" = 1 ] && logged "$1"
}

# A folder that somebody else made, or that others may write to, is not used by either side.
hijacked() { # folder
	refused "error server.listen = softnic://$1/kvd.sock: its folder is not this user's" &&
		[[ $("${user[@]}" "$build/kvctl" ping 2>&1) == *"no socket at /run/kvd/kvd.sock"* ]]
}

# A server that somebody else runs where the user's own would be: no client talks to it.
impostor() { # folder
	local said
	as=("${root[@]}")
	start -o server.listen=softnic://"$1/kvd.sock" -o softnic.socket_mode=0666 || return 1
	said=$("${user[@]}" "$build/kvctl" ping 2>&1)
	server_stop || return 1
	[[ $said == *"no socket at /run/kvd/kvd.sock"* ]] && return 0
	echo "said: $said"
	return 1
}

# The system's server serves a user who has none; a user's own one comes first.
own_comes_first() {
	local system
	as=("${root[@]}")
	start || return 1
	system=$server_pid
	chmod 666 /run/kvd/kvd.sock
	user_meets /run/kvd/kvd.sock || return 1
	as=("${user[@]}")
	start && user_meets "/tmp/kvd-$USER_ID/kvd.sock" && server_stop || return 1
	user_meets /run/kvd/kvd.sock || return 1
	server_pid=$system
	server_stop
}

# socket: a user's kvctl connects there
user_meets() {
	[[ $("${user[@]}" "$build/kvctl" ping) == "pong from softnic://$1:"* ]]
}

# A folder that was there before stays.
folder_stays() {
	mkdir /run/kvd && start && server_stop && rmdir /run/kvd
}

# A socket that somebody has bound, and that nobody listens at, is not in use.
bound_is_free() {
	local holder said got at=/run/kvd.bound/kvd.sock
	mkdir /run/kvd.bound || return 1
	python3 -c '
import signal, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1])
open(sys.argv[1] + ".bound", "w").close()
signal.pause()' $at &
	holder=$!
	pids+=("$holder")
	wait_until "$DEADLINE_S" [ -e $at.bound ] || return 1
	said=$("$build/kvd" --check-config -o server.listen=softnic://$at \
		-o memory.size=16m 2>&1)
	got=$?
	kill "$holder" && await_end "$holder" && forget "$holder"
	echo "status $got, said: $said"
	[ $got = 0 ] && [ "$said" = "the defaults and -o, without a file: ok" ]
}

user_folder=/tmp/kvd-$USER_ID
check "root: /run/kvd/kvd.sock" found_at /run/kvd/kvd.sock 755
[ -n "$(ls -A /sys/class/infiniband 2>/dev/null)" ] ||
	check "auto, on a host without an RDMA device" auto_is_softnic
check "a folder that was there before" folder_stays
check "a socket that nobody listens at" bound_is_free
as=("${user[@]}")
check "a user without XDG_RUNTIME_DIR: /tmp/kvd-UID" found_at "$user_folder/kvd.sock" 700
as=("${user[@]}" XDG_RUNTIME_DIR=/run/runtime)
check "a user with XDG_RUNTIME_DIR" found_at /run/runtime/kvd/kvd.sock 700
as=("${user[@]}" XDG_RUNTIME_DIR=/run/runtime-open)
check "XDG_RUNTIME_DIR that others may write to is passed over" \
	found_at "$user_folder/kvd.sock" 700
as=("${user[@]}" XDG_RUNTIME_DIR=/run/none)
check "XDG_RUNTIME_DIR that does not exist is passed over" found_at "$user_folder/kvd.sock" 700
as=("${user[@]}")

mkdir "$user_folder"
check "another user's folder is refused" hijacked "$user_folder"
check "another user's server there is passed over" impostor "$user_folder"
as=("${user[@]}")
rmdir "$user_folder"
"${user[@]}" mkdir -m 777 "$user_folder"
check "a folder that others may write to is refused" hijacked "$user_folder"
rmdir "$user_folder"
"${user[@]}" mkdir -m 700 /run/runtime/real
"${user[@]}" ln -s /run/runtime/real "$user_folder"
check "a symbolic link is refused" hijacked "$user_folder"
rm "$user_folder"
check "the user's own server comes before the system's" own_comes_first
finish
