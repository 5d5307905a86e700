#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of `kvd --fleet-init` and `kvd --fleet-adopt` with Debian's etcd: what they do, what
# they print, and a clear error for each reason why they can't.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

# shellcheck source=tests/system/etcd_lib.sh
. tests/system/etcd_lib.sh

# status, pattern, mode, [-o option]...: runs kvd for fleet blue, and compares what it prints
says_kvd() {
	local want=$1 pattern=$2 mode=$3 said got
	shift 3
	said=$("$build/kvd" "--fleet-$mode" -o "fleet.etcd=$endpoints" -o fleet.name=blue "$@" 2>&1)
	got=$?
	[ "$got" = "$want" ] && [[ $said =~ $pattern ]] && return 0
	echo "kvd --fleet-$mode $*: status $got instead of $want, or not like '$pattern': $said"
	return 1
}

# fleet: sets epoch to that of its map, in hexadecimal digits from the lowest byte on
epoch_of() {
	# etcdctl adds a newline, which gunzip warns of.
	epoch=$(etcd_ctl get --print-value-only "/kvd/$1/map" | gunzip 2>/dev/null |
		od -An -tx1 -j16 -N8 | tr -d ' ')
}

epoch_is() { # fleet, epoch
	epoch_of "$1"
	[ "$epoch" = "$2" ] && return 0
	echo "epoch of $1: $epoch instead of $2"
	return 1
}

etcd_is_named() {
	local said
	said=$("$build/kvd" --fleet-init 2>&1)
	[ $? = 78 ] && [[ $said = 'kvd --fleet-init: fleet.etcd is not set: '* ]]
}

nobody_is_there() {
	endpoints=http://127.0.0.1:$port
	says_kvd 1 'correct its URL; nothing was changed$' init &&
		says_kvd 1 'correct its URL; nothing was changed$' adopt
}

one_is_made() {
	says_kvd 0 '^fleet blue: made, with no member yet: start its members$' init &&
		epoch_is blue 0100000000000000 &&
		says_kvd 1 'fleet blue is there already, in epoch 1 with 0 members: nothing was' \
			init && epoch_is blue 0100000000000000
}

others_are_beside_it() {
	says_kvd 0 '^fleet red: made' init -o fleet.name=red &&
		says_kvd 1 'there is no fleet green: kvd --fleet-init makes one$' adopt \
			-o fleet.name=green
}

# 2^20 epochs higher, each time.
one_is_adopted() {
	says_kvd 0 '^fleet blue: adopted, in epoch 1048577: 0 members drop their items' adopt &&
		epoch_is blue 0100100000000000 &&
		says_kvd 0 '^fleet blue: adopted, in epoch 2097153: ' adopt &&
		epoch_is blue 0100200000000000 && epoch_is red 0100000000000000
}

no_map() {
	local why='the key /kvd/bad/map has no map that can be used: not compressed by gzip'
	etcd_ctl put /kvd/bad/map nonsense && says_kvd 1 "$why" init -o fleet.name=bad &&
		says_kvd 1 "$why" adopt -o fleet.name=bad
}

several_urls() {
	says_kvd 1 'fleet blue is there already' init \
		-o "fleet.etcd=http://127.0.0.1:$((port + 1)),$endpoints"
}

users_make() {
	etcd_ctl user add root:top && etcd_ctl user grant-role root root &&
		etcd_ctl user add kvd:secret && etcd_ctl role add fleet &&
		etcd_ctl role grant-permission fleet readwrite --prefix /kvd/mine/ &&
		etcd_ctl user grant-role kvd fleet && etcd_ctl auth enable &&
		(umask 077 && echo kvd:secret >"$tmp/user" && echo kvd:wrong >"$tmp/wrong") &&
		echo kvd:secret >"$tmp/open" && chmod 644 "$tmp/open"
}

users_are_asked() {
	says_kvd 1 'wants a user: give a file with NAME:PASSWORD.*; nothing was changed$' init &&
		says_kvd 1 'invalid user ID or password: correct the file' init \
			-o "fleet.etcd_user=$tmp/wrong" &&
		says_kvd 1 'permission denied' adopt -o "fleet.etcd_user=$tmp/user" &&
		says_kvd 78 'secret that other users may read' init \
			-o "fleet.etcd_user=$tmp/open" &&
		says_kvd 0 '^fleet mine: made' init -o fleet.name=mine \
			-o "fleet.etcd_user=$tmp/user"
}

tls_starts() {
	authority ca && authority strangers && certificate ca server && certificate ca member &&
		etcd_start 1 --cert-file "$tmp/server.pem" --key-file "$tmp/server.key" \
			--trusted-ca-file "$tmp/ca.pem" --client-cert-auth &&
		endpoints=https://127.0.0.1:$port &&
		wait_until "$DEADLINE_S" etcd_works -c "$tmp/ca.pem" -C "$tmp/member.pem" \
			-K "$tmp/member.key"
}

tls_is_checked() {
	local own=(-o "fleet.etcd_certificate=$tmp/member.pem" -o "fleet.etcd_key=$tmp/member.key")
	says_kvd 78 'fleet.etcd_ca is not set: set it to' init &&
		says_kvd 1 'TLS failed: SSL certificate problem.*; nothing was changed$' init \
			-o "fleet.etcd_ca=$tmp/strangers.pem" "${own[@]}" &&
		says_kvd 78 'fleet.etcd: .*/none.*No such file' init \
			-o "fleet.etcd_ca=$tmp/none" "${own[@]}" &&
		says_kvd 0 '^fleet blue: made' init -o "fleet.etcd_ca=$tmp/ca.pem" "${own[@]}"
}

# What a member needs, of which nothing is there when a fleet is made.
members_are_checked() {
	local said options=(-o fleet.etcd=http://127.0.0.1:1 -o fleet.name=blue -o fleet.member=a
		-o memory.size=16m -o limits.identities=1024)
	said=$("$build/kvd" --check-config "${options[@]}" -o "server.listen=softnic://$tmp/s" \
		2>&1)
	[ $? = 0 ] || { echo "$said" && return 1; }
	said=$("$build/kvd" --check-config "${options[@]}" -o server.listen=auto 2>&1)
	[ $? = 78 ] && [[ $said = *'names no address: set fleet.url to'* ]] ||
		{ echo "$said" && return 1; }
	said=$("$build/kvd" --check-config "${options[@]}" -o "server.listen=softnic://$tmp/s" \
		-o "fleet.etcd_user=$tmp/open" 2>&1)
	[ $? = 78 ] && [ "$(grep -c 'fleet.etcd: the file of etcd' <<<"$said")" = 1 ] ||
		{ echo "$said" && return 1; }
}

check "a fleet without an etcd can't be made" etcd_is_named
check "there are ports" ports_choose
check "nor if no etcd is there" nobody_is_there
etcd_start 1
check "an etcd starts" wait_until "$DEADLINE_S" etcd_works ||
	{ tail -n 20 "$tmp/etcd.0" && finish; }
check "a fleet is made, once" one_is_made
check "fleets of other names are others" others_are_beside_it
check "a fleet is adopted" one_is_adopted
check "what is no map is neither replaced nor adopted" no_map
check "the next URL is asked if nobody is at the first" several_urls
check "etcd gets users" users_make
check "etcd asks for them" users_are_asked
check "a member's options are checked" members_are_checked
etcd_stop
check "an etcd with TLS works" tls_starts
check "its certificate is checked" tls_is_checked
finish
