#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of the page of server.http for people, in headless Chromium: in a narrow and a wide
# window, light and dark, each of its sections has figures, nothing is cut or too pale, and the
# console has no error. It shows what /metrics says, tells when kvd does not answer, and asks for
# nothing while it is hidden. It keeps to its policy, and can be seen with a password.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

[ "$device" = softnic ] || {
	echo "no device is below HTTP: softnic shows all of it"
	exit 77
}
command -v chromium >/dev/null || {
	echo "chromium is not installed; Ubuntu has no package of it"
	exit 77
}

port=$((20000 + $$ % 10000))
while (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
	port=$((port + 1))
done
http=127.0.0.1:$port

mkfifo "$tmp/commands" "$tmp/answers"
HOME=$tmp python3 tests/system/page_browser.py "$tmp/browser" <"$tmp/commands" >"$tmp/answers" &
browser_pid=$!
pids+=("$browser_pid")
exec {commands}>"$tmp/commands" {answers}<"$tmp/answers"

# command of page_browser.py, arguments...
browser() {
	local line
	echo "$*" >&"$commands"
	while read -ru "$answers" line; do
		[[ $line != "= "* ]] || return "${line#= }"
		echo "$line"
	done
	return 1
}

check "the server starts" server_start -o "server.http=$http" -o memory.curve=yes \
	-o tenants.memory=16m || finish

# Items of several sizes, more than there is memory for, and large ones; then hits, misses and PUTs
# until load_end.
properties=(-a "$url" "${PATIENT[@]}" -P bench/workloads/workloada -p fieldcount=1
	-p fieldlengthdistribution=zipfian -p fieldlength=8000 -p recordcount=45000)
load_start() {
	"$build/kvbench" load "${properties[@]}" && kvctl tenant create other 16m &&
		head -c 200000 /dev/zero | kvctl put large - && kvctl delete large || return 1
	"$build/kvbench" run "${properties[@]}" -p target=2000 -p operationcount=0 \
		-p maxexecutiontime=100000 &
	load_pid=$!
	pids+=("$load_pid")
}
load_end() {
	kill -TERM "$load_pid" && await_end "$load_pid" && forget "$load_pid"
}
check "a load" load_start

check "the page opens" browser open "http://$http/"
for width in 400 1600; do
	for scheme in light dark; do
		check "it looks right: $width pixels, $scheme" browser look "$width" "$scheme"
		[ -z "${KVD_SHOTS:-}" ] || browser shot "$KVD_SHOTS/$width-$scheme.png"
	done
done
check "keys read earlier figures" browser keys
check "the load ends" load_end
check "it says what /metrics says" browser equals "http://$http"
check "it asks for nothing while it is hidden" browser hidden
check "the server stops" server_stop
check "it tells that kvd does not answer" browser says trouble \
	"kvd at $http has not answered since ..:..:...*"
check "the server starts again" server_start -o "server.http=$http"
check "it goes on" browser says trouble ''
check "it is ready" browser says state ready
check "the server stops" server_stop

(umask 077 && cat >"$tmp/users") <<-END
	[user ops]
	password = $(openssl passwd -6 -stdin <<<sesame)
	rights = stats
END
check "the server starts with users" server_start -o "server.http=$http" \
	-o "users.file=$tmp/users"
check "the page opens with a password" browser open "http://ops:sesame@$http/"
check "there was no error in the console" browser quiet
check "the server stops" server_stop

exec {commands}>&-
check "the browser ends" await_end "$browser_pid"
forget "$browser_pid"

finish
