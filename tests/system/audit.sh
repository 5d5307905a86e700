#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of the audit log: who connected, who was refused and why, wrong passwords, and what
# administrators did are in it, each as a line of JSON; SIGHUP opens it again; a client that is
# refused in a loop is counted there.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

[ "$device" = softnic ] || {
	echo "no device is below the audit log: softnic shows all of it"
	exit 77
}
umask 022
REFUSED=300
audit=$tmp/audit
port=$((20000 + $$ % 10000))
config_write "$url, memcached://127.0.0.1:$port"
uid=$(id -u)

# The users: with a password, or without any.
users_write() {
	(umask 077 && printf '[user ops]\nuid = %s\nrights = all\n' "$uid" >"$tmp/users.new")
	[ "$1" = none ] || printf '[user writer]\npassword = %s\nrights = write\n' \
		"$(openssl passwd -6 -stdin <<<"$1")" >>"$tmp/users.new"
	mv "$tmp/users.new" "$tmp/users"
}

# name=value...: prints how many lines have all of these
count() {
	python3 - "$audit" "$@" <<-'END_OF_CODE'
		import json, sys
		wants = [want.partition('=') for want in sys.argv[2:]]
		lines = [json.loads(line) for line in open(sys.argv[1], encoding='utf-8')]
		print(sum(all(str(line.get(name)) == value for name, _, value in wants)
		          for line in lines))
	END_OF_CODE
}

# name=value...: waits for such a line, which another thread writes
has() {
	has_line() { [ -e "$audit" ] && [ "$(count "$@")" -gt 0 ]; }
	wait_until "$DEADLINE_S" has_line "$@" && return 0
	tail -n 5 "$audit"
	return 1
}

starts() {
	server_start -o "log.audit=$audit" -o "users.file=$tmp/users" -o tenants.memory=64m &&
		has event=administration action=start result=ok &&
		[ "$(stat -c %a "$audit")" = 640 ]
}

connects() {
	expect 0 pong ping && has event=opened way=softnic user=ops "uid=$uid" principal=user=ops &&
		has event=closed way=softnic user=ops "reason=the client ended it"
}

# text: sends a line of memcached's protocol and its block
say() {
	printf '%s\r\n' "$@" >&"$socket"
}

login() {
	local token="writer $1"
	say "set token 0 0 ${#token}" "$token"
}

answered() {
	local line
	read -rt "$DEADLINE_S" -u "$socket" line && [[ $line == "$1"* ]]
}

wrong_password() {
	exec {socket}<>"/dev/tcp/127.0.0.1/$port" && login sesame &&
		answered "CLIENT_ERROR authentication failure" &&
		has event=opened way=memcached principal=addr=127.0.0.1 user=None &&
		has "event=login failed" way=memcached "reason=wrong password of user writer" &&
		! grep -q sesame "$audit"
}

right_password() {
	login open && answered STORED &&
		has event=authenticated way=memcached user=writer principal=user=writer
}

no_right() {
	say flush_all && answered CLIENT_ERROR &&
		has event=administration action=FLUSH user=writer \
			"result=the user has no right to do it"
}

# The number of the connection that authenticated.
number() {
	sed -n 's/.*"authenticated","connection":\([0-9]*\),.*/\1/p' "$audit"
}

kills() {
	expect 0 '' kill "$(number)" &&
		has action=KILL "target=connection $(number)" result=ok user=ops &&
		has event=closed user=writer "connection=$(number)" reason=killed &&
		expect 1 '' kill 4711 && has action=KILL "result=there is no such connection"
}

flushes() {
	expect 0 '' flush && has action=FLUSH target=default result=ok user=ops &&
		expect 0 '' flush 1000 && has "action=FLUSH later" target=default result=ok &&
		expect 0 '' flush --cancel && has "action=cancel FLUSH" result=ok &&
		expect 1 '' flush --cancel && has "action=cancel FLUSH" "result=no such flush waits"
}

tenants() {
	kvctl tenant create "a" 16m && has "action=create tenant" target=a result=begun user=ops &&
		has "action=create tenant" target=a result=ok &&
		! kvctl tenant create a 16m &&
		has "action=create tenant" target=a "result=there is already a tenant a" &&
		kvctl tenant resize a 20m && has "action=resize tenant" target=a result=ok &&
		kvctl tenant drop a && has "action=drop tenant" target=a result=ok
}

# The users of the file have no password any more, so a client without one is refused.
rotates() {
	users_write none && mv "$audit" "$audit.1" && kill -HUP "$server_pid" &&
		has action=reload target=configuration result=ok &&
		has action=reload target=users result=ok && expect 0 pong ping &&
		has event=opened user=ops && [ "$(stat -c %a "$audit")" = 640 ] &&
		grep -q '"action":"drop tenant"' "$audit.1" &&
		! grep -q '"action":"drop tenant"' "$audit" && ! grep -q reload "$audit.1"
}

# number: connects to be refused that often
refused() {
	local i line
	for ((i = 0; i < $1; i++)); do
		exec {socket}<>"/dev/tcp/127.0.0.1/$port" || return 1
		read -rt "$DEADLINE_S" -u "$socket" line
		exec {socket}>&-
		[[ $line == *"users.file has no user"* ]] || return 1
	done
}

is_refused() {
	refused 1 && has event=refused way=memcached principal=addr=127.0.0.1 \
		"reason=SERVER_ERROR users.file has no user for addr=127.0.0.1"
}

# All are there: as a line of their own, or counted.
flood_is_counted() {
	all_counted() {
		python3 - "$audit" $((REFUSED + 1)) <<-'END_OF_CODE'
			import json, sys
			lines = [json.loads(line) for line in open(sys.argv[1], encoding='utf-8')]
			own = sum(line['event'] == 'refused' for line in lines)
			more = sum(line['count'] for line in lines if line['event'] == 'more'
			           and line['of'] == 'refusals')
			print(own, more)
			sys.exit(not (more and own + more == int(sys.argv[2])))
		END_OF_CODE
	}
	refused "$REFUSED" && wait_until "$DEADLINE_S" all_counted
}

stops() {
	expect 0 '' ping && stat_is audit_lines_lost 0 && server_stop && has action=stop result=ok
}

shape() {
	python3 - "$audit" "$audit.1" <<-'END_OF_CODE'
		import datetime, json, sys
		for name in sys.argv[1:]:
		    for line in open(name, encoding='utf-8'):
		        line = json.loads(line)
		        assert list(line)[:2] == ['ts', 'event'], line
		        datetime.datetime.strptime(line['ts'], '%Y-%m-%dT%H:%M:%S.%fZ')
	END_OF_CODE
}

# status, arguments...: kvd says that it can't open the file
cannot_open() {
	local want=$1
	shift
	timeout "$DEADLINE_S" "$build/kvd" -c "$tmp/kvd.ini" -o log.file= -o log.audit=/none/audit \
		"$@" >"$tmp/out" 2>&1
	[ $? = "$want" ] && grep -q "log.audit = /none/audit: can't open it: No such" "$tmp/out"
}

full_disk() {
	server_start -o log.audit=/dev/full &&
		logged 'error log.audit = /dev/full: can.t write to it: No space left' &&
		expect 0 pong ping && : >"$tmp/stderr" && server_stop
}

users_write open
check "the server starts, and says so in a file that its group may read" starts || finish
check "a connection is opened and closed" connects
check "a wrong password is there, and not what it was" wrong_password
check "the right one" right_password
check "what a user has no right to do" no_right
check "KILL, and the connection that it closed" kills
check "FLUSH, with a delay, and cancelled" flushes
check "tenants" tenants
check "after SIGHUP a new file is written" rotates
check "a client that users.file refuses" is_refused
check "one that is refused in a loop is counted" flood_is_counted
check "the end of the server" stops
check "each line is an object with ts and event" shape
check "a file that can't be opened is an error" cannot_open 1
check "also of --check-config" cannot_open 78 --check-config
check "a full disk stops nobody, and is in the log" full_disk
finish
