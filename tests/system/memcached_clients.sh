#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of clients that others have written for memcached, unmodified: Debian's libraries for
# Python, libmemcached's tools, memcached's own tool, and a proxy in front of kvd.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

if [ "$device" != softnic ]; then
	echo "no device is used for this: set KVD_TEST_DEVICE=softnic"
	exit 77
fi
for program in memccp memcstat nutcracker; do
	command -v $program >/dev/null || {
		echo "$program is missing: run conf/install-deps test"
		exit 77
	}
done

port=$((20000 + $$ % 10000)) # below those of clients
proxy_port=$((port > 29000 ? port - 1000 : port + 1000))
server=--servers=127.0.0.1:$port

config_write "$url,memcached://127.0.0.1:$port"

python() {
	/usr/bin/python3 tests/system/memcached_clients.py "$@"
}

# A file goes to the server and back, as its name's value.
files() {
	(cd "$tmp" && head -c 300000 /dev/urandom >file && memccp "$server" file &&
		memcexist "$server" file && memccat "$server" --file=back file && cmp file back &&
		memctouch "$server" file && memcrm "$server" file && ! memcexist "$server" file)
}

tools() {
	memcping "$server" && memcstat "$server" | grep -q 'curr_items: 0$' &&
		memcslap "$server" --concurrency=4 --execute-number=200 --test=set >"$tmp/slap" &&
		memcstat "$server" | grep -q 'curr_items: [1-9]' && memcflush "$server" &&
		memcstat "$server" | grep -q 'curr_items: 0$' && memcdump "$server"
}

# command, name, value: the tool prints what the server says
memcached_tool() {
	/usr/share/memcached/scripts/memcached-tool "127.0.0.1:$port" "$1" >"$tmp/tool" &&
		grep -Eq "^ +$2 +$3[[:space:]]*\$" "$tmp/tool"
}

proxy_start() {
	cat >"$tmp/proxy.yml" <<-END
		kvd:
		  listen: 127.0.0.1:$proxy_port
		  hash: fnv1a_64
		  distribution: ketama
		  auto_eject_hosts: false
		  servers:
		   - 127.0.0.1:$port:1
	END
	nutcracker -c "$tmp/proxy.yml" -a 127.0.0.1 -s $((proxy_port - 500)) -m 16384 \
		>"$tmp/proxy.log" 2>&1 &
	proxy=$!
	pids+=("$proxy")
	wait_until "$DEADLINE_S" through_proxy version >/dev/null
}

# text...: the answers to it; the proxy answers `version` by itself
through_proxy() {
	/usr/bin/python3 tests/system/memcached_client.py say "127.0.0.1:$proxy_port" "$@"
}

proxied() {
	[ "$(through_proxy 'set key 3 0 5\r\nhello' 'get key none' 'incr n 1' 'delete key' \
		'get key')" = $'STORED\nVALUE key 3 5\nhello\nEND\nNOT_FOUND\nDELETED\nEND' ]
}

proxy_stop() {
	kill -TERM "$proxy" && await_end "$proxy" && forget "$proxy"
}

check "kvd starts" server_start
check "pymemcache" python pymemcache "$port"
check "pylibmc" python pylibmc "$port"
check "memccp, memccat, memcexist, memctouch, memcrm" files
check "memcping, memcstat, memcslap, memcflush, memcdump" tools
check "memcached-tool stats" memcached_tool stats curr_items 0
check "memcached-tool settings" memcached_tool settings cas_enabled yes
check "nutcracker starts" proxy_start
check "keys through nutcracker" proxied
check "nutcracker stops" proxy_stop
check "kvd stops" server_stop

finish
