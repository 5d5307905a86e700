#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of conf/CONTAINERS.md, on the software device: a client in namespaces of its own, as
# container runtimes make them, that shares nothing with the server but the folder of the socket.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

if [ "$device" != softnic ]; then
	echo "in a container RDMA devices are used as outside of it"
	exit 77
fi
if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
	echo "not root, or no namespaces"
	exit 77
fi

# command...: with processes, files, network, IPC and names of its own; its /tmp and /dev/shm are
# empty, and /mnt has the programs and the socket.
contained() {
	# shellcheck disable=SC2016 # expanded by the inner shell
	unshare --mount --pid --fork --net --ipc --uts --cgroup --mount-proc sh -ec '
		mount -t tmpfs mnt /mnt && mkdir /mnt/bin /mnt/run
		mount --bind "$1" /mnt/bin && mount --bind "$2" /mnt/run
		mount -t tmpfs tmp /tmp && mount -t tmpfs shm /dev/shm
		shift 2
		exec "$@"' sh "$build" "$tmp/run" "$@"
}

inside() {
	contained env KVD_URL=softnic:///mnt/run/s /mnt/bin/kvctl "$@"
}

# A PUT of the container's is seen outside, and the other way round.
values_pass() {
	inside put name Ada && expect 0 '^Ada$' get name && kvctl put other 'of the host' &&
		[ "$(inside get other)" = 'of the host' ]
}

# READs by the container, and by the server of the container's memory, with times for each.
paths_work() {
	local path
	inside doctor softnic:///mnt/run/s >"$tmp/doctor"
	for path in connect PING REQUEST READ PULL; do
		grep -q "^  ok  *$path " "$tmp/doctor" || { cat "$tmp/doctor" && return 1; }
	done
}

# The server then asks the client for what it would copy from its memory.
without_proc() {
	seq 100000 >"$tmp/value"
	contained sh -ec 'mount -t tmpfs proc /proc
		KVD_URL=softnic:///mnt/run/s exec /mnt/bin/kvctl put large -' <"$tmp/value" &&
		kvctl get large | cmp - "$tmp/value"
}

# Whatever processes the client sees, it is known to the server by its user.
is_known() {
	contained sh -c 'KVD_URL=softnic:///mnt/run/s /mnt/bin/kvctl clients' | grep -q ' uid=0 '
}

mkdir "$tmp/run" || exit 1
chmod 755 "$tmp/run"
url=softnic://$tmp/run/s
check "a server starts" server_start -o "server.listen=softnic://$tmp/run/s" || finish
check "values pass between a container and the host" values_pass
check "all paths work from a container" paths_work
check "and its user is known" is_known
check "a long value passes without /proc" without_proc
check "the server stops" server_stop
finish
