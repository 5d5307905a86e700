# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Shared by the tests of the Python package: finds a python3 with pytest, writes the configuration
# of two servers, which the tests start themselves, and runs pytest. To be sourced.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

if [[ ${KVD_FLAVOUR:-release} == [at]san ]]; then
	echo "python3 is built without a sanitizer's runtime; the release flavour runs this"
	exit 77
fi
# The one for which Debian has the packages, or the first one.
python=
for python in /usr/bin/python3 python3; do
	"$python" -c 'import numpy, pytest' 2>/dev/null && break
	python=
done
if [ -z "$python" ]; then
	echo "no python3 with pytest and numpy: conf/install-deps test"
	exit 1
fi

# A second server, of the test that restarts one.
config_write
second=${url/%:${port:-none}/:$((${port:-0} + 1))}
[ "$device" != softnic ] || second=softnic://$tmp/s2
sed -e "s|^listen = .*|listen = $second|" -e "s|^file = .*|file = $tmp/log2|" "$tmp/kvd.ini" \
	>"$tmp/kvd2.ini"

export KVD_BUILD=$build KVD_LIBRARY=$build/libkvd.so.0.4 PYTHONPATH=$PWD/client/python
export PYTHONDONTWRITEBYTECODE=1 KVD_PYTHON_CONFIG=$tmp/kvd.ini KVD_PYTHON_URL=$url
export KVD_PYTHON_CONFIG_2=$tmp/kvd2.ini KVD_PYTHON_URL_2=$second

# [option...] file...: pytest's lines are shown, whether it succeeds or not.
tests_pass() {
	"$python" -m pytest -q -p no:cacheprovider --basetemp="$tmp/pytest" --tb=short \
		--durations=6 "$@" >&"$report" 2>&1
}
