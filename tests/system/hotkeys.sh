#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of kvctl hotkeys: of a zipfian load whose ranks are known the hottest keys are at the
# top; to look changes nothing; and those who can't be told are told why: of a server that does not
# evict, and a user who may not read.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

# Of `latest` the last record has rank 1, the one before it rank 2, and so on.
records=2000 operations=40000
[ "$device" = softnic ] || operations=10000
printf '%s\n' recordcount=$records operationcount=$operations fieldlength=10 insertorder=ordered \
	requestdistribution=latest readproportion=1 updateproportion=0 >"$tmp/workload"
load() {
	"$build/kvbench" load -a "$url" -P "$tmp/workload" >/dev/null &&
		"$build/kvbench" run -a "$url" -P "$tmp/workload" >/dev/null
}
# Counters of uses grow by chance, and clients report a sample. So the first key has a rank up to
# 20, whose uses are a twentieth of those of rank 1, which is among the ten; eight of them have one
# of the first 60.
ranks_are_right() {
	local key place=0 rank has_first='' hot=0
	while read -r _ key; do
		rank=$((records - ${key#user}))
		place=$((place + 1))
		echo "place $place: rank $rank"
		[ "$place" != 1 ] || [ "$rank" -le 20 ] || return 1
		[ "$rank" -gt 60 ] || hot=$((hot + 1))
		[ "$rank" != 1 ] || has_first=1
	done < <(kvctl hotkeys | sed -n 's/^ *\([0-9][0-9]*\) .*%  \(user\)/\1 \2/p')
	[ "$place" = 10 ] && [ -n "$has_first" ] && [ "$hot" -ge 8 ]
}
looking_is_no_use() {
	kvctl hotkeys --top 100 >"$tmp/first" && kvctl scan >/dev/null &&
		kvctl hotkeys --top 100 >"$tmp/second" && cmp "$tmp/first" "$tmp/second"
}
# A quarter of the memory is added in between.
uses_have_an_age() {
	local keys i
	kvctl put before-others x && kvctl put ageless x && head -c 1m /dev/zero >"$tmp/much" &&
		for i in 1 2 3 4 5; do kvctl put "much $i" <"$tmp/much" || return 1; done &&
		kvctl get ageless >/dev/null &&
		keys=$(kvctl hotkeys --json) &&
		[[ $keys =~ \"before-others\",\ \"uses\":\ 0,\ \"age\":\ ([0-9]+) ]] &&
		[ "${BASH_REMATCH[1]}" -ge 25 ] &&
		[[ $keys =~ \"ageless\",\ \"uses\":\ ([0-9]+),\ \"age\":\ ([0-9]+) ]] &&
		[ "${BASH_REMATCH[1]}" -ge 1 ] && [ "${BASH_REMATCH[2]}" = 0 ]
}

check "a server that counts uses starts" server_start -o memory.size=64m \
	-o memory.access_rate=4 || finish
check "a zipfian load" load
check "its hottest keys are at the top" ranks_are_right
check "looking at them is no use of them" looking_is_no_use
check "how much the server knows" expect 0 "^$records keys; .* one in 4 hits" hotkeys
check "a sample" expect 0 '^100 keys, a sample; ' hotkeys --samples 100
check "of a prefix and a pattern" expect 0 '"keys": 10, "all": true.*"uses": ' \
	hotkeys --json --match '*199?' user
check "what is pinned is counted apart" eval 'kvctl -p 60 put pinned x && expect 0 \
	"1 keys are pinned or of low priority" hotkeys pin'
check "it ends" server_stop

# Each use is reported: one is enough.
check "a small server starts" server_start -o memory.size=16m -o memory.access_rate=1
check "how much was added since the last use" uses_have_an_age
check "it ends" server_stop

check "a server that does not evict starts" server_start -o memory.size=64m -o memory.eviction=none
check "says so, and what helps" expect 70 'does not evict.*memory.eviction = object-hits' hotkeys
check "it ends" server_stop

if [ "$device" = softnic ]; then
	printf '%s\n' '[user me]' "uid = $(id -u)" 'rights = scan write' >"$tmp/users"
	check "a server with a user who may not read starts" server_start -o memory.size=64m \
		-o "users.file=$tmp/users"
	check "the user may scan" expect 0 '^$' scan
	check "is not told what others read" expect 77 "has no right 'read'" hotkeys
fi
finish
