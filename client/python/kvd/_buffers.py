# SPDX-License-Identifier: MIT
"""Addresses of Python's buffers, without copies.

A buffer's export is held (a bytearray can't be resized, an mmap not closed) for as long as the
holder that comes with the address is alive. No ctypes array type is made for the length of a
buffer: each would stay in memory.
"""

from __future__ import annotations

import ctypes
import re
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
_PYBUF_WRITABLE = 1

_from_buffer: Any = c_char.from_buffer
_view: Any = memoryview
_addressof = ctypes.addressof

# bytes of a length, without content: for a value that the library is about to write. Nobody else
# sees them before that is done.
new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
new_bytes.restype = py_object
new_bytes.argtypes = (c_void_p, c_ssize_t)


class _Export:
    """Holds the export of a buffer that ctypes does not take."""

    __slots__ = ("view",)

    def __init__(self, source: Any, flags: int) -> None:
        self.view: _Buffer | None = None
        view = _Buffer()
        _get_buffer(source, view, flags)
        self.view = view

    def __del__(self) -> None:
        if self.view is not None:
            _release_buffer(self.view)


def _bytes_of(view: memoryview) -> int:
    """The length of a buffer. TypeError: its elements are references to Python objects."""
    # Names of fields may contain the letter that stands for objects, too.
    if "O" in view.format and "O" in re.sub(":[^:]*:", "", view.format):
        raise TypeError("it has Python objects, which are addresses to others")
    return view.nbytes


def _export(source: Any, flags: int, what: str) -> tuple[int | None, int, object]:
    """The address and bytes of a buffer that ctypes does not take, and what to hold."""
    try:
        holder = _Export(source, flags)
        try:
            _bytes_of(memoryview(source))
        except ValueError:  # a type of numpy's that has no format, such as datetime64
            if source.dtype.hasobject:
                raise
    except (TypeError, ValueError, BufferError) as error:
        raise TypeError(f"{what} {type(source).__name__}: {error}") from None
    assert holder.view is not None
    return holder.view.buf if holder.view.len else None, holder.view.len, holder


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


def _registered(buffer: Any) -> tuple[int, int, object] | None:
    """Address, bytes and holder of registered memory that is given without a Python buffer."""
    from .memory import Memory, holder_of  # memory.py uses this module, too

    if isinstance(buffer, Memory):
        return buffer.address, buffer.nbytes, holder_of(buffer.address, buffer.nbytes)
    if not isinstance(buffer, tuple):
        return None
    if len(buffer) != 2 or not all(isinstance(number, int) for number in buffer):
        raise TypeError("a buffer that is a tuple is (address, bytes), two numbers")
    address, size = buffer
    return address, size, holder_of(address, size)


def readable(value: Readable) -> tuple[int | bytes | None, int, object]:
    """Returns what to pass to libkvd for a value that it reads, its bytes, and what to hold.

    bytes are passed as they are. TypeError: it is no contiguous buffer."""
    if isinstance(value, bytes):
        return value, len(value), value
    if isinstance(value, str):
        value = value.encode()
        return value, len(value), value
    try:
        holder: Any = _from_buffer(value)
        return _addressof(holder), _bytes_of(_view(value)), holder
    except (TypeError, ValueError, BufferError):  # read-only, or empty, or no buffer
        return _registered(value) or _export(value, _PYBUF_SIMPLE, "a value can't be read from")


def writable(buffer: Writable) -> tuple[int | None, int, object]:
    """Returns address and bytes of a buffer that libkvd writes, and what to hold meanwhile.

    TypeError: it is no buffer, or is read-only or not contiguous."""
    try:
        holder: Any = _from_buffer(buffer)
        return _addressof(holder), _bytes_of(_view(buffer)), holder
    except (TypeError, ValueError, BufferError):
        return _registered(buffer) or \
            _export(buffer, _PYBUF_WRITABLE, "a value can't be written to")
