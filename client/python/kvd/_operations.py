# SPDX-License-Identifier: MIT
"""Submitted operations: how each is prepared, and its result.

An Operation owns a struct kvd_op and everything it points to, from its preparation until it was
handed back and its result taken. Used by the asyncio client, and by Client for batches.
"""

from __future__ import annotations

import ctypes
import os
import reprlib
from collections.abc import Mapping
from ctypes import addressof, cast, c_char_p, c_void_p, string_at
from operator import index
from typing import Any, Callable, Final, Iterable, Iterator, NamedTuple, TypeVar, Union

from ._abi import COp, IOV_MAX, Iovec, Op, PutMode, TTL_MAX, VALUE_MAX
from ._buffers import Key, Readable, Writable, key_bytes, new_bytes, readable, writable
from ._lib import status_text
from .errors import (
    BufferTooSmallError, BusyError, Error, InvalidError, NotFoundError, Status, error_of,
)

SCRATCH: Final = 1024  # bytes of value that an operation has a place for by itself
_OK: Final = 0
_NOT_FOUND: Final = int(Status.NOT_FOUND)
_BUFFER: Final = int(Status.ERR_BUFFER)
_U32: Final = 1 << 32
_U64: Final = 1 << 64


class Item(NamedTuple):
    """A value and what is stored with it."""

    value: bytes
    version: int  # never 0; unique and increasing for the key
    flags: int  # as the PUT gave them
    expires_s: int  # second of the server's clock, since 1970, at which it expires; 0: never


class Head(NamedTuple):
    """The properties of a key without its value."""

    value_len: int  # bytes
    version: int
    flags: int
    expires_s: int


def seconds_left(head: Head, now_ns: int | None) -> int:
    """The time to live that a key with an expiry time has left, by the server's clock: at least 1,
    as the key was there. The server has rounded the expiry time up, so this is rounded down.

    BusyError: the clock is not known."""
    if now_ns is None:
        raise BusyError("the client does not know the server's clock: try again")
    return max(1, (head.expires_s * 1000000000 - now_ns) // 1000000000)


class Number(int):
    """The new number of incr() and decr(), with its version."""

    version: int = 0


def number_of(value: int, version: int) -> Number:
    number = Number(value)
    number.version = version
    return number


Pairs = Union[Mapping[Any, Readable], Iterable[tuple[Key, Readable]]]
T = TypeVar("T")
K = TypeVar("K")
shown: Final = reprlib.repr  # of what was given, in an error: cut where it is long


def check_number(value: int, name: str, limit: int = _U64) -> int:
    """Returns a number that is at least 0 and less than @limit."""
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name} is an int, not {type(value).__name__}") from None
    if not 0 <= number < limit:
        raise InvalidError(f"{name} is 0 to {limit - 1}, not {number}")
    return number


def check_ttl(ttl_s: int, name: str = "ttl_s") -> int:
    return check_number(ttl_s, name, TTL_MAX + 1)


def check_text(text: str | bytes | os.PathLike[str], name: str) -> bytes:
    """Returns what libkvd reads up to a zero byte. InvalidError: there is one before its end."""
    data = os.fsencode(text)
    if b"\0" in data:
        raise InvalidError(f"{name} has a zero byte: {text!r}")
    return data


def not_found(call: str, name: object, kind: str = "key") -> NotFoundError:
    """The exception for a status that is no failure in libkvd, which has no text for it."""
    return NotFoundError(f"{call}: no {kind} {name!r}")


_PUT_NAMES: dict[int, str] = {
    PutMode.IF_ABSENT: "add", PutMode.IF_PRESENT: "replace", PutMode.IF_VERSION: "cas",
    PutMode.APPEND: "append", PutMode.PREPEND: "prepend",
}


def put_name(mode: int) -> str:
    """The name of a PUT of that mode in errors: that of the method."""
    return _PUT_NAMES.get(mode, "put")


def keys_of(keys: Iterable[T]) -> Iterable[T]:
    """@keys. TypeError: it is one key, whose letters would be taken for keys."""
    if isinstance(keys, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"give a list of keys, not one key: {shown(keys)}")
    return keys


def found_of(keys: list[K], values: list[bytes | None]) -> dict[K, bytes]:
    """The keys that have a value, with it."""
    return {key: value for key, value in zip(keys, values) if value is not None}


def buffers_of(keys: Iterable[Key], buffers: Iterable[T]) -> Iterator[tuple[Key, T]]:
    """Each key with its buffer. TypeError: @keys is one key, or @buffers one buffer."""
    if isinstance(buffers, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"give a list of buffers, not one buffer: {shown(buffers)}")
    return zip(keys_of(keys), buffers, strict=True)


def ranges_of(keys: Iterable[Key], offsets: Iterable[int], buffers: Iterable[T]) \
        -> Iterator[tuple[Key, int, T]]:
    """Each key with its offset and its buffer. TypeError as buffers_of()."""
    for (key, buffer), offset in zip(buffers_of(keys, buffers), offsets, strict=True):
        yield key, offset, buffer


def range_bytes(value_len: int, offset: int, size: int) -> int:
    """How many bytes a value of @value_len has from @offset on, at most @size."""
    return max(0, min(size, value_len - offset))


def pairs_of(items: Pairs) -> Iterator[tuple[Key, Readable]]:
    """The (key, value) pairs of a mapping, or of an iterable of pairs. TypeError: one is not a pair
    ("ab" would be taken for key a with value b)."""
    for item in items.items() if isinstance(items, Mapping) else items:
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            raise TypeError(f"give (key, value) pairs, or a mapping: {shown(item)} is not a pair")
        yield item[0], item[1]


def pieces_of(buffers: list[Any], address: Callable[[Any], tuple[Any, int, object]]) \
        -> tuple[Any, int, int, list[object]]:
    """Returns an array of struct iovec for @buffers, their number and bytes, what to hold."""
    if not 0 < len(buffers) <= IOV_MAX:
        raise InvalidError(f"a value has 1 to {IOV_MAX} pieces, not {len(buffers)}")
    iov = _IOV()
    holders: list[object] = [iov]
    total = 0
    for i, buffer in enumerate(buffers):
        at, size, holder = address(buffer)
        if isinstance(at, bytes):
            at = cast(c_char_p(at), c_void_p).value
        iov[i].iov_base = at
        iov[i].iov_len = size
        holders.append(holder)
        total += size
    return iov, len(buffers), total, holders


_IOV = Iovec * IOV_MAX


class Operation:
    """A struct kvd_op, with everything it points to."""

    __slots__ = ("op", "address", "scratch", "scratch_address", "holder", "into", "result",
                 "group", "retry", "text", "pieces_bytes")

    def __init__(self) -> None:
        self.op = COp()
        self.address = addressof(self.op)
        self.scratch: Any = None
        self.scratch_address = 0
        self.holder: Any = None  # of a buffer that belongs to the caller
        self.into: bytes | None = None  # where a value goes that is longer than the scratch
        self.result: Callable[[Operation], Any] = result_none
        self.group: Any = None  # what waits for it (asyncio)
        self.retry = False  # a value that is longer than its buffer is asked for again
        self.pieces_bytes = 0  # of a buffer in pieces
        self.text: str | None = None  # of the error, if it could not be submitted

    def _begin(self, code: int, key: Key, result: Callable[[Operation], Any]) -> COp:
        data = key_bytes(key)
        op = self.op
        op.op = code
        op.key = data
        op.key_len = len(data)
        self.result = result
        return op

    def prepare_get(self, key: Key, expect: int, result: Callable[[Operation], Any],
                    by_request: bool = False, touch_s: int | None = None) -> None:
        """A GET to memory of the operation; @expect: bytes that the value probably has."""
        code = Op.GET
        if touch_s is not None:
            code = Op.GET_AND_TOUCH
            self.op.ttl_s = check_ttl(touch_s)
        elif by_request:
            code = Op.GET_BY_REQUEST
        self._begin(code, key, result)
        self.room(expect)

    def room(self, size: int) -> None:
        """Makes a GET read its value to memory of at least @size bytes."""
        op = self.op
        if size <= SCRATCH:
            if self.scratch is None:
                self.scratch = ctypes.create_string_buffer(SCRATCH)
                self.scratch_address = addressof(self.scratch)
            self.into = None
            op.value = self.scratch_address
            op.value_len = SCRATCH
        else:
            self.into = new_bytes(None, size)
            op.value_bytes = self.into
            op.value_len = size
        self.retry = True

    def prepare_get_into(self, key: Key, buffer: Writable, result: Callable[[Operation], Any]) \
            -> None:
        op = self._begin(Op.GET, key, result)
        if isinstance(buffer, list):
            iov, op.iov_count, self.pieces_bytes, self.holder = pieces_of(buffer, writable)
            op.iov = addressof(iov)
        else:
            op.value, op.value_len, self.holder = writable(buffer)

    def prepare_range(self, key: Key, offset: int, length: int) -> None:
        """A range to memory of the operation."""
        op = self._begin(Op.GET_RANGE, key, result_range)
        op.offset = check_number(offset, "offset")
        into = new_bytes(None, min(check_number(length, "length"), VALUE_MAX))
        self.into = op.value_bytes = into
        op.value_len = len(into)

    def prepare_range_into(self, key: Key, offset: int, buffer: Writable,
                           result: Callable[[Operation], Any]) -> None:
        op = self._begin(Op.GET_RANGE, key, result)
        op.offset = check_number(offset, "offset")
        op.value, op.value_len, self.holder = writable(buffer)

    def range_length(self) -> int:
        """The bytes of the range that was read."""
        op = self.op
        return range_bytes(op.item.value_len, op.offset, op.value_len)

    def prepare_put(self, key: Key, value: Readable, mode: int, flags: int, ttl_s: int,
                    if_version: int, pin_s: int, priority: int) -> None:
        op = self._begin(Op.PUT, key, result_version)
        if isinstance(value, list):
            iov, op.iov_count, op.value_len, self.holder = pieces_of(value, readable)
            op.iov = addressof(iov)
        else:
            data, op.value_len, holder = readable(value)
            if isinstance(data, bytes):
                op.value_bytes = data
            else:
                op.value = data
                self.holder = holder
        if mode or flags or ttl_s or if_version or pin_s or priority:
            op.mode = check_number(mode, "mode", _U32)
            op.flags = check_number(flags, "flags", _U32)
            op.ttl_s = check_ttl(ttl_s)
            op.if_version = check_number(if_version, "if_version")
            op.pin_s = check_ttl(pin_s, "pin_s")
            op.priority = check_number(priority, "priority", _U32)

    def prepare_delete(self, key: Key, if_version: int | None) -> None:
        op = self._begin(Op.DELETE, key, result_found)
        if if_version is not None:
            op.mode = PutMode.IF_VERSION
            op.if_version = check_number(if_version, "version")

    def prepare_arith(self, code: int, key: Key, delta: int, initial: int | None, flags: int,
                      ttl_s: int) -> None:
        op = self._begin(code, key, result_number)
        op.delta = check_number(delta, "delta")
        op.flags = check_number(flags, "flags", _U32)
        op.ttl_s = check_ttl(ttl_s)
        if initial is not None:
            op.create = 1
            op.initial = check_number(initial, "initial")

    def prepare_touch(self, key: Key, ttl_s: int) -> None:
        self._begin(Op.TOUCH, key, result_version).ttl_s = check_ttl(ttl_s)

    def prepare_exists(self, key: Key, result: Callable[[Operation], Any]) -> None:
        self._begin(Op.EXISTS, key, result)

    def prepare_ping(self) -> None:
        self.op.op = Op.PING
        self.result = result_none

    def error(self) -> Error:
        """The exception for the operation's status."""
        status = self.op.status
        if status == _BUFFER:
            needed = self.op.item.value_len
            error = BufferTooSmallError(f"the value has {needed} bytes, the buffer "
                                        f"{self.op.value_len or self.pieces_bytes}")
            error.needed = needed
            return error
        if status == _NOT_FOUND:
            code = self.op.op
            return not_found(put_name(self.op.mode) if code == Op.PUT else Op(code).name.lower(),
                             string_at(c_void_p.from_buffer(self.op), self.op.key_len))
        return error_of(status, self.text or status_text(status))

    def value(self) -> bytes:
        """The value that a GET has read to the operation's memory."""
        length: int = self.op.item.value_len
        if self.into is None:
            return string_at(self.scratch_address, length)
        return self.into if length == len(self.into) else self.into[:length]


def result_none(operation: Operation) -> None:
    if operation.op.status:
        raise operation.error()


def result_value(operation: Operation) -> bytes | None:
    status = operation.op.status
    if status == _OK:
        return operation.value()
    if status == _NOT_FOUND:
        return None
    raise operation.error()


def result_item(operation: Operation) -> Item | None:
    status = operation.op.status
    if status == _OK:
        item = operation.op.item
        return Item(operation.value(), item.version, item.flags, item.expires_s)
    if status == _NOT_FOUND:
        return None
    raise operation.error()


def result_length(operation: Operation) -> int:
    if operation.op.status:
        raise operation.error()
    length: int = operation.op.item.value_len
    return length


def result_range(operation: Operation) -> bytes | None:
    status = operation.op.status
    if status == _OK:
        length, into = operation.range_length(), operation.into or b""
        return into if length == len(into) else into[:length]
    if status == _NOT_FOUND:
        return None
    raise operation.error()


def result_range_length(operation: Operation) -> int:
    if operation.op.status:
        raise operation.error()
    return operation.range_length()


def result_version(operation: Operation) -> int:
    if operation.op.status:
        raise operation.error()
    version: int = operation.op.item.version
    return version


def result_number(operation: Operation) -> Number:
    op = operation.op
    if op.status:
        raise operation.error()
    return number_of(op.number, op.item.version)


def result_found(operation: Operation) -> bool:
    status = operation.op.status
    if status > _NOT_FOUND:
        raise operation.error()
    return bool(status == _OK)


def result_head(operation: Operation) -> Head | None:
    status = operation.op.status
    if status == _OK:
        item = operation.op.item
        return Head(item.value_len, item.version, item.flags, item.expires_s)
    if status == _NOT_FOUND:
        return None
    raise operation.error()


def code_of_length(operation: Operation) -> int:
    """The length of what was read, or minus the status: for batch_get_into()."""
    op = operation.op
    code: int = -op.status if op.status else op.item.value_len
    return code


def code_of_range(operation: Operation) -> int:
    """The bytes that were read, or minus the status: for batch_get_ranges_into()."""
    status = operation.op.status
    return -int(status) if status else operation.range_length()


def code_of_status(operation: Operation) -> int:
    """0, or minus the status: for batch_put_from()."""
    return -int(operation.op.status)
