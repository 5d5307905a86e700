#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of kvctl top and latency on a terminal: what is shown, the keys, another size, a
# server that goes away and comes back, and what the terminal is like afterwards.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/tmux_lib.sh
. "$(dirname "$0")/tmux_lib.sh"
[ "$device" = softnic ] || { echo "a terminal is the same on each device" && exit 77; }
command -v tmux >/dev/null || { echo "needs tmux: conf/install-deps test" && exit 1; }

top_starts() {
	screen_start "$build/kvctl" -a "$url" top --watch 1 &&
		screen_shows '^kvd [0-9.]+  softnic://.* 2 workers  [2-9] connections'
}

# A neighbour stores all the while: it is the first one by requests, and they are counted.
top_shows_rates() {
	screen_shows 'Requests   [1-9][0-9]*/s: PUT [1-9]' &&
		screen_shows $'Connections by requests\nID .* REQUESTS/s' &&
		screen_shows 'WORKER +USEFUL % .*SLEEPS % +TURNS/s' &&
		screen_shows $'\n0 +[0-9.]+ .* [1-9][0-9]* +[0-9.]+ +[1-9][0-9.]* +[1-9][0-9]*\n' &&
		screen_shows 'Memory     \[[#.]*\] +[0-9.]+ % of 32.0 MiB in use' &&
		screen_shows 'PING from here: p50 [0-9.]+, max [0-9.]+ us' &&
		screen_shows $'ID +DEVICE[^\n]*\n[0-9]+ +softnic +'"pid:$neighbour +[1-9]"
}

# The ten rows that fit beside the rest, of 30 size classes with a slab each; m shows all of them,
# and scrolling shows what is below the screen then. The title stays.
top_shows_size_classes() {
	screen_shows $'ITEM BYTES +SLABS .* EVICTED\n +[0-9]+ +1 +64.0 KiB +1 .* 0\n' &&
		screen_shows $'\nand 2[0-9] size classes with less memory\n' &&
		screen_keys m && screen_shows ' 480 +1 ' && ! screen_has 'with less memory' &&
		screen_keys End && screen_shows $'pid:'"$neighbour"' .*every 1 s' &&
		screen_has '^kvd ' && ! screen_has 'Requests' && screen_keys Up PPage PPage &&
		screen_shows 'Requests' && screen_keys Down &&
		screen_shows $'^kvd [^\n]*\nGETs ' &&
		screen_keys Home m && screen_shows 'with less memory'
}

top_takes_keys() {
	screen_keys s && screen_shows 'by received' && screen_keys Left r &&
		screen_shows 'by requests, smallest first' && screen_keys r + + &&
		screen_shows 'every 3 s' && screen_keys - - Space && screen_shows 'every 1 s'
}

# The keys stand in the last line of each size; in a tiny one it goes on.
top_is_resized() {
	tmux_own resize-window -x 60 -y 12 && screen_shows $'every 1 s  q quit[^\n]*\n*$' &&
		[ "$(screen_text | wc -L)" -le 60 ] && tmux_own resize-window -x 3 -y 1 &&
		tmux_own resize-window -x 100 -y 40 && screen_shows 'by requests'
}

top_goes_on() {
	screen_shows 'trying again: (connection lost|the server is away)' && server_start &&
		screen_shows 'up 0:0' && screen_shows 'every 1 s'
}

# What was on the terminal before is there again, with the cursor, and what is typed is shown.
terminal_is_restored() {
	screen_keys q && screen_ends 0 && ! screen_has 'REQUESTS/s' &&
		[ "$(tmux_own display-message -p '#{cursor_flag}')" = 1 ]
}

latency_is_live() {
	screen_start "$build/kvctl" -a "$url" latency &&
		screen_shows 'warm: one READ, .* [1-9][0-9]* .*cold: .*request: ' &&
		screen_shows 'below, us  warm.*#' && screen_keys C-c && screen_ends 0 &&
		expect 0 '^0$' count kvctl-latency:
}

plain_text() {
	kvctl --pipe <"$tmp/sizes" &&
		kvctl top --watch 1 -c 2 --sort id >"$tmp/plain" </dev/null &&
		[ "$(grep -c '^kvd ' "$tmp/plain")" = 2 ] &&
		grep -q 'Connections by id$' "$tmp/plain" &&
		[ "$(grep -c '^ *[0-9]* *1 *64.0 KiB ' "$tmp/plain")" = 60 ] &&
		! grep -q $'\033' "$tmp/plain" && expect 64 'requests, received' top --sort x &&
		TERM=dumb screen_start env TERM=dumb "$build/kvctl" -a "$url" top -w 1 &&
		screen_ends 0 && screen_has 'REQUESTS/s'
}

check "the server starts" server_start || finish
for ((bytes = 16; bytes < 496; bytes += 16)); do
	printf 'put size%d %0*d\n' "$bytes" "$bytes" 0
done >"$tmp/sizes"
check "values of many sizes" kvctl --pipe <"$tmp/sizes"
client_start neighbour "$tmp/neighbour" loop "$url" put neighbour 3000 0
check "a neighbour" await_line "$tmp/neighbour" '^looping' "$neighbour"
check "top starts" top_starts
check "it shows rates" top_shows_rates
[ -z "${KVD_TEST_CAPTURE:-}" ] || screen_text >"$KVD_TEST_CAPTURE"
check "it shows size classes" top_shows_size_classes
check "it takes keys" top_takes_keys
check "it fits other sizes" top_is_resized
check "the neighbour noticed nothing" neighbour_ends_well
check "the server stops" server_stop
check "it goes on when there is one again" top_goes_on
check "the terminal is as it was" terminal_is_restored
screen_stop
check "latency, until it is interrupted" latency_is_live
screen_stop
check "as plain text" plain_text
screen_stop
check "the server stops" server_stop
finish
