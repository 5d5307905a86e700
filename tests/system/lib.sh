# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Shared by the system tests: a temporary folder, a server on the device under test, clients, and
# named checks. To be sourced; tests/suite.sh describes the environment variables.
#
# Nothing here sleeps to synchronise: wait_until polls for a state. Its deadline is long, because
# the same tests run under sanitizers and in an emulated machine. That one takes a tenth of a second
# to start a process, so what is polled for and what every script does needs none.

set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

# shellcheck source=tests/boot_clock.sh
. tests/boot_clock.sh

build=$(realpath "${KVD_BUILD:-build}") || exit 1
device=${KVD_TEST_DEVICE:-softnic}
way=$device # to connect
tmp=$(mktemp -d "${TMPDIR:-/tmp}/sys.XXXXXX") || exit 1

DEADLINE_S=300	       # of wait_until
PAUSE_MAX_MS=50	       # between its looks
CALL_TIMEOUT_MS=300000 # of a client's call, unless the test is about timeouts
# kvbench's options for these timeouts.
PATIENT=(-p kvd.timeout_ms="$CALL_TIMEOUT_MS" -p kvd.connect_timeout_ms="$CALL_TIMEOUT_MS")
CHECK_LINES_SHOWN=20

failures=0
checks=0
pids=()	      # processes to kill at the end
server_pid=
log=$tmp/log
url=
exec {report}>&1 # for lines printed while the output of a check is redirected
exec {silent}<> <(:) # nobody writes to it

# Sanitizers write their reports to files, and exit with 99: 1 is kvctl's "not found".
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:log_path=$tmp/san:exitcode=99"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-}:log_path=$tmp/san:exitcode=99"
export TSAN_OPTIONS="${TSAN_OPTIONS:-}:log_path=$tmp/san:exitcode=99"

case $device in
softnic) url=softnic://$tmp/s ;;
rdma | rdma+tcp | rdma+tls)
	if [ -z "${KVD_RDMA_ADDR:-}" ]; then
		echo "no RDMA device: KVD_RDMA_ADDR is not set"
		exit 77
	fi
	port=$((20000 + $$ % 10000))
	scheme=$way
	url=$scheme://$KVD_RDMA_ADDR:$port
	device=verbs # the hardware is the same
	;;
*)
	echo "KVD_TEST_DEVICE is $device: set it to softnic, rdma, rdma+tcp or rdma+tls"
	exit 1
	;;
esac

# Kills the processes that are left, each by its pid, and removes the folder.
# shellcheck disable=SC2317 # called by trap
cleanup() {
	local pid failed=0
	if gave_up; then
		sed 's/^/FAIL  /' "$tmp/gave_up" >&"$report"
		failed=1
	fi
	# First all: one that is traced by another does not end before that.
	for pid in "${pids[@]}"; do
		kill -KILL "$pid" 2>/dev/null
	done
	for pid in "${pids[@]}"; do
		wait "$pid" 2>/dev/null
	done
	rm -rf "$tmp"
	[ $failed = 0 ] || exit 1
}
trap cleanup EXIT
trap 'exit 143' TERM INT HUP

# text: ends the whole test as failed, because the test itself is wrong. The caller is often in a
# subshell, as in [ "$(stat_of name)" = ... ], whose status is lost: so the text goes to a file,
# for which check, wait_until and cleanup look. (A signal would not do: bash may run its trap
# between two such words and then end with status 0.)
give_up() {
	printf '%s\n' "$1" >"$tmp/gave_up"
	exit 1
}

gave_up() {
	[ -e "$tmp/gave_up" ]
}

# name, command...: runs one named check; prints the output of the command if it fails, and how long
# it took if that is long
check() {
	# What is local here hides the variables of that name from the command.
	local check_name=$1 check_status check_start check_seconds
	shift
	boot_clock check_start
	checks=$((checks + 1))
	"$@" >"$tmp/check.out" 2>&1
	check_status=$?
	! gave_up || exit 1
	boot_clock_since check_seconds "$check_start"
	[ "${check_seconds%.*}" = 0 ] || check_name+=" (${check_seconds%?} s)"
	if [ $check_status = 0 ]; then
		printf 'ok    %s\n' "$check_name"
		return 0
	fi
	failures=$((failures + 1))
	printf 'FAIL  %s (status %d of: %s)\n' "$check_name" "$check_status" "$*"
	tail -n "$CHECK_LINES_SHOWN" "$tmp/check.out" | sed 's/^/      | /'
	return 1
}

# Whether this is the short form on an RDMA device. It leaves out what no device makes different,
# which the same script checks on softnic; the long form has all on each device.
brief() {
	[ "$device" = verbs ] && [ "${KVD_TEST_LONG:-0}" != 1 ]
}

# As check, for what no device makes different.
check_once() {
	brief || check "$@"
}

# command...: runs a program that makes many checks and prints their lines itself
checks_of() {
	local status good bad
	"$@" | tee "$tmp/checks.out"
	status=${PIPESTATUS[0]}
	good=$(grep -c '^ok ' "$tmp/checks.out")
	bad=$(grep -c '^FAIL ' "$tmp/checks.out")
	checks=$((checks + good + bad))
	failures=$((failures + bad))
	if [ "$status" != 0 ] && [ "$bad" = 0 ] || [ $((good + bad)) = 0 ]; then
		checks=$((checks + 1))
		failures=$((failures + 1))
		printf 'FAIL  status %d of: %s\n' "$status" "$*"
	fi
}

# milliseconds, less than a second: sleeps, without a process
pause() {
	local seconds
	printf -v seconds '0.%03d' "$1"
	read -rt "$seconds" -u "$silent"
}

# seconds, command...: repeats the command until it succeeds
wait_until() {
	local now end ms=5
	boot_clock now
	end=$((now + $1 * 100))
	shift
	until "$@"; do
		boot_clock now
		if [ "$now" -ge "$end" ] || gave_up; then
			echo "not within the deadline: $*"
			return 1
		fi
		pause $ms
		ms=$((ms * 2 < PAUSE_MAX_MS ? ms * 2 : PAUSE_MAX_MS))
	done
}

# A child that has ended is a zombie until it is waited for. One whose first thread has ended is a
# zombie, too: its files are open, and locked, until the last thread has.
ended() {
	local stat
	{ read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
	read -ra stat <<<"${stat##*) }" # from the state on; the 18th is the number of threads
	[[ ${stat[0]} == Z && ${stat[17]} == 1 ]]
}

# pid: waits for a child and sets $status to its exit status; fails if it does not end
status=
await_end() {
	wait_until "$DEADLINE_S" ended "$1" || return 1
	wait "$1"
	status=$?
}

forget() {
	local pid kept=()
	for pid in "${pids[@]}"; do
		[ "$pid" = "$1" ] || kept+=("$pid")
	done
	pids=(${kept[@]+"${kept[@]}"})
}

# The key that servers and clients have.
if [ "$way" = rdma+tls ]; then
	export KVD_TLS_PSK=$tmp/psk
	(umask 077 && echo 'test:000102030405060708090a0b0c0d0e0f' >"$KVD_TLS_PSK")
fi

# [URLs]: writes the configuration to $tmp/kvd.ini
# shellcheck disable=SC2120 # scripts pass them
config_write() {
	cat >"$tmp/kvd.ini" <<-END
		[server]
		listen = ${1:-$url}
		workers = 2
		max_connections = 64
		handshake_timeout = 60s
		[tls]
		psk = ${KVD_TLS_PSK:-}
		[softnic]
		socket_mode = 0600
		[memory]
		size = 32m
		hugepages = off
		[limits]
		max_value = 1m
		[request]
		srq_depth = 512
		[log]
		level = debug
		file = $log
	END
}
config_write

server_is_up() {
	local lines
	ended "$server_pid" || { [ -e "$log" ] && mapfile -ts $((log_start - 1)) lines <"$log" &&
		[[ ${lines[*]} == *' ready: '* ]]; }
}

# Prints how many lines the log has, to find new ones later.
log_lines() {
	if [ -e "$log" ]; then wc -l <"$log"; else echo 0; fi
}

# [-o section.key=value]...: starts a server and waits until it is ready
log_start=1
server_start() {
	log_start=$(($(log_lines) + 1))
	"$build/kvd" -c "$tmp/kvd.ini" "$@" >>"$tmp/stderr" 2>&1 &
	server_pid=$!
	pids+=("$server_pid")
	wait_until "$DEADLINE_S" server_is_up && ! ended "$server_pid" && return 0
	echo "the server did not start"
	tail -n "$CHECK_LINES_SHOWN" "$log" "$tmp/stderr"
	return 1
}

# Sends SIGTERM and checks the exit status, the last line of the log and the standard error.
server_stop() {
	local lines
	kill -TERM "$server_pid" && await_end "$server_pid" || return 1
	forget "$server_pid"
	if [ "$status" != 0 ]; then
		echo "kvd ended with $status"
		tail -n "$CHECK_LINES_SHOWN" "$log" "$tmp/stderr"
		return 1
	fi
	mapfile -t lines <"$log"
	[[ ${lines[-1]} == *' kvd stopped' && ! -s $tmp/stderr ]] && return 0
	echo "the log and the standard error end with:"
	tail -n 5 "$log" "$tmp/stderr"
	return 1
}

server_kill() {
	kill -KILL "$server_pid" && await_end "$server_pid" && forget "$server_pid"
}

kvctl() {
	"$build/kvctl" -a "$url" -t "$CALL_TIMEOUT_MS" "$@"
}

client() {
	"$build/tests/system/sys_client" "$@"
}

rogue() {
	"$build/tests/system/sys_rogue" "$url" "$log" "$@"
}

# pattern: whether the log has a line with it, since the server started
in_log() {
	tail -n "+$log_start" "$log" | grep -Eq -- "$1"
}

# pattern: the server has logged a line with it since it started. Another thread writes it than the
# one that did what it says, and so perhaps later than a client knows.
logged() {
	wait_until "$DEADLINE_S" in_log "$1" && return 0
	tail -n "$CHECK_LINES_SHOWN" "$log"
	return 1
}

# pattern: the server reads its files again, and logs a line with that
reloaded() {
	log_start=$(($(log_lines) + 1))
	kill -HUP "$server_pid" && logged "$1"
}

# status, pattern, arguments...: runs kvctl and compares its exit status and its whole output
expect() {
	local want=$1 pattern=$2 said got
	shift 2
	said=$(kvctl "$@" 2>&1)
	got=$?
	[ "$got" = "$want" ] && [[ $said =~ $pattern ]] && return 0
	echo "kvctl $*: status $got instead of $want, or not like '$pattern': ${said:0:300}"
	return 1
}

# name...: prints the statistic of that name, or the sum of several, from one call of kvctl stats.
# Fails and prints nothing if the server does not respond. A name that the server does not have ends
# the test: an empty string would always equal itself. It starts no process but kvctl, since an
# emulated machine takes long for each.
stat_of() {
	local stats name sum=0
	stats=$(kvctl stats) || return 1
	for name in "$@"; do
		[[ $'\n'$stats$'\n' =~ $'\n'"$name "([0-9]+)$'\n' ]] ||
			give_up "no statistic $name: correct the test by kvctl stats"
		sum=$((sum + BASH_REMATCH[1]))
	done
	echo "$sum"
}

# name, number
stat_is() {
	local value
	value=$(stat_of "$1") && [ "$value" = "$2" ]
}

# name, number: more than that
stat_above() {
	local value
	value=$(stat_of "$1") && [ "$value" -gt "$2" ]
}

# Notes what the server holds now, of everything that a client can make it hold: memory, buffers,
# receives, windows, descriptors, ... (tests/support/held.h).
held_note() {
	"$build/tests/system/sys_held" "$url" note "$tmp/held"
}

# connections: waits until there are that many, this one included, and until the server holds no
# more than held_note has noted. It releases what a killed client held some time after its end.
nothing_is_held() {
	"$build/tests/system/sys_held" "$url" wait "$tmp/held" "$1"
}

# variable for the pid, file for the output, arguments...: starts sys_client in the background
client_start() {
	local -n started=$1
	local out=$2
	shift 2
	# Before the child does it: await_line must not find a line of an earlier program.
	: >"$out"
	"$build/tests/system/sys_client" "$@" >>"$out" 2>&1 &
	started=$!
	pids+=("$started")
}

# A `sys_client loop` that the test started, with its output in $tmp/neighbour, met no error.
neighbour=
neighbour_ends_well() {
	kill -TERM "$neighbour" && await_end "$neighbour" && forget "$neighbour"
	tail -n 1 "$tmp/neighbour"
	[ "$status" = 0 ] && grep -q '^ended well' "$tmp/neighbour"
}

# file, pattern: whether a line of it matches the extended regular expression
says() {
	local line
	while read -r line; do
		[[ ! $line =~ $2 ]] || return 0
	done <"$1"
	return 1
}

# file, pattern, pid: waits until the program prints the line; fails at once if it ends instead
await_line() {
	says_or_ended() { says "$1" "$2" || ended "$3"; }
	wait_until "$DEADLINE_S" says_or_ended "$1" "$2" "$3" && says "$1" "$2" && return 0
	echo "no line '$2', but:" && tail -n 5 "$1"
	return 1
}

# name: stops one thread of the server, as a debugger does, until thaw
freezer=
freeze() {
	local task tid=
	for task in "/proc/$server_pid/task/"*; do
		[ "$(cat "$task/comm")" != "$1" ] || tid=${task##*/}
	done
	# Threads of a sanitizer have the name of the process, too.
	[ "$1" != kvd ] || tid=$server_pid
	[ -n "$tid" ] || { echo "the server has no thread $1" && return 1; }
	: >"$tmp/freezer"
	"$build/tests/system/sys_supervise" freeze "$tid" >>"$tmp/freezer" 2>&1 &
	freezer=$!
	pids+=("$freezer")
	await_line "$tmp/freezer" '^frozen' "$freezer"
}

thaw() {
	kill "$freezer" && await_end "$freezer" && forget "$freezer"
}

no_sanitizer_reports() {
	local report found=0
	for report in "$tmp"/san.*; do
		[ -e "$report" ] || continue
		found=1
		head -n 60 "$report"
	done
	return $found
}

# Ends every script: prints the number of checks, and exits.
finish() {
	check "no sanitizer reports" no_sanitizer_reports
	if [ "$failures" != 0 ]; then
		echo "the server's log ends with:"
		tail -n 40 "$log" "$tmp/stderr" 2>/dev/null
	fi
	echo "$checks checks, $failures failed"
	[ "$failures" = 0 ]
	exit
}
