# SPDX-License-Identifier: MIT
"""Registered memory: values are read to it and stored from it without a copy.

`client.register(buffer)` registers memory that Python has (bytearray, numpy, mmap, ...), and
`client.alloc(n)` allocates memory in the way that suits the device best. All clients of the process
with the same URL then recognize buffers of operations that lie in this memory.
"""

from __future__ import annotations

import ctypes
import functools
import os
import weakref
from ctypes import byref, c_ubyte, c_void_p
from types import TracebackType
from typing import Any, NamedTuple

from ._abi import CMemInfo
from ._lib import error_text, lib
from ._owner import Owner
from .errors import BusyError, InvalidError, Status, error_of

# All registrations, for holder_of(). At most 64 for each URL.
_live: weakref.WeakSet[Memory] = weakref.WeakSet()
# Memory that was dropped without release() while operations used it: it goes when they end.
_abandoned: list[tuple[int, bool, Any]] = []


class MemoryInfo(NamedTuple):
    """How the device has registered memory."""

    address: int
    bytes: int
    registrations: int  # with the device: 1, or more if it takes no longer ones
    register_ns: int  # how long registering took


# ctypes keeps a type for each length; there are few lengths, so each is made once.
@functools.lru_cache(maxsize=None)
def _array_type(size: int) -> type[ctypes.Array[c_ubyte]]:
    return c_ubyte * size


def _end(pointer: int, allocated: bool) -> int:
    status: int = lib.kvd_free(pointer) if allocated else lib.kvd_deregister(pointer)
    return status


def _sweep() -> None:
    """Ends dropped registrations that no operation uses any more."""
    for entry in list(_abandoned):
        if _end(entry[0], entry[1]) != Status.ERR_BUSY:
            _abandoned.remove(entry)


def _drop(pointer: int, allocated: bool, holder: Any, pid: int) -> None:
    """Called when a Memory is gone without release()."""
    if os.getpid() == pid and _end(pointer, allocated) == Status.ERR_BUSY:
        _abandoned.append((pointer, allocated, holder))


class Memory(Owner):
    """Memory that is registered with the device of a client. It outlives the client.

    `memory[a:b]` is a memoryview of a part, `memory.view` of all of it, and numpy.frombuffer(
    memory.view) an array on it. Ends by release(), `with`, or when nothing refers to it.
    """

    _instead = "register() or alloc() other memory, or copy its bytes: bytes(memory.view)"
    __slots__ = ("_pointer", "_address", "_bytes", "_holder", "_allocated", "_block", "_pid",
                 "_finalizer", "__weakref__")

    def __init__(self, pointer: int, address: int, size: int, holder: Any, view: Any) -> None:
        """For register() and alloc() of a client. @holder keeps a registered buffer exported."""
        self._pointer: int | None = pointer
        self._address = address
        self._bytes = size
        self._holder: Any = view  # of the registered buffer; None: it is allocated
        self._allocated = view is None
        self._block: Any = None  # weak: a ctypes array to which all views of alloc() lead
        self._pid = os.getpid()
        self._finalizer = weakref.finalize(self, _drop, pointer, self._allocated, (holder, view),
                                           self._pid)
        self._finalizer.atexit = False  # the process's end ends all
        _live.add(self)

    @property
    def address(self) -> int:
        """The address at which the memory begins."""
        return self._address

    @property
    def nbytes(self) -> int:
        """The length of the memory, in bytes."""
        return self._bytes

    def __len__(self) -> int:
        return self._bytes

    @property
    def released(self) -> bool:
        """Whether release() has ended the registration."""
        return self._pointer is None

    def _usable(self) -> int:
        if self._pointer is None:
            raise InvalidError("this memory was released")
        if self._allocated and os.getpid() != self._pid:
            raise InvalidError("memory of alloc() is not mapped in a child process: allocate some "
                               "with a client that the child opened")
        return self._pointer

    @property
    def view(self) -> memoryview:
        """A memoryview of all of it, of bytes. release() fails while views exist.

        In a child process memory of alloc() is not mapped, and a view of the parent's must not be
        touched there."""
        self._usable()
        if self._holder is not None:
            return memoryview(self._holder).cast("B")
        block: Any = self._block() if self._block is not None else None
        if block is None:
            block = _array_type(self._bytes).from_address(self._address)
            self._block = weakref.ref(block)
            block.memory = self  # so that it lives as long as views of it
        return memoryview(block).cast("B")

    def __getitem__(self, part: slice) -> memoryview:
        """memory[begin:end]: a memoryview of that part."""
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise TypeError("give a part of registered memory as memory[begin:end]")
        return self.view[part]

    def info(self) -> MemoryInfo:
        """How the device has registered it. InvalidError: it was released."""
        info = CMemInfo()
        lib.kvd_mem_info(self._usable(), byref(info))
        return MemoryInfo(info.addr, info.bytes, info.registrations, info.register_ns)

    def release(self) -> None:
        """Ends the registration; the memory of alloc() is freed. A second call does nothing.

        BusyError: operations use it, or views of alloc()'s memory exist; nothing was done.
        DisconnectedError: it is the parent process's."""
        if self._pointer is None:
            return
        if self._block is not None and self._block() is not None:
            raise BusyError("views of this memory exist (memoryviews, numpy arrays): delete them "
                            "before it is released")
        status = _end(self._pointer, self._allocated)
        if status:
            raise error_of(status, error_text(None))
        self._pointer = None
        self._holder = None
        self._finalizer.detach()
        _live.discard(self)
        _sweep()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.release()

    def __repr__(self) -> str:
        state = "released" if self._pointer is None else f"at {self._address:#x}"
        return f"<kvd.Memory of {self._bytes} bytes, {state}>"


def holder_of(address: int, size: int) -> Memory:
    """Returns the registered memory in which these bytes lie. InvalidError: there is none."""
    for memory in list(_live):
        if memory._address <= address and 0 <= size and \
                address + size <= memory._address + memory._bytes and not memory.released:
            return memory
    raise InvalidError(f"{size} bytes at {address:#x} are not in registered memory: give a buffer, "
                       f"or an address in memory of register() or alloc()")


def anywhere(address: int, size: int) -> Any:
    """These bytes as a buffer of an operation, whether they are in registered memory or not. The
    caller keeps them mapped meanwhile."""
    try:
        holder_of(address, size)
    except InvalidError:
        return _array_type(size).from_address(address)
    return address, size


def register(client: int, buffer: Any, address: int, size: int, holder: Any) -> Memory:
    """Registers @size bytes at @address, exported by @holder, with the handle @client."""
    pointer = c_void_p()
    status = lib.kvd_register(client, address, size, byref(pointer))
    if status:
        raise error_of(status, error_text(client))
    assert pointer.value is not None
    return Memory(pointer.value, address, size, holder, buffer)


def alloc(client: int, size: int) -> Memory:
    """Allocates and registers @size bytes of zeros with the handle @client."""
    pointer, address = c_void_p(), c_void_p()
    status = lib.kvd_alloc(client, size, byref(address), byref(pointer))
    if status:
        raise error_of(status, error_text(client))
    assert pointer.value is not None and address.value is not None
    return Memory(pointer.value, address.value, size, None, None)


__all__ = ["Memory", "MemoryInfo"]
