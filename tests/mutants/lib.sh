# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What the head of a mutant says; for tests/mutants/run, which sources this file in the tree's top.

MUTANTS=$PWD/tests/mutants/patches

# patch: its first line, which says what is broken
mutant_what() {
	head -n 1 "$1"
}

# patch: the tests that must kill it, [flavour:]path below tests/
mutant_killers() {
	sed -n '/^--- /q; s/^Killed-by: //p' "$1" | tr '\n' ' ' | sed 's/ *$//'
}

# patch: why no test can, or nothing
mutant_why_equivalent() {
	sed -n '/^--- /q; s/^Equivalent: //p' "$1"
}

# array, patterns...: fills it with the names of the mutants that contain one of them, or of all
mutants_list() {
	local -n list=$1
	local file name pattern
	shift
	list=()
	for file in "$MUTANTS"/*.patch; do
		name=$(basename "$file" .patch)
		for pattern in "${@:-}"; do
			if [[ $name == *"$pattern"* ]]; then
				list+=("$name")
				break
			fi
		done
	done
}
