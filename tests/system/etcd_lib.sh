# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Shared by system tests that need an etcd: Debian's, on loopback, of one or several members. To be
# sourced after lib.sh; ports_choose comes first.

for program in etcd etcdctl; do
	command -v $program >/dev/null ||
		{ echo "needs $program: conf/install-deps test" && exit 1; }
done
export ETCDCTL_API=3

declare -A etcd_pids
endpoints=

client_of_etcd() {
	"$build/tests/system/sys_etcd" -e "$endpoints" "$@"
}

port_is_free() {
	! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# Sets port to the first of 6 that nobody uses: members take one each for clients and for peers.
ports_choose() {
	local i
	port=$((20000 + $$ % 1500 * 8))
	for ((i = 0; i < 6; i++)); do
		port_is_free $((port + i)) || { port=$((port + 8)) i=-1; }
	done
}

# number, members, [options]...: starts a member
etcd_member_start() {
	local number=$1 members=$2 scheme=http i cluster=
	shift 2
	[[ " $* " != *' --cert-file '* ]] || scheme=https
	for ((i = 0; i < members; i++)); do
		cluster+=${cluster:+,}m$i=http://127.0.0.1:$((port + 3 + i))
	done
	etcd --name "m$number" --data-dir "$tmp/data.$number" --logger zap \
		--listen-client-urls "$scheme://127.0.0.1:$((port + number))" \
		--advertise-client-urls "$scheme://127.0.0.1:$((port + number))" \
		--listen-peer-urls "http://127.0.0.1:$((port + 3 + number))" \
		--initial-advertise-peer-urls "http://127.0.0.1:$((port + 3 + number))" \
		--initial-cluster "$cluster" "$@" >>"$tmp/etcd.$number" 2>&1 &
	etcd_pids[$number]=$!
	pids+=($!)
}

etcd_member_end() { # number
	kill -KILL "${etcd_pids[$1]}" && await_end "${etcd_pids[$1]}" && forget "${etcd_pids[$1]}"
}

etcd_works() {
	[[ $(client_of_etcd "$@" put up up) == succeeded* ]]
}

# members, [options]...: starts a new etcd, and waits until it works
etcd_start() {
	local members=$1 i
	shift
	rm -rf "$tmp"/data.*
	for ((i = 0; i < members; i++)); do
		etcd_member_start "$i" "$members" "$@"
	done
	endpoints=
	for ((i = 0; i < members; i++)); do
		endpoints+=${endpoints:+,}http://127.0.0.1:$((port + i))
	done
}

etcd_stop() {
	local number
	for number in "${!etcd_pids[@]}"; do
		etcd_member_end "$number"
		unset "etcd_pids[$number]"
	done
}

etcd_ctl() {
	etcdctl --endpoints "127.0.0.1:$port" "$@"
}

authority() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
		-subj "/CN=$1" -keyout "$tmp/$1.key" -out "$tmp/$1.pem" 2>&1
}

certificate() { # authority, name
	printf 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n' \
		>"$tmp/extensions"
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$2" \
		-keyout "$tmp/$2.key" -out "$tmp/request" 2>&1 &&
		openssl x509 -req -in "$tmp/request" -CA "$tmp/$1.pem" -CAkey "$tmp/$1.key" \
			-CAcreateserial -days 2 -extfile "$tmp/extensions" \
			-out "$tmp/$2.pem" 2>&1 &&
		chmod 600 "$tmp/$2.key"
}
