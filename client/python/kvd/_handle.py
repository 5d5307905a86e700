# SPDX-License-Identifier: MIT
"""A handle of libkvd: opening, closing, and exclusive use.

Threads. One thread uses a handle at a time. `with self._guard:` (or its two halves, where time
matters) guards every use; a second use at the same time raises ThreadError.
Signals. A handler may raise between any two bytecodes; the next call cleans up what that leaves
(Guard.taken(), Client._settle()).
Fork. In a child the library refuses the parent's handles with DisconnectedError.
End of the process. Open handles are closed, so that no operation is left that uses memory of
Python.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
import weakref
from ctypes import byref, c_uint32, c_void_p
from types import FrameType, TracebackType
from typing import Any, Final, Union

from . import fleet, memory, observe
from ._abi import CInfo, COptions, CStats
from ._buffers import Key, Writable, key_bytes, writable
from ._lib import default_url, error_text, lib
from ._operations import Operation, check_number, check_text, not_found
from ._owner import Owner
from .errors import BufferTooSmallError, InvalidError, Status, ThreadError, error_of
from .memory import Memory

_NUMBERS: Final = ("timeout_ms", "connect_timeout_ms", "cache_bytes", "spin_us", "get_tries",
                   "depth", "reconnect")
PathName = Union[str, bytes, "os.PathLike[str]"]

CHUNK: Final = 1024  # operations or keys that are handed to libkvd together
POINTERS: Final = c_void_p * CHUNK  # each array type is made once: ctypes keeps them all

_PACKAGE: Final = os.path.dirname(__file__)
_guards: weakref.WeakSet[Guard] = weakref.WeakSet()


def _is_ours(frame: FrameType) -> bool:
    return os.path.dirname(frame.f_code.co_filename) == _PACKAGE


class Guard:
    """Admits one use at a time, and refuses others."""

    __slots__ = ("acquire", "release", "forked", "__weakref__")

    def __init__(self) -> None:
        self.renew()
        self.forked = False  # this is a child of the process that opened the client
        _guards.add(self)

    def renew(self) -> None:
        """In a child: a thread of the parent may have been in a call."""
        lock = threading.Lock()
        self.acquire = lock.acquire
        self.release = lock.release

    def taken(self) -> None:
        """Called if acquire() finds the guard taken. ThreadError: a call is under way. Else the
        caller owns the guard now: an exception of a signal handler (KeyboardInterrupt) ended a
        call between taking the guard and the statement that would have released it."""
        if self._in_use():
            raise ThreadError("another call is under way on this client (in another thread, or in "
                              "the code that a signal handler interrupted): open a client for "
                              "each thread")

    def _in_use(self) -> bool:
        """Whether another thread is in a method of the client."""
        here = threading.get_ident()
        frame: FrameType | None
        for thread, frame in sys._current_frames().items():
            while thread == here and frame is not None and _is_ours(frame):
                frame = frame.f_back
            while frame is not None:
                if _is_ours(frame) and \
                        getattr(frame.f_locals.get("self"), "_guard", None) is self:
                    return True
                frame = frame.f_back
        return False

    def __enter__(self) -> None:
        if not self.acquire(False):
            self.taken()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.release()


def _after_fork() -> None:
    for guard in list(_guards):
        guard.renew()
        guard.forked = True


os.register_at_fork(after_in_child=_after_fork)


def options_of(given: dict[str, Any]) -> COptions:
    """Returns struct kvd_options with the @given values by name, defaults for those that are None.

    TypeError: an option has the wrong type. InvalidError: it is out of range."""
    options = COptions()
    lib.kvd_options_init(byref(options))
    for name, value in given.items():
        if value is None:
            continue
        if name in _NUMBERS:
            limit = 1 << (64 if name == "cache_bytes" else 32)
            setattr(options, name, check_number(value, name, limit))
        else:
            setattr(options, name, check_text(value, name))
    return options


def _finish(owner: weakref.ref[Handle], pointer: int, guard: Guard, pins: list[Any]) -> None:
    """Closes a handle that was not closed, unless a thread still is in a call."""
    if guard.acquire(False):
        handle = owner()
        if handle is not None:  # the process ends; coroutines that are left may still use it
            handle._pointer = None
        lib.kvd_close(pointer)
        pins.clear()
        guard.release()


class Handle(Owner):
    """What Client and aio.Client share. Not for programs."""

    _instead = "open another one, with the same URL and options"

    def __init__(self, url: str | None, options: dict[str, Any]) -> None:
        self._pointer: int | None = None
        self._guard = Guard()
        self.url: Final = default_url() if url is None else url
        self._options = options
        self._c_options = options_of(options)
        # What operations that are under way use: freed only after the handle was closed.
        self._pins: list[Any] = []

    def _open(self) -> None:
        """Connects; blocks for at most connect_timeout_ms."""
        pointer = c_void_p()
        status = lib.kvd_open(byref(pointer), check_text(self.url, "url"), byref(self._c_options))
        if status:
            raise error_of(status, error_text(None))
        assert pointer.value is not None
        self._pointer = pointer.value
        self._finalizer = weakref.finalize(self, _finish, weakref.ref(self), pointer.value,
                                           self._guard, self._pins)

    def _error(self, status: int, call: str = "", name: object = b"", kind: str = "key") \
            -> Exception:
        """The exception for the status of the last call, @call, on @name, which is a @kind."""
        if self._pointer is None:
            return self._closed()
        if status == Status.NOT_FOUND and call:
            return not_found(call, name, kind)
        return error_of(status, error_text(self._pointer))

    def _too_small(self, needed: int, size: int) -> BufferTooSmallError:
        error = BufferTooSmallError(f"the value has {needed} bytes, the buffer {size}")
        error.needed = needed
        return error

    @staticmethod
    def _closed() -> InvalidError:
        return InvalidError("the client is closed")

    def _check(self, status: int, call: str = "", name: object = b"", kind: str = "key") -> None:
        if status:
            raise self._error(status, call, name, kind)

    def _submit_part(self, part: list[Operation]) -> list[Operation]:
        """Submits at most CHUNK operations. Returns those that can't be, with their status: the
        library takes all or none, and then takes the others one by one."""
        array = POINTERS(*[operation.address for operation in part])
        if lib.kvd_submit(self._pointer, array, len(part)) == 0:
            return []
        refused = []
        for operation in part:
            array[0] = operation.address
            status = lib.kvd_submit(self._pointer, array, 1)
            if status:
                operation.op.status = status
                operation.text = error_text(self._pointer)
                operation.retry = False
                refused.append(operation)
        return refused

    def _open_pointer(self) -> int:
        if self._pointer is None:
            raise self._closed()
        return self._pointer

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._pointer is None

    def _close(self) -> None:
        if self._pointer is None:
            return
        with self._guard:
            pointer, self._pointer = self._pointer, None
            if pointer is not None:
                self._finalizer.detach()
                lib.kvd_close(pointer)
                self._pins.clear()

    def register(self, buffer: Writable) -> Memory:
        """Registers the memory of @buffer, anything with the buffer protocol that can be written
        and is contiguous: bytearray, memoryview, numpy array, mmap. The buffer is held until it is
        released: a bytearray can't be resized. Takes some 0.1 to 0.4 s for each GiB on an RDMA
        device, which pins it. At most 64 for each URL. Does not use the network.

        InvalidError: it is empty, or some of it is registered already. NoMemoryError: the device
        can't (RLIMIT_MEMLOCK). TypeError: it is read-only, or no contiguous buffer."""
        if isinstance(buffer, tuple):
            raise TypeError("register() takes a buffer")
        address, size, holder = writable(buffer)
        if address is None:
            raise InvalidError("the buffer to register is empty")
        with self._guard:
            return memory.register(self._open_pointer(), buffer, address, size, holder)

    def alloc(self, size: int) -> Memory:
        """Allocates @size bytes of zeros and registers them, in the way that suits the device
        best; on the software device this is faster than register(). Not mapped in a child process.

        InvalidError: @size is not positive. NoMemoryError: there is not enough memory, or it can't
        be registered."""
        if check_number(size, "size") == 0:
            raise InvalidError(f"alloc() takes a positive number of bytes, not {size}")
        with self._guard:
            return memory.alloc(self._open_pointer(), size)

    def _info(self) -> dict[str, int | str]:
        info = CInfo()
        with self._guard:
            lib.kvd_info(self._open_pointer(), byref(info))
            values = ((field[0], getattr(info, field[0])) for field in info._fields_)
            return {name: value.decode(errors="replace") if isinstance(value, bytes) else value
                    for name, value in values}

    def _fleet_info(self) -> fleet.FleetInfo:
        with self._guard:
            status, known = fleet.info_of(self._open_pointer())
            self._check(status)
            return known

    def _fleet_member(self, number: int) -> fleet.FleetMember:
        number = check_number(number, "number", 1 << 32)
        with self._guard:
            status, known = fleet.member_of(self._open_pointer(), number)
            self._check(status, "fleet_member", number, "member")
            return known

    def _fleet_shard(self, number: int) -> fleet.FleetShard:
        number = check_number(number, "number", 1 << 32)
        with self._guard:
            status, known = fleet.shard_of(self._open_pointer(), number)
            self._check(status, "fleet_shard", number, "shard")
            return known

    def _fleet_key(self, key: Key) -> int:
        data = key_bytes(key)
        number = c_uint32()
        with self._guard:
            self._check(lib.kvd_fleet_key(self._open_pointer(), data, len(data), byref(number)))
            return number.value

    def clock_ns(self) -> int | None:
        """The server's clock now, in nanoseconds since 1970, by which keys expire; precise after
        a ping(). None: the client does not know it, for example after its host was suspended."""
        with self._guard:
            return lib.kvd_clock_ns(self._open_pointer()) or None

    # What this client has done.

    def client_stats(self) -> dict[str, int]:
        """The counters of this client: struct kvd_stats. Does not block."""
        stats = CStats()
        with self._guard:
            lib.kvd_stats(self._open_pointer(), byref(stats))
        return {field[0]: getattr(stats, field[0]) for field in stats._fields_}

    def latency_ns(self, op: int, quantile: float) -> int:
        """The latency that a share (0 to 1) of GETs, PUTs, DELETEs or SCANs did not exceed."""
        op = check_number(op, "op", 1 << 32)
        with self._guard:
            latency: int = lib.kvd_latency_ns(self._open_pointer(), op, quantile)
        return latency

    def observe(self, on: bool) -> None:
        """Whether operations are counted and timed, for op_stats() and stats_text()."""
        with self._guard:
            self._check(lib.kvd_observe(self._open_pointer(), bool(on)))

    def op_stats(self, op: int, path: int) -> dict[str, Any]:
        """Counts and times, in nanoseconds, of operations of one kind that took one path."""
        with self._guard:
            return observe.op_stats(self._open_pointer(), op, path)

    def stats_text(self, prometheus: bool = False) -> str:
        """All counters, as lines "name value" or in Prometheus' text format."""
        with self._guard:
            return observe.stats_text(self._open_pointer(), prometheus)

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) is not None:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)

    def __repr__(self) -> str:
        state = ", closed" if self._pointer is None else ""
        return f"<kvd.{type(self).__name__} of {self.url}{state}>"
