#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of conf/kubernetes: its manifests have the types of Kubernetes' API, fit each other
# and kvd.ini, and have the memory that conf/SIZING.md says; and a server runs as its container
# does: as process 1, with a root file system that can't be written, with no capability but
# IPC_LOCK, and with a limit of locked memory that is too low for anything. Its keys survive a
# restart of the container.
#
# The types are of npm's package kubernetes-types, and its typescript checks them:
# tests/kubernetes/package-lock.json has their versions and sums. npm keeps them in its cache.
# Without npm, or without packages and network, the rest is checked, and the script then is skipped.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

MANIFESTS=conf/kubernetes/kvd.yaml
MEMLOCK=65536 # bytes
NPM_SECONDS_MAX=120

if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
	echo "not root, or no namespaces"
	exit 77
fi

manifests() {
	python3 tests/system/kubernetes_manifests.py "$@"
}

unchecked=
packages_fetch() {
	mkdir "$tmp/npm" && cp tests/kubernetes/package*.json "$tmp/npm" &&
		(cd "$tmp/npm" && timeout $NPM_SECONDS_MAX npm ci --ignore-scripts --no-audit \
			--no-fund --prefer-offline) >"$tmp/npm.log" 2>&1
}

# name...: the types of NAME.ts are those of the API
typed() {
	(cd "$tmp/npm" && node_modules/.bin/tsc --noEmit --strict "${@/%/.ts}")
}

manifests_typed() {
	manifests types $MANIFESTS >"$tmp/npm/manifests.ts" && typed manifests
}

# A name that does not exist, one that is missing, and a text instead of a number.
wrong_types_are_noticed() {
	local edit names=() name
	for edit in 's/failureThreshold: 3/failureThreshhold: 3/' '/serviceName/d' \
		's/periodSeconds: 10/periodSeconds: "10"/'; do
		name=wrong${#names[@]}
		names+=("$name")
		sed "$edit" $MANIFESTS >"$tmp/$name.yaml"
		! cmp -s $MANIFESTS "$tmp/$name.yaml" &&
			manifests types "$tmp/$name.yaml" >"$tmp/npm/$name.ts" || return 1
	done
	typed "${names[@]}" >"$tmp/errors"
	cat "$tmp/errors"
	for name in "${names[@]}"; do
		grep -q "^$name.ts.* error " "$tmp/errors" || return 1
	done
}

# What promtool of Debian knows: all but how pods are found.
scrape_config() {
	sed 's/kubernetes_sd_configs:/static_configs:/; s/- role: pod/- targets: []/' \
		conf/kubernetes/prometheus.yml >"$tmp/prometheus.yml" &&
		promtool check config "$tmp/prometheus.yml"
}

config_is_taken() {
	manifests config $MANIFESTS >"$tmp/pod.ini" &&
		"$build/kvd" -c "$tmp/pod.ini" --check-config -o server.listen="$url"
}

# Room for memory.file, and for all that the process needs besides: the bounds of SIZING.md.
memory_suffices() {
	local size=$((4 << 30)) workers=3 shm memory files process
	grep -q '^size = 4g$' "$tmp/pod.ini" && grep -q "^workers = $workers\$" "$tmp/pod.ini" &&
		shm=$(manifests container $MANIFESTS shm) &&
		memory=$(manifests container $MANIFESTS memory) || return 1
	files=$((size + size / 48 + (5 << 20) + 2048 * 51 * 1024 / 10))
	process=$((size / 128 + workers * 9 * 4096 * (2048 + 128) / 4 + 1024 * (57 << 10) +
		2048 * 51 * 1024 / 10 + (12 << 20)))
	echo "files: $files of $shm; all: $((files + process)) of $memory"
	[ "$shm" -ge $files ] && [ "$memory" -ge $((files + process)) ]
}

if [ "$device" = softnic ]; then
	if ! command -v npm >/dev/null; then
		unchecked="there is no npm"
	elif ! packages_fetch; then
		unchecked="npm has no packages: $(tail -n 1 "$tmp/npm.log")"
	else
		check "the manifests have the types of the API" manifests_typed
		check "what is wrong in them is noticed" wrong_types_are_noticed
	fi
	check "names and numbers fit each other" manifests consistent $MANIFESTS
	check "Prometheus takes the rules to find pods" scrape_config
	check "kvd takes the ConfigMap" config_is_taken || finish
	check "the container has enough memory" memory_suffices
fi

# The pod's volumes; its network is the host's.
shm=/dev/shm/kvd-pod.$$
http=$((20000 + ($$ + 5000) % 10000))
trap 'rm -rf "$shm"; cleanup' EXIT
mkdir "$tmp/run" "$shm" && chmod 755 "$tmp/run" || exit 1
manifests config $MANIFESTS >"$tmp/pod.ini"

# setpriv's option of the user, capabilities, command...: runs it as the container's process 1
contained() {
	local user=$1 capabilities=$2
	shift 2
	# shellcheck disable=SC2016 # expanded by the inner shell
	exec unshare --kill-child --mount --pid --fork --ipc --uts --cgroup --mount-proc sh -ec '
		mount -t tmpfs mnt /mnt
		mkdir /mnt/bin /mnt/etc
		mount --bind "$1" /mnt/bin
		mount --bind "$2" /mnt/etc
		mount -t tmpfs run /run
		mkdir /run/kvd
		mount --bind "$2/run" /run/kvd
		mount --bind "$3" /dev/shm
		mount -o remount,bind,ro /
		prlimit --memlock="$4" --pid $$
		user=$5 capabilities=$6
		shift 6
		exec setpriv $user --bounding-set="-all$capabilities" --inh-caps=-all \
			--no-new-privs "$@"' sh "$build" "$tmp" "$shm" $MEMLOCK "$user" \
		"$capabilities" "$@"
}

# [user, capabilities]: starts the server with the ConfigMap's kvd.ini, smaller, and at this test's
# addresses
pod_start() {
	local listen=softnic:///run/kvd/kvd.sock
	[ "$device" = softnic ] || listen=$url,$listen
	: >"$tmp/pod.log"
	contained "${1:---reuid=0}" "${2-,+ipc_lock}" /mnt/bin/kvd -c /mnt/etc/pod.ini \
		-o "server.listen=$listen" -o "server.http=127.0.0.1:$http" \
		-o memory.size=64m >"$tmp/pod.log" 2>&1 &
	pod_pid=$!
	pids+=("$pod_pid")
	wait_until "$DEADLINE_S" pod_settled && probe readyz && probe healthz && return 0
	cat "$tmp/pod.log"
	return 1
}

pod_settled() {
	ended "$pod_pid" || probe readyz >/dev/null 2>&1
}

# page: as the kubelet asks for it
probe() {
	[ "$(curl -sS -o /dev/null -w '%{http_code}' "http://127.0.0.1:$http/$1")" = 200 ]
}

# The process that the container runtime would signal: kvd is process 1 of the container.
kvd_pid() {
	read -r inner <"/proc/$pod_pid/task/$pod_pid/children" && [ -n "$inner" ] ||
		[ -n "${inner:-}" ]
}

# signal, status or "any": of unshare, which passes on that of kvd, but not well after SIGKILL
pod_end() {
	local inner
	kvd_pid && grep -q '^NSpid:.*\s1$' "/proc/${inner% }/status" &&
		kill "-$1" "${inner% }" && await_end "$pod_pid" && forget "$pod_pid" &&
		[[ $2 == any || $status == "$2" ]] && return 0
	echo "status $status"
	tail -n 5 "$tmp/pod.log"
	return 1
}

is_confined() {
	local inner
	kvd_pid && grep -E '^Cap(Prm|Eff|Bnd)' "/proc/${inner% }/status" >"$tmp/caps"
	cat "$tmp/caps"
	[ "$(grep -c $'^Cap...:\t0000000000004000$' "$tmp/caps")" = 3 ] # 1 << CAP_IPC_LOCK
}

outside=softnic://$tmp/run/kvd.sock
[ "$device" = softnic ] && url=$outside
check "a pod starts, and its probes say so" pod_start || finish
check "kvd has no capability but IPC_LOCK" is_confined
check "a client stores a key" kvctl put name Ada
check "SIGKILL ends the container" pod_end KILL any
check "it starts again" pod_start
check "and has the key" expect 0 '^Ada$' get name
check "SIGTERM ends it well, within its time" pod_end TERM 0
check "it starts again" pod_start
check "and has the key" expect 0 '^Ada$' get name
check "it stops" pod_end TERM 0

# The two ways in which its memory can't be locked: without the capability, and with it for an
# ordinary user, who does not get it.
locks_too_little() {
	! pod_start "$@" >/dev/null && await_end "$pod_pid" && forget "$pod_pid" &&
		grep -q 'may lock' "$tmp/pod.log" && return 0
	cat "$tmp/pod.log"
	return 1
}
if [ "$device" = verbs ]; then
	rm -rf "${shm:?}"/*
	check "without IPC_LOCK it does not start" locks_too_little --reuid=0 ''
	chmod 755 "$tmp" && chmod 644 "$tmp/pod.ini" && chmod 777 "$tmp/run" "$shm"
	check "and not as another user" locks_too_little --reuid=777 ,+ipc_lock
fi

if [ -n "$unchecked" ] && [ $failures = 0 ]; then
	echo "the types are not checked: $unchecked"
	exit 77
fi
finish
