#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of tenants: each has keys, memory, eviction, scans, flushes and statistics of its own,
# and what happens to one is not noticed in another.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

# tenant, arguments...: kvctl in that tenant
in_tenant() {
	local tenant=$1
	shift
	kvctl --tenant "$tenant" "$@"
}

# tenant, value: whether `key` has it
has() {
	local got
	got=$(in_tenant "$1" get key) && [ "$got" = "$2" ] && return 0
	echo "in $1 the key has: $got"
	return 1
}

# tenant, name: prints the statistic
tenant_stat() {
	in_tenant "$1" stats | sed -n "s/^$2 //p"
}

same_key_other_values() {
	kvctl put key default && in_tenant alpha put key A && in_tenant beta put key B &&
		has default default && has alpha A && has beta B && expect 0 '^default' get key
}

one_is_flushed() {
	in_tenant alpha flush && ! in_tenant alpha get key && has default default && has beta B
}

# Each scan finds the keys of its own tenant alone.
scans() {
	in_tenant alpha put only-alpha 1 && in_tenant beta put only-beta 1 &&
		[ "$(in_tenant alpha scan)" = only-alpha ] &&
		[ "$(in_tenant beta scan | sort | tr '\n' ' ')" = "key only-beta " ] &&
		[ "$(kvctl scan)" = key ]
}

# Stores more than alpha holds; beta and default have not lost an item, nor a byte.
alpha_is_filled() {
	local beta_before beta_after
	beta_before=$(tenant_stat beta item_memory_live_bytes)
	head -c 400000 /dev/zero | tr '\0' x >"$tmp/value"
	for i in $(seq 80); do
		in_tenant alpha put "fill-$i" <"$tmp/value" || return 1
	done
	beta_after=$(tenant_stat beta item_memory_live_bytes)
	echo "alpha evicted $(tenant_stat alpha evictions), beta $(tenant_stat beta evictions)"
	[ "$(tenant_stat alpha evictions)" -gt 0 ] && [ "$(tenant_stat beta evictions)" = 0 ] &&
		[ "$(kvctl stats | sed -n 's/^evictions //p')" = 0 ] &&
		[ "$beta_before" = "$beta_after" ] && has beta B && has default default
}

# Without eviction: no space in one, and all in the others goes on.
no_space() {
	local failed=0
	for i in $(seq 80); do
		in_tenant alpha put "fill-$i" <"$tmp/value" 2>"$tmp/said" && continue
		failed=1
		break
	done
	cat "$tmp/said"
	[ $failed = 1 ] && grep -q 'memory is full' "$tmp/said" &&
		in_tenant beta put more <"$tmp/value" && kvctl put more <"$tmp/value"
}

# What a tenant's clients see of the server is about their own store.
own_statistics() {
	in_tenant alpha stats >"$tmp/stats" || return 1
	grep -qx 'tenant alpha' "$tmp/stats" && grep -qx 'region_bytes 16777216' "$tmp/stats" &&
		! grep -Eq '^(connections|requests|tenants|worker\.turns) ' "$tmp/stats" &&
		kvctl stats >"$tmp/stats" && grep -qx 'tenant default' "$tmp/stats" &&
		grep -qx 'tenants 3' "$tmp/stats" &&
		grep -qx 'tenants_bytes 33554432' "$tmp/stats" &&
		grep -q '^connections ' "$tmp/stats"
}

# A large value is pulled into the memory of its tenant, and READ from there.
large_values() {
	head -c 1000000 /dev/urandom >"$tmp/large"
	in_tenant beta put large <"$tmp/large" && in_tenant beta get large | cmp - "$tmp/large" &&
		in_tenant beta -r get large | cmp - "$tmp/large" && ! in_tenant alpha get large &&
		! kvctl get large
}

by_environment() {
	local got
	got=$(KVD_TENANT=beta kvctl get key) && [ "$got" = B ] &&
		[ "$(KVD_TENANT=beta kvctl --tenant default get key)" = default ]
}

unknown() {
	local said
	said=$(in_tenant gamma get key 2>&1)
	[ $? = 69 ] && grep -q 'there is no tenant gamma' <<<"$said" && return 0
	echo "$said"
	return 1
}

sized_wrong() {
	local said
	said=$("$build/kvd" -c "$tmp/kvd.ini" --check-config -o tenants.memory=16m \
		-o tenants.create=a:16m,b:16m 2>&1) && return 1
	grep -q 'tenants.create needs 33554432 bytes, and tenants.memory has 16777216' <<<"$said"
}

check "tenants that need more than there is are refused" sized_wrong
check "the server starts with two tenants" server_start -o memory.eviction=lru \
	-o tenants.memory=32m -o tenants.create=alpha:16m,beta:16m || finish
check "the same key has another value in each" same_key_other_values
check "a flush of one leaves the others" one_is_flushed
check "a scan is of one" scans
check "one evicts, and the others do not" alpha_is_filled
check "a large value is in one" large_values
check "statistics are of one" own_statistics
check "the environment names one" by_environment
check "one that is not there is refused" unknown
check "the server stops" server_stop

check "the server starts without eviction" server_start -o memory.eviction=none \
	-o tenants.memory=32m -o tenants.create=alpha:16m,beta:16m || finish
check "one is full, and the others are not" no_space
check "the server stops" server_stop
finish
