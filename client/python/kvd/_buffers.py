# SPDX-License-Identifier: MIT
"""Addresses of Python's buffers, without copies.

A buffer's export is held (a bytearray can't be resized, an mmap not closed) for as long as the
holder that comes with the address is alive. No ctypes array type is made for the length of a
buffer: each would stay in memory.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char, c_char_p, c_int, c_ssize_t, c_void_p, py_object
from typing import Any, Union

from ._abi import KEY_MAX
from .errors import InvalidError

# What a value may be given as; (address, bytes): within registered memory.
Readable = Union[bytes, bytearray, memoryview, str, tuple[int, int], Any]
Writable = Union[bytearray, memoryview, tuple[int, int], Any]
Key = Union[str, bytes, bytearray, memoryview]


class _Buffer(Structure):
    """Py_buffer, which is part of the stable ABI."""

    _fields_ = [
        ("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t), ("itemsize", c_ssize_t),
        ("readonly", c_int), ("ndim", c_int), ("format", c_char_p),
        ("shape", POINTER(c_ssize_t)), ("strides", POINTER(c_ssize_t)),
        ("suboffsets", POINTER(c_ssize_t)), ("internal", c_void_p),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.restype = c_int
_get_buffer.argtypes = (py_object, POINTER(_Buffer), c_int)
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.restype = None
_release_buffer.argtypes = (POINTER(_Buffer),)
_PYBUF_SIMPLE = 0

_from_buffer = c_char.from_buffer
_addressof = ctypes.addressof

# bytes of a length, without content: for a value that the library is about to write. Nobody else
# sees them before that is done.
new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
new_bytes.restype = py_object
new_bytes.argtypes = (c_void_p, c_ssize_t)


class _Export:
    """Holds the export of a buffer that can only be read."""

    __slots__ = ("view",)

    def __init__(self, source: Any) -> None:
        self.view: _Buffer | None = None
        view = _Buffer()
        try:
            _get_buffer(source, view, _PYBUF_SIMPLE)
        except BufferError as error:
            raise TypeError(f"the buffer is not contiguous: {error}") from None
        except TypeError:
            raise TypeError(f"a value is bytes, str or another buffer, not "
                            f"{type(source).__name__}") from None
        self.view = view

    def __del__(self) -> None:
        if self.view is not None:
            _release_buffer(self.view)


def key_bytes(key: Key) -> bytes:
    """Returns the bytes of a key: str is encoded in UTF-8. InvalidError: not 1 to 1,024 bytes."""
    if isinstance(key, str):
        key = key.encode()
    elif not isinstance(key, bytes):
        try:
            key = bytes(memoryview(key))
        except TypeError:
            raise TypeError(f"a key is str or bytes, not {type(key).__name__}") from None
    if not 0 < len(key) <= KEY_MAX:
        raise InvalidError(f"a key has 1 to {KEY_MAX} bytes, not {len(key)}")
    return key


def _raw(address: Any, size: Any) -> tuple[int, int, object]:
    from .memory import holder_of  # memory.py uses this module, too

    if not isinstance(address, int) or not isinstance(size, int):
        raise TypeError("a buffer that is a tuple is (address, bytes), two numbers")
    return address, size, holder_of(address, size)


def readable(value: Readable) -> tuple[int | bytes | None, int, object]:
    """Returns what to pass to libkvd for a value that it reads, its bytes, and what to hold.

    bytes are passed as they are. TypeError: it is no contiguous buffer."""
    if isinstance(value, bytes):
        return value, len(value), value
    if isinstance(value, str):
        value = value.encode()
        return value, len(value), value
    if isinstance(value, tuple):
        return _raw(*value)
    try:
        holder: Any = _from_buffer(value)
        return _addressof(holder), memoryview(value).nbytes, holder
    except (TypeError, ValueError, BufferError):  # read-only, or empty, or no buffer
        holder = _Export(value)
        return holder.view.buf if holder.view.len else None, holder.view.len, holder


def writable(buffer: Writable) -> tuple[int | None, int, object]:
    """Returns address and bytes of a buffer that libkvd writes, and what to hold meanwhile.

    TypeError: it is no buffer, or is read-only or not contiguous."""
    if isinstance(buffer, tuple):
        return _raw(*buffer)
    try:
        holder = _from_buffer(buffer)
        return _addressof(holder), memoryview(buffer).nbytes, holder
    except ValueError:
        return None, 0, None  # it is empty
    except TypeError as error:
        raise TypeError(f"a value can't be read into {type(buffer).__name__}: {error}") from None
