#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of the server's client of etcd, with Debian's etcd on loopback: keys, leases and
# transactions; users; TLS; and three members whose leader is killed and stopped while transactions
# run, each of which must come out as server/fleet/etcd.h says.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/etcd_lib.sh
. tests/system/etcd_lib.sh

# status, pattern, arguments...: runs the client and compares its exit status and its output
says_client() {
	local want=$1 pattern=$2 said got
	shift 2
	said=$(client_of_etcd "$@" 2>&1)
	got=$?
	[ "$got" = "$want" ] && [[ $said =~ $pattern ]] && return 0
	echo "sys_etcd $*: status $got instead of $want, or not like '$pattern': ${said:0:600}"
	return 1
}

keys() {
	says_client 0 '^$' get a && says_client 0 '^succeeded 0 $' create a 1 0 &&
		says_client 0 '^compare failed 0 $' create a 2 0 && says_client 0 '^a 1 0$' get a &&
		says_client 0 '^succeeded' put a '' && says_client 0 '^a  0$' get a &&
		says_client 0 '^succeeded' put a/1 x && says_client 0 '^succeeded' put a/2 y &&
		says_client 0 '^succeeded' put a0 z &&
		says_client 0 $'^a/1 x 0\na/2 y 0$' list a/ && says_client 0 '^$' list b
}

transactions() {
	local lease
	lease=$(client_of_etcd grant 60) && says_client 0 '^$' branches "$lease"
}

# The map of a fleet is 128 KiB; etcd takes 1.5 MiB.
large_values_fit() {
	says_client 0 '^$' large map $((131072 + 4096)) && says_client 0 '^$' large map 1048576 &&
		says_client 1 'a value is larger than 1 MiB' large map 1048577
}

lease_is_gone() {
	! client_of_etcd ttl "$1" && [ -z "$(client_of_etcd get "$2")" ]
}

leases() {
	local lease
	lease=$(client_of_etcd grant 60) && says_client 0 '^succeeded' create own me "$lease" &&
		says_client 0 "^own me $lease\$" get own &&
		says_client 0 '^60$' keepalive "$lease" &&
		says_client 0 '^(5[0-9]|60)$' ttl "$lease" && says_client 0 '^0$' revoke "$lease" &&
		says_client 0 '^$' get own && says_client 1 'lease has ended' keepalive "$lease" &&
		says_client 1 'lease has ended' ttl "$lease" &&
		says_client 1 'requested lease not found' revoke "$lease" &&
		says_client 0 '^not executed 2 .*requested lease not found' create own me "$lease"
}

# Nobody keeps it alive, as after a SIGKILL.
a_lease_ends() {
	local lease
	lease=$(client_of_etcd grant 1) && says_client 0 '^succeeded' create short me "$lease" &&
		wait_until "$DEADLINE_S" lease_is_gone "$lease" short
}

status_is_told() {
	says_client 0 "^http://127.0.0.1:$port version 3\.[4-9][0-9.]* leader well\$" status
}

users_make() {
	etcd_ctl user add root:top && etcd_ctl user grant-role root root &&
		etcd_ctl user add 'kvd:a"b\c' && etcd_ctl role add fleet &&
		etcd_ctl role grant-permission fleet readwrite --prefix fleet/ &&
		etcd_ctl user grant-role kvd fleet && etcd_ctl auth enable &&
		(umask 077 && printf 'kvd:a"b\\c\n' >"$tmp/user" && echo 'kvd:wrong' >"$tmp/wrong")
}

users_are_asked() {
	local nobody='wants a user: give a file with NAME:PASSWORD'
	says_client 0 "^not executed 13 .*$nobody" put fleet/a 1 &&
		says_client 1 "$nobody" get fleet/a &&
		says_client 0 '^succeeded' -u "$tmp/user" put fleet/a 1 &&
		says_client 0 '^fleet/a 1 0$' -u "$tmp/user" list fleet/ &&
		says_client 0 '^not executed 13 .*permission denied.*grant-permission' \
			-u "$tmp/user" put other 1 &&
		says_client 1 'permission denied' -u "$tmp/user" list f &&
		says_client 1 'invalid user ID or password: correct the file' -u "$tmp/wrong" \
			get fleet/a
}

# A file that others can read is no secret.
secrets_stay_secret() {
	chmod 644 "$tmp/user"
	says_client 1 'secret that other users may read' -u "$tmp/user" get fleet/a || return 1
	chmod 600 "$tmp/user"
	(umask 077 && echo 'no colon' >"$tmp/bad")
	says_client 1 'first line must be NAME:PASSWORD' -u "$tmp/bad" get fleet/a
}

writer=
writer_start() { # options...
	: >"$tmp/writer"
	"$build/tests/system/sys_etcd" -e "$endpoints" -t 3000 "$@" >"$tmp/writer" 2>&1 &
	writer=$!
	pids+=("$writer")
	writes
}

lines_above() {
	local lines
	mapfile -t lines <"$tmp/writer"
	[ ${#lines[@]} -gt "$1" ]
}

lines_or_ended() {
	lines_above "$1" || ended "$writer"
}

# Waits for 20 transactions more.
writes() {
	local lines
	mapfile -t lines <"$tmp/writer"
	wait_until "$DEADLINE_S" lines_or_ended $((${#lines[@]} + 20)) && ! ended "$writer" &&
		return 0
	tail -n 5 "$tmp/writer"
	return 1
}

writer_ends_well() {
	kill -TERM "$writer" && await_end "$writer" && forget "$writer"
	tail -n 1 "$tmp/writer" >>"$tmp/results"
	tail -n 1 "$tmp/writer"
	[ "$status" = 0 ] && says "$tmp/writer" '^executed [0-9]+ of'
}

# A member forgets its tokens when it starts again.
token_is_renewed() {
	writer_start -u "$tmp/user" write fleet/renewed && etcd_member_end 0 &&
		etcd_member_start 0 1 && writes && writer_ends_well
}

# Until then no user is asked for; the writer has one.
users_come_and_go() {
	etcd_ctl --user root:top auth disable && writer_start -u "$tmp/user" write fleet/off &&
		etcd_ctl auth enable && writes && etcd_ctl --user root:top auth disable && writes &&
		writer_ends_well
}

certificates_make() {
	authority ca && authority strangers && certificate ca server && certificate ca member &&
		certificate strangers stranger
}

trusted=(-c "$tmp/ca.pem" -C "$tmp/member.pem" -K "$tmp/member.key")

tls_starts() {
	etcd_start 1 --cert-file "$tmp/server.pem" --key-file "$tmp/server.key" \
		--trusted-ca-file "$tmp/ca.pem" --client-cert-auth
	endpoints=https://127.0.0.1:$port
	wait_until "$DEADLINE_S" etcd_works "${trusted[@]}"
}

tls_refuses() {
	local refused="TLS failed|may have refused this host's certificate"
	local http="etcd at http://127.0.0.1:$port: .*https:// in its URL"
	says_client 1 'TLS failed: SSL certificate problem.*correct the CA' get up &&
		says_client 1 'TLS failed: SSL certificate problem' -c "$tmp/strangers.pem" \
			-C "$tmp/member.pem" -K "$tmp/member.key" get up &&
		says_client 1 "$refused" -c "$tmp/ca.pem" get up &&
		says_client 1 "$refused" -c "$tmp/ca.pem" -C "$tmp/stranger.pem" \
			-K "$tmp/stranger.key" get up &&
		says_client 1 "it is not the certificate's" -c "$tmp/ca.pem" \
			-C "$tmp/member.pem" -K "$tmp/stranger.key" get up &&
		endpoints=http://127.0.0.1:$port says_client 1 "$http" get up &&
		endpoints=https://localhost:$port says_client 1 'TLS failed: .*localhost' \
			"${trusted[@]}" get up
}

# Sets leader to the number of the member that leads, as each member says.
leader_is_known() {
	local said
	said=$(client_of_etcd -t 1000 status)
	[[ $said =~ 127.0.0.1:([0-9]+)\ version\ [0-9.]+\ leader ]] || return 1
	leader=$((BASH_REMATCH[1] - port))
}

leader=
leader_is_killed() {
	wait_until "$DEADLINE_S" leader_is_known && etcd_member_end "$leader" && writes &&
		etcd_member_start "$leader" 3 && writes
}

leader_is_stopped() {
	wait_until "$DEADLINE_S" leader_is_known && kill -STOP "${etcd_pids[$leader]}" && writes &&
		kill -CONT "${etcd_pids[$leader]}" && writes
}

# Then one transaction at least has no known outcome.
all_are_stopped() {
	kill -STOP "${etcd_pids[@]}" && says_client 1 'in time: it is stopped' -t 500 get up &&
		await_line "$tmp/writer" '^unknown: .*does not answer in time' "$writer" &&
		kill -CONT "${etcd_pids[@]}" && writes
}

check "an etcd starts" ports_choose
etcd_start 1
check "and works" wait_until "$DEADLINE_S" etcd_works || { tail -n 20 "$tmp/etcd.0" && finish; }
check "keys are stored, compared and read" keys
check "transactions compare several keys, and have two branches" transactions
check "values of the size of a map fit" large_values_fit
check "leases are granted, kept alive and revoked" leases
check "a lease that nobody keeps alive ends, and its key with it" a_lease_ends
check "an endpoint says how it is" status_is_told
check "etcd gets users" users_make
check "they are asked for" users_are_asked
check "their file must be secret and whole" secrets_stay_secret
check "a token that etcd has forgotten is renewed" token_is_renewed
check "users are turned off and on" users_come_and_go
etcd_stop
check "there are certificates" certificates_make
check "an etcd with TLS works" tls_starts
check "certificates that do not fit are refused" tls_refuses
etcd_stop
etcd_start 3
check "an etcd of three starts" wait_until "$DEADLINE_S" etcd_works
check "transactions run" writer_start write fleet/faults
rounds=2
[ "${KVD_TEST_LONG:-0}" != 1 ] || rounds=20
for ((round = 1; round <= rounds; round++)); do
	check "its leader is killed, and comes back" leader_is_killed
	check "its leader is stopped, and goes on" leader_is_stopped
done
check "all are stopped, and go on" all_are_stopped
check "each transaction came out as said" writer_ends_well
etcd_stop
sed 's/^/      | /' "$tmp/results"
check "nobody is there" says_client 1 'start it, or correct its URL$' get up
finish
