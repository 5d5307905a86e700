#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of conf/kvd.service, and of kvd@.service, which is made of it: systemd takes them
# without a complaint, gives them a figure that is not worse than EXPOSURE_MAX, and kvd does what it
# is for within it: over every transport, with a reload, with nothing but kvd's own files and
# devices, and beside other instances. The second half needs a machine whose processes can have a
# systemd of their own: the virtual one of tests/vm/run.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

EXPOSURE_MAX=16 # tenths, of 100: systemd-analyze security

if ! command -v systemd-analyze >/dev/null; then
	echo "there is no systemd-analyze: apt-get install systemd"
	exit 77
fi

# What `make install` does, to a folder that the unit's user may read.
home=$tmp
[ "$device" = softnic ] || home=/run/kvd-unit
unit=$home/units/kvd.service
template=$home/units/kvd@.service
# file, name of the configuration, runtime folder
unit_write() {
	sed "s|@BINDIR@|$home/bin|; s|@SYSCONFDIR@|$home/etc|; s|@NAME@|$2|; s|@RUNDIR@|$3|" \
		conf/kvd.service >"$1" && ! grep '@[A-Z]*@' "$1"
}
install_unit() {
	mkdir -p "$home/bin" "$home/units" "$home/etc/kvd" "$home/tls" &&
		cp "$build/kvd" "$home/bin/kvd" && unit_write "$unit" kvd kvd &&
		unit_write "$template" %i kvd-%i
}

# unit
verified() {
	local said
	said=$(systemd-analyze verify --man=no --recursive-errors=no "$1" 2>&1) &&
		! grep -F "${1##*/}" <<<"$said"
}

instance_verified() {
	cp "$template" "$home/units/kvd@name.service" && verified "$home/units/kvd@name.service" &&
		rm "$home/units/kvd@name.service"
}

# file: whether the figure is small enough
is_closed() {
	systemd-analyze security --no-pager --offline=true --threshold=$EXPOSURE_MAX "$1"
}

# Each line that the figure depends on is needed for it.
open_is_noticed() {
	local line
	for line in CapabilityBoundingSet= 'SystemCallFilter=~' RestrictNamespaces=; do
		mkdir -p "$home/open"
		grep -v "^$line" "$unit" >"$home/open/kvd.service"
		! is_closed "$home/open/kvd.service" >/dev/null ||
			{ echo "not noticed: $line" && return 1; }
	done
}

check "the unit is filled in" install_unit || finish
check "systemd takes it" verified "$unit"
check "and an instance" instance_verified
check "its exposure is $EXPOSURE_MAX of 100 at most" is_closed "$unit"
check "and an instance's" is_closed "$template"
check "a unit that lacks a line has more" open_is_noticed
if [ "$device" = softnic ] || [ ! -e /run/kvd-vm-command ]; then
	finish
fi
[ "$way" = rdma ] || finish # the unit serves all of them

# The machine has no user for it, and its files are the host's, which can't be changed.
machine_prepare() {
	sed '$a kvd:x:777:777::/nonexistent:/usr/sbin/nologin' /etc/passwd >"$home/passwd" &&
		sed '$a kvd:x:777:' /etc/group >"$home/group" &&
		mount -t cgroup2 none /sys/fs/cgroup
	cat >"$home/units/test.target" <<-END
		[Unit]
		DefaultDependencies=no
		Wants=kvd.service
	END
	# What the rest of a system would have started.
	mkdir -p "$unit.d" "$template.d" && cat >"$unit.d/alone.conf" <<-END &&
		[Unit]
		DefaultDependencies=no
		[Service]
		StandardOutput=append:$home/stderr
		StandardError=append:$home/stderr
	END
		cp "$unit.d/alone.conf" "$template.d/"
}

machine_config() {
	config_write "softnic:///run/kvd/kvd.sock, rdma://$KVD_RDMA_ADDR,
		  rdma+tcp://$KVD_RDMA_ADDR, rdma+tls://$KVD_RDMA_ADDR"
	sed -i -e "s|^psk = .*|psk = $home/tls/psk|; s|^hugepages = .*|hugepages = auto|" \
		-e "s|^socket_mode = .*|socket_mode = 0660|" \
		-e "s|^file = .*|file = /var/log/kvd/kvd.log|" "$tmp/kvd.ini" &&
		cp "$tmp/kvd.ini" "$home/etc/kvd/kvd.ini" && key_write 00 &&
		chmod 755 "$home" "$home"/bin "$home"/etc "$home"/etc/kvd "$home"/tls &&
		chmod 644 "$home/etc/kvd/kvd.ini"
}

# first byte: the key of kvd and of its clients, in files of each
key_write() {
	(umask 077 && echo "test:$1"0102030405060708090a0b0c0d0e0f >"$home/psk") &&
		cp -p "$home/psk" "$home/tls/psk" && chown 777 "$home/tls/psk"
}

# A systemd that is process 1 of its own processes, and has a passwd, /var/log and /var/tmp.
systemd_start() {
	# shellcheck disable=SC2016 # expanded by the inner shell
	SYSTEMD_UNIT_PATH=$home/units container=test unshare --pid --mount --fork --mount-proc \
		--cgroup sh -c 'mount --bind "$0/passwd" /etc/passwd &&
			mount --bind "$0/group" /etc/group && mount -t tmpfs none /var/log &&
			mount -t tmpfs none /var/tmp &&
			exec /lib/systemd/systemd --system --log-target=kmsg --unit=test.target' \
		"$home" >"$home/systemd" 2>&1 &
	pids+=("$!")
	supervisor=$! inside=
}

# systemd's process, as we see it.
systemd_pid() {
	# The line has no end.
	read -r inside <"/proc/$supervisor/task/$supervisor/children" 2>/dev/null
	[ -n "$inside" ]
}

ctl() {
	SYSTEMD_IGNORE_CHROOT=1 nsenter -t "${inside% }" -p -C systemctl "$@"
}

is_settled() {
	state=$(ctl is-active kvd.service 2>&1)
	[ "$state" = active ] || [ "$state" = failed ]
}

started() {
	wait_until "$DEADLINE_S" is_settled && [ "$state" = active ] && return 0
	echo "it is: $state"
	dmesg | grep 'systemd.*kvd' | tail -n 8
	tail -n 10 "$home/stderr"
	return 1
}

# url: a value goes there and comes back
works() {
	url=$1
	expect 0 '^$' put key "value-${url##*:}" && expect 0 "^value-${url##*:}\$" get key
}

over_all() {
	works "rdma://$KVD_RDMA_ADDR:7471" && works "rdma+tcp://$KVD_RDMA_ADDR:7472" &&
		KVD_TLS_PSK=$home/psk works "rdma+tls://$KVD_RDMA_ADDR:7473" &&
		works softnic:///run/kvd/kvd.sock && large_value
}

# One that kvd reads from the client.
large_value() {
	head -c 1000000 /dev/urandom >"$tmp/value" && kvctl put large <"$tmp/value" &&
		kvctl get large | cmp - "$tmp/value"
}

# pattern...: kvd's process has these lines in the file of /proc
process_has() {
	local file=$1 pattern
	shift
	for pattern in "$@"; do
		grep -Eq "$pattern" "/proc/$kvd_pid/$file" ||
			{ echo "not $pattern:" && cat "/proc/$kvd_pid/$file" && return 1; }
	done
}

is_confined() {
	read -r kvd_pid <<<"$(pgrep -x kvd)" &&
		process_has status '^Uid:\s777\s777' '^NoNewPrivs:\s1' '^Seccomp:\s2' \
			'^CapPrm:\s0+$' '^CapEff:\s0+$' '^CapBnd:\s0+$' '^Umask:\s0077' &&
		process_has limits '^Max core file size *0 ' '^Max locked memory *unlimited'
}

socket_is_for_the_group() {
	[ "$(stat -c '%a %u:%g' /run/kvd/kvd.sock)" = '660 777:777' ]
}

server_log() {
	cat "/proc/$kvd_pid/root/var/log/kvd/kvd.log" "$home/stderr"
}

# Something that it was not allowed to do would be there.
log_is_clean() {
	! server_log | grep -E ' (warn|error) |not permitted|denied'
}

# SIGHUP: the keys and the log are opened again.
reloaded() {
	local folder=/proc/$kvd_pid/root/var/log/kvd
	key_write ff && mv "$folder/kvd.log" "$folder/old" && ctl reload kvd.service &&
		wait_until "$DEADLINE_S" log_has 'files of \[tls\] were read again' && over_all
}

log_has() {
	server_log 2>/dev/null | grep -q "$1"
}

stopped() {
	ctl stop kvd.service && [ "$(ctl show -P Result kvd.service)" = success ] &&
		grep -q ' kvd stopped$' "/proc/$inside/root/var/log/kvd/kvd.log"
}

# The same unit with a shell in kvd's place, which tries what kvd never does.
probe_write() {
	cat >"$home/bin/probe" <<'PROBE'
#!/bin/bash
# name, command...: it must not succeed
never() {
	local name=$1
	shift
	if "$@" >/dev/null 2>&1; then echo "can: $name"; else echo "can't: $name"; fi
}
exec 2>/dev/null
never "write to /etc" touch /etc/kvd-probe
never "write to its program's folder" touch "${0%/*}/kvd-probe"
never "see home folders" ls /root/.
never "read the kernel's log" head -c 1 /dev/kmsg
never "open a terminal's device" head -c 0 /dev/tty0
never "see other processes" test -e /proc/1/cmdline
never "make a user namespace" unshare -U true
never "mount" unshare -m mount -t tmpfs none /mnt
never "open packet sockets" python3 -c 'from socket import *
socket(AF_PACKET, SOCK_RAW)'
never "make memory that it writes to executable" python3 -c 'import mmap
mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC)'
never "set the clock" date -s now
never "set the name of the host" hostname "$(hostname)"
never "trace" strace true
never "be of realtime" chrt -f 1 true
never "make setuid files" sh -c 'touch /tmp/x && chmod u+s /tmp/x'
for d in /dev/infiniband/*; do
	: <>"$d" || echo "lost: $d"
done
: >/run/kvd/probe && : >/var/log/kvd/probe || echo "lost: its own folders"
echo end
PROBE
	chmod 755 "$home/bin/probe" &&
		sed -e "s|^ExecStart=.*|ExecStart=$home/bin/probe|" -e 's/^Type=.*/Type=oneshot/' \
			-e '/^Watchdog/d; /^Restart/d' "$unit" >"$home/units/probe.service" &&
		mkdir "$home/units/probe.service.d" &&
		sed "s|$home/stderr|$home/probe|" "$unit.d/alone.conf" \
			>"$home/units/probe.service.d/alone.conf"
}

# file, of all that is tried
probe_can_not() {
	cat "$home/probe"
	[ "$(tail -n 1 "$home/probe")" = end ] &&
		! grep -q '^can: \|^lost: ' "$home/probe" &&
		[ "$(grep -c "^can't: " "$home/probe")" = 15 ]
}

# What the probe tries can be done by root outside: else it would show nothing.
probe_can_outside() {
	"$home/bin/probe" >"$home/outside" 2>&1
	cat "$home/outside"
	[ "$(grep -c '^can: ' "$home/outside")" -ge 10 ]
}

probed() {
	probe_write && ctl daemon-reload && ctl start probe.service && probe_can_not
}

# name: the configuration of an instance
instance_write() {
	cat >"$home/etc/kvd/$1.ini" <<-END
		[server]
		listen = softnic:///run/kvd-$1/kvd.sock
		workers = 1
		[memory]
		size = 32m
		file = /dev/shm/kvd-$1
		[log]
		file = /var/log/kvd/$1.log
	END
}

# name, what it has stored
instance_has() {
	url=softnic:///run/kvd-$1/kvd.sock
	expect 0 "^$2\$" get key
}

# Neither's end takes the socket or the memory of the other one, and each keeps its own.
instances() {
	local name
	for name in a b; do
		instance_write $name && ctl start "kvd@$name.service" &&
			works "softnic:///run/kvd-$name/kvd.sock" &&
			kvctl put key "of $name" || return 1
	done
	ctl stop kvd@a.service && instance_has b 'of b' && ctl start kvd@a.service &&
		instance_has a 'of a' && ctl stop 'kvd@*.service' && [ ! -e /run/kvd-b ]
}

# An error in the configuration ends it, and no restart is tried.
wrong_configuration() {
	echo 'no option' >>"$home/etc/kvd/kvd.ini" && ! ctl start kvd.service &&
		[ "$(ctl show -P ExecMainStatus kvd.service)" = 78 ] &&
		[ "$(ctl show -P ActiveState kvd.service)" = failed ]
}

check "a machine of its own" machine_prepare && check "a configuration" machine_config || finish
systemd_start
check "systemd starts" wait_until "$DEADLINE_S" systemd_pid || finish
check "and kvd says that it is ready" started || finish
check "it has no rights" is_confined
check "its socket is for its group" socket_is_for_the_group
check "it works over every transport" over_all
check "and after a reload" reloaded
check "it was refused nothing" log_is_clean
check "it stops" stopped
check "two instances keep out of each other's way" instances
check "what it never does is refused" probed
# The probe outside takes half a minute.
if [ "${KVD_TEST_LONG:-0}" = 1 ]; then
	check "and is not where nobody refuses it" probe_can_outside
fi
check "a wrong configuration is not tried again" wrong_configuration
finish
