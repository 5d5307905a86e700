#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A part of deb.sh, which runs it in the virtual machine of tests/vm/run: boots the systemd of a
# root in which the packages are installed, and runs there the packages' own test of the unit. Then
# it upgrades kvd while that serves, by conf/upgrade, too, and removes it. ROOT/debs has old.deb,
# new.deb, and bad.deb, whose kvd ends at once.
#
# Usage: tests/deb_service.sh ROOT
set -euo pipefail
root=$1
here=$(realpath "$(dirname "$0")/..")
DEADLINE_S=300

[ -e /run/kvd-vm-command ] || { echo "deb_service.sh: for tests/vm/run only" >&2 && exit 2; }

new=/run/clean
mkdir "$new" /run/files
mount -t tmpfs files /run/files
mkdir /run/files/upper /run/files/work
mount -t overlay -o "lowerdir=$root,upperdir=/run/files/upper,workdir=/run/files/work" root "$new"
mkdir -p "$new/tests"
cp "$here/conf/debian/tests/service" "$new/tests/service"
# An index of the manual pages takes longer than all else that dpkg does.
rm -f "$new/var/lib/man-db/auto-update"
mount -t cgroup2 none /sys/fs/cgroup

# Process 1 of its own processes. It takes some seconds until it answers, emulated.
# shellcheck disable=SC2016 # expanded by the inner shell
container=test unshare --pid --mount --fork --cgroup sh -ec '
	mount -t proc proc "$0/proc"
	mount --rbind /sys "$0/sys"
	mount --rbind /dev "$0/dev"
	mount -t tmpfs -o mode=755 run "$0/run"
	exec chroot "$0" /lib/systemd/systemd --system --log-target=kmsg --unit=basic.target
' "$new" &
starter=$!
disown # its end is no news

inside() {
	local first
	# The line has no end.
	read -r first <"/proc/$starter/task/$starter/children" || [ -n "$first" ] || return
	# systemd's root is by chroot(2), where systemctl would look for no systemd.
	SYSTEMD_IGNORE_CHROOT=1 nsenter -t "${first% }" -p -m -C -r -w "$@"
}

is_up() {
	inside systemctl is-active --quiet basic.target 2>/dev/null
}

until is_up; do
	[ "$SECONDS" -lt "$DEADLINE_S" ] ||
		{ echo "no basic.target after $SECONDS s" && dmesg | tail -n 30 && exit 1; }
	sleep 0.5
done
echo "systemd is up after $SECONDS s"

failed() {
	echo "deb_service.sh: $*"
	dmesg | grep -i 'systemd\|kvd' | tail -n 40
	kill -KILL "$starter"
	exit 1
}

# unit
main_pid() {
	inside systemctl show -P MainPID "$1"
}

inside env KVD_RDMA_ADDR="$KVD_RDMA_ADDR" /bin/sh -x /tests/service || failed "the test of the unit"

# text, field, value: kvd's last entry in the journal whose message is like the text has the field
journal_has() {
	inside journalctl -o json -u kvd --no-pager | python3 -c '
import json, sys
text, field, value = sys.argv[1:]
entries = [entry for entry in map(json.loads, sys.stdin) if text in str(entry["MESSAGE"])]
sys.exit(not entries or entries[-1].get(field) != value)' "$@"
}

export DEBIAN_FRONTEND=noninteractive
inside dpkg --force-confold,downgrade -i /debs/old.deb
! inside systemctl is-active --quiet kvd || failed "an installation has started it"
inside systemctl enable --now kvd
inside sh -c "sed 's|^listen = .*|listen = softnic:///run/kvd-a/kvd.sock|' /etc/kvd/kvd.ini \
	>/etc/kvd/a.ini"
inside systemctl start kvd@a
before=$(main_pid kvd)
before_a=$(main_pid kvd@a)
inside dpkg --force-confold -i /debs/new.deb
inside systemctl is-active --quiet kvd || failed "it does not serve after an upgrade"
inside systemctl is-enabled --quiet kvd || failed "an upgrade has disabled it"
[ "$(main_pid kvd)" != "$before" ] || failed "an upgrade has not restarted it"
inside systemctl is-active --quiet kvd@a || failed "its instance does not serve after an upgrade"
[ "$(main_pid kvd@a)" != "$before_a" ] || failed "an upgrade has not restarted its instance"
inside kvctl -a softnic:///run/kvd/kvd.sock ping || failed "it does not answer after an upgrade"
for field in PRIORITY=5 SYSLOG_IDENTIFIER=kvd KVD_THREAD=kvd _TRANSPORT=journal; do
	until journal_has 'ready: ' "${field%=*}" "${field#*=}"; do
		[ "$SECONDS" -lt "$DEADLINE_S" ] || failed "the journal has no $field: $(
			inside journalctl -o json -u kvd --no-pager | tail -n 3)"
		sleep 0.5
	done
done
# kvd's data outlives it, and the script goes back if the new kvd does not serve.
upgrade() {
	inside /usr/share/kvd/upgrade -a softnic:///run/kvd/kvd.sock "$@" | tee /run/said
}

# A client that counts as long as the file is there, and in the end prints how often.
: >"$new/tests/counts"
count() {
	# shellcheck disable=SC2016 # expanded by the inner shell
	inside sh -c 'while [ -e /tests/counts ]; do
			echo incr counter -i 1
			sleep 0.1
		done | kvctl -a softnic:///run/kvd/kvd.sock -t 900s | awk "END { print NR, \$1 }"'
}

no_call_failed() {
	grep -q ', 0 calls failed$' /run/said || failed "calls failed: $(cat /run/said)"
}
inside kvctl -a softnic:///run/kvd/kvd.sock put name Ada
status=0
upgrade /debs/new.deb /debs/old.deb || status=$?
[ $status = 1 ] || failed "data would be lost, and upgrade ended with $status"
inside sed -i '/^\[memory\]/,/^\[/{s|^file =.*|file = /dev/shm/kvd|; s|^size = .*|size = 64m|}' \
	/etc/kvd/kvd.ini
inside systemctl restart kvd
inside kvctl -a softnic:///run/kvd/kvd.sock put name Grace
inside dpkg --force-confold,downgrade -i /debs/old.deb
count >/run/counted &
counts=$!
inside sh -c 'mkdir /var/tmp/new /var/tmp/old && cp /debs/new.deb /var/tmp/new &&
	cp /debs/old.deb /var/tmp/old'
upgrade /var/tmp/new /var/tmp/old || failed "upgrade ended with $?"
no_call_failed
[ "$(inside kvctl -a softnic:///run/kvd/kvd.sock get name)" = Grace ] ||
	failed "an upgrade has lost the data"
upgrade /debs/bad.deb /debs/new.deb || status=$?
[ $status = 2 ] || failed "the bad kvd does not serve, and upgrade ended with $status"
[ "$(inside kvctl -a softnic:///run/kvd/kvd.sock get name)" = Grace ] ||
	failed "an upgrade and back has lost the data"
no_call_failed
rm "$new/tests/counts"
wait $counts
read -r counted last </run/counted
[ "$counted" = "$last" ] || failed "of $counted numbers the last one is $last"
inside dpkg -r kvd
! grep -qx kvd /proc/[0-9]*/comm 2>/dev/null || failed "it runs after its removal"
kill -KILL "$starter"
echo "ok"
