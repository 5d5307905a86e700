#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Searches the models of the fleet's rules in tests/fleet/ exhaustively: without a bug no assertion
# may fail, and with each planted bug one must. KVD_TEST_LONG=1: with larger bounds, too.
#
# Usage: tests/fleet_model.sh [PATTERN]    only searches whose line contains it, like BUG_NO_MARGIN
set -u
cd "$(dirname "$0")/fleet" || exit 1
models=$PWD
pattern=${1:-}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/kvd-fleet.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0 cases=0
TIMEFORMAT=%U

DEPTH=100000 # of a search: far above the longest path without a repeated state
MEMORY_MB=6000

for tool in spin gcc; do
	command -v "$tool" >/dev/null ||
		{ echo "$tool is not installed: make deps-test" && exit 77; }
done

fail() {
	echo "FAILED: $*"
	failed=1
}

# model, options: searches; what pan says is in $tmp/out
explore() {
	local model=$1
	shift
	(
		rm -f "$tmp"/pan* && cd "$tmp" && spin -a "$@" "$models/$model.pml" >spin &&
			gcc -O1 -w -DSAFETY -DCOLLAPSE -DNOREDUCE -DMEMLIM=$MEMORY_MB \
				-o pan pan.c &&
			{ time ./pan -m"$DEPTH" >out 2>&1; } 2>spent
	) || { cat "$tmp/spin"; fail "$model $* was not searched"; exit 1; }
}

# what the search found, model, options
report() {
	local found=$1 states seconds
	shift
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$tmp/out")
	seconds=$(cat "$tmp/spent")
	printf '  %-8s %12.0f states %7ss  %s\n' "$found" "$states" "$seconds" "$*"
}

wanted() {
	[[ "$*" == *"$pattern"* ]] || return 1
	cases=$((cases + 1))
}

# model, options: a search that must be complete and find nothing
holds() {
	wanted "$@" || return 0
	explore "$@"
	if grep -q 'errors: 0$' "$tmp/out" &&
		! grep -qE 'error:|not completed|too small|out of memory' "$tmp/out"; then
		report holds "$@"
	else
		report WRONG "$@"
		grep -E '^pan|error' "$tmp/out"
		fail "$*"
	fi
}

# bug, model, options: a search that must find it
finds() {
	local bug=BUG_$1
	shift
	wanted "$bug $*" || return 0
	explore "$@" "-D$bug"
	if grep -q 'assertion violated' "$tmp/out"; then
		report found "$bug" "$@"
	else
		report MISSED "$bug" "$@"
		fail "$bug is not found by $*"
	fi
}

long() {
	[ "${KVD_TEST_LONG:-0}" != 1 ] || "$@"
}

# Words, READs, failover, registration.
holds words -DEPOCHS=4
long holds words -DEPOCHS=5
long holds words -DEPOCHS=4 -DPUTS=2
for bug in NO_MARGIN LEASE_TRUSTED CONTROLLER_COMPARES_MAP EPOCH_IGNORED CLOCK_BEFORE_READ \
	 SERVER_IGNORES_END ASSIGNED_OPEN EXTENDS_BEFORE_DROP E_NOT_RAISED \
	LEASE_FROM_ANSWER SINCE_IGNORED; do
	finds $bug words -DEPOCHS=4
done
holds words -DRETURN -DEPOCHS=5
long holds words -DRETURN -DEPOCHS=6
long finds JUDGED_BY_NEW_MAP words -DRETURN -DEPOCHS=6
holds words -DPREDECESSOR -DEPOCHS=3
long holds words -DPREDECESSOR -DEPOCHS=4
for bug in SESSION_IGNORED EXTENDS_BY_ANY_KEY WAIT_FORGOTTEN; do
	finds $bug words -DPREDECESSOR -DEPOCHS=4
done
long finds NO_GRACE_PERIOD words -DPREDECESSOR -DEPOCHS=4

# A shard that moves with its items; flush.
holds move -DEPOCHS=4 -DPUTS=1
long holds move -DEPOCHS=5 -DPUTS=1
for bug in ANSWERS_WHILE_GIVING COPY_KEPT EPOCH_IGNORED E_NOT_STORED GIVEN_NOT_IN_ROW L_IGNORED \
	NO_GRACE_PERIOD REMOVAL_NOT_DIRTY TARGET_NOT_COMPARED UNCHANGED_MAP_IS_OUTCOME \
	VERSION_NOT_CARRIED; do
	finds $bug move -DEPOCHS=4 -DPUTS=1
done
finds COPY_NOT_OF_ROW move -DEPOCHS=5 -DPUTS=0
long finds OLD_ATTEMPT_COPIED move -DEPOCHS=5 -DPUTS=1
holds move -DFAILOVER -DEPOCHS=4 -DPUTS=0
finds HANDED_OVER_WAITING move -DFAILOVER -DEPOCHS=4 -DPUTS=0
holds move -DFLUSH -DEPOCHS=4 -DPUTS=0
for bug in FLUSH_ANSWERS_MAP FLUSH_WHILE_GIVING FLUSH_KEEPS_COPIES; do
	finds $bug move -DFLUSH -DEPOCHS=4 -DPUTS=0
done

# Order and exactly-once of changes.
holds order
long holds order -DTURNS=5 -DBREAKS=2
for bug in EXECUTED_REFUSED LATER_CHANGE_EXECUTED NEW_MAP_NOT_DRAINED REFUSALS_OF_CONNECTION \
	REFUSAL_NOT_DRAINED RESENT_ELSEWHERE UNKNOWN_RESENT; do
	finds $bug order
done

# The controller.
holds controller
for bug in LIMIT_IGNORED LOST_FORGOTTEN CONTROLLER_KEY_NOT_COMPARED NO_WAIT_AFTER_OUTAGE; do
	finds $bug controller
done

# Each planted bug has its search.
for bug in $(grep -oh 'BUG_[A-Z_]*' "$models"/*.pml | sort -u); do
	grep -qw "${bug#BUG_}" "$models/../fleet_model.sh" || fail "no search for $bug"
done

[ $cases != 0 ] || fail "no search contains $pattern"
[ $failed = 0 ] && echo "$cases searches"
exit $failed
