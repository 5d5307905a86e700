# SPDX-License-Identifier: MIT
"""Statistics of one client, or of all observed clients of the process.

A client counts and times its operations after `client.observe(True)`.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_size_t, sizeof
from typing import Any

from ._abi import COpStats, CStats
from ._lib import error_text, lib
from ._operations import check_number
from .errors import error_of

_TEXT_BYTES = 256 << 10  # always enough


def op_stats(handle: int | None, op: int, path: int) -> dict[str, Any]:
    """Operations @op on @path of @handle, or with None of the process; for any thread."""
    stats = COpStats()
    op, path = check_number(op, "op", 1 << 32), check_number(path, "path", 1 << 32)
    status = lib.kvd_op_stats(handle, op, path, byref(stats), sizeof(stats))
    if status:
        raise error_of(status, error_text(None))
    times = {name: {field[0]: getattr(getattr(stats, name), field[0])
                    for field in stats.queue._fields_} for name in ("queue", "service")}
    return {"count": stats.count, "errors": stats.errors, **times}


def stats_text(handle: int | None = None, prometheus: bool = True) -> str:
    """All statistics of @handle, or with None of the process; with None any thread may call it."""
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    length = c_size_t()
    status = lib.kvd_stats_text(handle, bool(prometheus), text, len(text), byref(length))
    if status:
        raise error_of(status, error_text(None))
    return text.raw[:length.value].decode()


def process_stats() -> dict[str, int]:
    """The sum of client_stats() of all clients of the process that were observed; any thread."""
    stats = CStats()
    lib.kvd_process_stats(byref(stats), sizeof(stats))
    return {field[0]: getattr(stats, field[0]) for field in stats._fields_}
