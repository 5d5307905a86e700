# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# For the scripts that run a fleet with etcd on this machine, beside bench/lib.sh. To be sourced.

SHARDS=16384
etcd_pids=()
etcd_url=
etcd_urls=() # of its members, for clients
etcd_peers=()
etcd_cluster=
declare -A member_pids

etcd_responds() {
	ETCDCTL_API=3 etcdctl --endpoints "$etcd_url" endpoint health >/dev/null 2>&1
}

etcd_member_start() { # number
	etcd --name "e$1" --data-dir "$tmp/etcd.$1" --initial-cluster "$etcd_cluster" \
		--listen-client-urls "${etcd_urls[$1]}" --advertise-client-urls "${etcd_urls[$1]}" \
		--listen-peer-urls "${etcd_peers[$1]}" \
		--initial-advertise-peer-urls "${etcd_peers[$1]}" >>"$tmp/etcd.log" 2>&1 &
	etcd_pids[$1]=$!
	pids+=($!)
}

# [members]: starts an etcd, of one member if no number is given, whose data is in $tmp
etcd_start() {
	local members=${1:-1} port=$((20000 + $$ % 5000 * 2)) i
	need_hint='apt-get install etcd-server etcd-client' need etcd etcdctl
	for ((i = 0; i < members * 2; i++)); do
		! (exec 3<>"/dev/tcp/127.0.0.1/$((port + i))") 2>/dev/null ||
			{ port=$((port + 2)) i=-1; }
	done
	for ((i = 0; i < members; i++)); do
		etcd_urls[i]=http://127.0.0.1:$((port + 2 * i))
		etcd_peers[i]=http://127.0.0.1:$((port + 2 * i + 1))
		etcd_cluster+=${etcd_cluster:+,}e$i=${etcd_peers[i]}
		etcd_url+=${etcd_url:+,}${etcd_urls[i]}
	done
	for ((i = 0; i < members; i++)); do
		etcd_member_start $i
	done
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
