#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Test of the manual pages: mandoc has nothing to say about them, each can be formatted, and what
# the programs and kvd.h have is in them: commands, options, configuration keys, statistics,
# functions, statuses, variables of the environment. KVD_BUILD is the build folder (default build).
set -u
cd "$(dirname "$0")/.." || exit 1
build=$(realpath "${KVD_BUILD:-build}") || exit 1
tmp=$(mktemp -d "${TMPDIR:-/tmp}/kvd-man.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0

fail() {
	echo "FAIL  $*"
	failed=1
}

DOCDIR=/usr/share/doc/libkvd-dev conf/man/generate "$build" "$tmp/man" || exit 1
mapfile -t pages < <(find "$tmp/man" -type f)

# What other pages are referred to is checked below: mandoc looks for installed ones.
mandoc -Tlint -Wstyle "${pages[@]}" 2>&1 |
	grep -v -e 'referenced manual not found' -e 'mandoc.db' >"$tmp/lint"
[ ! -s "$tmp/lint" ] || fail "mandoc -Tlint says:" "$(head -n 20 "$tmp/lint")"

# page: as text without overstrikes
formatted() {
	mandoc -Tutf8 "$tmp/man/$1" | sed 's/.\x08//g'
}

# page: the same without line breaks, as $text; a page that is a link is that which it leads to
declare -A texts
text_of() {
	local page
	page=$(readlink "$tmp/man/$1") || page=$1
	text=${texts[$page]:=$(formatted "$page" | tr -s ' \n' '  ')}
}
for page in "$tmp"/man/*; do
	name=${page##*/}
	[ -e "$page" ] || fail "$name leads nowhere"
	text_of "$name"
	[[ $text =~ NAME.*DESCRIPTION.*SEE\ ALSO ]] || fail "$name is not a page"
done
while read -r name section; do
	[ -e "$tmp/man/$name.$section" ] || man -w "$section" "$name" >/dev/null 2>&1 ||
		[[ $name =~ ^(editrc|systemd)$ ]] ||
		fail "a page refers to $name($section), which there is not"
done < <(sed -n 's/^\.\(It \)*Xr \([^ ]*\) \([0-9]\).*/\2 \3/p' "${pages[@]}" | sort -u)

# What apropos(1) and whatis(1) find.
if command -v lexgrog >/dev/null; then
	diff <(cd "$tmp/man" && printf '%s\n' -- * | sed '1d; s/\.[0-9]$//' | sort) \
		<(lexgrog "${pages[@]}" | sed -n 's/.*"\(.*\) - .*"/\1/p' | sort) ||
		fail "lexgrog finds other names than there are pages"
fi
text_of libkvd.3
[[ $text == *" /usr/share/doc/libkvd-dev/examples "* ]] ||
	fail "libkvd.3 names another folder of examples than the installation has"
# What kvd.h says of all functions is there. A status is a heading where a sentence begins with it,
# and nowhere else.
[[ $text == *"every call returns KVD_ERR_DISCONNECTED: kvd_submit(),"* ]] ||
	fail "libkvd.3 has a status where there is none, or not what kvd.h says of every function"
for page in libkvd.3 kvd-protocol.7 kvd.ini.5; do
	marks=$(formatted "$page" | grep -nE '`|\*\*|\]\(|\|--- *\|')
	[ -z "$marks" ] || fail "$page has marks of Markdown:" "$(head -n 5 <<<"$marks")"
done
text_of kvd-protocol.7
[[ $text == *"if b < split or b >= 2^level)"* ]] || fail "kvd-protocol.7 lacks what looks like HTML"

# page, what, words...: all of them stand there
has() {
	local page=$1 what=$2 word
	shift 2
	text_of "$page"
	[ $# -gt 0 ] || fail "there is no $what to look for in $page"
	for word in "$@"; do
		[[ $text == *"$word"* ]] || fail "$page lacks the $what $word"
	done
}

# Each as the program itself prints it.
options_of() {
	"$build/$1" --help | grep -oE '^ {2}(-.,)? *--[a-z-]+' | grep -oE -e '--[a-z-]+'
}
for program in kvctl.1 kvbench.1 kvd.8; do
	mapfile -t words < <(options_of "${program%.*}")
	has "$program" option "${words[@]}"
done
mapfile -t words < <("$build/kvctl" completion bash |
	sed -n "s/.*compgen -W '\(get [a-z ]*\)'.*/\1/p" | head -n 1 | tr ' ' '\n')
has kvctl.1 command "${words[@]}"
mapfile -t words < <("$build/kvd" --help | sed '1,/^Statistics/d' | awk '{ print $1 }')
has kvd.8 statistic "${words[@]}"
mapfile -t words < <("$build/kvd" --print-config | sed -n 's/^\([a-z_]*\) *=.*/\1/p' | sort -u)
has kvd.ini.5 key "${words[@]}"
mapfile -t words < <("$build/kvctl" help | sed '1,/^Exit status/d' | awk '{ print $1 }')
has kvctl.1 status "${words[@]}"

for status in 0 1 2 69; do
	grep -qx "\.It \"$status\"" "$tmp/man/kvbench.1" || fail "kvbench.1 lacks status $status"
done

# folder, depth: variables of the environment that its sources read
variables_of() {
	find "$1" -maxdepth "$2" -name '*.c' -exec cat {} + |
		grep -oE 'getenv\("[A-Z_]+"|"KVD_[A-Z_]+"' | grep -oE '[A-Z_]{2,}' |
		grep -vxE 'HOME|TERM' | sort -u
}
mapfile -t words < <(variables_of client 1 && variables_of common 3)
for page in libkvd.3 kvd_open.3 kvctl.1 kvbench.1; do
	has "$page" variable "${words[@]}"
done
mapfile -t words < <(variables_of client/kvctl 1)
has kvctl.1 variable "${words[@]}"
mapfile -t words < <(variables_of server 2)
has kvd.8 variable "${words[@]}"

mapfile -t functions < <(nm -D --defined-only "$build/libkvd.so" |
	awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }')
[ ${#functions[@]} -gt 50 ] || fail "libkvd.so exports ${#functions[@]} functions only"
for name in "${functions[@]}"; do
	[ -e "$tmp/man/$name.3" ] || { fail "$name has no page" && continue; }
	text_of "$name.3"
	[[ $text =~ NAME.*[\ ,]$name[\ ,].*SYNOPSIS.*[\ \*]$name\( ]] ||
		fail "$name.3 does not have its name and prototype"
done
mapfile -t words < <(sed -n 's/^\tX(\([A-Z_]*\), [0-9]*, ".*/KVD_\1/p' client/kvd.h)
has kvd_status_text.3 status "${words[@]}"

# What is checked can be missed.
sed -i '/^\.It "ttl KEY"/,/^\.It/d' "$tmp/man/kvctl.1"
unset 'texts[kvctl.1]'
seen=$(failed=0 && has kvctl.1 command "ttl KEY")
[[ $seen == *"lacks the command ttl KEY"* ]] || fail "a command that is missing is not noticed"

[ "$failed" = 0 ] && echo "${#pages[@]} pages, ${#functions[@]} functions"
exit "$failed"
