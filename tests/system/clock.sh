#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of a host whose time of day is set, or goes too fast or too slow, while clients work:
# nothing of kvd's follows it. Keys expire by the hardware's time, versions grow, no connection is
# lost. Only in the machine of tests/vm/run, since it is the host's clock.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/history_lib.sh
. tests/system/history_lib.sh

if [ ! -e /run/kvd-vm-command ]; then
	echo "it sets the time of day, which only the machine of tests/vm/run is for"
	exit 77
fi

HOUR=3600
DAY=86400
# Microseconds of a clock that goes right at 10000: 10 %, the most that the kernel allows.
FAST=11000
SLOW=9000
steps="$HOUR -$DAY"
slews=$FAST
if [ "${KVD_TEST_LONG:-0}" = 1 ]; then
	steps="$HOUR -$HOUR $DAY -$DAY $HOUR"
	slews="$FAST $SLOW $FAST $SLOW"
fi
MORTAL_S=600 # more than a step and its checks take, less than a step
version=0

sys_clock() {
	"$build/tests/system/sys_clock" "$@"
}

# Prints the seconds of CLOCK_BOOTTIME, which nobody sets; in a slew it is as wrong as the others.
uptime_s() {
	local seconds
	read -r seconds _ </proc/uptime
	echo "${seconds%.*}"
}

# Whether a PUT gets a higher version than the last one.
version_grows() {
	local got
	kvctl put versioned value && got=$(kvctl -v get versioned 2>&1 | grep -Eo '[0-9]{6,}') ||
		return 1
	echo "after $version: $got"
	[ "$got" -gt "$version" ] && version=$got
}

# Keys that expire: one in an hour, one with its whole life before it.
none_expired() {
	expect 0 '^value$' get hourly && expect 0 '^value$' get mortal && version_grows
}

# seconds: the clock is moved; keys that expire stay
steps() {
	local before
	kvctl -e $MORTAL_S put mortal value || return 1
	before=$EPOCHSECONDS
	sys_clock step "$1" && is_moved $((EPOCHSECONDS - before)) "$1" && none_expired
}
is_moved() { # by, wanted
	[ "$1" -ge $(($2 - 60)) ] && [ "$1" -le $(($2 + 60)) ]
}

# A key whose time is over expires, though the clock was set back, and not before.
expires_in_time() {
	local begin
	begin=$(uptime_s)
	kvctl -e 3 put brief value && sys_clock step -$DAY &&
		wait_until "$DEADLINE_S" expect 1 'not found' get brief || return 1
	echo "after $(($(uptime_s) - begin)) s"
	[ $(($(uptime_s) - begin)) -ge 3 ]
}

# tick: none expires while the clients go on
slews() {
	kvctl -e $MORTAL_S put mortal value && sys_clock tick "$1" && history_goes_on &&
		none_expired
}

check "the server starts" server_start -o memory.size=256m -o memory.eviction=none || finish
check "clients work" history_start || finish
check "a key that expires in two hours" kvctl -e $((2 * HOUR)) put hourly value
for seconds in $steps; do
	fault "the clock is moved by $seconds s" steps "$seconds"
done
fault "a key expires in time, though the clock is set back by a day" expires_in_time
for ticks in $slews; do
	fault "a tick of the clock is $ticks us, not 10000" slews "$ticks"
done
check "it goes right" sys_clock tick 10000
history_judge
check "no connection was lost" stat_is connections_failed 0
check "nor taken for dead" stat_is connections_expired 0
check "the server stops" server_stop
finish
