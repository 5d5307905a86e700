# SPDX-License-Identifier: MIT
"""The simple GET and PUT, and look-ups of many keys, by the extension kvd._hot if it is installed,
else by ctypes.

With the extension a GET of 100 bytes takes a quarter of the time. KVD_PYTHON_CTYPES=1 in the
environment turns it off; KVD_PYTHON_HOT names its file, for development.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from typing import Any, Callable, Final

from ._abi import VERSION
from ._lib import lib


def _no_get(pointer: int | None, key: Any) -> Any:
    return 0


def _no_put(pointer: int | None, key: Any, value: Any) -> int:
    return 0


def _no_lengths(pointer: int | None, keys: Any) -> Any:
    return 0


def _load() -> Any:
    """The extension; None: it is missing or turned off."""
    if os.environ.get("KVD_PYTHON_CTYPES", "0") not in ("", "0"):
        return None
    path = os.environ.get("KVD_PYTHON_HOT")
    if path:
        spec = importlib.util.spec_from_file_location("kvd._hot", path)
        if spec is None or spec.loader is None:
            raise ImportError(f"KVD_PYTHON_HOT={path} is no extension")
        hot = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(hot)
    else:
        try:
            from . import _hot as hot  # type: ignore[attr-defined,no-redef]
        except ImportError:
            return None
    if (hot.KVD_VERSION_MAJOR, hot.KVD_VERSION_MINOR) != VERSION[:2]:
        return None  # it is of another kvd
    hot.init(*(ctypes.cast(function, ctypes.c_void_p).value
               for function in (lib.kvd_get, lib.kvd_put, lib.kvd_exists_many)))
    return hot


_hot: Final = _load()
extension: Final = _hot is not None

# get(pointer, key): the value, None if there is no such key, a status; 0: ctypes has to do it.
get: Final[Callable[[int | None, Any], Any]] = _hot.get if extension else _no_get
# put(pointer, key, value): the version, minus a status; 0: ctypes has to do it.
put: Final[Callable[[int | None, Any, Any], int]] = _hot.put if extension else _no_put
# lengths(pointer, keys): the length of each value, or minus the status; 0: ctypes has to do it.
lengths: Final[Callable[[int | None, Any], Any]] = _hot.lengths if extension else _no_lengths
LENGTHS_MAX: Final = 256  # keys at a time
