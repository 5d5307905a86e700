# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# A client of which the server reads a value, for tests of what others notice when it stops. To be
# sourced after lib.sh.

puller= # its pid

is_stopped() {
	local stat
	read -r stat <"/proc/$1/stat" && [[ ${stat##*) } == T* ]]
}

stopped_or_ended() {
	is_stopped "$1" || ended "$1"
}

# The client stops itself (SIGSTOP) while the server reads its value, and says in $tmp/puller why if
# it does not.
puller_stops() {
	: >"$tmp/puller"
	"$build/tests/system/sys_rogue" "$url" "$log" stop_in_pull >>"$tmp/puller" 2>&1 &
	puller=$!
	pids+=("$puller")
	wait_until "$DEADLINE_S" stopped_or_ended "$puller" && is_stopped "$puller" && return 0
	cat "$tmp/puller"
	return 1
}
