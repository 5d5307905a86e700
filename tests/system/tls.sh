#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of TLS: who may connect by rdma+tls://, what each credential that does not fit gets as
# text and status, and that a server takes new files while its connections go on.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

if [ "$device" != verbs ]; then
	echo "this test needs an RDMA device: set KVD_TEST_DEVICE=rdma"
	exit 77
fi
tls=rdma+tls://$KVD_RDMA_ADDR:$port
url=$tls
unset KVD_TLS_PSK

# name: a certificate authority of its own
authority() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
		-subj "/CN=$1" -keyout "$tmp/$1.key" -out "$tmp/$1.pem" 2>&1
}

# authority, name, SAN, [days]: a certificate that it has signed
certificate() {
	printf 'subjectAltName=%s\n' "$3" >"$tmp/extensions"
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$2" \
		-keyout "$tmp/$2.key" -out "$tmp/request" 2>&1 &&
		openssl x509 -req -in "$tmp/request" -CA "$tmp/$1.pem" -CAkey "$tmp/$1.key" \
			-CAcreateserial -days "${4:-2}" -extfile "$tmp/extensions" \
			-out "$tmp/$2.pem" 2>&1 &&
		chmod 600 "$tmp/$2.key"
}

files_make() {
	authority ca && authority strangers &&
		certificate ca server "IP:$KVD_RDMA_ADDR" &&
		certificate ca server2 "IP:$KVD_RDMA_ADDR,DNS:second" &&
		certificate ca elsewhere DNS:elsewhere.example &&
		certificate ca client DNS:client.example &&
		certificate strangers stranger "DNS:client.example,IP:$KVD_RDMA_ADDR" &&
		(umask 077 && printf '%s\n' 'alice:000102030405060708090a0b0c0d0e0f' \
			'bob:101112131415161718191a1b1c1d1e1f' >"$tmp/keys" &&
			tail -n 1 "$tmp/keys" >"$tmp/bob" &&
			echo 'bob:ff1112131415161718191a1b1c1d1e1f' >"$tmp/mallory" &&
			echo 'carol:101112131415161718191a1b1c1d1e1f' >"$tmp/carol")
}

# name of the server's certificate: its configuration
tls_config() {
	config_write "$tls"
	sed -i '/^\[tls\]/,/^psk/d' "$tmp/kvd.ini"
	cat >>"$tmp/kvd.ini" <<-END
		[tls]
		certificate = $tmp/$1.pem
		key = $tmp/$1.key
		ca = $tmp/ca.pem
		psk = $tmp/keys
	END
}

by_client=(--tls-ca "$tmp/ca.pem" --tls-certificate "$tmp/client.pem" --tls-key "$tmp/client.key")
by_bob=(--tls-psk "$tmp/bob")

works() { # option...
	expect 0 '^$' "$@" put key value && expect 0 '^value$' "$@" get key
}

# Credentials by the environment, as kvbench and other programs take them.
works_by_environment() {
	KVD_TLS_CA=$tmp/ca.pem KVD_TLS_CERTIFICATE=$tmp/client.pem \
		KVD_TLS_KEY=$tmp/client.key expect 0 '^value$' get key &&
		KVD_TLS_PSK=$tmp/bob expect 0 '^value$' get key &&
		KVD_TLS_PSK=$tmp/mallory works "${by_bob[@]}"
}

is_known_as() { # identity, option...
	local identity=$1
	shift
	kvctl "$@" clients >"$tmp/clients"
	cat "$tmp/clients"
	grep -q " identity=$identity " "$tmp/clients"
}

# text, option...: it is not authenticated, and told why
is_refused() {
	local text=$1
	shift
	expect 77 "$text" "$@" ping
}

# text, option...: a file of its own can't be used
can_not_be() {
	local text=$1
	shift
	expect 69 "$text" "$@" ping
}

shown_to_others() {
	chmod 644 "$tmp/bob" && can_not_be 'bob: it is a secret that other users may read' \
		"${by_bob[@]}" && chmod 600 "$tmp/bob"
}

# The value of the option in the log is its file's name: no key is there, nor in any argument.
no_secret_is_shown() {
	! grep -q 101112131415161718191a1b1c1d1e1f "$log" "$tmp/stderr" &&
		! tr '\0' ' ' <"/proc/$server_pid/cmdline" | grep -q 10111213
}

tcp_is_refused() {
	url=rdma+tcp://$KVD_RDMA_ADDR:$port expect 69 'closed the connection' ping
}

# A writer goes on while the server takes a new certificate.
long_client() {
	client_start looper "$tmp/looper" loop "$tls" put looped 2000 0 &&
		await_line "$tmp/looper" '^looping' "$looper"
}

# name: it is that of the certificate that the server shows now
shows() { # name
	openssl s_client -connect "$KVD_RDMA_ADDR:$port" -CAfile "$tmp/ca.pem" </dev/null \
		>"$tmp/s_client" 2>&1
	grep -q "^subject=CN = $1\$" "$tmp/s_client" && return 0
	cat "$tmp/s_client"
	return 1
}

looper_goes_on() {
	local before
	before=$(stat_of puts) && wait_until "$DEADLINE_S" stat_above puts $((before + 20)) &&
		kill -TERM "$looper" && await_end "$looper" && forget "$looper" && [ "$status" = 0 ]
}

# text, option...: kvd does not start, and says why; nor does --check-config pass
does_not_start() {
	local text=$1
	shift
	for check in '' --check-config; do
		timeout "$DEADLINE_S" "$build/kvd" -c "$tmp/kvd.ini" ${check:+"$check"} \
			-o log.file= "$@" >"$tmp/out" 2>&1 && return 1
		cat "$tmp/out"
		grep -q -- "$text" "$tmp/out" || return 1
	done
}

check "there are certificates" files_make || finish
tls_config server
check "kvd does not start without the file" does_not_start \
	'the certificate /nowhere: No such file or directory' -o tls.certificate=/nowhere
check "nor with the key of another certificate" does_not_start \
	"the key .*/client.key: it is not the certificate's" -o "tls.key=$tmp/client.key"
check "nor if nobody could connect" does_not_start \
	'clients must show a certificate, but the CA certificates' -o tls.ca= -o tls.psk=
check "the server starts" server_start || finish

check "with a certificate" works "${by_client[@]}"
check "it is known by its name" is_known_as cert:dns:client.example "${by_client[@]}"
check "with a key" works "${by_bob[@]}"
check "it is known by its identity" is_known_as psk:bob "${by_bob[@]}"
check "by the environment; an option counts more" works_by_environment
check "without any" is_refused 'it wants a certificate, or a pre-shared key that it knows' \
	--tls-ca "$tmp/ca.pem"
check "with one of another authority" is_refused "it does not trust the signer of our certificate" \
	--tls-ca "$tmp/ca.pem" --tls-certificate "$tmp/stranger.pem" \
	--tls-key "$tmp/stranger.key"
check "with another key" is_refused 'it has another key for our identity' \
	--tls-psk "$tmp/mallory"
check "with the key of nobody" is_refused 'its certificate is not accepted' \
	--tls-psk "$tmp/carol"
check "without knowing the server's authority" is_refused 'its certificate is not accepted' \
	--tls-ca "$tmp/strangers.pem"
check "a key that others may read" shown_to_others
check "a certificate without its key" can_not_be 'its private key is missing' \
	--tls-ca "$tmp/ca.pem" --tls-certificate "$tmp/client.pem"
check "by rdma+tcp://" tcp_is_refused
check "no secret is in the log or the arguments" no_secret_is_shown
export KVD_TLS_PSK=$tmp/bob
check "refused clients left nothing" wait_until "$DEADLINE_S" stat_is connections 1
check "a writer" long_client
check "the server shows its certificate" shows server
tls_config server2
check "it takes another one" reloaded 'the files of \[tls\] were read again'
check "and shows it" shows server2
check "clients come with keys and certificates" works "${by_client[@]}"
echo 'no certificate' >"$tmp/server2.pem"
check "files that can't be used change nothing" reloaded 'stays as it was: the certificate'
check "it shows the same" shows server2
sed -i '/^bob/d' "$tmp/keys"
cp "$tmp/server.pem" "$tmp/server2.pem" && cp "$tmp/server.key" "$tmp/server2.key"
check "a key is taken away" reloaded 'the files of \[tls\] were read again'
check "it is worth nothing now" is_refused 'its certificate is not accepted' "${by_bob[@]}"
export KVD_TLS_CA=$tmp/ca.pem KVD_TLS_CERTIFICATE=$tmp/client.pem KVD_TLS_KEY=$tmp/client.key
unset KVD_TLS_PSK
check "the writer has gone on meanwhile" looper_goes_on
check "the server stops" server_stop

tls_config elsewhere
check "the server starts with another name" server_start
check "it is not the one that was meant" is_refused 'its certificate is not accepted: IP address'
check "the server stops" server_stop
tls_config server
check "the server starts for anybody" server_start -o tls.require_identity=no
unset KVD_TLS_CERTIFICATE KVD_TLS_KEY
check "a client without credentials gets in" works
check "the server stops" server_stop
finish
