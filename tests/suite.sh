# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Functions for tests/run-all and tests/vm/suite, which source this file: running cases in parallel,
# each with a time limit, and printing one line for each.
#
# A case is a program or script. Its exit status is 0 if it passed, 77 if it was skipped (its last
# line says why), and anything else if it failed. It runs in the tree's root, with this environment:
#
#   KVD_BUILD        folder with kvd, kvctl, kvbench and tests/ of the flavour under test
#   KVD_FLAVOUR      release, asan or tsan
#   KVD_TEST_DEVICE  softnic, rdma, rdma+tcp or rdma+tls
#   KVD_RDMA_ADDR    with the last three: the IP address of the RDMA device
#   TMPDIR           a folder for this case alone, removed afterwards; short enough for Unix sockets
#   KVD_TEST_ORDER   with KVD_SHUFFLE: a number that decides the order in which a unit test runs its
#                    functions (tests/support/order.c)
#
# KVD_SHUFFLE=SEED starts the cases in an order that the seed decides; KVD_REPEAT=N runs each case N
# times, with the next KVD_TEST_ORDER each time. It fails if one of its runs does.
#
# suite_results holds one line a case: `status seconds cpu-seconds flavour name`. The CPU time is
# that of the processes that the case waited for.

# A case may set the time of day.
# shellcheck source=tests/boot_clock.sh
. tests/boot_clock.sh

suite_jobs=${KVD_JOBS:-$(nproc)}
suite_pattern=${KVD_TESTS:-}
suite_shuffle=${KVD_SHUFFLE:-}
suite_repeat=${KVD_REPEAT:-1}
[[ $suite_shuffle =~ ^[0-9]*$ ]] || { echo "SHUFFLE=$suite_shuffle: give a number" >&2; exit 2; }
[[ $suite_repeat =~ ^[1-9][0-9]*$ ]] || { echo "REPEAT=$suite_repeat: give a number" >&2; exit 2; }
suite_tmp=$(mktemp -d /tmp/kvd-check.XXXXXX) || exit 1
chmod 711 "$suite_tmp" # tests let other users pass, to a socket
suite_results=$suite_tmp/results
: >"$suite_results"
suite_logs=
suite_guests=' ' # background jobs that each take two CPUs, by pid
suite_cases=0
suite_plan=() # with KVD_SHUFFLE: the cases that suite_wait will start, as words for the shell

# How many lines of a failed case's log are shown; the whole log stays in suite_logs.
SUITE_LOG_LINES_MAX=60

suite_cleanup() {
	local pids
	pids=$(jobs -p)
	# shellcheck disable=SC2086 # a list
	[ -z "$pids" ] || kill $pids 2>/dev/null
	wait
	rm -rf "$suite_tmp"
}
trap suite_cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

suite_logs_in() {
	suite_logs=$1
	mkdir -p "$suite_logs"
	rm -f "$suite_logs"/*.log
}

# log: its last lines, and before them the failed checks of a script that went on after them
suite_excerpt() {
	local lines
	lines=$(wc -l <"$1")
	[ "$lines" -le "$SUITE_LOG_LINES_MAX" ] ||
		head -n $((lines - SUITE_LOG_LINES_MAX)) "$1" | grep -A 5 '^FAIL ' |
		tail -n "$SUITE_LOG_LINES_MAX"
	tail -n "$SUITE_LOG_LINES_MAX" "$1"
}

# status, seconds, CPU seconds, flavour, name, log, [what else the line says]
suite_report() {
	local status=$1 seconds=$2 cpu=$3 flavour=$4 name=$5 log=$6 note=${7:-}
	[ "$status" != skip ] || note=": $(tail -n 1 "$log")"
	printf '%s %s %s %s %s\n' "$status" "$seconds" "$cpu" "$flavour" "$name" >>"$suite_results"
	if [ "$status" = FAIL ]; then
		# One write, so that the lines of two failures do not mix.
		printf '  %-5s %-8s %-34s %6ss%s  %s\n%s\n' \
			"$status" "$flavour" "$name" "$seconds" "$note" "$log" \
			"$(suite_excerpt "$log" | sed 's/^/      | /')"
	else
		printf '  %-5s %-8s %-34s %6ss%s\n' "$status" "$flavour" "$name" "$seconds" "$note"
	fi
}

# file: prints the CPU time, of user and kernel, of the children in what `times` wrote to it
suite_cpu_seconds() {
	awk -F '[ms ]+' 'NR == 2 { printf "%.2f", 60 * ($1 + $3) + $2 + $4 }' "$1"
}

# number, flavour, time limit, log, folder, [VAR=value...] command...: runs a case for the
# number-th time; sets `status`
suite_run_once() {
	local run=$1 flavour=$2 limit=$3 log=$4 dir=$5 result pid order=()
	shift 5
	[ -z "$suite_shuffle" ] || order=(KVD_TEST_ORDER=$((suite_shuffle + run - 1)))
	mkdir -m 711 "$dir" || exit 1
	# A shell's background jobs ignore SIGINT, and so would what they start.
	env --default-signal=INT,QUIT TMPDIR="$dir" KVD_FLAVOUR="$flavour" "${order[@]}" \
		timeout -k 10 "$limit" env "$@" </dev/null >"$log" 2>&1 &
	pid=$!
	# shellcheck disable=SC2064 # this case's pid
	trap "kill $pid 2>/dev/null; wait $pid; exit 1" TERM
	wait "$pid"
	result=$?
	trap - TERM
	rm -rf "$dir"
	status=FAIL
	case $result in
	0) status=ok ;;
	77) status=skip ;;
	124 | 137) echo "timeout: not done after $limit s" >>"$log" ;;
	*) echo "exit status $result" >>"$log" ;;
	esac
}

# flavour, name, time limit in seconds of a run, [VAR=value...] command...
suite_run() {
	local flavour=$1 name=$2 limit=$3 status='' start seconds log out dir run failed=0 note=
	shift 3
	log=$suite_logs/$flavour-${name//\//-}.log
	out=$log
	[ "$suite_repeat" = 1 ] || out=$log.run # the log has those that failed
	dir=$(mktemp -du "$suite_tmp/XXXX")
	boot_clock start
	for ((run = 1; run <= suite_repeat; run++)); do
		suite_run_once "$run" "$flavour" "$limit" "$out" "$dir" "$@"
		[ "$status" != skip ] || break
		[ "$status" = FAIL ] || continue
		failed=$((failed + 1))
		[ "$out" = "$log" ] ||
			{ cat "$out" && echo "run $run of $suite_repeat failed"; } >>"$log"
	done
	if [ "$out" != "$log" ]; then
		[ $failed != 0 ] || cp "$out" "$log"
		rm -f "$out"
		[ $failed = 0 ] || status=FAIL
		[ "$status" = skip ] || note=": $failed of $suite_repeat failed"
	fi
	times >"$dir.times" # not in $(): a subshell has children of its own
	boot_clock_since seconds "$start"
	suite_report "$status" "$seconds" "$(suite_cpu_seconds "$dir.times")" \
		"$flavour" "$name" "$log" "$note"
}

# Whether the case's `flavour/name` matches the pattern.
suite_wants() {
	# shellcheck disable=SC2053 # a pattern is meant
	[ -z "$suite_pattern" ] || [[ $1/$2 == *$suite_pattern* ]]
}

# Prints how many CPUs the background jobs take.
suite_load() {
	local pid load=0
	for pid in $(jobs -pr); do
		load=$((load + 1))
		[[ $suite_guests != *" $pid "* ]] || load=$((load + 1))
	done
	echo $load
}

# Runs a case in the background when it and what runs take at most suite_jobs CPUs.
suite_begin() {
	while [ "$(suite_load)" -ge "$suite_jobs" ]; do
		wait -n
	done
	(trap - EXIT && suite_run "$@") &
}

# flavour, name, time limit, [VAR=value...] command...: a case, which begins now if none is
# shuffled, else in suite_wait.
suite_start() {
	suite_wants "$1" "$2" || return 0
	suite_cases=$((suite_cases + 1))
	if [ -n "$suite_shuffle" ]; then
		suite_plan+=("${*@Q}")
	else
		suite_begin "$@"
	fi
}

# n: prints the numbers less than that, in the order that the seed decides
suite_order() {
	awk -v n="$1" -v seed="$suite_shuffle" 'BEGIN {
		srand(seed)
		for (i = 0; i < n; i++) {
			j = int(rand() * (i + 1))
			at[i] = at[j]
			at[j] = i
		}
		for (i = 0; i < n; i++)
			print at[i]
	}'
}

suite_wait() {
	local i
	for i in $(suite_order ${#suite_plan[@]}); do
		eval "suite_begin ${suite_plan[i]}"
	done
	suite_plan=()
	wait
}

# The forms of a run: `test` is a developer's quick one, `short` that of `make check`, `long` that
# of `make check-long`.
suite_form=short
[ "${KVD_TEST_LONG:-0}" != 1 ] || suite_form=long

# tests/plan, read once: the flavours of each script in the short form, and what the long form adds.
declare -A suite_row_short suite_row_long
suite_rows=()
while IFS='|' read -r suite_name suite_short suite_long _; do
	[[ $suite_name =~ ^[a-z] ]] || continue
	suite_name=${suite_name%% *}
	suite_rows+=("$suite_name")
	suite_row_short[$suite_name]=$suite_short
	suite_row_long[$suite_name]=$suite_long
done <tests/plan

for suite_name in tests/system/*.sh tests/system/*.py; do
	[ ! -x "$suite_name" ] || [ -n "${suite_row_short[${suite_name##*/}]+set}" ] ||
		{ echo "$suite_name has no row in tests/plan" >&2 && exit 1; }
done

# name: prints the path of a script of the plan
suite_script() {
	local folder
	for folder in tests/system tests/sim bench tests; do
		[ ! -x "$folder/$1" ] || { echo "$folder/$1" && return; }
	done
	echo "tests/plan names $1, which is in none of tests/system, tests/sim, bench, tests" >&2
	exit 1
}

# flavour: prints the names of the scripts that the form runs in it
suite_scripts() {
	local name wanted
	for name in "${suite_rows[@]}"; do
		wanted=${suite_row_short[$name]}
		[ $suite_form != long ] || wanted+=${suite_row_long[$name]}
		[ $suite_form != test ] || [[ " $wanted " == *' test '* ]] || continue
		[[ " $wanted " != *" $1 "* ]] || echo "$name"
	done
}

# source: whether the program has threads: it, or what it includes of tests/support, starts one
suite_has_threads() {
	local sources=("$1") include
	[[ $1 == tests/unit/* || $1 == tests/linearizability/* ]] || return 0
	while read -r include; do
		sources+=("$include" "${include%.h}.c")
	done < <(sed -n 's/^#include "\(tests\/.*\)"/\1/p' "$1")
	grep -Eqs 'pthread_create|(thread|maintenance|process|prefault|net)_start\b' "${sources[@]}"
}

# source: whether it is a unit test of what sanitizers change, which they can't run as a whole
suite_needs_release() {
	grep -q 'SANITIZE_' "$1"
}

# flavour: prints the programs that the form runs in it, as paths below the build's tests/. They are
# found by their sources, so that a program that was not built fails.
suite_programs() {
	local source kind kinds='conformance race test'
	case $1 in
	rdma*) kinds=conformance ;;
	release | asan | tsan | coverage) ;;
	*) return ;;
	esac
	for source in tests/*/*_*.c tests/*/*/*_*.c; do
		source=${source#tests/}
		kind=${source##*/}
		[[ " $kinds " == *" ${kind%%_*} "* ]] || continue
		case $suite_form,$1 in
		test,*) [[ $source == unit/* ]] || continue ;;
		# ASan has the others; here they run if they are asked for, and in `make test`.
		short,release)
			[ -n "$suite_pattern" ] || suite_has_threads "tests/$source" ||
				suite_needs_release "tests/$source" || continue
			;;
		# test_mutants finds races that it makes itself, with the reports off.
		*,tsan)
			suite_has_threads "tests/$source" &&
				[ "$source" != stress/test_mutants.c ] || continue
			;;
		# AddressSanitizer knows nothing of the blocks in a region, for which they race.
		*,asan) [[ $source != stress/* ]] || continue ;;
		esac
		echo "${source%.c}"
	done
}

# What takes long begins first, so that nothing long is left to the end.
SUITE_SLOW='large_values.sh|operations.sh|race_.*|tenants.sh|test_evict|test_mutants|test_pull'
SUITE_SLOW+='|test_room|torture.sh|conformance_device|documents.sh|reconnect.sh|python.sh'
SUITE_SLOW+='|garbage.sh|memcached_suite.sh'

# flavour: prints the cases of the form in it, those first that take long
suite_cases_of() {
	[ $suite_form != test ] || [ "$1" = release ] || return 0
	(suite_scripts "$1" && suite_programs "$1") |
		awk -v slow="^(.*/)?($SUITE_SLOW)\$" '$0 ~ slow { print; next }
			{ others = others $0 "\n" } END { printf "%s", others }'
}

# flavour, build folder, time limit in seconds, case of suite_cases_of, [command that runs it...]:
# starts it on the flavour's device. A script has twice the time.
suite_start_case() {
	local flavour=$1 build=$2 limit=$3 name=$4 program=$2/tests/$4 device=softnic arguments=()
	shift 4
	[[ $flavour != rdma* ]] || device=$flavour
	if [[ $name == *.sh || $name == *.py ]]; then
		program=$(suite_script "$name") || exit 1
		limit=$((limit * 2))
	fi
	[ "$name $device" != 'demo.sh rdma' ] || arguments=(--rdma)
	suite_start "$flavour" "${name##*/}" "$limit" KVD_BUILD="$build" \
		KVD_TEST_DEVICE="$device" "$@" "$program" "${arguments[@]}"
}
