#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs the command blocks of the documents verbatim in a fresh tree: those of README.md as root and
# as an ordinary user, the others as an ordinary user. It compiles the C blocks with the installed
# library, and has kvd check the files of users and fleets. A block is marked by its language: sh is
# run, text is output, c is compiled, ini is a configuration, or a file of users or of a fleet. Any
# other is an error, so that no block is forgotten, unless it is named below with what tests it. A
# block that starts a server ends it, and waits until it has removed its pid file.
#
# Blocks that can't be run here are listed below with the reason. It runs in a PID and mount
# namespace with a /run and /tmp of its own, and with overlays on /usr/local and /etc, so that
# installing leaves nothing. `sudo` of the ordinary user is a process of root's that does what it is
# asked. KVD_BUILD is the build that the tree begins with, so that `make` is quick; with
# KVD_TEST_LONG=1 it begins with none, as a newcomer does.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
build=$(realpath "${KVD_BUILD:-build}")
BLOCK_SECONDS_MAX=1200

# Documents whose blocks are no commands; tests/unit/common/test_vectors.c has those of PROTOCOL.md.
formats='^(common/PROTOCOL|common/rdma/softnic/PROTOCOL)\.md$'

# The document whose blocks look at a server that runs, which this script starts and ends.
attended=conf/RUNBOOK.md

# The first line of a block, and why it is not run.
skipped=(
	"make demo " "installs packages, and runs all tests, this one too"
	"sudo apt-get install etcd-server" "makes an etcd of three hosts"
	"sudo -u kvd kvd -c /etc/kvd/kvd.ini --fleet-init"
	"needs that etcd; tests/system/fleet_etcd.sh has one"
	"make deb" "installs packages on the host; tests/deb.sh does so in a root of its own"
	"sudo systemctl enable --now kvd@cache"
	"changes the services of the host; tests/system/unit.sh starts instances"
	"sudo systemd-sysusers "
	"changes the services of the host; tests/install.sh verifies the unit"
	"sudo mkdir -p /etc/systemd/system/kvd.service.d"
	"changes the services of the host; tests/system/config.sh has such a folder"
	"(umask 077; echo " "needs an RDMA device; tests/system/tls.sh does the like"
	"openssl passwd -6 " "asks for a password; tests/system/memcached_auth.sh makes such hashes"
	"kvd -o server.listen=softnic://,memcached+tls://"
	"needs certificates; tests/system/memcached_tls.sh makes some"
	"kill -HUP " "needs a client to shut out; tests/system/revoke.sh does the like"
	"kvbench load -P bench/workloads/workloada -p recordcount=50 -p fieldcount=1"
	"needs a server whose limits.max_value is 64m, and measures for long"
	"docker run " "needs Docker; tests/system/containers.sh shares namespaces like that"
	"kvd -o memory.size=200g" "needs a host with 200 GB of memory"
	"lmcache server " "needs LMCache; tests/system/lmcache.sh has a driver in its place"
	"lmcache bench " "needs LMCache"
	"vllm serve " "needs vLLM"
	"export PYTHONHASHSEED=0" "needs vLLM; tests/system/vllm_tier.sh has a driver in its place"
	"python3 -m sglang.launch_server "
	"needs SGLang; tests/system/sglang.sh has a driver in its place"
	"export PYTHONPATH=\$(python3 -m kvd.mooncake)"
	"needs SGLang; tests/system/mooncake.sh has a driver in its place"
	"make                                    # build/libkvd.so"
	"needs Rust; tests/system/rust.sh does that"
	"make DEBUG=1" "builds other flavours; make check does that"
	"T=release/test_get " "runs the tests"
	"tests/vm/run " "needs a virtual machine; tests/vm/selftest tests it"
	"valgrind " "measures"
	"build/sim/sim " "is run by tests/sim/check.sh"
)

# A language, the documents in which it may stand, and what tests its blocks.
elsewhere=(
	python client/python/README.md "tests/python/test_readme.py"
	rust client/rust/README.md "needs crates; client/rust/kvd/examples has such programs"
	rust client/rust/kvd/README.md "rustdoc"
)

if [ "${KVD_TEST_UNSHARED:-}" != 1 ]; then
	if [ "$(id -u)" != 0 ] || ! unshare -mp --fork true 2>/dev/null; then
		echo "this test needs root, and a kernel that lets it have namespaces"
		exit 77
	fi
	[ -x "$build/kvd" ] || { echo "$build/kvd is not built: run make"; exit 1; }
	work=$(mktemp -d "${TMPDIR:-/tmp}/kvd-documents.XXXXXX") || exit 1
	trap 'rm -rf "$work"' EXIT
	export work
	KVD_TEST_UNSHARED=1 unshare -mp --fork --mount-proc "$0"
	exit
fi

# The folder of the work must be seen when /tmp is another one.
mount --bind "$work" /mnt || exit 1
mkdir /mnt/{tree,bin,usr,usr.work,etc,etc.work}
overlay() { # folder, name
	mount -t overlay overlay "$1" -o "lowerdir=$1,upperdir=/mnt/$2,workdir=/mnt/$2.work"
}
cp_build() { # from, to: one flavour, without the tests
	mkdir "$2" && cp -r "$1"/{obj,kvd,kvctl,kvbench,libkvd.*} "$2/" && rm -rf "$2/obj/tests"
}
# What a clone has, with changes that are not committed yet: so the build fits it.
tracked() {
	git ls-files -z | tar --null -cf - -T -
}
overlay /usr/local usr && overlay /etc etc &&
	tracked | tar -xC /mnt/tree && cp_build "$build" /mnt/build &&
	mount -t tmpfs tmpfs /run && mount -t tmpfs -o mode=1777 tmpfs /tmp || exit 1
rm -rf /usr/local/etc/kvd # of an installation on this host
chmod 755 /mnt
useradd -M -d /mnt/user -s /bin/bash newcomer || exit 1
unset KVD_URL XDG_RUNTIME_DIR MAKEFLAGS TMPDIR LD_LIBRARY_PATH

cat >/mnt/bin/sudo <<'SUDO'
#!/usr/bin/env bash
[ "$(id -u)" != 0 ] || exec "$@"
printf '%s\0' "$PWD" "$@" >/mnt/sudo.in
read -r status </mnt/sudo.out
exit "$status"
SUDO
chmod 755 /mnt/bin/sudo
mkfifo -m 622 /mnt/sudo.in
mkfifo -m 644 /mnt/sudo.out
while true; do
	mapfile -d '' -t words </mnt/sudo.in
	(cd "${words[0]}" && "${words[@]:1}")
	echo $? >/mnt/sudo.out
done &
export PATH=/mnt/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
# A host that is short of CPU stops a process for longer than a call may take by default.
cat >/mnt/patient <<'PATIENT'
kvbench() {
	case $1 in
	load | run) set -- "$@" -p kvd.timeout_ms=300000 -p kvd.connect_timeout_ms=300000 ;;
	esac
	command kvbench "$@"
}
kvctl() {
	command kvctl -t 300000 "$@"
}
PATIENT
export BASH_ENV=/mnt/patient

# Writes block N of a document to /mnt/blocks/N.LANGUAGE, and its document to N.of.
mkdir -m 755 /mnt/blocks
mapfile -t documents < <(cd /mnt/tree && find . -name '*.md' -printf '%P\n' | grep -Ev "$formats" |
	sort | sed '/^README.md$/d; 1i README.md')
(cd /mnt/tree && awk '!inside && /^```/ {
		inside = 1
		block = sprintf("/mnt/blocks/%03d.", ++n)
		file = block (length($0) > 3 ? substr($0, 4) : "none")
		print FILENAME >(block "of")
		close(block "of")
		next
	}
	inside && /^```$/ { inside = 0; close(file); next }
	inside { print >file }' "${documents[@]}")

failures=0
fail() {
	failures=$((failures + 1))
	printf 'FAIL  %s\n' "$1"
}

# block: prints why it is not run; fails if it is
used=()
why_skipped() {
	local first i
	first=$(head -n 1 "$1")
	for ((i = 0; i < ${#skipped[@]}; i += 2)); do
		if [[ $first == "${skipped[i]}"* ]]; then
			used[i]=1
			why=${skipped[i + 1]}
			return 0
		fi
	done
	return 1
}

# user: gives it a home with a fresh tree, and the objects of the build
prepare() {
	local home=/mnt/$1
	mkdir "$home" && cp -r /mnt/tree "$home/kvd" || return 1
	if [ "${KVD_TEST_LONG:-}" != 1 ]; then
		# Sources that are older than the objects: make has nothing to do.
		find "$home/kvd" -type f -exec touch -d 2000-01-01 {} +
		cp -r /mnt/build "$home/kvd/build"
		# Whatever flags it was built with.
		make -s -C "$home/kvd" build/obj/flags &&
			touch -d 2000-01-02 "$home/kvd/build/obj/flags" || return 1
	fi
	[ "$1" = root ] || chown -R newcomer: "$home"
}

# user, script: runs it in the user's tree
run_as() {
	local as=(env HOME="/mnt/$1" USER="$1" LOGNAME="$1")
	[ "$1" = root ] || as=(setpriv --reuid newcomer --regid newcomer --init-groups env
		HOME=/mnt/user USER=newcomer LOGNAME=newcomer)
	(cd "/mnt/$1/kvd" && timeout "$BLOCK_SECONDS_MAX" "${as[@]}" bash -e "$2")
}

# kvd ends right after it has removed its pid file.
no_server() {
	local i
	for ((i = 0; i < 6000; i++)); do
		pgrep -x kvd >/dev/null || return 0
		sleep 0.05
	done
	return 1
}

# block: prints it, with a server around it
attend() {
	echo 'kvd -d --pidfile ~/kvd.pid -o server.listen=softnic:// -o memory.size=64m'
	cat "$1"
	echo 'kill "$(cat ~/kvd.pid)"; while [ -e ~/kvd.pid ]; do sleep 0.1; done'
}

# user, block
run_block() {
	local start=${EPOCHREALTIME/./} name
	name="$1: $of: $(head -n 1 "$2")"
	if [ "$of" = $attended ]; then
		attend "$2" >/mnt/attended
		set -- "$1" /mnt/attended
	fi
	if ! run_as "$1" "$2" </dev/null >/mnt/said 2>&1; then
		fail "$name"
		tail -n 20 /mnt/said | sed 's/^/      | /'
	elif [ -e "/mnt/$1/kvd.pid" ]; then
		fail "$name: it does not wait until its server has ended"
		no_server || exit 1
	elif ! no_server; then
		fail "$name: the server still runs"
		exit 1
	elif grep -q 'get name$' "$2" && ! grep -q '^Ada' /mnt/said; then
		fail "$name: no Ada"
	else
		printf 'ok    %-80.80s %d ms\n' "$name" $(((${EPOCHREALTIME/./} - start) / 1000))
	fi
}

# A C block is what stands in main(), unless it has one.
compile_block() {
	{
		printf '#include <%s.h>\n' err kvd stdio string
		grep -q 'main(' "$1" || printf 'int main(void)\n{\n'
		cat "$1"
		grep -q 'main(' "$1" || printf '\nreturn 0;\n}\n'
	} >/mnt/prog.c
	# shellcheck disable=SC2046 # a list of flags
	if (cd /mnt && cc -Wall -Wextra -Werror prog.c $(pkg-config --cflags --libs kvd) -o prog) \
		>/mnt/said 2>&1 && ldd /mnt/prog >>/mnt/said && grep -q '/libkvd' /mnt/said; then
		echo "ok    $of: its C block compiles with the installed library"
	else
		fail "$of: its C block does not compile: $(head -n 1 "$1")"
		cat /mnt/said
	fi
}

# what, arguments of kvd: whether kvd takes the block with them
check_config() {
	if kvd --check-config -o memory.size=16m "${@:2}" >/mnt/said 2>&1; then
		echo "ok    $of: kvd takes its $1"
	else
		fail "$of: kvd does not take its $1"
		cat /mnt/said
	fi
}

# A configuration, which may name the file of a fleet in the block before it; such a file; or a file
# of users, of whom some are local ones.
check_ini() {
	if grep -q '^\[server\]' "$1"; then
		check_config "configuration" -c "$1" -o log.file= \
			-o server.listen=softnic:///mnt/socket
	elif grep -q '^member = ' "$1"; then
		sed 's,^file = .*,file = /mnt/fleet,' "$1" >/mnt/kvd.ini
		check_config "configuration" -c /mnt/kvd.ini
	elif grep -q '^\[member ' "$1"; then
		cp "$1" /mnt/fleet && chmod 644 /mnt/fleet
		check_config "file of a fleet" -o fleet.file=/mnt/fleet -o fleet.member=a
	else
		check_users "$1"
	fi
}

check_users() {
	cp "$1" /mnt/users && chmod 644 /mnt/users
	id kvd >/dev/null 2>&1 || useradd -M kvd
	check_config "file of users" -o users.file=/mnt/users
}

# language: whether blocks of it in this document are tested elsewhere
is_tested_elsewhere() {
	local i
	for ((i = 0; i < ${#elsewhere[@]}; i += 3)); do
		[ "$1 $of" != "${elsewhere[i]} ${elsewhere[i + 1]}" ] || return 0
	done
	return 1
}

prepare root && prepare user || exit 1
compiled=0
for block in /mnt/blocks/*; do
	language=${block##*.}
	[ "$language" != of ] || continue
	read -r of <"${block%.*}.of"
	case $language in
	text) ;;
	sh)
		if why_skipped "$block"; then
			printf 'skip  %s: %s: %s\n' "$of" "$(head -n 1 "$block")" "$why"
			continue
		fi
		[ "$of" != README.md ] || run_block root "$block"
		run_block user "$block"
		;;
	c) compile_block "$block" && compiled=1 ;;
	ini) check_ini "$block" ;;
	*)
		is_tested_elsewhere "$language" ||
			fail "$of: '$language' is no language of a block: $(head -n 1 "$block")"
		;;
	esac
done
[ $compiled = 1 ] || fail "no document has a C block"
for ((i = 0; i < ${#skipped[@]}; i += 2)); do
	[ "${used[i]:-}" = 1 ] || fail "no block begins with '${skipped[i]}': take it off the list"
done
[ $failures = 0 ] || { echo "$failures failed"; exit 1; }
echo "ok"
