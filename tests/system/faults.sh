#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of a server whose device fails: of a server that is started, used and stopped, the
# N-th call of each kind fails. It ends with status 1 and an error in its log, or does what its
# clients ask for (tests/system/sys_faults.c), and stops. A worker polls, so of calls that poll only
# some fail; of all calls the first ones, of each in the long form, without sanitizers.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

if [ "$device" != softnic ]; then
	echo "only softnic has a fault plan"
	exit 77
fi
calls=6
if [ "${KVD_TEST_LONG:-0}" = 1 ]; then
	calls=200
	[ "${KVD_FLAVOUR:-release}" = release ] || calls=20
fi
kinds=(open query alloc_pd reg_mr create_comp_channel create_cq create_srq modify_srq
	create_cm_channel listen create_qp modify_qp accept query_peer disconnect
	post_srq_recv post_send take_file read_file get_async_event cm_get_event get_cq_event
	req_notify_cq poll_cq)

# Whether the server is ready, or has ended.
# shellcheck disable=SC2317 # called by wait_until
settled() {
	server_is_up || ended "$server_pid"
}

# kind, N: 0 if all is well
one() {
	local -x KVD_SOFTNIC_FAULTS=fail=$1:$2
	local stopped
	log_start=$(($(log_lines) + 1))
	"$build/kvd" -c "$tmp/kvd.ini" -o memory.size=16m -o server.workers=1 \
		-o request.srq_depth=64 >>"$tmp/stderr" 2>&1 &
	server_pid=$!
	pids+=("$server_pid")
	wait_until "$DEADLINE_S" settled || return 1
	stopped=0
	if ! ended "$server_pid"; then
		unset KVD_SOFTNIC_FAULTS
		"$build/tests/system/sys_faults" "$url" || return 1
		kill -TERM "$server_pid" 2>/dev/null
		stopped=1
	fi
	await_end "$server_pid" || return 1
	forget "$server_pid"
	: >"$tmp/stderr"
	# By itself it ends with an error alone.
	if [ "$status" = 0 ]; then [ $stopped = 1 ]; else [ "$status" = 1 ] && logged ' error '; fi
}

# kind: each of its calls, until there are no more
each() {
	local n
	for ((n = 1; n <= calls; n++)); do
		if ! one "$1" "$n"; then
			echo "where $1 number $n fails (status ${status:-none}):"
			tail -n "+$log_start" "$log" | tail -n "$CHECK_LINES_SHOWN"
			ended "$server_pid" || server_kill
			return 1
		fi
		in_log "fault plan: $1 number $n fails" || break
	done
	[ "$n" -gt 1 ] || ! echo "it makes no such call"
}

for kind in "${kinds[@]}"; do
	check "$kind" each "$kind"
done
finish
