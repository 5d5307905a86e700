# SPDX-License-Identifier: MIT
"""What the package says of kvd.h is what the C compiler says: numbers, sizes and offsets."""

import ctypes
import os
import re
import subprocess
import sys

from conftest import TREE
from kvd import _abi, _lib, errors

HEADER = TREE / "client" / "kvd.h"

STRUCTS = {
    "kvd_options": _abi.COptions, "kvd_item": _abi.CItem, "iovec": _abi.Iovec,
    "kvd_get_request": _abi.CGetRequest, "kvd_range": _abi.CRange,
    "kvd_key": _abi.CKey, "kvd_exists": _abi.CExists,
    "kvd_put_args": _abi.CPutArgs, "kvd_arith_args": _abi.CArithArgs,
    "kvd_scan_args": _abi.CScanArgs, "kvd_entry": _abi.CEntry,
    "kvd_used": _abi.CUsed, "kvd_op": _abi.COp,
    "kvd_mem_info": _abi.CMemInfo, "kvd_info": _abi.CInfo, "kvd_stats": _abi.CStats,
    "kvd_fleet_info": _abi.CFleetInfo, "kvd_fleet_member": _abi.CFleetMember,
    "kvd_fleet_shard": _abi.CFleetShard, "kvd_times": _abi.CTimes, "kvd_op_stats": _abi.COpStats,
}
ENUMS = {"KVD_PUT_": _abi.PutMode, "KVD_PRIORITY_": _abi.Priority, "KVD_OP_": _abi.Op,
         "KVD_PATH_": _abi.Path, "KVD_USE_": _abi.Use, "KVD_": errors.Status}
CONSTANTS = {"KVD_KEY_MAX": _abi.KEY_MAX, "KVD_VALUE_MAX": _abi.VALUE_MAX,
             "KVD_TTL_MAX": _abi.TTL_MAX, "KVD_IOV_MAX": _abi.IOV_MAX,
             "KVD_FLEET_MEMBER_AWAY": _abi.FLEET_MEMBER_AWAY,
             "KVD_FLEET_MEMBER_DRAINED": _abi.FLEET_MEMBER_DRAINED,
             "KVD_FLEET_MEMBER_BALANCES": _abi.FLEET_MEMBER_BALANCES,
             "KVD_FLEET_NO_MEMBER": _abi.FLEET_NO_MEMBER, "KVD_URL_MAX": _abi.URL_MAX,
             "KVD_VERSION_MAJOR": _abi.VERSION[0],
             "KVD_VERSION_MINOR": _abi.VERSION[1]}


def fields_of(struct):
    for name, kind, *_ in struct._fields_:
        if name == "u":  # the value of an operation
            name, kind = "value", ctypes.c_void_p
        yield name, ctypes.sizeof(kind)


def compiled(tmp_path, asserts):
    source = tmp_path / "abi.c"
    lines = [f'_Static_assert({condition}, "{condition}");' for condition in asserts]
    source.write_text("#include <stddef.h>\n#include <kvd.h>\n" + "\n".join(lines) + "\n")
    done = subprocess.run(["cc", "-std=gnu11", "-fsyntax-only", f"-I{HEADER.parent}", source],
                          capture_output=True, text=True)
    return done.stderr


def expected():
    for name, struct in STRUCTS.items():
        yield f"sizeof(struct {name}) == {ctypes.sizeof(struct)}"
        for field, size in fields_of(struct):
            member = f"((struct {name} *)0)->{field}"
            yield f"offsetof(struct {name}, {field}) == {getattr(struct, field).offset}"
            yield f"sizeof({member}) == {size}"
    for prefix, enum in ENUMS.items():
        for member in enum:
            yield f"{prefix}{member.name} == {member.value}"
    for name, value in CONSTANTS.items():
        yield f"{name} == {value}"


def test_names_of_the_library(tmp_path):
    """The soname is the Makefile's, and the package that an ImportError names is Debian's."""
    assert f"SOMAJOR := {_abi.SONAME.removeprefix('libkvd.so.')}\n" in \
        (TREE / "Makefile").read_text()
    done = subprocess.run([sys.executable, "-c", "import kvd"], capture_output=True, text=True,
                          cwd=TREE / "client/python",
                          env={**os.environ, "KVD_LIBRARY": str(tmp_path / "absent.so")})
    package = re.search(r"Debian: the package ([^;]*);", done.stderr)[1]
    assert f"\nPackage: {package}\n" in (TREE / "conf/debian/control").read_text()


def test_layouts_and_numbers(tmp_path):
    assert compiled(tmp_path, expected()) == ""
    assert "sizeof(struct kvd_op) == 1" in compiled(tmp_path, ["sizeof(struct kvd_op) == 1"])


def header():
    return re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)


def test_nothing_is_missing():
    """All statuses, counters, fields and functions of kvd.h are known here, or named below."""
    text = header()
    statuses = re.findall(r"X\((\w+), (\d+), \"", text)
    assert {(name, int(number)) for name, number in statuses} == \
        {(status.name, status.value) for status in errors.Status}
    counters = re.findall(r"X\((\w+), \"", text)
    assert counters == [field[0] for field in _abi.CStats._fields_]
    functions = set(re.findall(r"^(?!static|\s|typedef).*?\b(kvd_\w+)\(", text, flags=re.M))
    here = set(_lib._FUNCTIONS) | set(_lib._QUICK)
    # Three take callbacks of the program, which the library calls; two are texts for kvctl.
    assert functions - here == {"kvd_trace", "kvd_set_log", "kvd_set_allocator",
                                "kvd_server_report", "kvd_sample"}
    assert here <= functions


def test_an_exception_for_each_status():
    assert set(errors.BY_STATUS) == set(errors.Status) - {errors.Status.OK}
    assert len(set(errors.BY_STATUS.values())) == len(errors.BY_STATUS)
    for status, cls in errors.BY_STATUS.items():
        error = errors.error_of(status, "why")
        assert type(error) is cls and error.status == status and str(error) == "why"
        assert _lib.status_text(status) != "unknown status"
    assert errors.BufferTooSmallError("x").needed == 0
    other = errors.error_of(99, "why")
    assert isinstance(other, errors.OtherStatusError) and other.number == 99
    assert "99" in str(other) and "why" in str(other)
