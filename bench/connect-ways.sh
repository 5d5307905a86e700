#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures how long it takes to connect over RDMA, in each way: by rdma_cm, over TCP, and over TLS
# with certificates and with a pre-shared key.
#
#   bench/connect-ways.sh [-n OPENS]
#
# It needs an RDMA device (KVD_RDMA_ADDR). In the test machine (tests/vm/run --
# bench/connect-ways.sh) only the ratios are meaningful. Each of OPENS (1000) is a kvd_open() and a
# kvd_close(), one after another, of bench/micro/connections.c.
# shellcheck source=bench/lib.sh
. "$(dirname "$0")/lib.sh"

opens=1000
while getopts n: option; do
	case $option in
	n) opens=$OPTARG ;;
	*) die "usage: connect-ways.sh [-n OPENS]" ;;
	esac
done
[ -n "${KVD_RDMA_ADDR:-}" ] || die "KVD_RDMA_ADDR is not set; try tests/vm/run -- $0"
need_hint='run make benchmarks' need "$build/micro"
need_hint='apt-get install openssl' need openssl

certificate() { # name
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
		-subj "/CN=$1" -addext "subjectAltName=IP:$KVD_RDMA_ADDR" -keyout "$tmp/$1.key" \
		-out "$tmp/$1.pem" 2>/dev/null && chmod 600 "$tmp/$1.key"
}
certificate server && certificate client || die "openssl can't make certificates"
(umask 077 && echo 'bench:8d1f5a3cb77e20496e9bd3c2f0a15b68' >"$tmp/psk")

addr=$KVD_RDMA_ADDR
kvd_start rdma -o server.workers=1 \
	-o server.listen="rdma://$addr,rdma+tcp://$addr,rdma+tls://$addr" \
	-o tls.certificate="$tmp/server.pem" -o tls.key="$tmp/server.key" \
	-o tls.ca="$tmp/client.pem" -o tls.psk="$tmp/psk" -o memory.size=64m \
	-o memory.hugepages=off

# name, URL, [VAR=value...]
measure() {
	local name=$1 url=$2
	shift 2
	# shellcheck disable=SC2046 # figures
	printf '%-28s %9s %9s %9s %9s\n' "$name" \
		$(env "$@" "$build/micro" connections -a "$url" -o "$opens" || die "$name failed")
}

echo "$opens connections, one after another; milliseconds of kvd_open()"
printf '%-28s %9s %9s %9s %9s\n' '' p50 p99 most per-second
measure 'rdma://' "$kvd_url" A=
measure 'rdma+tcp://' "rdma+tcp://$KVD_RDMA_ADDR:7472" A=
measure 'rdma+tls://, certificates' "rdma+tls://$KVD_RDMA_ADDR:7473" KVD_TLS_CA="$tmp/server.pem" \
	KVD_TLS_CERTIFICATE="$tmp/client.pem" KVD_TLS_KEY="$tmp/client.key"
measure 'rdma+tls://, pre-shared key' "rdma+tls://$KVD_RDMA_ADDR:7473" KVD_TLS_PSK="$tmp/psk"

kvd_stop || die "kvd failed"
