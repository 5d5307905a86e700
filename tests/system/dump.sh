#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of kvctl dump and restore: keys of any bytes, values of 0 bytes to more than 1 MiB,
# flags and times to live come back as they were, into another server; both are interrupted
# half-way and gone on with; a server that restarted, a full disk, damaged and hostile files are
# refused; and a dump while others write has all keys that were there all the while.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

# In the machine with Soft-RoCE a process takes long to start, and so does a message. They are some
# blocks of a dump at least, whatever the order of the keys is: a restore that is killed has to be
# between two of them.
small=30000
slow=4000
if [ "$device" != softnic ]; then
	small=10000
	slow=1000
elif [ "${KVD_TEST_LONG:-0}" = 1 ]; then
	small=100000
	slow=30000
fi
options=(-o memory.size=128m -o memory.eviction=none -o limits.max_value=4m)
dump=$tmp/dump

# All keys and their values, of those that are long the lengths, in one order.
contents() {
	kvctl -x -v scan "$@" | LC_ALL=C sort | cksum
}
fill() {
	"$build/kvbench" put -a "$url" -D 64 -n "$small" >/dev/null
}
head -c 1500000 /dev/urandom >"$tmp/long"
head -c 100000 /dev/urandom >"$tmp/middle"
specials() {
	kvctl put empty '' && kvctl put long <"$tmp/long" && kvctl put middle <"$tmp/middle" &&
		kvctl -x put 00ff0a00 binary && kvctl -f 4294967295 put flags value &&
		kvctl -e 5000 put lives value &&
		kvctl put "$(printf 'k%.0s' {1..1024})" longest
}
# variable, key: sets it to the second at which the key expires
expires_of() {
	local line
	line=$(kvctl -v get "$2" 2>&1 >"$tmp/value") || return 1
	[[ $line =~ expires\ ([0-9]+) ]] && printf -v "$1" %s "${BASH_REMATCH[1]}"
}
# A restored key lives for as long as it had to when it was dumped: it may expire later than the
# original, by no more than the time that has passed since that was stored.
specials_are_there() {
	local line now
	expect 0 '^$' get empty && kvctl get long | cmp - "$tmp/long" &&
		kvctl get middle | cmp - "$tmp/middle" && expect 0 '^binary' -x get 00ff0a00 &&
		expect 0 'flags 4294967295 expires 0' -v get flags &&
		expect 0 '^longest' get "$(printf 'k%.0s' {1..1024})" &&
		expires_of now lives && echo "expired at $lives, expires at $now" &&
		[ "$now" -ge "$lives" ] && [ "$now" -le $((lives + SECONDS - lives_since + 2)) ]
}
items_are() {
	stat_is items "$1"
}
same_contents() {
	local now
	now=$(contents "$@")
	echo "before: $before, now: $now"
	[ "$now" = "$before" ]
}

check "a server starts" server_start "${options[@]}" || finish
check "small keys are stored" fill
check "keys and values of all kinds are stored" specials
items=$(stat_of items)
before=$(contents)
check "what expires is known" expires_of lives lives
lives_since=$SECONDS
check "a dump" expect 0 "$dump: $items keys, [0-9.]+ MiB" dump "$dump"
check "there is no partial file" [ ! -e "$dump.partial" ]
check "the dump is right" expect 0 "$items keys.* intact" restore --verify "$dump"
check "others can't read it" [ "$(stat -c %a "$dump")" = 600 ]
check "a dump by a pipe is one, too" eval 'kvctl dump - | kvctl restore --verify'
check "of one prefix and a pattern" expect 0 ': 3 keys,' dump --match '[lm]*' "$tmp/some"
check "of one prefix" expect 0 ': 1 keys,' dump "$tmp/some" fla
check "a terminal gets no dump, a pattern has to be one" expect 64 'pattern' dump --match '' x
check "--progress says how far it is" expect 0 '100.0 %.*keys/s' dump --progress "$tmp/some"
check "as JSON" expect 0 "\"keys\": $items," dump --json "$tmp/some"

# What is in the store, by sizes.
check "the longest values" expect 0 \
	"^$items keys: .* 1500000  long[^0-9]*100000  middle.* 1048576 to 2097151 +1 " \
	bigkeys --top 2
check "a sample of them" expect 0 '^5 keys, a sample: ' bigkeys --samples 5
check "of a prefix and a pattern" expect 0 '"keys": 1, "all": true.*"key": "long"' \
	bigkeys --json --match '*g' lo
check "its key in hexadecimal" expect 0 '"key": ."hex": "6c6f6e67".,' \
	-x bigkeys --json --match '*g' 6c6f

# KiB: interrupts the dump there, as a full disk does: a crash leaves what is in the file then, too
interrupted() {
	rm -f "$tmp/part"
	(ulimit -c 0 -f "$1" && expect 74 'File too large.*--resume' dump "$tmp/part") &&
		[ ! -e "$tmp/part" ] && [ "$(stat -c %s "$tmp/part.partial")" = $(($1 * 1024)) ]
}
# What comes twice does so only around the place where it was interrupted.
gone_on() {
	local keys
	kvctl dump --resume "$tmp/part" >"$tmp/out" && [ ! -e "$tmp/part.partial" ] &&
		[[ $(<"$tmp/out") =~ :\ ([0-9]+)\ keys ]] && keys=${BASH_REMATCH[1]} &&
		echo "$keys of $items" && [ "$keys" -ge "$items" ] &&
		[ "$keys" -le $((items + 8000)) ] && expect 0 'intact' restore --verify "$tmp/part"
}
places=(1 100 900 "$(($(stat -c %s "$dump") / 1024))")
for at in "${places[@]}"; do
	check "a dump finds no room, at $at KiB" interrupted "$at"
	check "--resume continues it" gone_on
done
# As of a host that went down: the file has its length, but not all of its bytes.
zeros_behind() {
	interrupted "$at" && head -c 200000 /dev/zero >>"$tmp/part.partial"
}
check "another one finds none, and has zeros after what was written" zeros_behind
check "--resume continues it" gone_on
check "with another pattern it is not" eval 'cp "$tmp/part" "$tmp/other.partial" &&
	expect 74 "another prefix or pattern" dump --resume --match "*x" "$tmp/other"'
full_output() {
	kvctl dump - >/dev/full 2>"$tmp/said"
	[ $? = 74 ] && grep -q 'No space left' "$tmp/said"
}
check "an output that takes nothing" full_output
# Both wait for a pipe, and say what was done.
dump_is_interrupted() {
	env --default-signal=INT "$build/kvctl" -a "$url" dump - >"$tmp/fifo" 2>"$tmp/said" &
	pids+=("$!")
	exec 9<"$tmp/fifo" && head -c 100 <&9 >"$tmp/head" && kill -INT "${pids[-1]}" &&
		await_end "${pids[-1]}" && exec 9<&- && forget "${pids[-1]}" &&
		[ "$status" = 130 ] && grep -qx 'kvctl: interrupted' "$tmp/said"
}
restore_is_interrupted() {
	env --default-signal=INT "$build/kvctl" -a "$url" restore "$tmp/fifo" 2>"$tmp/said" &
	pids+=("$!")
	exec 9>"$tmp/fifo" && head -c 3000000 "$dump" >&9 && kill -INT "${pids[-1]}" &&
		await_end "${pids[-1]}" && exec 9>&- && forget "${pids[-1]}" &&
		[ "$status" = 130 ] && [ ! -e "$tmp/fifo.restore" ] &&
		grep -qx 'kvctl: interrupted after [1-9][0-9]* keys' "$tmp/said"
}
mkfifo "$tmp/fifo"
check "SIGINT ends a dump" dump_is_interrupted
check "and a restore" restore_is_interrupted
mkfifo "$tmp/pipe" && ln -s pipe "$tmp/link" && mkdir "$tmp/folder"
# name: a dump arrives in the pipe
by_pipe() {
	local reader
	"$build/kvctl" restore --verify - <"$tmp/pipe" >"$tmp/got" 2>&1 &
	reader=$!
	pids+=("$reader")
	expect 0 ': [0-9]* keys' dump "$1" && await_end "$reader" && forget "$reader" &&
		grep -q ' keys.* intact' "$tmp/got" && [ -p "$tmp/pipe" ] &&
		[ ! -e "$tmp/pipe.partial" ]
}
check "a pipe is written, and keeps its name" eval 'by_pipe "$tmp/pipe" && by_pipe "$tmp/link" &&
	[ -L "$tmp/link" ] && expect 74 "is not a regular file" dump --resume "$tmp/pipe" &&
	expect 74 "is a folder" dump "$tmp/folder" && expect 64 "has no name" dump "" &&
	[ ! -e .partial ]'
# Links of our own: a kvctl that replaces them would otherwise replace /dev/stdout.
links_stay() {
	ln -s /proc/self/fd/1 "$tmp/stdout" && ln -s folder/new "$tmp/relative" &&
		ln -s /dev/null "$tmp/null" && kvctl dump "$tmp/stdout" >"$tmp/out" &&
		kvctl restore --verify "$tmp/out" && kvctl dump "$tmp/stdout" | cat >"$tmp/out" &&
		kvctl restore --verify "$tmp/out" && expect 0 keys dump "$tmp/null" &&
		expect 0 "^$tmp/relative: .* keys" dump "$tmp/relative" &&
		expect 0 keys dump "$tmp/relative" && [ ! -L "$tmp/folder/new" ] &&
		kvctl restore --verify "$tmp/folder/new" && [ -L "$tmp/stdout" ] &&
		[ -L "$tmp/relative" ] && [ -L "$tmp/null" ]
}
check "links stay, and what they lead to is written" links_stay
check "what is not there can't be resumed" expect 74 'No such file' dump --resume "$tmp/none"
check "the server stops" server_stop

check "another server" server_start "${options[@]}" || finish
check "is empty" items_are 0
cp "$dump" "$dump.partial"
check "a dump of the other one can't be gone on with" expect 74 'has restarted' \
	dump --resume "$dump"
rm -f "$dump.partial"
check "the dump is restored" expect 0 "^$items keys stored" restore "$dump"
check "all keys are the same" same_contents
check "and their values, flags and times" specials_are_there
check "the same from the dump that was gone on with" eval 'kvctl flush &&
	expect 0 "keys stored" restore "$tmp/part" && same_contents && items_are "$items"'
kvctl put flags changed
check "a key that exists can stay" expect 0 " 0 .*$items existed|^0 keys stored, $items existed" \
	restore --skip-existing "$dump"
check "it has" expect 0 '^changed' get flags
check "or gets the dumped value" expect 0 "^$items keys stored" restore --replace "$dump"
check "it has it" expect 0 '^value' get flags
check "not both" expect 64 'opposite' restore --replace --skip-existing "$dump"
absolute_since=$SECONDS
check "absolute times" expect 0 "^$items keys stored" restore --absolute "$dump"
same_time() {
	local now
	expires_of now lives && echo "$lives, now $now" &&
		[ $((now - lives)) -ge -1 ] &&
		[ $((now - lives)) -le $((SECONDS - absolute_since + 2)) ]
}
check "it expires when it would have" same_time
kvctl flush
is_gone() {
	! kvctl get shortly >"$tmp/value" 2>&1
}
# The key may expire before it is dumped: then the next try gives it longer.
shortly() {
	local seconds=1
	until kvctl -e $seconds put shortly x && expect 0 ': 1 keys,' dump "$tmp/shortly"; do
		seconds=$((5 * seconds))
		[ $seconds -le 60 ] || return 1
	done
	wait_until "$DEADLINE_S" is_gone &&
		expect 0 '^0 keys stored, 1 had expired' restore --absolute "$tmp/shortly" &&
		expect 0 '^1 keys stored' restore "$tmp/shortly"
}
check "what has expired since is left out, or lives for as long as it had" shortly

# Damage. Nothing of the bad block is stored.
kvctl flush
bytes=$(stat -c %s "$dump")
cp "$dump" "$tmp/bad"
printf 'x' | dd of="$tmp/bad" bs=1 seek=200 conv=notrunc status=none
check "a damaged file" expect 65 'bad, byte [0-9]+: ' restore "$tmp/bad"
check "nothing was stored" items_are 0
check "--verify names the place" expect 65 'bad, byte [0-9]+: .*: damaged' \
	restore --verify "$tmp/bad"
check "what is right of it can be had" expect 65 'skipped.*keys stored' \
	restore --skip-damaged "$tmp/bad"
some_items() {
	local now
	now=$(stat_of items) && echo "$now of $items" && [ "$now" -gt 0 ] && [ "$now" -lt "$items" ]
}
check "and only that" some_items
head -c $((bytes - 1)) "$dump" >"$tmp/cut"
check "a file that was cut" expect 65 "byte $((bytes - 1)): the file ends here" \
	restore --verify "$tmp/cut"
head -c 100000 /dev/urandom >"$tmp/noise"
check "a file of something else" expect 65 'this is not a dump' restore "$tmp/noise"
check "an empty file" expect 65 'ends here' restore --verify /dev/null
check "no file" expect 74 'No such file' restore "$tmp/nothing"
check "the server stops" server_stop

# A restore that is killed. The limit of its user has it take seconds.
mv "$dump" "$tmp/whole"
printf '%s\n' '[user *]' 'rights = all' "requests = $slow" >"$tmp/users"
check "a server that is slow for each client" server_start "${options[@]}" \
	-o "users.file=$tmp/users" || finish
killed_restore() {
	# Not by the function, whose shell would be what is killed.
	"$build/kvctl" -a "$url" restore "$tmp/whole" >"$tmp/out" 2>&1 &
	local pid=$!
	pids+=("$pid")
	wait_until "$DEADLINE_S" [ -e "$tmp/whole.restore" ] && kill -KILL "$pid" &&
		await_end "$pid" && forget "$pid" && [ "$status" = 137 ] && return
	cat "$tmp/out" && return 1
}
check "a restore is killed" killed_restore
check "some keys are there" some_items
check "another dump is not gone on with" eval \
	'cp "$tmp/whole.restore" "$tmp/some.restore" &&
	expect 65 "another dump" restore --resume "$tmp/some"'
cp "$tmp/whole.restore" "$tmp/kept"
check "--resume continues it" expect 0 "^$items keys stored" restore --resume "$tmp/whole"
check "all keys are there" items_are "$items"
check "all are the same" same_contents
check "there is nothing left to resume" expect 65 'nothing to resume' restore --resume "$tmp/whole"
check "the server stops" server_stop

# Others write meanwhile: what nobody changes is in the dump, and each of their values is whole.
check "a server" server_start "${options[@]}" || finish
cp "$tmp/kept" "$tmp/whole.restore"
check "it is not what a restore to another one goes on with" expect 65 'has restarted' \
	restore --resume "$tmp/whole"
check "anew it is restored" expect 0 "^$items keys stored" restore "$tmp/whole"
# Stores all small keys again and again, with the values that they have, and changes another.
write_on() {
	while [ ! -e "$tmp/enough" ]; do
		"$build/kvbench" put -a "$url" -D 64 -n "$small" >/dev/null || return 1
	done
}
client_start neighbour "$tmp/neighbour" loop "$url" put neighbour 3000 0
write_on &
writer=$!
pids+=("$writer")
check "others write" await_line "$tmp/neighbour" '^looping' "$neighbour"
for round in 1 2 3; do
	check "a dump meanwhile" expect 0 ' keys, ' dump "$dump$round"
done
writer_ends_well() {
	touch "$tmp/enough" && await_end "$writer" && forget "$writer" && [ "$status" = 0 ]
}
check "they notice nothing" eval 'writer_ends_well && neighbour_ends_well'
check "the server stops" server_stop
check "a new one" server_start "${options[@]}" || finish
# What nobody changed, or always to the same, and the key that was changed all the while.
same_but_one() {
	expect 0 ' keys stored' restore "$dump$1" && items_are $((items + 1)) &&
		kvctl del neighbour && same_contents && specials_are_there && kvctl flush
}
for round in 1 2 3; do
	check "what was dumped meanwhile is all" same_but_one "$round"
done
check "the server stops" server_stop
finish
