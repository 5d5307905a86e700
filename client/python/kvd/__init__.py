# SPDX-License-Identifier: MIT
"""kvd, a key-value store for RDMA networks: a client over libkvd.

    import kvd

    with kvd.Client() as store:       # $KVD_URL, or the socket of this host's kvd
        store["name"] = "Ada"
        print(store["name"])          # b'Ada'
"""

from . import errors
from ._abi import KEY_MAX, TTL_MAX, VALUE_MAX, Op, Path, Priority, PutMode, Use
from ._lib import default_url, library_path, library_version
from ._operations import Head, Item, Number
from .client import Client, Entry, Used
from .errors import (
    AuthError, AwayError, BufferTooSmallError, BusyError, CanceledError, DeviceError,
    DisconnectedError, Error, ExistsError, InvalidError, LimitError, MovedError, NoMemoryError,
    NoSpaceError,
    NotAllowedError, NotANumberError, NotFoundError, OtherStatusError, ProtocolError, RefusedError,
    Status, ThreadError, TimedOutError, TooLargeError, UnknownOutcomeError, UnreachableError,
)
from .fleet import FleetInfo, FleetMember, FleetShard
from .memory import Memory, MemoryInfo
from .observe import process_stats, stats_text
from .pool import ClientPool

__version__ = "0.4.0"

__all__ = [
    "AuthError", "AwayError", "BufferTooSmallError", "BusyError", "CanceledError", "Client",
    "ClientPool", "DeviceError", "DisconnectedError", "Entry", "Error", "ExistsError", "FleetInfo",
    "FleetMember", "FleetShard", "Head", "InvalidError", "Item",
    "KEY_MAX", "LimitError", "Memory", "MemoryInfo", "MovedError", "NoMemoryError", "NoSpaceError",
    "NotAllowedError", "NotANumberError", "NotFoundError", "Number", "Op", "OtherStatusError",
    "Path", "Priority", "ProtocolError", "PutMode", "RefusedError", "Status", "TTL_MAX",
    "ThreadError", "TimedOutError", "TooLargeError", "UnknownOutcomeError", "UnreachableError",
    "Use", "Used", "VALUE_MAX", "default_url", "errors", "library_path", "library_version",
    "process_stats", "stats_text",
]
