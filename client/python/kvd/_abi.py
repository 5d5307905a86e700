# SPDX-License-Identifier: MIT
"""What kvd.h declares, for ctypes: constants, enums and structs.

tests/python/test_abi.py compares every size, offset and number with the C compiler's.
"""

from __future__ import annotations

import enum
from ctypes import (
    CFUNCTYPE, POINTER, Structure, Union, c_char, c_char_p, c_int, c_size_t, c_uint, c_uint32,
    c_uint64, c_void_p,
)
from typing import Final

VERSION: Final = (0, 4)  # of the ABI: KVD_VERSION_MAJOR and _MINOR
SONAME: Final = "libkvd.so.{}.{}".format(*VERSION)
PACKAGE: Final = SONAME.replace(".so.", "")  # of Debian, which is named after the soname

KEY_MAX: Final = 1024
VALUE_MAX: Final = 1 << 30
TTL_MAX: Final = 1 << 30
IOV_MAX: Final = 64
URL_MAX: Final = 128
FLEET_MEMBER_AWAY: Final = 1
FLEET_MEMBER_DRAINED: Final = 2
FLEET_MEMBER_BALANCES: Final = 4
FLEET_NO_MEMBER: Final = (1 << 32) - 1


class PutMode(enum.IntEnum):
    """What a PUT does, depending on whether the key exists (enum kvd_put_mode)."""

    SET = 0
    IF_ABSENT = 1
    IF_PRESENT = 2
    IF_VERSION = 3
    APPEND = 4
    PREPEND = 5


class Priority(enum.IntEnum):
    """What a full server evicts first (enum kvd_priority): LOW before NORMAL."""

    NORMAL = 0
    LOW = 1


class Op(enum.IntEnum):
    """Kinds of operations (enum kvd_opcode)."""

    GET = 0
    PUT = 1
    DELETE = 2
    SCAN = 3
    INCR = 4
    DECR = 5
    TOUCH = 6
    GET_BY_REQUEST = 7
    GET_AND_TOUCH = 8
    PING = 9
    EXISTS = 10
    GET_RANGE = 11


class Path(enum.IntEnum):
    """The path that an operation took (enum kvd_path)."""

    NONE = 0
    WARM = 1
    COLD = 2
    REQUEST = 3
    PULL = 4
    DIRECT = 5


class Use(enum.IntEnum):
    """How the server records the use of a key (enum kvd_use)."""

    NORMAL = 1
    LOW = 2
    PINNED = 3


class COptions(Structure):
    """struct kvd_options"""

    _fields_ = [
        ("timeout_ms", c_uint32), ("connect_timeout_ms", c_uint32), ("cache_bytes", c_size_t),
        ("spin_us", c_uint32), ("get_tries", c_uint32), ("depth", c_uint32),
        ("reconnect", c_uint32), ("tls_ca", c_char_p), ("tls_certificate", c_char_p),
        ("tls_key", c_char_p), ("tls_psk", c_char_p), ("tenant", c_char_p),
    ]


class CItem(Structure):
    """struct kvd_item"""

    _fields_ = [
        ("value_len", c_size_t), ("version", c_uint64), ("flags", c_uint32),
        ("expires_s", c_uint32),
    ]


class Iovec(Structure):
    """struct iovec"""

    _fields_ = [("iov_base", c_void_p), ("iov_len", c_size_t)]


class CGetRequest(Structure):
    """struct kvd_get_request"""

    _fields_ = [
        ("key", c_char_p), ("key_len", c_size_t), ("value", c_void_p), ("value_size", c_size_t),
        ("status", c_int), ("item", CItem),
    ]


class CRange(Structure):
    """struct kvd_range"""

    _fields_ = [
        ("key", c_char_p), ("key_len", c_size_t), ("offset", c_size_t), ("value", c_void_p),
        ("value_size", c_size_t), ("status", c_int), ("item", CItem),
    ]


class CKey(Structure):
    """struct kvd_key"""

    _fields_ = [("key", c_char_p), ("key_len", c_size_t)]


class CExists(Structure):
    """struct kvd_exists"""

    _fields_ = [("status", c_int), ("item", CItem)]


class CPutArgs(Structure):
    """struct kvd_put_args"""

    _fields_ = [
        ("flags", c_uint32), ("ttl_s", c_uint32), ("mode", c_uint32), ("if_version", c_uint64),
        ("pin_s", c_uint32), ("priority", c_uint32),
    ]


class CArithArgs(Structure):
    """struct kvd_arith_args"""

    _fields_ = [
        ("create", c_uint32), ("flags", c_uint32), ("ttl_s", c_uint32), ("initial", c_uint64),
    ]


class CScanArgs(Structure):
    """struct kvd_scan_args"""

    _fields_ = [
        ("prefix", c_char_p), ("prefix_len", c_size_t), ("count", c_uint32), ("values", c_uint32),
    ]


class CEntry(Structure):
    """struct kvd_entry"""

    _fields_ = [("key", c_void_p), ("key_len", c_size_t), ("value", c_void_p), ("item", CItem)]


ENTRY_FN = CFUNCTYPE(c_int, c_void_p, POINTER(CEntry))


class CUsed(Structure):
    """struct kvd_used"""

    _fields_ = [
        ("key", c_void_p), ("key_len", c_size_t), ("item", CItem), ("use", c_uint32),
        ("uses", c_uint32), ("age", c_uint32),
    ]


USED_FN = CFUNCTYPE(c_int, c_void_p, POINTER(CUsed))


class _Value(Union):
    """The value of an operation: an address, or bytes that the struct then keeps alive."""

    _fields_ = [("value", c_void_p), ("value_bytes", c_char_p)]


class COp(Structure):
    """struct kvd_op"""

    _anonymous_ = ("u",)
    _fields_ = [
        ("key", c_char_p), ("key_len", c_size_t), ("u", _Value), ("value_len", c_size_t),
        ("status", c_int), ("item", CItem), ("number", c_uint64),
        ("op", c_uint32), ("timeout_ms", c_uint32), ("flags", c_uint32), ("ttl_s", c_uint32),
        ("mode", c_uint32), ("create", c_uint32), ("pin_s", c_uint32), ("priority", c_uint32),
        ("if_version", c_uint64), ("delta", c_uint64), ("initial", c_uint64),
        ("done", c_void_p), ("user", c_void_p), ("iov", c_void_p), ("iov_count", c_uint32),
        ("reserved_u32", c_uint32), ("offset", c_size_t), ("reserved", c_uint64 * 11),
    ]


class CMemInfo(Structure):
    """struct kvd_mem_info"""

    _fields_ = [
        ("addr", c_void_p), ("bytes", c_size_t), ("registrations", c_uint),
        ("register_ns", c_uint64),
    ]


class CInfo(Structure):
    """struct kvd_info"""

    _fields_ = [
        ("device_kind", c_char_p), ("device_name", c_char_p), ("device_why", c_char_p),
        ("device_link", c_char_p), ("incarnation", c_uint64), ("region_bytes", c_uint64),
        ("value_max", c_uint64), ("window", c_uint32), ("request_bytes", c_uint32),
        ("cache_bytes", c_size_t), ("buckets", c_uint64), ("clock_error_ns", c_uint64),
        ("access_rate", c_uint32), ("connection", c_char_p), ("reconnects", c_uint64),
        ("tenant", c_char_p),
    ]


class CFleetInfo(Structure):
    """struct kvd_fleet_info"""

    _fields_ = [
        ("name", c_char * 32), ("epoch", c_uint64), ("generation", c_uint64),
        ("shards", c_uint32), ("unowned", c_uint32), ("members", c_uint32),
        ("reserved", c_uint32),
    ]


class CFleetMember(Structure):
    """struct kvd_fleet_member"""

    _fields_ = [
        ("id", c_char * 32), ("urls", c_char * 520), ("connection", c_char_p),
        ("weight", c_uint32), ("shards", c_uint32), ("open", c_uint32), ("flags", c_uint32),
    ]


class CFleetShard(Structure):
    """struct kvd_fleet_shard"""

    _fields_ = [("member", c_uint32), ("open", c_uint32), ("since", c_uint64)]


class CStats(Structure):
    """struct kvd_stats"""

    _fields_ = [
        (name, c_uint64) for name in (
            "gets", "hits", "misses", "exists", "exists_found", "puts", "deletes", "reads",
            "read_bytes", "bucket_reads", "round_trips", "cache_hits", "cache_stale", "retries",
            "fallbacks", "geometry_reads", "expired", "clock_asks", "clock_jumps",
            "access_records", "access_messages", "requests", "sent_bytes", "pulled_bytes",
            "direct_bytes", "sleeps", "reconnects", "resent", "repeated", "unknown", "away",
            "moved", "maps",
        )
    ]


class CTimes(Structure):
    """struct kvd_times"""

    _fields_ = [
        (name, c_uint64) for name in (
            "count", "sum_ns", "min_ns", "max_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns",
        )
    ]


class COpStats(Structure):
    """struct kvd_op_stats"""

    _fields_ = [
        ("count", c_uint64), ("errors", c_uint64), ("queue", CTimes), ("service", CTimes),
    ]
