# SPDX-License-Identifier: MIT
"""Finds and loads libkvd, checks its version, and declares its functions.

The environment variable KVD_LIBRARY names the file, for development; else it is libkvd.so.0.4 in
this package's folder (as a wheel of `make wheel` has it), in the lib/ of this
lib/python3.11/site-packages/kvd/ (they are in a virtual environment, or in /usr/local), or where
the dynamic linker finds it. Every call releases the GIL, except those of
`quick`, which do not block and take no locks of the library.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import (
    POINTER, c_char_p, c_double, c_int, c_size_t, c_uint32, c_uint64, c_void_p,
)
from typing import Any, Final

from . import _abi

_PACKAGE: Final = os.path.dirname(os.path.abspath(__file__))
_FOLDERS: Final = (_PACKAGE, os.path.abspath(os.path.join(_PACKAGE, "..", "..", "..")))
_GET: Final = f"Debian: the package {_abi.PACKAGE}; from source: `make install`"
_STATUS = c_int
_KEY = (c_char_p, c_size_t)
_ITEM = c_void_p
_OUT_U64 = POINTER(c_uint64)
_TEXT = (c_void_p, c_size_t, POINTER(c_size_t))

# name: what it returns, its arguments
_FUNCTIONS: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "kvd_options_init": (None, (POINTER(_abi.COptions),)),
    "kvd_default_url": (c_char_p, (c_void_p,)),
    "kvd_open": (_STATUS, (POINTER(c_void_p), c_char_p, POINTER(_abi.COptions))),
    "kvd_close": (None, (c_void_p,)),
    "kvd_get": (_STATUS, (c_void_p, *_KEY, c_void_p, c_size_t, _ITEM)),
    "kvd_getv": (_STATUS, (c_void_p, *_KEY, c_void_p, c_uint32, _ITEM)),
    "kvd_get_by_request": (_STATUS, (c_void_p, *_KEY, c_void_p, c_size_t, _ITEM)),
    "kvd_get_and_touch": (_STATUS, (c_void_p, *_KEY, c_uint32, c_void_p, c_size_t, _ITEM)),
    "kvd_get_many": (_STATUS, (c_void_p, c_void_p, c_size_t)),
    "kvd_get_range": (_STATUS, (c_void_p, *_KEY, c_size_t, c_void_p, c_size_t, _ITEM)),
    "kvd_get_ranges": (_STATUS, (c_void_p, c_void_p, c_size_t)),
    "kvd_exists_many": (_STATUS, (c_void_p, c_void_p, c_size_t, c_void_p, POINTER(c_size_t))),
    "kvd_exists_leading": (_STATUS, (c_void_p, c_void_p, c_size_t, POINTER(c_size_t))),
    "kvd_put": (_STATUS, (c_void_p, *_KEY, c_void_p, c_size_t, c_void_p, c_void_p)),
    "kvd_putv": (_STATUS, (c_void_p, *_KEY, c_void_p, c_uint32, c_void_p, c_void_p)),
    "kvd_delete": (_STATUS, (c_void_p, *_KEY)),
    "kvd_delete_if": (_STATUS, (c_void_p, *_KEY, c_uint64)),
    "kvd_incr": (_STATUS, (c_void_p, *_KEY, c_uint64, c_void_p, c_void_p, c_void_p)),
    "kvd_decr": (_STATUS, (c_void_p, *_KEY, c_uint64, c_void_p, c_void_p, c_void_p)),
    "kvd_touch": (_STATUS, (c_void_p, *_KEY, c_uint32, c_void_p)),
    "kvd_flush_start": (_STATUS, (c_void_p, c_uint32, _OUT_U64)),
    "kvd_flush_done": (_STATUS, (c_void_p, c_uint64)),
    "kvd_flush_cancel": (_STATUS, (c_void_p, c_uint64, c_int, _OUT_U64)),
    "kvd_flush_all": (_STATUS, (c_void_p,)),
    "kvd_scan": (_STATUS, (c_void_p, _OUT_U64, POINTER(_abi.CScanArgs), _abi.ENTRY_FN, c_void_p)),
    "kvd_scan_uses": (_STATUS, (c_void_p, _OUT_U64, POINTER(_abi.CScanArgs), _abi.USED_FN,
                                c_void_p)),
    "kvd_ping": (_STATUS, (c_void_p,)),
    "kvd_server_stats": (_STATUS, (c_void_p, *_TEXT)),
    "kvd_client_list": (_STATUS, (c_void_p, *_TEXT)),
    "kvd_client_kill": (_STATUS, (c_void_p, c_uint64)),
    "kvd_revoke": (_STATUS, (c_void_p, c_char_p, _OUT_U64)),
    "kvd_shutdown": (_STATUS, (c_void_p,)),
    "kvd_whoami": (_STATUS, (c_void_p, *_TEXT)),
    "kvd_config_get": (_STATUS, (c_void_p, *_TEXT)),
    "kvd_config_set": (_STATUS, (c_void_p, c_char_p)),
    "kvd_config_rewrite": (_STATUS, (c_void_p, *_TEXT)),
    "kvd_tenant_list": (_STATUS, (c_void_p, *_TEXT)),
    "kvd_tenant_create": (_STATUS, (c_void_p, c_char_p, c_uint64)),
    "kvd_tenant_resize": (_STATUS, (c_void_p, c_char_p, c_uint64)),
    "kvd_tenant_drop": (_STATUS, (c_void_p, c_char_p)),
    "kvd_submit": (_STATUS, (c_void_p, c_void_p, c_size_t)),
    "kvd_poll": (c_size_t, (c_void_p, c_void_p, c_size_t)),
    "kvd_wait": (c_size_t, (c_void_p, c_void_p, c_size_t, c_size_t, c_uint32)),
    "kvd_cancel": (_STATUS, (c_void_p, c_void_p)),
    "kvd_fd": (c_int, (c_void_p,)),
    "kvd_arm": (_STATUS, (c_void_p,)),
    "kvd_register": (_STATUS, (c_void_p, c_void_p, c_size_t, POINTER(c_void_p))),
    "kvd_alloc": (_STATUS, (c_void_p, c_size_t, POINTER(c_void_p), POINTER(c_void_p))),
    "kvd_deregister": (_STATUS, (c_void_p,)),
    "kvd_free": (_STATUS, (c_void_p,)),
    "kvd_mem_info": (None, (c_void_p, POINTER(_abi.CMemInfo))),
    "kvd_info": (None, (c_void_p, POINTER(_abi.CInfo))),
    "kvd_fleet_info": (_STATUS, (c_void_p, c_void_p, c_size_t)),
    "kvd_fleet_member": (_STATUS, (c_void_p, c_uint32, c_void_p, c_size_t)),
    "kvd_fleet_shard": (_STATUS, (c_void_p, c_uint32, c_void_p, c_size_t)),
    "kvd_fleet_key": (_STATUS, (c_void_p, *_KEY, POINTER(c_uint32))),
    "kvd_fleet_drain": (_STATUS, (c_void_p, c_char_p)),
    "kvd_fleet_undrain": (_STATUS, (c_void_p, c_char_p)),
    "kvd_fleet_rebalance": (_STATUS, (c_void_p,)),
    "kvd_clock_ns": (c_uint64, (c_void_p,)),
    "kvd_stats": (None, (c_void_p, POINTER(_abi.CStats))),
    "kvd_latency_ns": (c_uint64, (c_void_p, c_uint32, c_double)),
    "kvd_observe": (_STATUS, (c_void_p, c_uint32)),
    "kvd_op_stats": (_STATUS, (c_void_p, c_uint32, c_uint32, POINTER(_abi.COpStats), c_size_t)),
    "kvd_process_stats": (c_size_t, (POINTER(_abi.CStats), c_size_t)),
    "kvd_stats_text": (_STATUS, (c_void_p, c_uint32, *_TEXT)),
}

_QUICK: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "kvd_version": (c_char_p, ()),
    "kvd_status_text": (c_char_p, (c_int,)),
    "kvd_error": (c_char_p, (c_void_p,)),
    "kvd_outstanding": (c_size_t, (c_void_p,)),
}


def _declare(library: ctypes.CDLL, functions: dict[str, tuple[Any, tuple[Any, ...]]],
             path: str) -> None:
    for name, (result, arguments) in functions.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"{path} has no function {name}: it is not the libkvd "
                              f"{_version_text()} that this package needs; install that "
                              f"({_GET}) or set KVD_LIBRARY to it") from None
        function.restype = result
        function.argtypes = arguments


def _version_text() -> str:
    return ".".join(map(str, _abi.VERSION))


def _load() -> tuple[ctypes.CDLL, ctypes.PyDLL, str]:
    """Returns the library twice, without and with the GIL, and its file's name.

    ImportError: it can't be found, or has another version."""
    files = (os.path.join(folder, _abi.SONAME) for folder in _FOLDERS)
    path = os.environ.get("KVD_LIBRARY", "") or next(
        (file for file in files if os.path.exists(file)), _abi.SONAME)
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"kvd needs the library {_abi.SONAME}: {error}. Install it ({_GET}), or "
                          f"set KVD_LIBRARY to its file") from error
    quick_library = ctypes.PyDLL(path)
    _declare(quick_library, {"kvd_version": _QUICK["kvd_version"]}, path)
    version = quick_library.kvd_version().decode()
    if tuple(version.split(".")[:2]) != tuple(map(str, _abi.VERSION)):
        raise ImportError(f"{path} is libkvd {version}, but this package needs {_version_text()}: "
                          f"install that ({_GET}), or the package of the library's version")
    _declare(quick_library, _QUICK, path)
    _declare(library, _FUNCTIONS, path)
    return library, quick_library, path


lib, quick, library_path = _load()


def library_version() -> str:
    """Returns the version of libkvd, "MAJOR.MINOR.PATCH"."""
    text: bytes = quick.kvd_version()
    return text.decode()


def status_text(status: int) -> str:
    """Returns a short English text for a status of libkvd."""
    text: bytes = quick.kvd_status_text(status)
    return text.decode()


def error_text(handle: int | None) -> str:
    """Returns the error text of the last failed call on @handle; None: of this thread."""
    text: bytes = quick.kvd_error(handle)
    return text.decode(errors="replace")


def default_url() -> str:
    """Returns the URL that is used if none is named: $KVD_URL, or the socket of this host's kvd."""
    buffer = ctypes.create_string_buffer(_abi.URL_MAX)
    url: bytes = lib.kvd_default_url(buffer)
    return os.fsdecode(url)
