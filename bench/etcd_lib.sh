# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# For the scripts that run a fleet with etcd on this machine, beside bench/lib.sh. To be sourced.

SHARDS=16384
etcd_pid=
etcd_url=
declare -A member_pids

etcd_responds() {
	ETCDCTL_API=3 etcdctl --endpoints "$etcd_url" endpoint health >/dev/null 2>&1
}

# Starts an etcd of one member, whose data is in $tmp.
etcd_start() {
	local port=$((20000 + $$ % 10000 * 2))
	need_hint='apt-get install etcd-server etcd-client' need etcd etcdctl
	while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
		port=$((port + 2))
	done
	etcd_url=http://127.0.0.1:$port
	etcd --data-dir "$tmp/etcd" --listen-client-urls "$etcd_url" \
		--advertise-client-urls "$etcd_url" \
		--listen-peer-urls "http://127.0.0.1:$((port + 1))" \
		--initial-advertise-peer-urls "http://127.0.0.1:$((port + 1))" \
		--initial-cluster "default=http://127.0.0.1:$((port + 1))" >"$tmp/etcd.log" 2>&1 &
	etcd_pid=$!
	pids+=("$etcd_pid")
	wait_until "$READY_S" etcd_responds || { tail -n 5 "$tmp/etcd.log" >&2 && die "no etcd"; }
}

# name: makes a fleet
fleet_init() {
	fleet_name=$1
	"$build/kvd" -c /dev/null -o fleet.etcd="$etcd_url" -o fleet.name="$1" --fleet-init \
		>"$tmp/init" 2>&1 || { cat "$tmp/init" >&2 && die "no fleet"; }
}

# member, [-o option]...
fleet_member_start() {
	local member=$1
	shift
	"$build/kvd" -c /dev/null -o server.listen="softnic://$tmp/$member" \
		-o fleet.etcd="$etcd_url" -o fleet.name="$fleet_name" -o fleet.member="$member" \
		"$@" >>"$tmp/kvd.$member.log" 2>&1 &
	member_pids[$member]=$!
	pids+=($!)
}

# member, statistic: prints it; nothing if the member does not answer
member_stat() {
	"$build/kvctl" -a "softnic://$tmp/$1" -t 1000 stats 2>/dev/null | sed -n "s/^$2 //p"
}

# member...: whether they serve all shards together
fleet_is_served() {
	local member sum=0 served
	for member; do
		served=$(member_stat "$member" fleet_shards_served)
		sum=$((sum + ${served:-0}))
	done
	[ "$sum" = $SHARDS ]
}
