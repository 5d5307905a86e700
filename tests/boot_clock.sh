# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# A clock for scripts that a set time of day does not move, unlike SECONDS and EPOCHREALTIME; to be
# sourced. It starts no process.

# variable: sets it to the hundredths of seconds since boot
boot_clock() {
	local -n boot_clock_now=$1
	read -r boot_clock_now _ </proc/uptime
	boot_clock_now=${boot_clock_now/./}
}

# variable, start: sets it to the seconds since then, like 1.23
boot_clock_since() {
	local -n boot_clock_seconds=$1
	local at
	boot_clock at
	printf -v boot_clock_seconds '%d.%02d' $(((at - $2) / 100)) $(((at - $2) % 100))
}
