#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs every command block of README.md verbatim in a fresh tree, as root and as an ordinary user,
# and compiles its C block with the installed library. A block is marked by its language: sh is run,
# text is output and not run; any other is an error, so that no block is forgotten.
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

# The first line of a block, and why it is not run.
skipped=(
	"make demo " "installs packages, and runs all tests, this one too"
)

if [ "${KVD_TEST_UNSHARED:-}" != 1 ]; then
	if [ "$(id -u)" != 0 ] || ! unshare -mp --fork true 2>/dev/null; then
		echo "this test needs root, and a kernel that lets it have namespaces"
		exit 77
	fi
	[ -x "$build/kvd" ] || { echo "$build/kvd is not built: run make"; exit 1; }
	work=$(mktemp -d "${TMPDIR:-/tmp}/kvd-readme.XXXXXX") || exit 1
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

# Writes block N of README.md to /mnt/blocks/N.LANGUAGE.
mkdir -m 755 /mnt/blocks
awk '!inside && /^```/ {
		inside = 1
		file = sprintf("/mnt/blocks/%02d.%s", ++n, substr($0, 4))
		next
	}
	inside && /^```$/ { inside = 0; next }
	inside { print >file }' README.md

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

# A block that stops its server leaves it some time to end.
no_server() {
	local i
	for ((i = 0; i < 6000; i++)); do
		pgrep -x kvd >/dev/null || return 0
		sleep 0.05
	done
	return 1
}

# user, block
run_block() {
	local start=${EPOCHREALTIME/./} name="$1: $(head -n 1 "$2")"
	if ! run_as "$1" "$2" </dev/null >/mnt/said 2>&1; then
		fail "$name"
		tail -n 20 /mnt/said | sed 's/^/      | /'
	elif ! no_server; then
		fail "$name: the server still runs"
		exit 1
	elif grep -q 'get name$' "$2" && ! grep -q '^Ada' /mnt/said; then
		fail "$name: no Ada"
	else
		printf 'ok    %-60.60s %d ms\n' "$name" $(((${EPOCHREALTIME/./} - start) / 1000))
	fi
}

# The C block is what stands in main().
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
		echo "ok    the C block compiles with the installed library"
	else
		fail "the C block does not compile"
		cat /mnt/said
	fi
}

for user in root user; do
	prepare $user || exit 1
	for block in /mnt/blocks/*; do
		case $block in
		*.text) ;;
		*.sh)
			if why_skipped "$block"; then
				[ $user = user ] ||
					printf 'skip  %s: %s\n' "$(head -n 1 "$block")" "$why"
			else
				run_block $user "$block"
			fi
			;;
		*.c) [ $user = user ] || c_block=$block ;;
		*) fail "$block: its language is none of sh, text, c: $(head -n 1 "$block")" ;;
		esac
	done
done
compile_block "$c_block"
for ((i = 0; i < ${#skipped[@]}; i += 2)); do
	[ "${used[i]:-}" = 1 ] ||
		fail "no block begins with '${skipped[i]}', which is to be skipped"
done
[ $failures = 0 ] || { echo "$failures failed"; exit 1; }
echo "ok"
