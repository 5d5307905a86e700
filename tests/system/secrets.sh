#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of what core dumps of kvd and kvctl have: no key, in no form, and nothing of what
# clients have stored unless memory.dump says so. It lets both dump core, where that changes nothing
# of the host: in the machine of tests/vm/run.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

if [ "$way" != rdma ] || [ ! -e /run/kvd-vm-command ]; then
	echo "this test needs an RDMA device and a machine of its own: tests/vm/run"
	exit 77
fi
case $build in
*/asan | *tsan)
	echo "sanitizers have the memory of OpenSSL as it is"
	exit 77
	;;
esac
url=rdma+tls://$KVD_RDMA_ADDR:$port
marker=stored-by-a-client
psk=8d1f5a3cb77e20496e9bd3c2f0a15b68

files_make() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
		-subj /CN=server -addext "subjectAltName=IP:$KVD_RDMA_ADDR" \
		-keyout "$tmp/server.key" -out "$tmp/server.pem" 2>&1 &&
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
			-subj /CN=client -keyout "$tmp/client.key" -out "$tmp/client.pem" 2>&1 &&
		chmod 600 "$tmp/server.key" "$tmp/client.key" &&
		(umask 077 && echo "alice:$psk" >"$tmp/keys") &&
		config_write && sed -i '/^\[tls\]/,/^psk/d' "$tmp/kvd.ini"
	cat >>"$tmp/kvd.ini" <<-END
		[tls]
		certificate = $tmp/server.pem
		key = $tmp/server.key
		ca = $tmp/client.pem
		psk = $tmp/keys
	END
}

# hexadecimal digits: a pattern of these bytes, or of the longest part of them without a newline,
# which ends what grep looks at
bytes() {
	sed 's/../\\x&/g' <<<"$1" | awk -F '\\\\x0a' '{
		for (i = 1; i <= NF; i++)
			if (length($i) > length(longest))
				longest = $i
		print longest
	}'
}

# file of a private key: its number, in hexadecimal digits
number_of() {
	openssl ec -in "$1" -text -noout 2>/dev/null |
		awk '/^priv:/ { on = 1; next } /^pub:/ { on = 0 } on' | tr -d ' :\n' |
		sed 's/^00//'
}

reversed() {
	fold -w 2 <<<"$1" | tac | tr -d '\n'
}

# The forms in which a secret may be somewhere: names and patterns.
patterns_make() {
	local name number
	printf '%s\t%s\n' 'key in digits' "$psk" 'key in bytes' "$(bytes $psk)" >"$tmp/patterns"
	for name in server client; do
		number=$(number_of "$tmp/$name.key") && [ ${#number} = 64 ] || return 1
		# As in the file; as OpenSSL has it in bytes, and in words.
		printf '%s\t%s\n' "file of the $name" "\\Q$(sed -n 2p "$tmp/$name.key")\\E" \
			"bytes of the $name" "$(bytes "$number")" \
			"words of the $name" "$(bytes "$(reversed "$number")")" >>"$tmp/patterns"
	done
	cat "$tmp/patterns"
	[ "$(awk -F '\t' '$2 != ""' "$tmp/patterns" | wc -l)" = 8 ]
}

# pid: it dumps core, to $tmp/core
dump() {
	rm -f "$tmp/core"
	kill -ABRT "$1" && await_end "$1" && forget "$1" && [ $status = 134 ] && [ -s "$tmp/core" ]
}

core_has() { # pattern
	LC_ALL=C grep -qaP -- "$1" "$tmp/core"
}

# The dump has other things, the name of a file say: so it would have the secret.
core_has_no_secret() {
	local name pattern
	core_has "\\Q$tmp/\\E" || { echo "not even the name of a file" && return 1; }
	core_has "$(cut -f 2 "$tmp/patterns" | paste -sd '|')" || return 0
	while IFS=$'\t' read -r name pattern; do
		! core_has "$pattern" || echo "it has the $name"
	done <"$tmp/patterns"
	return 1
}

core_has_no_value() {
	! core_has "$marker"
}

# variable, option...: a kvctl that has connected and waits for the value on its standard input
kvctl_waits() {
	local -n waiting=$1
	local before
	shift
	before=$(KVD_TLS_PSK=$tmp/keys stat_of connections) || return 1
	mkfifo "$tmp/fifo" 2>/dev/null
	"$build/kvctl" -a "$url" "$@" put key - <"$tmp/fifo" >"$tmp/waiting" 2>&1 &
	waiting=$!
	pids+=("$waiting")
	exec {writer}>"$tmp/fifo"
	KVD_TLS_PSK=$tmp/keys wait_until "$DEADLINE_S" stat_is connections $((before + 1))
}

# Both ways to authenticate, and a reload, have happened.
used() {
	kvctl --tls-psk "$tmp/keys" put stored "$marker" &&
		kvctl --tls-ca "$tmp/server.pem" --tls-certificate "$tmp/client.pem" \
			--tls-key "$tmp/client.key" get stored && kill -HUP "$server_pid" &&
		logged 'files of \[tls\] were read again' &&
		kvctl --tls-psk "$tmp/keys" get stored
}

# That the search finds what is there: in a dump of a shell that has read the files.
search_finds() {
	local name pattern
	# shellcheck disable=SC2016 # expanded by the inner shell
	bash -c 'a=$(cat "$0" "$1" "$2"); kill -ABRT $$; : "$a"' \
		"$tmp/keys" "$tmp/server.key" "$tmp/client.key" &
	wait $!
	for name in 'key in digits' 'file of the server' 'file of the client'; do
		pattern=$(awk -F '\t' -v name="$name" '$1 == name { print $2 }' "$tmp/patterns")
		core_has "$pattern" || { echo "not found: $name" && return 1; }
	done
}

check "there are keys" files_make && check "and patterns of them" patterns_make || finish
ulimit -c unlimited
echo "$tmp/core" >/proc/sys/kernel/core_pattern
check "a search finds what is in a dump" search_finds

check "the server starts" server_start || finish
check "clients come" used
check "a client with a key waits" kvctl_waits by_psk --tls-psk "$tmp/keys"
check "it dumps core" dump "$by_psk"
check "without secrets" core_has_no_secret
check "a client with a certificate waits" kvctl_waits by_key --tls-ca "$tmp/server.pem" \
	--tls-certificate "$tmp/client.pem" --tls-key "$tmp/client.key"
check "it dumps core" dump "$by_key"
check "without secrets" core_has_no_secret
check "the server dumps core" dump "$server_pid"
check "without secrets" core_has_no_secret
check "without what clients have stored" core_has_no_value
check "a server with memory.dump starts" server_start -o memory.dump=yes || finish
check "clients come" used
check "it dumps core" dump "$server_pid"
check "with what clients have stored" core_has "$marker"
check "without secrets" core_has_no_secret
finish
