#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of keys and revocation: a client that holds the true key of another connection, or of
# one that has ended, gets a remote access error and loses its connection, which is counted and
# logged; and `kvctl revoke` closes all connections of a client that never stops READing: none that
# it posts afterwards succeeds.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
ATTACKS=7 # of sys_keys attack

case $way in
softnic) who=uid=$(id -u) ;;
rdma+tls) who=identity=psk:$(cut -d: -f1 "$KVD_TLS_PSK") ;;
*) who=addr=$KVD_RDMA_ADDR ;;
esac

windows_are() { # yes or no
	[ "$(kvctl stats | sed -n 's/^device\.0\.windows //p')" = "$1" ]
}

# Each of them once, and nobody else.
attacks_are_counted() {
	stat_is access_errors $ATTACKS && stat_is connections_failed 0
}

attacks_are_logged() {
	[ "$(grep -c 'warn .* closed: its client .* READ with a key' "$log")" = $ATTACKS ]
}

# What a client without a name, or with another one, has to do with it: nothing.
others_stay() {
	expect 1 'not found' revoke identity=nobody && expect 1 'not found' revoke uid=4294967294 &&
		expect 1 'not found' revoke id=987654321 &&
		expect 1 'not found' revoke addr=192.0.2.1
}

check "the server starts" server_start || finish
check "each connection has a memory window" windows_are yes
check "a value" expect 0 '^$' put key value
check "what it holds is noted" held_note
checks_of "$build/tests/system/sys_keys" "$url" attack
check "each attack was counted" wait_until "$DEADLINE_S" attacks_are_counted
check "and logged, once" wait_until "$DEADLINE_S" attacks_are_logged
check "nothing is held for them" wait_until "$DEADLINE_S" nothing_is_held 1
checks_of "$build/tests/system/sys_keys" "$url" revoke "$who"
check "those that were revoked are counted" stat_is connections_revoked 3
check "and logged" logged "notice revoked $who, asked for by .*: 3 connections closed"
check "others are not concerned" others_stay
check "what says nobody is refused" \
	expect 70 "user=NAME, identity=NAME, uid=N, addr=ADDRESS or id=N" revoke x
check "the value is there" expect 0 '^value$' get key
check "nothing is held for those who were revoked" wait_until "$DEADLINE_S" nothing_is_held 1
check "the server stops" server_stop

# All by one key, as on a device without windows.
check "it starts without windows" server_start -o rdma.windows=no || finish
check "the log says so" logged 'one key for all'
check "there is none" windows_are no
check "a value" expect 0 '^$' put key value
checks_of "$build/tests/system/sys_keys" "$url" revoke "$who"
check "the value is there" expect 0 '^value$' get key
check "the server stops" server_stop
finish
