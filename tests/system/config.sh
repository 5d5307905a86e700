#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of kvctl config: options are printed; each one that can change at run time does, with
# its effect where a client sees it, and each other one is refused; all options of a set change or
# none; a rewrite puts them into the file, which the next start reads; SIGHUP takes the file's
# values; and it is for administrators, in the audit log.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

[ "$device" = softnic ] || {
	echo "no device is below the options: softnic shows all of it"
	exit 77
}
audit=$tmp/audit
port=$((20000 + $$ % 10000))
STRANGER=61001
# "section.key class" of each option, as --help has them.
"$build/kvd" --help | sed -n 's/^  \([a-z]*\.[a-z_0-9]*\)=.*/\1/p
	s/^      .*; \(run time\|restart\))$/\1/p' | paste -d ' ' - - >"$tmp/classes"

can_be_stranger=1
chmod 711 "$tmp"
cp "$build/kvctl" "$build/kvd" "$tmp/"
setpriv --reuid=$STRANGER --regid=$STRANGER --clear-groups "$tmp/kvctl" -V >/dev/null 2>&1 ||
	can_be_stranger=0

config_write "$url, memcached://127.0.0.1:$port"
# What a person would have there.
sed -i 's/^level = debug/; how much\nlevel = notice ; quiet/' "$tmp/kvd.ini"
cp "$tmp/kvd.ini" "$tmp/kvd.ini.first"

starts() {
	server_start -o "log.audit=$audit" "$@"
}

# name, value: what the server has now
is() {
	expect 0 "^$1 = $2\$" config get "$1"
}

prints_all() {
	kvctl config get >"$tmp/all" && [ "$(wc -l <"$tmp/all")" = "$(wc -l <"$tmp/classes")" ] &&
		diff <(sed 's/ =.*//' "$tmp/all") <(sed 's/ .*//' "$tmp/classes") &&
		grep -qx "log.file = $log" "$tmp/all" && grep -qx 'log.level = notice' "$tmp/all" &&
		grep -qx 'server.http =' "$tmp/all"
}

patterns() {
	expect 0 '^server.max_connections = 64$' config get 'server.max*' &&
		expect 0 '^softnic.socket_mode = 0600
log.level = notice$' config get log.level 'softnic.*' &&
		expect 1 'no option matches' config get workers &&
		expect 0 '^\{"memory.size": "32m"\}$' --json config get memory.size
}

# Each is set to the value that it has, and refused for that alone if it needs a restart.
every_class() {
	local name class value
	while read -r name class; do
		value=$(kvctl config get "$name") && value=${value#* =} && value=${value# }
		# Without memory.max it needs one, too.
		[ "$name" != memory.size ] || class=restart
		case $class in
		'run time') expect 0 '^$' config set "$name" "$value" || return 1 ;;
		restart)
			expect 70 "^kvctl: config set: $name needs a restart: change it in \
$tmp/kvd.ini, and restart kvd\$" config set "$name" "$value" || return 1
			;;
		*) echo "$name is of no class" && return 1 ;;
		esac
	done <"$tmp/classes"
	[ "$(grep -c ' run time$' "$tmp/classes")" -gt 15 ]
}

level() {
	kvctl ping >"$tmp/pong" && ! in_log ' debug ' && kvctl config set log.level debug &&
		kvctl ping >"$tmp/pong" && logged ' debug connection' && is log.level debug &&
		logged 'CONFIG set by uid=[0-9]*: log.level is now debug, it was notice' &&
		kvctl config set log.level error &&
		logged 'log.level is now error, it was debug' &&
		kvctl config set log.level notice &&
		logged 'log.level is now notice, it was error'
}

format() {
	kvctl config set log.format json &&
		logged '^\{"ts":.*CONFIG set by uid=[0-9]*: log.format is now json' &&
		kvctl config set log.format text &&
		logged ' notice CONFIG set by uid=[0-9]*: log.format is now text'
}

# text: sends a line of memcached's protocol over a new connection, and prints the answer's first
mc() {
	local line
	exec {socket}<>"/dev/tcp/127.0.0.1/$port" && printf '%s\r\n' "$1" >&"$socket" &&
		read -rt "$DEADLINE_S" -u "$socket" line
	exec {socket}>&-
	printf '%s\n' "${line%$'\r'}"
}

key_max() {
	[ "$(mc 'get abcdef')" = END ] && kvctl config set memcached.key_max 5 &&
		[[ $(mc 'get abcdef') == 'CLIENT_ERROR'* ]] && [ "$(mc 'get abcde')" = END ] &&
		kvctl config set memcached.key_max 250
}

# A connection that was opened while none was closed, and whose worker sleeps.
idle_timeout() {
	local line
	exec {idle}<>"/dev/tcp/127.0.0.1/$port" && printf 'get k\r\n' >&"$idle" &&
		read -rt "$DEADLINE_S" -u "$idle" line &&
		kvctl config set memcached.idle_timeout 1s &&
		! read -rt "$DEADLINE_S" -u "$idle" line && [ -z "$line" ] &&
		kvctl config set memcached.idle_timeout 0
}

networks() {
	kvctl config set rdma.networks 10.9.0.0/24,fd00::/8 &&
		is rdma.networks 10.9.0.0/24,fd00::/8 &&
		[[ $(mc 'get k') == 'SERVER_ERROR'* ]] && kvctl config set rdma.networks '' &&
		expect 0 '^rdma.networks =$' config get rdma.networks && [ "$(mc 'get k')" = END ]
}

times() {
	kvctl config set server.drain_timeout 7s server.keepalive_interval 20s \
		server.identity_time 2m server.spin_time 70us server.pull_stall 6s \
		server.pull_timeout 40s memcached.forward_timeout 3s &&
		is server.drain_timeout 7s &&
		is server.keepalive_interval 20s && is server.identity_time 2m &&
		is server.spin_time 70us && is server.pull_stall 6s && is server.pull_timeout 40s &&
		is memcached.forward_timeout 3s
}

# status, pattern, name and value...: refuses all of them, also log.level
refuses() {
	local want=$1 pattern=$2
	shift 2
	expect "$want" "^kvctl: $pattern" config set log.level debug "$@" && is log.level notice
}

all_or_none() {
	refuses 70 "config set: log.format: 'loud' is not one of: text \| json" log.format loud &&
		refuses 70 'config set: server.drain_timeout: .*give 0 to 10m' \
			server.drain_timeout 601s &&
		refuses 70 'config set: memory.size needs a restart' memory.size 64m &&
		refuses 70 "config set: unknown option 'log.lvl': kvd --help" log.lvl info &&
		refuses 70 'config set: log.level is given twice' log.level info &&
		refuses 70 "config set: users.file = /none can't be used: kvd's log" \
			users.file /none &&
		logged ' error users.file = /none: No such file' &&
		refuses 70 'config: users.require_identity = yes: .*memcached://HOST:PORT' \
			users.require_identity yes &&
		refuses 64 'users.file: too long' users.file "$(printf '%01000d' 0)" &&
		expect 64 'without = and newlines' config set log.level=debug x
}

# Before the audit log has so many lines of this client that it counts them instead.
audited() {
	kvctl config set log.level debug && kvctl config set log.level notice &&
		expect 70 'needs a restart' config set log.level debug memory.size 64m &&
		expect 0 ': 0 options written' config rewrite || return 1
	has 'CONFIG set","target":"log.level = debug, was notice","result":"ok"' &&
		has '"target":"log.level=debug, memory.size=64m","result":"config set: mem' &&
		has "CONFIG rewrite\",\"target\":\"$tmp/kvd.ini\",\"result\":\"ok\""
}

# text: waits until a line of the audit log has it
has() {
	wait_until "$DEADLINE_S" grep -qF -- "$1" "$audit" && return 0
	tail -n 5 "$audit"
	return 1
}

hup_takes_the_file() {
	kvctl config set server.drain_timeout 9s &&
		reloaded 'server.drain_timeout is now 5s, it was 9s, set by kvctl config set' &&
		is server.drain_timeout 5s && expect 0 ': 0 options written$' config rewrite &&
		cmp "$tmp/kvd.ini" "$tmp/kvd.ini.first"
}

# The file was changed by hand meanwhile.
rewrites() {
	kvctl config set log.level info server.drain_timeout 8s memcached.idle_timeout 1h &&
		sed -i 's/^workers = 2/workers = 3 ; by hand/' "$tmp/kvd.ini" &&
		chmod 640 "$tmp/kvd.ini" &&
		expect 0 "^$tmp/kvd.ini: 3 options written\$" config rewrite &&
		expect 0 "^$tmp/kvd.ini: 0 options written\$" config rewrite &&
		[ "$(stat -c %a "$tmp/kvd.ini")" = 640 ] &&
		diff - <(diff "$tmp/kvd.ini.first" "$tmp/kvd.ini" | grep '^[<>]') <<-END
			< workers = 2
			> workers = 3 ; by hand
			> drain_timeout = 8s
			< level = notice ; quiet
			> level = info ; quiet
			> 
			> [memcached]
			> idle_timeout = 1h
		END
}

restarts_with_them() {
	server_stop && starts && is log.level info && is server.drain_timeout 8s &&
		is memcached.idle_timeout 1h && is server.workers 3
}

# -o overrides the file, after SIGHUP and after the next start.
says_what_overrides() {
	server_stop && starts -o log.format=text && kvctl config set log.format json &&
		expect 0 '1 options written; kvd was started with -o for 1' config rewrite &&
		grep -q '^format = json' "$tmp/kvd.ini" &&
		kill -HUP "$server_pid" && wait_until "$DEADLINE_S" is log.format text &&
		sed -i '/^format = json/d' "$tmp/kvd.ini"
}

file_with_errors() {
	cp "$tmp/kvd.ini" "$tmp/kvd.ini.good" && echo 'frob = 1' >>"$tmp/kvd.ini" &&
		kvctl config set log.level notice &&
		expect 70 "^kvctl: $tmp/kvd.ini:[0-9]+: unknown option 'frob'" config rewrite &&
		tail -n 1 "$tmp/kvd.ini" | grep -qx 'frob = 1' &&
		mv "$tmp/kvd.ini.good" "$tmp/kvd.ini"
}

# arguments...: kvctl as a user whom nothing makes an administrator
as_stranger() {
	setpriv --reuid=$STRANGER --regid=$STRANGER --clear-groups "$tmp/kvctl" -a "$url" \
		-t "$CALL_TIMEOUT_MS" "$@"
}

# pattern: the stranger can neither see nor change anything
refused() {
	local command said
	for command in 'get' 'set log.level debug' 'rewrite'; do
		# shellcheck disable=SC2086 # words
		said=$(as_stranger config $command 2>&1)
		[ $? = 77 ] && [[ $said =~ $1 ]] || { echo "$command: $said" && return 1; }
	done
	is log.level notice
}

strangers() {
	server_stop && starts -o softnic.socket_mode=0666 -o log.level=notice &&
		refused 'kvctl: CONFIG is for administrators: root and' &&
		has 'CONFIG rewrite","result":"the client is no administrator"'
}

users() {
	(umask 077 && printf '[user ops]\nuid = 0\nrights = all\n[user reader]\nuid = %s\n%s\n' \
		$STRANGER 'rights = read stats' >"$tmp/users")
	kvctl config set users.file "$tmp/users" && logged '\[users\]: 2 users' &&
		refused "kvctl: .*user reader has no right 'admin'" &&
		kvctl config set users.file '' &&
		kvctl config get users.file
}

# kvd as a user that may not write in the folder of its file.
folder_is_not_writable() {
	server_stop && mkdir -m 755 "$tmp/etc" && cp "$tmp/kvd.ini" "$tmp/etc/kvd.ini" &&
		chmod 644 "$tmp/etc/kvd.ini" && mkdir "$tmp/run" && chown $STRANGER "$tmp/run" ||
		return 1
	setpriv --reuid=$STRANGER --regid=$STRANGER --clear-groups "$tmp/kvd" \
		-c "$tmp/etc/kvd.ini" -o "log.file=$tmp/run/log" \
		-o "server.listen=softnic://$tmp/run/s" \
		2>"$tmp/run/stderr" &
	server_pid=$!
	pids+=("$server_pid")
	url=softnic://$tmp/run/s
	wait_until "$DEADLINE_S" kvctl ping && kvctl config set log.level debug &&
		expect 70 "^kvctl: $tmp/etc/kvd.ini: cannot write a new file in its folder, \
$tmp/etc: Permission denied: .*ReadWritePaths=$tmp/etc" config rewrite &&
		cmp "$tmp/kvd.ini" "$tmp/etc/kvd.ini" && chown $STRANGER "$tmp/etc" &&
		expect 70 'cannot give a new file its owner \(uid 0, gid 0\): Operation not' \
			config rewrite && cmp "$tmp/kvd.ini" "$tmp/etc/kvd.ini" &&
		[ "$(ls "$tmp/etc")" = kvd.ini ] && chown $STRANGER:$STRANGER "$tmp/etc/kvd.ini" &&
		expect 0 ': 1 options written' config rewrite && kill "$server_pid" &&
		await_end "$server_pid"
}

no_file() {
	"$build/kvd" -o "server.listen=softnic://$tmp/n" -o memory.size=32m -o server.workers=1 \
		-o memory.hugepages=off 2>"$tmp/stderr2" &
	server_pid=$!
	pids+=("$server_pid")
	url=softnic://$tmp/n
	wait_until "$DEADLINE_S" kvctl ping &&
		expect 70 'kvd was started without a file: start it with -c FILE' config rewrite &&
		kill "$server_pid" && await_end "$server_pid"
}

check "the server starts" starts || finish
check "all options are printed" prints_all
check "those that match a pattern" patterns
check "log.level changes what is logged" level
check "the audit log has sets, refused ones, and rewrites" audited
check "each option changes, or says that it needs a restart" every_class
check "log.format changes how" format
check "memcached.key_max, for new connections" key_max
check "memcached.idle_timeout, for one that is open" idle_timeout
check "rdma.networks, for clients without an identity" networks
check "times" times
check "all options of a set change, or none" all_or_none
check "SIGHUP takes the file's values, and says so" hup_takes_the_file
check "a rewrite changes what was set, and nothing else" rewrites
check "the next start has the values" restarts_with_them
check "a rewrite says what -o overrides" says_what_overrides
check "a file that has got errors stays" file_with_errors
if [ "$(id -u)" = 0 ] && [ $can_be_stranger = 1 ]; then
	check "without users it is for the owner" strangers
	check "users.file can be set, and needs the right admin" users
	check "a folder that kvd may not write in, and a file that is not its own" \
		folder_is_not_writable
else
	check "the server stops" server_stop
fi
check "a server without a file" no_file
finish
