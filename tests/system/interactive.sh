#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of kvctl without a command on a terminal: typed commands, history, completion, help,
# interruption, a server that goes away and comes back; and of what completes kvctl in zsh.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/tmux_lib.sh
. "$(dirname "$0")/tmux_lib.sh"
[ "$device" = softnic ] || { echo "a terminal is the same on each device" && exit 77; }
for program in tmux zsh; do
	command -v $program >/dev/null && continue
	echo "needs $program: conf/install-deps test" && exit 1
done

export HOME=$tmp XDG_STATE_HOME=$tmp/state

# words: typed with Enter
type_line() {
	screen_keys -l -- "$1" && screen_keys Enter
}

commands_are_run() {
	type_line 'put name "Ada \x41"' && screen_shows 'x41".OK' && type_line 'get name' &&
		screen_shows 'get name.Ada A' && type_line 'get nobody' &&
		screen_shows 'kvctl: not found' && type_line "put a 'b" &&
		screen_shows 'kvctl: a quote is not closed' && type_line 'KEYS' &&
		screen_shows "no command 'KEYS': it is .scan" && type_line 'frobnicate' &&
		screen_shows 'Try .help.\.' && type_line 'incr n -i 7' &&
		screen_shows 'incr n -i 7.7'
}

words_are_completed() {
	screen_keys -l 'exi' && screen_keys Tab && screen_shows 'exists $|exists *$' &&
		screen_keys -l 'na' && screen_keys Tab Enter && screen_shows 'exists name *.1' &&
		screen_keys -l 'incr --in' && screen_keys Tab && screen_shows 'incr --initial' &&
		screen_keys C-u && screen_keys -l 're' && screen_keys Tab &&
		screen_shows 'replace +restore +revoke' && screen_keys C-u &&
		screen_keys -l 'kill ' && screen_keys Tab && screen_shows '  kill ID +close the' &&
		screen_keys C-u
}

# One ^D ends it: what is typed after it is a command.
values_are_typed() {
	type_line 'put typed' && type_line 'of two' && type_line 'lines' && screen_keys C-d &&
		type_line 'get typed' && screen_shows 'get typed.of two.lines' &&
		[ "$("$build/kvctl" -a "$url" get typed)" = $'of two\nlines' ]
}

# The line before is there again.
history_is_there() {
	type_line 'put kept 1' && type_line 'del kept' && screen_keys Up Up Enter &&
		type_line 'get kept' && screen_shows 'get kept.1'
}

interruption_cancels() {
	screen_keys -l 'put never' && screen_shows '> put never' && screen_keys C-c &&
		screen_shows 'put never\^?C?.*\^C' &&
		type_line 'get never' && screen_shows 'get never.kvctl: not found' &&
		type_line 'stats --watch 1 -v' && screen_shows ' [0-9.]+/s' && screen_keys C-c &&
		type_line 'get name' && screen_shows 'get name.Ada A'
}

ends() {
	screen_keys -l 'quit' && screen_keys Enter && screen_ends 0
}

lines_are_kept() {
	[ "$(stat -c %a "$XDG_STATE_HOME/kvd/history")" = 600 ] &&
		grep -q 'incr.*n.*7' "$XDG_STATE_HOME/kvd/history"
}

greets() {
	screen_start "$build/kvctl" -a "$url" && screen_shows 'kvctl [0-9.]+, softnic'
}

# As libkvd says it; the prompt is there again.
fails_and_goes_on() {
	type_line 'get name' && screen_shows 'connection lost|timed out|the server is away' &&
		type_line 'help get' && screen_shows '  get KEY.* +write the .*--request'
}

# A command that comes before the next try to connect fails at once.
key_is_there() {
	type_line 'put again 1' && type_line 'exists again' && screen_has 'exists again.1'
}

connection_is_back() {
	wait_until "$DEADLINE_S" key_is_there
}

another_one_has_them() {
	greets && screen_keys Up Up && screen_shows '> exists again'
}

no_server() {
	screen_start "$build/kvctl" -a "${url}9" && screen_ends 69 && screen_shows 'no socket'
}

ascii_without_history() {
	mkdir -p "$tmp/other/kvd/history/x" &&
		screen_start env LC_ALL=POSIX "XDG_STATE_HOME=$tmp/other" \
			"$build/kvctl" -a "$url" &&
		screen_shows 'quit or .D ends' && type_line 'put kü aü' &&
		type_line 'count k' && screen_shows 'count k.1' &&
		screen_keys C-d && screen_ends 0 && expect 0 '^aü$' get kü &&
		screen_has "can't keep the history in $tmp/other/kvd/history: "
}

# folder, line after compinit: the file is in the folder, which is of $fpath if its name is that
zsh_completes() {
	local folder=$tmp/$1
	mkdir "$folder" && "$build/kvctl" completion zsh >"$folder/_kvctl" || return 1
	printf '%s\n' "fpath=('$tmp/fpath' \$fpath)" 'autoload -Uz compinit' 'compinit -u' "$2" \
		"PS1='zsh: '" >"$folder/.zshrc"
	screen_start env ZDOTDIR="$folder" PATH="$build:$PATH" zsh && screen_shows 'zsh:' &&
		screen_keys -l 'kvctl sta' && screen_keys Tab && screen_shows 'kvctl stats' &&
		screen_keys -l ' --wa' && screen_keys Tab && screen_shows 'kvctl stats --watch' &&
		screen_keys C-u && screen_keys -l 'kvctl -a x --ttl 5 re' && screen_keys Tab &&
		screen_shows 'replace +restore +revoke' && screen_keys C-u &&
		screen_keys -l "kvctl dump $folder/_kv" && screen_keys Tab &&
		screen_shows "kvctl dump .*$1/_kvctl" && screen_keys C-u &&
		screen_keys -l exit && screen_keys Enter && screen_ends 0
}

check "zsh completes, by its words in .zshrc" zsh_completes words \
	'source <(kvctl completion zsh)'
screen_stop
check "zsh completes, from a folder, as make install has it" zsh_completes fpath :
screen_stop
check "the server starts" server_start || finish
check "kvctl greets" greets
check "commands are run" commands_are_run
check "values are typed" values_are_typed
check "words are completed" words_are_completed
check "the history" history_is_there
check "^C cancels a line, and ends a command" interruption_cancels
[ -z "${KVD_TEST_CAPTURE:-}" ] || screen_text >"$KVD_TEST_CAPTURE"
check "the server stops" server_stop
check "what fails does not end it" fails_and_goes_on
check "the server starts again" server_start
check "the connection is back" connection_is_back
check "quit ends it" ends
check "the lines are kept, for this user alone" lines_are_kept
screen_stop
check "another one has them" another_one_has_them
check "^D ends it" eval 'screen_keys C-u C-d && screen_ends 0'
screen_stop
check "an ASCII locale, and a history that can't be kept" ascii_without_history
screen_stop
check "without a server it says why" no_server
screen_stop
check "the server stops" server_stop
finish
