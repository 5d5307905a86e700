# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The faults of tests/system/fleet_faults.sh: of members, of their clocks, of the fleet, of etcd and
# of clients. Each has a function NAME_begin and one NAME_end, which undoes it; both get what it is
# done to. To be sourced.

LEASE_MS=$((${LEASE%s} * 1000))
GIVEN_AWAY_S=15 # until others have the shards of a member that is away
LEAVES_S=60     # until a drained member has none: waits for that once in LEAVES
LEAVES=4
OUTAGE_MS=60000 # a long one, once in OUTAGES
OUTAGES=25
ETCDS=3
RATE_PPM_MAX=1900  # of a clock: two differ by less than 0.4 %
JUMP_MS=3600000
VICTIM_BYTES=200000
FLUSHED=40 # keys
CALL_SHORT_MS=5000
declare -A clocks=() freezers=() suspended_at=() victims=() down=()
declare -i drawn

# What a fault is done to: at most one at a time to each member, to etcd...
declare -A target=(
	[kill]=member [kill_late]=member [stop]=member [leave]=member [pause]=member
	[freeze]=member [suspend]=member [hang]=member [rate]=member [jump]=member
	[key]=member [drain]=member
	[rebalance]=fleet [undrain]=fleet [flush]=fleet
	[leader_kill]=etcd [leader_pause]=etcd [follower_kill]=etcd [compact]=etcd
	[outage]=etcd [etcds_kill]=etcd
	[victim]=victim [clients_freeze]=clients [clients_suspend]=clients [clients_rate]=clients
)
# No item may be lost by these, however many there are at the same time.
KEEPS=(pause pause rate jump drain drain leave rebalance undrain undrain leader_kill leader_pause
	follower_kill compact outage etcds_kill victim victim clients_freeze clients_suspend
	clients_rate hang)
LOSES=("${KEEPS[@]}" kill kill kill kill_late kill_late stop stop freeze freeze suspend suspend
	key key hang hang flush flush)

# number: sets drawn to one below it
draw() {
	drawn=$(((RANDOM * 32768 + RANDOM) % $1))
}

# milliseconds
sleep_ms() {
	local seconds
	printf -v seconds '%d.%03d' $(($1 / 1000)) $(($1 % 1000))
	read -rt "$seconds" -u "$silent"
}

# least, more: sleeps for that many milliseconds, and for a random part of the second number
sleep_about() {
	draw "$2"
	sleep_ms $(($1 + drawn))
}

# What may fail, since members are away.
try() {
	"$build/kvctl" -a "$fleet" -t $CALL_SHORT_MS "$@"
}

# Members.

sys_clocks() {
	"$build/tests/system/sys_clocks" "$@"
}

# file, command...: runs it with these clocks
with_clocks() {
	local file=$1
	shift
	KVD_TEST_CLOCKS=$file LD_PRELOAD=$build/tests/support/preload_clock.so "$@"
}

# member: starts it, now or when etcd is there again
starts() {
	choose "$1"
	[ ! -e "$log" ] || cat "$log" >>"$log.before"
	: >"$log"
	if with_clocks "${clocks[$1]}" member_start "$1"; then
		unset "down[$1]"
	else
		grep -q "can't read the map" "$log" || return 1
		down[$1]=1
		: >"$tmp/stderr"
	fi
}

state_of_fleet() {
	state=$(try --json fleet status 2>&1)
	state=${state// /}
}

# Others have its shards, or may not get them.
is_given_away() {
	state_of_fleet
	[[ $state =~ \"id\":\"$1\"[^}]*\"shards\":0, || $state == *last10minutes* ]]
}

kill_begin() {
	is_killed "$1"
}
kill_end() {
	starts "$1"
}

kill_late_begin() {
	is_killed "$1"
}
kill_late_end() {
	[ -n "$etcd_away" ] || wait_until $GIVEN_AWAY_S is_given_away "$1"
	starts "$1"
}

stop_begin() {
	member_stop "$1" && unset "server_pids[$1]"
}
stop_end() {
	sleep_about 0 $((LEASE_MS * 3 / 2))
	starts "$1"
}

# The member leaves as it should: nothing is lost then.
leave_begin() {
	try fleet drain "$1" || :
}
is_drained() {
	state_of_fleet
	[[ $state =~ \"id\":\"$1\"[^}]*\"shards\":0,[^}]*\"drained\":true ]]
}
leave_end() {
	draw $LEAVES
	if [ $drawn = 0 ] && [ -z "$etcd_away" ]; then
		wait_until $LEAVES_S is_drained "$1"
	fi
	is_drained "$1" || return 0
	member_stop "$1" && unset "server_pids[$1]" "identities[$1]" && starts "$1"
}

pause_begin() {
	kill -STOP "${server_pids[$1]}"
}
pause_end() {
	sleep_about 0 $((LEASE_MS * 7 / 10))
	kill -CONT "${server_pids[$1]}"
}

freeze_begin() {
	kill -STOP "${server_pids[$1]}"
}
freeze_end() {
	sleep_about $LEASE_MS $((LEASE_MS * 3 / 2))
	kill -CONT "${server_pids[$1]}"
}

# pid, file of its clocks
suspend() {
	kill -STOP "$1" && boot_clock "suspended_at[$1]"
}
# The clocks of a host that was suspended stood, but CLOCK_BOOTTIME.
resume() {
	local now
	boot_clock now
	sys_clocks stood $(((now - suspended_at[$1]) * 10)) "$2" && kill -CONT "$1"
}

suspend_begin() {
	suspend "${server_pids[$1]}"
}
suspend_end() {
	sleep_about 0 $((LEASE_MS * 2))
	resume "${server_pids[$1]}" "${clocks[$1]}"
}

# A thread stands: that of the lease, one that copies, or a worker.
hang_begin() {
	local threads=(fleet fleet mover worker-0 worker-1 maintenance)
	draw ${#threads[@]}
	choose "$1"
	freeze "${threads[drawn]}" && freezers[$1]=$freezer
}
hang_end() {
	sleep_about 0 $((LEASE_MS * 2))
	freezer=${freezers[$1]}
	thaw
}

# sign, 0 or 1
rate_draw() {
	draw $((2 * RATE_PPM_MAX + 1))
	drawn=drawn-RATE_PPM_MAX
}

rate_begin() {
	rate_draw
	sys_clocks rate $drawn "${clocks[$1]}"
}
rate_end() {
	:
}

jump_begin() {
	draw $JUMP_MS
	sys_clocks slept $drawn "${clocks[$1]}"
}
jump_end() {
	:
}

# Whoever does it: an operator, or an etcd that revokes what was kept alive.
key_begin() {
	etcd_try del "/kvd/demo/members/$1" || :
}
key_end() {
	:
}

drain_begin() {
	try fleet drain "$1" || :
}
drain_end() {
	draw 2
	[ $drawn = 0 ] || try fleet undrain "$1" || :
}

# The fleet.

rebalance_begin() {
	try fleet rebalance || :
}
rebalance_end() {
	:
}

undrain_begin() {
	local member
	for member in "${members[@]}"; do
		try fleet undrain "$member" || :
	done
}
undrain_end() {
	try fleet rebalance || :
}

# What was there before is not there after it.
flush_begin() {
	local keys got
	printf -v keys 'flushed:%s ' $(seq $FLUSHED)
	for key in $keys; do echo "put $key x"; done | try
	try flush || return 0
	got=$(for key in $keys; do echo "get $key"; done | try 2>/dev/null)
	[ -z "$got" ] || { echo "after a flush: $got" && return 1; }
}
flush_end() {
	:
}

# etcd.

etcd_try() {
	etcdctl --endpoints "$endpoints" --command-timeout=5s "$@"
}

# number
etcd_again() {
	etcd_member_start "$1" $ETCDS "${ETCD_OPTIONS[@]}"
}

# Sets etcd_victim to the number of the leader, if there is one.
etcd_leader_choose() {
	local line
	etcd_victim=0
	while read -r line; do
		[[ ! $line =~ :([0-9]+)' '.*' leader ' ]] || etcd_victim=$((BASH_REMATCH[1] - port))
	done < <(client_of_etcd -t 500 status)
}

leader_kill_begin() {
	etcd_leader_choose
	etcd_member_end $etcd_victim
}
leader_kill_end() {
	etcd_again $etcd_victim
}

leader_pause_begin() {
	etcd_leader_choose
	kill -STOP "${etcd_pids[$etcd_victim]}"
}
leader_pause_end() {
	sleep_about 0 $((LEASE_MS * 2))
	kill -CONT "${etcd_pids[$etcd_victim]}"
}

follower_kill_begin() {
	etcd_leader_choose
	etcd_victim=$(((etcd_victim + 1) % ETCDS))
	etcd_member_end $etcd_victim
}
follower_kill_end() {
	sleep_about 0 $LEASE_MS
	etcd_again $etcd_victim
}

compact_begin() {
	local revision
	revision=$(etcd_try get none -w fields | sed -n 's/^"Revision" : //p')
	[ -z "$revision" ] || etcd_try compact "$revision" || :
}
compact_end() {
	etcd_try defrag || :
}

etcd_away=
outage_begin() {
	etcd_away=1
	kill -STOP "${etcd_pids[@]}"
}
outage_end() {
	draw $OUTAGES
	[ $drawn != 0 ] || sleep_ms $OUTAGE_MS
	sleep_about $LEASE_MS $((LEASE_MS * 2))
	kill -CONT "${etcd_pids[@]}"
	etcd_away=
}

etcds_kill_begin() {
	local i
	etcd_away=1
	for ((i = 0; i < ETCDS; i++)); do
		etcd_member_end $i || return 1
	done
}
etcds_kill_end() {
	local i
	sleep_about 0 $((LEASE_MS * 2))
	for ((i = 0; i < ETCDS; i++)); do
		etcd_again $i
	done
	etcd_away=
}

# Clients.

victim_starts() { # number
	SYS_TIMEOUT_MS=$CALL_SHORT_MS client_start "victims[$1]" "$tmp/victim.$1" loop \
		"$fleet" mix "victim:$1" $VICTIM_BYTES 0
}

# A client is killed while it stores, or READs, a large value. Others have ended, as they found a
# member away.
victim_begin() {
	ended "${victims[$1]}" || kill -KILL "${victims[$1]}"
	await_end "${victims[$1]}" && forget "${victims[$1]}" && ! grep wrong "$tmp/victim.$1"
}
victim_end() {
	victim_starts "$1"
}

clients_freeze_begin() {
	kill -STOP "$history_pid"
}
clients_freeze_end() {
	sleep_about 0 $((LEASE_MS * 2))
	kill -CONT "$history_pid"
}

clients_suspend_begin() {
	suspend "$history_pid"
}
clients_suspend_end() {
	sleep_about 0 $((LEASE_MS * 2))
	resume "$history_pid" "${clocks[clients]}"
}

clients_rate_begin() {
	rate_draw
	sys_clocks rate $drawn "${clocks[clients]}"
}
clients_rate_end() {
	:
}
