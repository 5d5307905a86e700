#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of a fleet under random faults: of members, of their clocks, of etcd and of clients,
# several at the same time, while clients whose histories are checked work. After each burst of
# faults the members have to serve all shards again. Items may be lost only if a member has lost its
# process, or its key in etcd, or if they were flushed.
#
# KVD_SEED draws the faults, KVD_TEST_FAULTS says how many there are, at least, and KVD_TEST_KINDS
# has their names, to find the cause of a failure: "pause rebalance leader_kill".
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/etcd_lib.sh
. tests/system/etcd_lib.sh
# shellcheck source=tests/system/fleet_lib.sh
. tests/system/fleet_lib.sh
MEMORY=128m
LEASE=2s
# shellcheck source=tests/system/fleet_etcd_lib.sh
. tests/system/fleet_etcd_lib.sh
# shellcheck source=tests/system/history_lib.sh
. tests/system/history_lib.sh
# shellcheck source=tests/system/fleet_faults_lib.sh
. tests/system/fleet_faults_lib.sh

faults_wanted=${KVD_TEST_FAULTS:-200}
[ -z "${KVD_TEST_KINDS:-}" ] || read -ra KEEPS <<<"$KVD_TEST_KINDS"
[ -z "${KVD_TEST_KINDS:-}" ] || LOSES=("${KEEPS[@]}")
members=(a b c d)
fleet=$(fleet_url_of "${members[@]}")
# Members of etcd that start again get snapshots.
ETCD_OPTIONS=(--snapshot-count 500 --heartbeat-interval 50 --election-timeout 500)
BURST_MIN=3 # faults
BURST_MAX=5
BURST_PAUSE_MS=300 # between them
CHAPTER_BURSTS=12 # with the same clients
KEPT=300	  # items
LINES_SHOWN=100
LOST_S=600	  # how long the controller counts a loss

bursts=0 heal_max_ms=0 rounds_lost=0 losses=0 shards_moved=0 kept_checks=0 generation=0
declare -A counts=() identities=() moved=() sums=()

# member: its process, and how often it has registered. It has lost no shards while they stay; nor
# if identities has none of it, as it left without shards.
identity_of() {
	echo "${server_pids[$1]} $(of "$1" stat_of fleet_registrations)"
}

# Draws faults, and what each is done to, from the array of that name.
burst_draw() {
	local -n from=$1
	local count name on tries=0
	local -A taken=()
	names=() ons=()
	draw $((BURST_MAX - BURST_MIN + 1))
	count=$((BURST_MIN + drawn))
	# Some kinds alone have too few targets.
	while [ ${#names[@]} -lt $count ] && ((tries++ < 100)); do
		draw ${#from[@]}
		name=${from[drawn]}
		on=${target[$name]}
		draw ${#members[@]}
		[ "$on" != member ] || on=${members[drawn]}
		[ -z "${taken[$on]:-}" ] || continue
		taken[$on]=1
		names+=("$name")
		ons+=("$on")
	done
}

faults_make() {
	local i
	for i in "${!names[@]}"; do
		sleep_about 0 $BURST_PAUSE_MS
		echo "$EPOCHREALTIME: ${names[i]} ${ons[i]}"
		"${names[i]}_begin" "${ons[i]}" || return 1
	done
	for i in "${!names[@]}"; do
		echo "$EPOCHREALTIME: end of ${names[i]} ${ons[i]}"
		"${names[i]}_end" "${ons[i]}" || return 1
		counts[${names[i]}]=$((${counts[${names[i]}]:-0} + 1))
		faults=$((faults + 1))
	done
}

# All members have a lease, and together they serve all shards, open to READs.
is_healed() {
	local rest open=0
	state_of_fleet
	for rest in "${members[@]}"; do
		[[ $state == *"\"id\":\"$rest\""* ]] || return 1
	done
	[[ $state == *'"served":'$SHARDS',"unowned":0,'* ]] || return 1
	[[ $state != *'"state":"away"'* && $state != *'"state":"nolease"'* ]] || return 1
	rest=$state
	while [[ $rest =~ '"open":'([0-9]+)(.*) ]]; do
		open=$((open + BASH_REMATCH[1]))
		rest=${BASH_REMATCH[2]}
	done
	[ $open = $SHARDS ]
}

all_have_started() {
	local member
	for member in "${!down[@]}"; do
		starts "$member"
	done
	[ ${#down[@]} = 0 ]
}

heals() {
	local begin now
	boot_clock begin
	wait_until "$DEADLINE_S" all_have_started || return 1
	wait_until "$DEADLINE_S" is_healed || { echo "$state" && return 1; }
	boot_clock now
	now=$(((now - begin) * 10))
	[ $now -le $heal_max_ms ] || heal_max_ms=$now
	history_goes_on
}

# Sets lost to whether a member may have lost its shards since the last time. Counts, too.
members_look() {
	local member now shards
	lost=
	for member in "${members[@]}"; do
		now=$(identity_of "$member")
		shards=$(of "$member" stat_of fleet_moved_shards)
		[ "${now% *}" = "${moved[$member]%:*}" ] || moved[$member]=$now:0
		shards_moved=$((shards_moved + shards - ${moved[$member]#*:}))
		moved[$member]=${now% *}:$shards
		if [ "$now" != "${identities[$member]:-$now}" ]; then
			echo "$member is $now, was ${identities[$member]}"
			lost=1
			losses=$((losses + 1))
		fi
		identities[$member]=$now
	done
}

kept_put() {
	"$build/kvctl" -a "$fleet" <"$tmp/kept.put"
}

kept_store() {
	local i
	generation=$((generation + 1))
	for ((i = 0; i < KEPT; i++)); do
		echo "$generation.$i" >&3
		echo "put kept:$i $generation.$i" >&4
		echo "get kept:$i" >&5
	done 3>"$tmp/kept" 4>"$tmp/kept.put" 5>"$tmp/kept.get"
	wait_until "$DEADLINE_S" kept_put
}

# Fails if a member was away: the machine may be so busy that leases end without a fault.
kept_get() {
	"$build/kvctl" -a "$fleet" <"$tmp/kept.get" >"$tmp/kept.now"
	[ $? -le 1 ]
}

# Items are lost only with a reason.
losses_are_right() {
	local rounds
	wait_until "$DEADLINE_S" kept_get || return 1
	rounds=$(grep -c '^lost ' "$history_out")
	members_look
	[[ " ${names[*]} " != *' flush '* ]] || lost=1
	rounds_lost=$((rounds_lost + rounds - rounds_before))
	if [ -n "$lost" ]; then
		rounds_before=$rounds
		kept_store
		return
	fi
	[ "$rounds" = "$rounds_before" ] ||
		{ echo "$((rounds - rounds_before)) rounds lost items" && return 1; }
	kept_checks=$((kept_checks + KEPT))
	diff "$tmp/kept" "$tmp/kept.now"
}

# The controller forgets losses, which would keep it from giving shards away.
losses_are_forgotten() {
	sys_clocks day $((LOST_S + 1)) "${clocks[@]}"
}

burst() {
	faults_make && heals && losses_are_right && losses_are_forgotten
}

history_begins() {
	draw 30000
	history_of=("$fleet" 0 $drawn losses)
	rounds_before=0
	with_clocks "${clocks[clients]}" history_start
}

# Adds what the clients did to sums: the numbers in their last lines.
history_sum() {
	local line name
	while read -r line; do
		[[ $line =~ ^[0-9]+\ rounds ]] || continue
		while [[ $line =~ ^([0-9]+)\ ([a-z ]+)(, |$)(.*) ]]; do
			name=${BASH_REMATCH[2]}
			sums[$name]=$((${sums[$name]:-0} + BASH_REMATCH[1]))
			line=${BASH_REMATCH[4]}
		done
		while [[ $line =~ ^([a-z_ ]+)\ ([0-9]+)(, |$)(.*) ]]; do
			name=${BASH_REMATCH[1]}
			sums[$name]=$((${sums[$name]:-0} + BASH_REMATCH[2]))
			line=${BASH_REMATCH[4]}
		done
	done <"$history_out"
}

chapter() {
	local i j kind what
	check "clients begin" history_begins || return 1
	for ((i = 0; i < CHAPTER_BURSTS && faults < faults_wanted; i++)); do
		bursts=$((bursts + 1))
		draw 2
		kind=KEEPS
		[ $drawn = 0 ] || kind=LOSES
		burst_draw $kind
		what=
		for j in "${!names[@]}"; do
			what+="${what:+, }${names[j]} ${ons[j]}"
		done
		check "$bursts: $what" burst || return 1
	done
	check "clients saw nothing wrong" history_end && history_sum
}

members_begin() {
	local member
	for member in "${members[@]}" clients; do
		clocks[$member]=$tmp/clocks.$member
	done
	sys_clocks rate 0 "${clocks[@]}"
	fleet_make demo || return 1
	fleet_options+=(-o log.level=info)
	for member in "${members[@]}"; do
		starts "$member" || return 1
	done
	wait_until "$DEADLINE_S" all_have_started || return 1
	wait_until "$DEADLINE_S" is_healed || return 1
	for member in "${members[@]}"; do
		identities[$member]=$(identity_of "$member")
		moved[$member]=${server_pids[$member]}:0
	done
	kept_store && victim_starts victim
}

RANDOM=$seed
check "an etcd starts" ports_choose
etcd_start $ETCDS "${ETCD_OPTIONS[@]}"
check "and works" wait_until "$DEADLINE_S" etcd_works || { tail -n 20 "$tmp/etcd.0" && finish; }
check "a fleet starts" members_begin || finish
while [ $faults -lt "$faults_wanted" ] && chapter; do
	:
done
if [ "$failures" != 0 ]; then
	grep -Ev '^(round|[0-9]+ ms, level) ' "$history_out" | tail -n $LINES_SHOWN
	tail -n $LINES_SHOWN "$tmp"/log.?
fi
for name in "${!counts[@]}"; do
	echo "counted: fault $name ${counts[$name]}"
done
for name in "${!sums[@]}"; do
	echo "counted: $name ${sums[$name]}"
done
echo "counted: faults of a fleet $faults"
echo "counted: shards moved $shards_moved"
echo "$bursts bursts, seed $seed: $losses members may have lost shards, $rounds_lost rounds lost"
echo "items, $kept_checks others were all there; healed after $heal_max_ms ms at most"
check "the members stop" members_stop "${members[@]}"
etcd_stop
finish
