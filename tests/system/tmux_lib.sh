# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Programs on a terminal: a window of a tmux of the test's own. To be sourced after lib.sh.
export TERM=xterm
screen_columns=100 screen_lines=40

tmux_own() {
	tmux -L "kvd-$$" -f /dev/null "$@"
}

# command...: in a new window; what it is told by keys, and shows, are of this one. Its exit status
# is in a file then.
screen_start() {
	local command
	printf -v command '%q ' "$@"
	rm -f "$tmp/screen.status"
	tmux_own new-session -d -x "$screen_columns" -y "$screen_lines" \
		"$command; echo \$? >$(printf %q "$tmp/screen.status"); sleep 1000" || return 1
	screen_pid=$(tmux_own display-message -p '#{pid}')
	pids+=("$screen_pid") # ends with the test
}

# As tmux(1) names keys: Enter, Tab, C-c; other words are typed.
screen_keys() {
	tmux_own send-keys "$@"
}

screen_text() {
	tmux_own capture-pane -p -S - | sed -e 's/ *$//'
}

# pattern of the whole screen
screen_has() {
	[[ $(screen_text) =~ $1 ]]
}

# pattern: comes to the screen in time
screen_shows() {
	wait_until "$DEADLINE_S" screen_has "$1" && return
	echo "the screen has no '$1':"
	screen_text
	return 1
}

# status: that the program ended with
screen_ends() {
	wait_until "$DEADLINE_S" [ -s "$tmp/screen.status" ] &&
		[ "$(<"$tmp/screen.status")" = "$1" ]
}

# The next one may have the same name only when this one is gone.
screen_stop() {
	kill "$screen_pid" && wait_until "$DEADLINE_S" ended "$screen_pid" && forget "$screen_pid"
}
