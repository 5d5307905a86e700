#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of tenants: each has keys, memory, eviction, scans, flushes and statistics of its own,
# and what happens to one is not noticed in another.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
ATTACKS=9 # of three runs of sys_tenants
FILLS=20  # values of 1 MB: more than a tenant of 16 MiB holds
ROUNDS=10
KEYS=10
! brief || ROUNDS=1
[ "${KVD_TEST_LONG:-0}" != 1 ] || { ROUNDS=20 && KEYS=30; }

# Administrators come by the Unix socket.
admin_url=softnic://$tmp/s
[ "$device" = softnic ] || config_write "$url, $admin_url"

# arguments...: kvctl of an administrator
admin() {
	local url=$admin_url
	kvctl "$@"
}

# As expect, of an administrator.
expect_admin() {
	local url=$admin_url
	expect "$@"
}

# tenant...: each has 16 MiB
created() {
	local tenant
	for tenant in "$@"; do
		admin tenant create "$tenant" 16m || return 1
	done
}

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
	head -c 1000000 /dev/zero | tr '\0' x >"$tmp/value"
	for i in $(seq $FILLS); do
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
	for i in $(seq $FILLS); do
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

# A range of it is READ there, too.
ranges() {
	local range
	for range in 65530:10 123456:300000 999990:100; do
		in_tenant beta get --range $range large >"$tmp/got" &&
			tail -c +$((${range%:*} + 1)) "$tmp/large" | head -c "${range#*:}" |
			cmp - "$tmp/got" || return 1
	done
	expect 1 'not found' --tenant alpha get --range 0:1 large &&
		expect 1 'not found' get --range 0:1 large &&
		expect 69 'there is no tenant gamma' --tenant gamma get --range 0:1 large
}

by_environment() {
	local got
	got=$(KVD_TENANT=beta kvctl get key) && [ "$got" = B ] &&
		[ "$(KVD_TENANT=beta kvctl --tenant default get key)" = default ]
}

unknown() {
	local said
	said=$(in_tenant gamma get key 2>&1)
	[ $? = 69 ] && grep -q 'there is no tenant gamma; --tenant, ' <<<"$said" && return 0
	echo "$said"
	return 1
}

# Names and sizes that are not allowed, with why; nothing of them is left.
wrong_commands() {
	expect_admin 2 'there is already a tenant alpha' tenant create alpha 16m &&
		expect_admin 70 '64 MiB wanted, 48 MiB of tenants.memory .80 MiB. are free' \
			tenant create gamma 64m &&
		expect_admin 70 'has 1 to 24 letters' tenant create 'a b' 16m &&
		expect_admin 70 'has 1 to 24 letters' tenant create default 16m &&
		expect_admin 70 'a tenant has 16m to 512g' tenant create gamma 15m &&
		expect_admin 70 'exists as long' tenant drop default &&
		expect_admin 70 'this connection is in the tenant' \
			--tenant alpha tenant drop alpha &&
		expect_admin 1 'not found' tenant drop gamma &&
		expect_admin 70 'the old and the new store exist together' \
			tenant resize beta 64m &&
		stat_is tenants_bytes 33554432
}

# Dropped while a client works in it: that client alone loses its connection, and what it had.
dropped() {
	local busy
	client_start busy "$tmp/busy" loop "$url" mix busy 100 1000 &&
		await_line "$tmp/busy" '^looping' "$busy" || return 1
	KVD_TENANT=gamma client_start inside "$tmp/inside" loop "$url" mix inside 100 1000 &&
		await_line "$tmp/inside" '^looping' "$inside" || return 1
	admin tenant list | grep -Eq '^name=gamma .* connections=[1-9]' || return 1
	expect_admin 0 '^$' tenant drop gamma && unknown && ! ended "$busy" && has beta B &&
		! admin tenant list | grep gamma &&
		kill -KILL "$busy" "$inside" && await_end "$busy" && forget "$busy" &&
		await_end "$inside" && forget "$inside"
}

descriptors() {
	find "/proc/$server_pid/fd" -mindepth 1 | wc -l
}

mappings() {
	grep -c . "/proc/$server_pid/maps"
}

has_sanitizer() {
	case $build in
	*/asan | */tsan) ;;
	*) return 1 ;;
	esac
}

# Created, used and dropped again and again beside a client that works: all comes back. A sanitizer
# has memory of its own, which grows with what the server once had.
again_and_again() {
	local busy before_fds before_maps before_rss rss
	admin tenant create gamma 16m && admin tenant drop gamma || return 1
	client_start busy "$tmp/busy" loop "$url" mix busy 100 1000 &&
		await_line "$tmp/busy" '^looping' "$busy" || return 1
	before_fds=$(descriptors)
	before_maps=$(mappings)
	before_rss=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$server_pid/status")
	for i in $(seq $ROUNDS); do
		admin tenant create "t$i" 16m && in_tenant "t$i" put key "$i" || return 1
		[ "$(in_tenant "t$i" get key)" = "$i" ] && admin tenant drop "t$i" || return 1
	done
	rss=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$server_pid/status")
	echo "descriptors $before_fds $(descriptors), mappings $before_maps $(mappings)," \
		"resident KiB $before_rss $rss"
	! ended "$busy" && stat_is tenants 3 && stat_is tenants_bytes 33554432 &&
		[ "$(descriptors)" -le $((before_fds + 2)) ] &&
		{ has_sanitizer || { [ "$(mappings)" -le $((before_maps + 10)) ] &&
			[ "$rss" -le $((before_rss + 8192)) ]; }; } &&
		stat_is connections_failed 0 &&
		kill -KILL "$busy" && await_end "$busy" && forget "$busy"
}

# Larger and smaller: every key, with its version, flags and expiry time. Clients find it again.
resized() {
	local i size inside before after
	admin tenant create gamma 16m || return 1
	for i in $(seq $KEYS); do
		in_tenant gamma -f "$i" put "key-$i" "value-$i" || return 1
	done
	in_tenant gamma -e 1000 put expires soon && in_tenant gamma put large <"$tmp/large" ||
		return 1
	before=$(for i in 1 $((KEYS / 2)) $KEYS; do in_tenant gamma -v get "key-$i" 2>&1; done
		in_tenant gamma -v get expires 2>&1)
	KVD_TENANT=gamma client_start inside "$tmp/inside" loop "$url" mix inside 100 1000 &&
		await_line "$tmp/inside" '^looping' "$inside" || return 1
	for size in 32m 16m; do
		expect_admin 0 '^$' tenant resize gamma $size || return 1
		after=$(for i in 1 $((KEYS / 2)) $KEYS; do
				in_tenant gamma -v get "key-$i" 2>&1
			done
			in_tenant gamma -v get expires 2>&1)
		[ "$before" = "$after" ] || {
			printf '%s: was:\n%s\nis:\n%s\n' "$size" "$before" "$after"
			return 1
		}
		in_tenant gamma get large | cmp - "$tmp/large" &&
			[ "$(in_tenant gamma scan key- | wc -l)" = $KEYS ] && has beta B || return 1
	done
	! ended "$inside" && kill -KILL "$inside" && await_end "$inside" && forget "$inside" &&
		admin tenant drop gamma
}

gamma_is_empty() {
	expect 1 'not found' --tenant gamma get key
}

# seconds: gamma is resized before one of two flushes is due
flushes_wait() {
	admin tenant create gamma 16m && in_tenant gamma put key 1 &&
		in_tenant gamma flush 1000s && in_tenant gamma flush "$1s" &&
		admin tenant resize gamma 32m && [ "$(tenant_stat gamma flushes_waiting)" = 2 ]
}

# A flush that was promised is done, and may be cancelled until then, whatever the size is. Where
# resizing takes longer than the shorter flush waits, that waits longer in a second try.
flushed_after_resize() {
	flushes_wait 2 || { admin tenant drop gamma && flushes_wait 100; } || return 1
	wait_until "$DEADLINE_S" gamma_is_empty && in_tenant gamma put key 2 &&
		admin tenant resize gamma 16m && has gamma 2 &&
		[ "$(tenant_stat gamma flushes_waiting)" = 1 ] &&
		in_tenant gamma flush --cancel 1 &&
		[ "$(tenant_stat gamma flushes_waiting)" = 0 ] && admin tenant drop gamma
}

# What does not fit stays where it is.
too_small() {
	admin tenant create gamma 24m || return 1
	for i in $(seq 18); do # 18 MB
		in_tenant gamma put "fill-$i" <"$tmp/value" || return 1
	done
	expect_admin 70 'not all of its items fit, and nothing may be evicted' \
		tenant resize gamma 16m &&
		[ "$(in_tenant gamma scan | wc -l)" = 18 ] &&
		admin tenant list | grep -q '^name=gamma bytes=25165824 state=serves' &&
		in_tenant gamma put again 1 && [ "$(in_tenant gamma get again)" = 1 ] &&
		stat_is tenants_bytes 58720256
}

check "the server starts" server_start -o memory.eviction=object-hits -o tenants.memory=80m ||
	finish
check "two tenants are created" created alpha beta
check "the same key has another value in each" same_key_other_values
check_once "a flush of one leaves the others" one_is_flushed
check_once "a scan is of one" scans
check_once "one evicts, and the others do not" alpha_is_filled
check "a large value is in one" large_values
check_once "ranges of it are, too" ranges
check_once "statistics are of one" own_statistics
check_once "the environment names one" by_environment
check_once "what is not allowed is refused" wrong_commands
check "one is created" admin tenant create gamma 16m
check "one is dropped that is used" dropped
check "$ROUNDS are created and dropped beside a client" again_and_again
check_once "one is resized with all of its items" resized
check_once "flushes that wait outlive a resize" flushed_after_resize
checks_of "$build/tests/system/sys_tenants" "$url" alpha beta
checks_of "$build/tests/system/sys_tenants" "$url" '' beta
checks_of "$build/tests/system/sys_tenants" "$url" beta ''
check "each attack was counted" wait_until "$DEADLINE_S" stat_is access_errors $ATTACKS
check "one that is not there is refused" unknown
check "the server stops" server_stop

without_eviction() {
	check "the server starts without eviction" server_start -o memory.eviction=none \
		-o tenants.memory=96m || finish
	check "two tenants are created" created alpha beta
	check "one is full, and the others are not" no_space
	check "one that would lose items stays as it is" too_small
	check "the server stops" server_stop
}
brief || without_eviction

# What nothing would keep apart is not served.
check "the server starts without memory windows" server_start -o rdma.windows=no \
	-o tenants.memory=32m || finish
check "a tenant is created" created alpha
check "it says what that means" logged 'it serves the tenant default alone'
check "the tenant is not served" expect 69 'alpha is not served on this device' \
	--tenant alpha get key
check "default is" expect 0 '^$' put key value
check "the server stops" server_stop
finish
