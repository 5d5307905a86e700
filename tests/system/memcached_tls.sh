#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of memcached+tls://: values of all sizes and pipelines by TLS; who may connect, as
# whom, and what others get; that handshakes which are not finished hinder nobody; that a server
# takes new files while its connections go on; and that kvd does not start with files that it can't
# use.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

if [ "$device" != softnic ]; then
	echo "no device is used for this: set KVD_TEST_DEVICE=softnic"
	exit 77
fi
port=$((20000 + $$ % 10000)) # below those of clients, and nobody's
while (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
	port=$((port + 1))
done
tls=127.0.0.1:$port
users=$tmp/users
tls_client=(/usr/bin/python3 tests/system/memcached_tls_client.py)

# name: a certificate authority of its own
authority() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
		-subj "/CN=$1" -keyout "$tmp/$1.key" -out "$tmp/$1.pem" 2>&1
}

# authority, name, SAN: a certificate that it has signed
certificate() {
	printf 'subjectAltName=%s\n' "$3" >"$tmp/extensions"
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$2" \
		-keyout "$tmp/$2.key" -out "$tmp/request" 2>&1 &&
		openssl x509 -req -in "$tmp/request" -CA "$tmp/$1.pem" -CAkey "$tmp/$1.key" \
			-CAcreateserial -days 2 -extfile "$tmp/extensions" \
			-out "$tmp/$2.pem" 2>&1 &&
		chmod 600 "$tmp/$2.key"
}

files_make() {
	authority ca && authority strangers && certificate ca server IP:127.0.0.1 &&
		certificate ca server2 IP:127.0.0.1 && certificate ca writer DNS:writer.example &&
		certificate ca reader DNS:reader.example &&
		certificate ca nobody DNS:nobody.example &&
		certificate strangers stranger DNS:writer.example &&
		(umask 077 && echo 'bob:101112131415161718191a1b1c1d1e1f' >"$tmp/keys")
}

# name of the server's certificate: its configuration
tls_config() {
	config_write "$url,memcached+tls://$tls"
	sed -i -e '/^\[tls\]/,/^psk/d' -e 's/^max_connections.*/max_connections = 400/' \
		"$tmp/kvd.ini"
	cat >>"$tmp/kvd.ini" <<-END
		[tls]
		certificate = $tmp/$1.pem
		key = $tmp/$1.key
		ca = $tmp/ca.pem
		psk = $tmp/keys
	END
}

# name of the client's certificate, or "": as whom mc connects
as() {
	export MC_CA=$tmp/ca.pem MC_CERTIFICATE=${1:+$tmp/$1.pem} MC_KEY=${1:+$tmp/$1.key}
}

mc() { # command, [argument...]
	local command=$1
	shift
	"${tls_client[@]}" "$command" "$tls" "$@"
}

# pattern, text...: the server answers so
answers() {
	local want=$1 said
	shift
	said=$(mc say "$@" 2>&1)
	[[ $said =~ $want ]] && return 0
	echo "the answers to '$*' are not like '$want': ${said:0:300}"
	return 1
}

by_one_line() {
	local said
	said=$(printf 'set line 0 0 4\r\ntext\r\nget line\r\nquit\r\n' |
		openssl s_client -quiet -connect "$tls" -CAfile "$tmp/ca.pem" \
			-cert "$tmp/writer.pem" -key "$tmp/writer.key" 2>"$tmp/s_client")
	[ "$said" = $'STORED\r\nVALUE line 0 4\r\ntext\r\nEND\r' ] && return 0
	echo "$said" && cat "$tmp/s_client"
	return 1
}

# options of s_client...: the server's answer to a version by a pre-shared key
by_key() {
	printf 'version\r\nquit\r\n' |
		openssl s_client -quiet -connect "$tls" -psk_identity bob -tls1_3 "$@" 2>&1
}

known_by_key() {
	local said
	said=$(by_key -psk 101112131415161718191a1b1c1d1e1f)
	[[ $said == *VERSION* ]] || { echo "$said" && return 1; }
	said=$(by_key -psk ff1112131415161718191a1b1c1d1e1f)
	[[ $said != *VERSION* ]] || { echo "$said" && return 1; }
	logged "refused: its pre-shared key is not that of its identity in tls.psk"
}

# text, pattern of the log: it is not served, and the log says why
is_refused() {
	local said
	log_start=$(($(log_lines) + 1))
	said=$(mc say version 2>&1)
	[[ $said == *"$1"* && $said != *VERSION* ]] || { echo "$said" && return 1; }
	logged "warn memcached: connection of 127\.0\.0\.1:[0-9]+ refused: $2"
}

plain_is_refused() {
	log_start=$(($(log_lines) + 1))
	mc plain && logged 'refused: it does not speak TLS$'
}

old_tls_is_refused() {
	log_start=$(($(log_lines) + 1))
	! openssl s_client -connect "$tls" -tls1_2 </dev/null >"$tmp/out" 2>&1 &&
		logged 'refused: it does not speak TLS 1\.3$'
}

# count: opens connections in the background: $holder, which reads lines from a pipe
holder=
holds() {
	: >"$tmp/holder"
	[ -p "$tmp/lines" ] || mkfifo "$tmp/lines"
	exec {lines}<>"$tmp/lines"
	"${tls_client[@]}" hold "$tls" "$1" <"$tmp/lines" \
		>>"$tmp/holder" 2>&1 &
	holder=$!
	pids+=("$holder")
	await_line "$tmp/holder" "^holding $1\$" "$holder"
}

# The held connections are served.
holder_goes_on() {
	: >"$tmp/holder"
	echo >&"$lines" && await_line "$tmp/holder" '^answered$' "$holder"
}

holder_ends() { # count
	await_end "$holder" && forget "$holder" && [ "$status" = 0 ] &&
		says "$tmp/holder" "^closed $1\$" && return 0
	cat "$tmp/holder"
	return 1
}

are_shown() {
	local line='device=memcached addr=127\.0\.0\.1:[0-9]* identity=cert:dns:writer\.example '
	kvctl clients >"$tmp/clients" && cat "$tmp/clients" &&
		[ "$(grep -c "$line" "$tmp/clients")" = 3 ]
}

# The users, by their certificates.
users_write() {
	cat >"$users" <<-END
		[user writers]
		identity = cert:dns:writer.example
		rights = read write delete stats
		[user readers]
		identity = cert:dns:reader.example psk:bob
		rights = read
		connections = 2
		[user admins]
		uid = $(id -u)
		rights = all
	END
	chmod 600 "$users"
}

have_rights() {
	as writer
	answers $'^STORED\nVALUE right 0 1\n1\nEND\n' 'set right 0 0 1\r\n1' 'get right' ||
		return 1
	as reader
	answers $'^CLIENT_ERROR [^\n]*\nVALUE right 0 1\n1\nEND\n' 'set right 0 0 1\r\n2' \
		'get right' || return 1
	as nobody
	answers '^SERVER_ERROR users.file has no user for identity=cert:dns:nobody.example' \
		version &&
		stat_is connections_not_allowed 1
}

have_limits() {
	as reader
	holds 2 && answers '^SERVER_ERROR user=readers is at its limit of connections \(2\)' \
		version && stat_is connections_over_limit 1 &&
		expect 0 '' revoke identity=cert:dns:reader.example &&
		holder_ends 2 && stat_is connections_revoked 2
}

# Data that its client has sent ends within a value: it is not stored.
ends_in_the_middle() {
	local large
	large=$(printf '%0100000d' 0)
	answers '^STORED' 'set half 0 0 1\r\nx' && mc cut 'set half 0 0 10\r\nabc' &&
		mc cut "set half 0 0 500000\r\n$large" && mc cut 'get half' && mc cut 'get ha' &&
		wait_until "$DEADLINE_S" stat_is connections 1 &&
		answers $'^VALUE half 0 1\nx\nEND' 'get half'
}

# count: begins handshakes in the background: $stuck
stuck=
sticks() {
	: >"$tmp/stuck"
	"${tls_client[@]}" stuck "$tls" "$1" >>"$tmp/stuck" 2>&1 &
	stuck=$!
	pids+=("$stuck")
	await_line "$tmp/stuck" "^stuck $1\$" "$stuck"
}

# The server has closed them.
stuck_end() {
	await_end "$stuck" && forget "$stuck" && says "$tmp/stuck" '^all are closed$'
}

# There are more than may be: each one more replaces one of them.
stuck_hinder_nobody() {
	held_note && sticks 450 && holder_goes_on && answers '^VERSION ' version && mc many 40 &&
		holder_goes_on && logged 'refused: too many are being set up' &&
		kill -KILL "$stuck" && await_end "$stuck" && forget "$stuck" && nothing_is_held 4
}

stuck_expire() {
	server_start -o server.handshake_timeout=1s && sticks 9 && stuck_end &&
		logged 'refused: its TLS handshake took longer than server.handshake_timeout' &&
		wait_until "$DEADLINE_S" stat_is connections_expired 9 && server_stop
}

# name: it is that of the certificate that the server shows now
shows() {
	openssl s_client -connect "$tls" -CAfile "$tmp/ca.pem" </dev/null >"$tmp/out" 2>&1
	grep -q "^subject=CN = $1\$" "$tmp/out" && return 0
	cat "$tmp/out"
	return 1
}

READ_AGAIN='memcached\+tls://: the files of \[tls\] were read again'

renewed() {
	shows server || return 1
	cp "$tmp/server2.pem" "$tmp/server.pem" && cp "$tmp/server2.key" "$tmp/server.key"
	reloaded "$READ_AGAIN" && shows server2 && answers '^VERSION ' version && holder_goes_on ||
		return 1
	echo 'no certificate' >"$tmp/server.pem"
	reloaded 'memcached\+tls://: \[tls\] stays as it was: the certificate' && shows server2 ||
		return 1
	cp "$tmp/server2.pem" "$tmp/server.pem"
	echo 'alice:202122232425262728292a2b2c2d2e2f' >"$tmp/keys"
	reloaded "$READ_AGAIN" && holder_goes_on &&
		[[ $(by_key -psk 101112131415161718191a1b1c1d1e1f) != *VERSION* ]]
}

# text, option...: kvd does not start, and says why; nor does --check-config pass
does_not_start() {
	local text=$1
	shift
	for check in '' --check-config; do
		timeout "$DEADLINE_S" "$build/kvd" -c "$tmp/kvd.ini" ${check:+"$check"} \
			-o log.file= "$@" >"$tmp/out" 2>&1 && return 1
		grep -q -- "$text" "$tmp/out" && continue
		cat "$tmp/out"
		return 1
	done
}

need_files() {
	local begin='server.listen: memcached+tls:// can.t use the files of \[tls\]:'
	does_not_start "$begin none is set: set tls.certificate and tls.key, and tls.ca, or set" \
		-o tls.certificate= -o tls.key= -o tls.ca= -o tls.psk= &&
		does_not_start "$begin the certificate /nowhere: No such file or directory" \
			-o tls.certificate=/nowhere &&
		does_not_start "$begin the key .*/writer.key: it is not the certificate's" \
			-o "tls.key=$tmp/writer.key" &&
		does_not_start "$begin clients must show a certificate, but the CA certificates" \
			-o tls.ca= -o tls.psk= &&
		does_not_start "tls.require_identity = no admits clients without one" \
			-o users.require_identity=yes -o tls.require_identity=no &&
		"$build/kvd" -c "$tmp/kvd.ini" --check-config -o log.file= \
			-o users.require_identity=yes
}

is_full() {
	server_start -o server.max_connections=2 && holds 2 &&
		answers '^ERROR Too many open connections' version &&
		expect 0 '' revoke addr=127.0.0.1 &&
		holder_ends 2 && wait_until "$DEADLINE_S" answers '^VERSION ' version && server_stop
}

# All are closed with the server, those in a handshake, too.
stops_with_clients() {
	holds 3 && sticks 9 && server_stop && holder_ends 3 && stuck_end
}

unset KVD_TLS_PSK
check "there are certificates" files_make || finish
tls_config server
as writer
check "kvd does not start without files that fit" need_files
check "the server starts" server_start || finish
check "commands" answers $'^STORED\nVALUE a 0 1\n1\nEND\nTLS ended$' 'set a 0 0 1\r\n1' 'get a'
check "a client of RDMA reads the same" expect 0 '^1$' get a
check "by openssl s_client" by_one_line
check "values of all sizes" mc values
check "values that are taken slowly" mc slow
check "records of a byte" mc pieces
check "pipelines" mc pipeline
check "new keys of TLS" mc keys
check "many connections at once" mc many 300
check "clients that end in the middle" ends_in_the_middle
check "kvd is known by a pre-shared key" known_by_key
check "held connections" holds 3
check "kvctl shows their identity" are_shown
as ''
check "without a certificate" is_refused 'certificate required' 'it showed no certificate, nor a'
as stranger
check "with one of another authority" is_refused 'unknown ca' \
	'its certificate is not accepted: unable to get local issuer certificate'
check "without TLS" plain_is_refused
check "by TLS 1.2" old_tls_is_refused
as writer
check "clients that do not finish their handshake" stuck_hinder_nobody
check "renewed certificates and keys" renewed
check "the server stops, with clients" server_stop
check "their connections ended" holder_ends 3

check "handshakes that take too long" stuck_expire
check "there are users" users_write
check "the server starts with users" server_start -o "users.file=$users" \
	-o users.require_identity=yes || finish
check "clients have the rights of their users" have_rights
check "a user's limit, and revoke" have_limits
as writer
check "the server stops with clients of all states" stops_with_clients
check "no more connections than server.max_connections" is_full
check "the server starts for anybody" server_start -o tls.require_identity=no -o tls.psk=
as ''
check "a client without a certificate" answers '^VERSION ' version
check "the server stops" server_stop
finish
