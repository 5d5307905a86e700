# SPDX-License-Identifier: MIT
"""The asyncio client: operations are submitted, and the event loop waits on the handle's
descriptor.

    async with kvd.aio.Client() as store:
        await store.put("name", "Ada")
        print(await store.get("name"))

Operations that begin in one turn of the loop are submitted together, so that they share messages
and round trips. Changes take effect in the order in which they began. At most `max_outstanding`
operations are outstanding; further ones wait in order.

Cancellation. A cancelled operation is cancelled in libkvd, too. Its buffer stays alive and
exported, and registered memory can't be released, until libkvd has handed it back. If the buffer is
the caller's own, the cancelled call ends only then, at the latest 200 ms after its deadline; so
the caller may reuse a buffer as soon as the call has ended. (This does not concern values that are
bytes, str, or a buffer of up to 4 KiB.) A change that was already sent may have taken effect.

Operations that libkvd can't submit (scan, flush, stats, clients, ...) use a second connection, in a
thread, and are not ordered with outstanding operations: await these first.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
from ctypes import c_void_p
from types import TracebackType
from typing import (
    Any, AsyncIterator, Callable, Final, Generator, Iterable, Literal, Mapping, TypeVar, overload,
)

from ._abi import Op, Priority, PutMode
from ._buffers import Key, Readable, Writable
from ._handle import CHUNK, Handle, PathName
from ._lib import error_text, lib
from ._operations import (
    SCRATCH, Head, Item, Number, Operation, Pairs, buffers_of, check_number, code_of_length,
    code_of_range, code_of_status, found_of, keys_of, pairs_of, ranges_of, result_head,
    result_item, result_length, result_range_length, result_value, seconds_left,
)
from .client import Client as SyncClient
from .client import Entry, Used
from .errors import (
    DisconnectedError, InvalidError, NoMemoryError, Status, ThreadError,
)
from .fleet import FleetInfo, FleetMember, FleetShard

MAX_OUTSTANDING: Final = 1024
_DONE_MAX = 256
_DONE = c_void_p * _DONE_MAX
_BUFFER = int(Status.ERR_BUFFER)
_BUSY = int(Status.ERR_BUSY)
_EXPECT_MAX = 1 << 20  # largest buffer that a GET gets because earlier values were long
_CHANGES = frozenset((Op.PUT, Op.DELETE, Op.INCR, Op.DECR, Op.TOUCH, Op.GET_AND_TOUCH))
_PREFIX_STEP = 64  # keys of exists_prefix() that are asked for together

_COPIED_MAX = 4096  # bytes of a buffer that is copied when its PUT begins

T = TypeVar("T")
D = TypeVar("D")
K = TypeVar("K", bound=Key)


def _copied(value: Any) -> Any:
    """A copy of a short buffer, so that a cancelled PUT need not wait for its end."""
    if isinstance(value, bytearray):
        return bytes(value) if len(value) <= _COPIED_MAX else value
    if isinstance(value, memoryview) and value.nbytes <= _COPIED_MAX and value.c_contiguous:
        return value.tobytes() if "O" not in value.format else value
    return value


async def _once(entries: AsyncIterator[Entry]) -> AsyncIterator[Entry]:
    """The entries of a scan without those whose key was delivered before."""
    delivered: set[bytes] = set()
    async for entry in entries:
        if entry.key not in delivered:
            delivered.add(entry.key)
            yield entry


class _Group:
    """The operations that one coroutine waits for. Each refers to this object, which has no list of
    them: such a cycle would keep their values until the garbage collector runs."""

    __slots__ = ("left", "future", "canceled")

    def __init__(self, loop: asyncio.AbstractEventLoop, count: int) -> None:
        self.left = count
        self.future: asyncio.Future[None] = loop.create_future()
        self.canceled = False

    def one_ended(self) -> None:
        self.left -= 1
        if not self.left and not self.future.done():
            self.future.set_result(None)


class Client(Handle):
    """A connection to a kvd server, for one event loop; all methods but the constructor are for
    that loop's thread (else ThreadError).

    Connect by `async with kvd.aio.Client(url) as store:` or `store = await kvd.aio.Client(url)`.
    URL, options, arguments, results and errors are those of kvd.Client. @timeout_ms of a call: of
    that operation; 0: that of the options. The methods that are not `async` block, register() and
    alloc() for some 0.1 to 0.4 s for each GiB; memory that a kvd.Client of the same URL has
    registered, in another thread, is this client's, too.
    """

    def __init__(self, url: str | None = None, *, max_outstanding: int = MAX_OUTSTANDING,
                 timeout_ms: int | None = None,
                 connect_timeout_ms: int | None = None, cache_bytes: int | None = None,
                 spin_us: int | None = None, get_tries: int | None = None,
                 depth: int | None = None, reconnect: int | None = None,
                 tls_ca: PathName | None = None, tls_certificate: PathName | None = None,
                 tls_key: PathName | None = None, tls_psk: PathName | None = None,
                 tenant: str | None = None) -> None:
        super().__init__(url, {
            "timeout_ms": timeout_ms, "connect_timeout_ms": connect_timeout_ms,
            "cache_bytes": cache_bytes, "spin_us": spin_us, "get_tries": get_tries,
            "depth": depth, "reconnect": reconnect, "tls_ca": tls_ca,
            "tls_certificate": tls_certificate, "tls_key": tls_key, "tls_psk": tls_psk,
            "tenant": tenant,
        })
        if check_number(max_outstanding, "max_outstanding") == 0:
            raise InvalidError(f"max_outstanding is at least 1, not {max_outstanding}")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._free = max_outstanding
        self._waiting: collections.deque[asyncio.Future[None]] = collections.deque()
        self._queue: list[Operation] = []
        self._scheduled = False
        self._flying: dict[int, Operation] = {}
        self._pins.append(self._flying)
        self._done = _DONE()
        self._expect = SCRATCH
        self._fd = -1
        self._side: SyncClient | None = None
        self._side_thread: concurrent.futures.ThreadPoolExecutor | None = None

    # Opening and closing.

    async def _connect(self) -> Client:
        if self._loop is not None:
            raise InvalidError("this client was opened before: make another one")
        self._loop = asyncio.get_running_loop()
        opening = self._loop.run_in_executor(None, self._open)
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            def opened(ended: asyncio.Future[None]) -> None:
                if ended.exception() is None:
                    self._close()

            opening.add_done_callback(opened)
            raise
        self._fd = lib.kvd_fd(self._pointer)
        if self._fd < 0:
            error = NoMemoryError(error_text(self._pointer))
            self._close()
            raise error
        self._loop.add_reader(self._fd, self._drive)
        self._drive()
        return self

    def __await__(self) -> Generator[Any, None, Client]:
        return self._connect().__await__()

    async def __aenter__(self) -> Client:
        return await self._connect()

    async def __aexit__(self, kind: type[BaseException] | None, value: BaseException | None,
                        traceback: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnects. Outstanding operations end: with CanceledError if they had no effect, with
        UnknownOutcomeError if they are changes that were sent. Operations that wait for a place
        end with InvalidError. Works after the client's loop was closed. A second call does
        nothing."""
        if self._pointer is None:
            return
        if self._guard.forked or self._loop is not None and self._loop.is_closed():
            # The loop is not ours, or never runs again: nothing waits there.
            self._queue, self._flying = [], {}
            self._close()
            if self._side is not None:
                self._side.close()
            return
        loop = self._check_loop()
        loop.remove_reader(self._fd)
        unknown = set()
        for address, operation in self._flying.items():
            if operation.op.op in _CHANGES and lib.kvd_cancel(self._pointer, address) == _BUSY:
                unknown.add(address)
        # After this libkvd uses nothing of them.
        ended = [*self._flying.values(), *self._queue]
        self._queue = []
        pins, self._flying = self._flying, {}
        self._close()
        del pins
        for operation in ended:
            operation.holder = None
            sent = operation.address in unknown
            operation.op.status = Status.ERR_UNKNOWN if sent else Status.ERR_CANCELED
            operation.text = "the client was closed before the change was answered" if sent \
                else "the client was closed"
            operation.group.one_ended()
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(self._closed())
        self._waiting.clear()
        if self._side_thread is not None:
            # After the call that may be under way in that thread.
            await loop.run_in_executor(self._side_thread, self._close_side)
            self._side_thread.shutdown(wait=False)

    def _close_side(self) -> None:
        if self._side is not None:
            self._side.close()

    def _check_loop(self) -> asyncio.AbstractEventLoop:
        loop = self._loop
        if loop is None or self._pointer is None:
            raise self._closed() if loop is not None else InvalidError(
                "the client is not connected: use `async with`, or await it")
        if self._guard.forked:
            raise DisconnectedError("this client was opened before fork(2), by the parent: the "
                                    "child has to open its own")
        if asyncio._get_running_loop() is not loop:
            raise ThreadError("this client belongs to another event loop: open one for each loop")
        return loop

    def _open_pointer(self) -> int:
        self._check_loop()
        return super()._open_pointer()

    @property
    def outstanding(self) -> int:
        """How many operations are outstanding, without those that wait for a place."""
        return len(self._flying) + len(self._queue)

    # Moving operations on.

    def _drive(self) -> None:
        """Submits queued operations, and takes those that have ended. The loop calls it."""
        self._scheduled = False
        try:
            with self._guard:
                self._move()
        except ThreadError:  # of another thread's call, which is about to be refused
            if self._loop is not None:
                self._loop.call_later(0.001, self._drive)

    def _move(self) -> None:
        while self._pointer is not None:
            if self._queue:
                self._submit()
            count = lib.kvd_poll(self._pointer, self._done, _DONE_MAX)
            for i in range(count):
                self._ended(self._flying.pop(self._done[i] or 0))
            if count or self._queue:
                continue
            status = lib.kvd_arm(self._pointer)
            if status == _BUSY:
                continue
            if status and self._loop is not None:  # it does not connect again
                self._loop.remove_reader(self._fd)
            return

    def _submit(self) -> None:
        queue, self._queue = self._queue, []
        for begin in range(0, len(queue), CHUNK):
            part = queue[begin:begin + CHUNK]
            for operation in part:
                self._flying[operation.address] = operation
            for operation in self._submit_part(part):
                del self._flying[operation.address]
                self._ended(operation)

    def _ended(self, operation: Operation) -> None:
        op = operation.op
        group = operation.group
        if operation.retry:
            length = op.item.value_len
            if op.status == _BUFFER and not group.canceled:
                self._expect = min(length, _EXPECT_MAX)
                operation.room(length)
                self._queue.append(operation)
                return
            if length <= SCRATCH < self._expect and op.status == 0:
                self._expect = SCRATCH
        operation.holder = None  # the buffer is the caller's again
        self._give_back(1)
        group.one_ended()

    def _give_back(self, places: int) -> None:
        self._free += places
        while self._free and self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._free -= 1
                waiter.set_result(None)

    async def _places(self, wanted: int) -> int:
        """Waits for places; returns how many it took, at most @wanted."""
        if self._free and not self._waiting:
            taken = min(self._free, wanted)
            self._free -= taken
            return taken
        loop = self._check_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and self._pointer is not None:
                self._give_back(1)
            raise
        if self._pointer is None:
            raise self._closed()
        return 1

    def _begin(self, operations: list[Operation], group: _Group) -> None:
        for operation in operations:
            operation.group = group
        self._queue += operations
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and self._loop is not None and not self._loop.is_closed():
            self._scheduled = True
            self._loop.call_soon(self._drive)

    async def _run(self, operations: list[Operation], timeout_ms: int = 0) -> None:
        """Starts all operations and waits until they have ended; if cancelled, ends them."""
        if not operations:
            return
        loop = self._check_loop()
        timeout_ms = check_number(timeout_ms, "timeout_ms", 3600001)
        group = _Group(loop, len(operations))
        begun = 0
        try:
            while begun < len(operations):
                places = await self._places(len(operations) - begun)
                part = operations[begun:begun + places]
                if timeout_ms:
                    for operation in part:
                        operation.op.timeout_ms = timeout_ms
                begun += places
                self._begin(part, group)
            await group.future
        except BaseException as error:
            group.left -= len(operations) - begun
            self._abandon(group, operations[:begun])
            # A coroutine that is dropped, when the process ends, can't wait.
            if not isinstance(error, GeneratorExit):
                await self._await_buffers(group, operations[:begun])
            raise

    def _abandon(self, group: _Group, operations: list[Operation]) -> None:
        """Cancels operations that have not ended."""
        group.canceled = True
        if self._pointer is not None and group.left:
            ours = {operation.address for operation in operations}
            queued = [o for o in self._queue if o.address in ours]
            self._queue = [o for o in self._queue if o.address not in ours]
            for operation in queued:
                self._give_back(1)
                group.left -= 1
            for address in ours:
                if address in self._flying:
                    lib.kvd_cancel(self._pointer, address)
            self._schedule()

    async def _await_buffers(self, group: _Group, operations: list[Operation]) -> None:
        """Waits until none of the operations uses a buffer of the caller."""
        if all(operation.holder is None for operation in operations):
            return
        assert self._loop is not None
        while group.left > 0:
            group.future = self._loop.create_future()
            try:
                await group.future
            except asyncio.CancelledError:
                continue  # once more: the buffers are still in use

    async def _one(self, operation: Operation, timeout_ms: int) -> Any:
        await self._run([operation], timeout_ms)
        return operation.result(operation)

    # Operations.

    @overload
    async def get(self, key: Key, *, timeout_ms: int = 0) -> bytes | None: ...

    @overload
    async def get(self, key: Key, default: D, *, timeout_ms: int = 0) -> bytes | D: ...

    async def get(self, key: Key, default: Any = None, *, timeout_ms: int = 0) -> Any:
        """Returns the value, or @default."""
        operation = Operation()
        operation.prepare_get(key, self._expect, result_value)
        value = await self._one(operation, timeout_ms)
        return default if value is None else value

    @overload
    async def get_by_request(self, key: Key, *, timeout_ms: int = 0) -> bytes | None: ...

    @overload
    async def get_by_request(self, key: Key, default: D, *, timeout_ms: int = 0) -> bytes | D: ...

    async def get_by_request(self, key: Key, default: Any = None, *, timeout_ms: int = 0) -> Any:
        """As get(), but asks the server."""
        operation = Operation()
        operation.prepare_get(key, self._expect, result_value, by_request=True)
        value = await self._one(operation, timeout_ms)
        return default if value is None else value

    async def get_item(self, key: Key, *, timeout_ms: int = 0) -> Item | None:
        """Returns the value with version, flags and expiry time, or None."""
        operation = Operation()
        operation.prepare_get(key, self._expect, result_item)
        item: Item | None = await self._one(operation, timeout_ms)
        return item

    async def gets(self, key: Key, *,
                   timeout_ms: int = 0) -> tuple[bytes, int] | tuple[None, None]:
        """Returns the value and its version, for cas(); (None, None): there is no such key."""
        item = await self.get_item(key, timeout_ms=timeout_ms)
        return (None, None) if item is None else (item.value, item.version)

    @overload
    async def get_and_touch(self, key: Key, ttl_s: int, *, timeout_ms: int = 0) -> bytes | None: ...

    @overload
    async def get_and_touch(self, key: Key, ttl_s: int, default: D, *,
                            timeout_ms: int = 0) -> bytes | D: ...

    async def get_and_touch(self, key: Key, ttl_s: int, default: Any = None, *,
                            timeout_ms: int = 0) -> Any:
        """Returns the value and sets its time to live."""
        operation = Operation()
        operation.prepare_get(key, self._expect, result_value, touch_s=ttl_s)
        value = await self._one(operation, timeout_ms)
        return default if value is None else value

    gat = get_and_touch

    async def get_into(self, key: Key, buffer: Writable | list[Writable], *,
                       timeout_ms: int = 0) -> int:
        """Reads the value into @buffer and returns its length. NotFoundError,
        BufferTooSmallError."""
        operation = Operation()
        operation.prepare_get_into(key, buffer, result_length)
        length: int = await self._one(operation, timeout_ms)
        return length

    async def get_range(self, key: Key, offset: int, length: int, *,
                        timeout_ms: int = 0) -> bytes | None:
        """As kvd.Client.get_range()."""
        operation = Operation()
        operation.prepare_range(key, offset, length)
        value: bytes | None = await self._one(operation, timeout_ms)
        return value

    async def get_range_into(self, key: Key, offset: int, buffer: Writable, *,
                             timeout_ms: int = 0) -> int:
        """As kvd.Client.get_range_into(). NotFoundError."""
        operation = Operation()
        operation.prepare_range_into(key, offset, buffer, result_range_length)
        length: int = await self._one(operation, timeout_ms)
        return length

    async def put(self, key: Key, value: Readable | list[Readable], *, mode: int = PutMode.SET,
                  flags: int = 0, ttl_s: int = 0, if_version: int = 0, pin_s: int = 0,
                  priority: int = Priority.NORMAL, timeout_ms: int = 0) -> int:
        """Stores @value and returns the new version. Until it has ended, a buffer of more than 4
        KiB must not be changed."""
        operation = Operation()
        operation.prepare_put(key, _copied(value), mode, flags, ttl_s, if_version, pin_s, priority)
        version: int = await self._one(operation, timeout_ms)
        return version

    set = put

    async def put_from(self, key: Key, buffer: Readable | list[Readable],
                       **arguments: Any) -> int:
        """As put(): registered memory is READ by the server from where it is."""
        return await self.put(key, buffer, **arguments)

    async def add(self, key: Key, value: Readable, **arguments: Any) -> int:
        """Stores it if the key does not exist; else ExistsError."""
        return await self.put(key, value, mode=PutMode.IF_ABSENT, **arguments)

    async def replace(self, key: Key, value: Readable, **arguments: Any) -> int:
        """Stores it if the key exists; else NotFoundError."""
        return await self.put(key, value, mode=PutMode.IF_PRESENT, **arguments)

    async def cas(self, key: Key, value: Readable, version: int, **arguments: Any) -> int:
        """Stores it if the key has @version; else ExistsError or NotFoundError."""
        return await self.put(key, value, mode=PutMode.IF_VERSION, if_version=version,
                              **arguments)

    async def append(self, key: Key, value: Readable, *, timeout_ms: int = 0) -> int:
        """Adds @value after the existing one (NotFoundError)."""
        return await self.put(key, value, mode=PutMode.APPEND, timeout_ms=timeout_ms)

    async def prepend(self, key: Key, value: Readable, *, timeout_ms: int = 0) -> int:
        """Adds @value before the existing one (NotFoundError)."""
        return await self.put(key, value, mode=PutMode.PREPEND, timeout_ms=timeout_ms)

    async def delete(self, key: Key, *, timeout_ms: int = 0) -> bool:
        """Removes the key. Returns whether it existed."""
        operation = Operation()
        operation.prepare_delete(key, None)
        found: bool = await self._one(operation, timeout_ms)
        return found

    async def delete_if(self, key: Key, version: int, *, timeout_ms: int = 0) -> bool:
        """Removes the key if it has @version; else ExistsError. Returns whether it existed."""
        operation = Operation()
        operation.prepare_delete(key, version)
        found: bool = await self._one(operation, timeout_ms)
        return found

    async def _arith(self, code: int, key: Key, delta: int, initial: int | None, flags: int,
                     ttl_s: int, timeout_ms: int) -> Number:
        operation = Operation()
        operation.prepare_arith(code, key, delta, initial, flags, ttl_s)
        number: Number = await self._one(operation, timeout_ms)
        return number

    async def incr(self, key: Key, delta: int = 1, *, initial: int | None = None, flags: int = 0,
                   ttl_s: int = 0, timeout_ms: int = 0) -> Number:
        """Adds @delta to the number; as kvd.Client.incr()."""
        return await self._arith(Op.INCR, key, delta, initial, flags, ttl_s, timeout_ms)

    async def decr(self, key: Key, delta: int = 1, *, initial: int | None = None, flags: int = 0,
                   ttl_s: int = 0, timeout_ms: int = 0) -> Number:
        """Subtracts @delta from the number, and stops at 0."""
        return await self._arith(Op.DECR, key, delta, initial, flags, ttl_s, timeout_ms)

    async def touch(self, key: Key, ttl_s: int, *, timeout_ms: int = 0) -> int:
        """Sets the time to live, and returns the version. NotFoundError."""
        operation = Operation()
        operation.prepare_touch(key, ttl_s)
        version: int = await self._one(operation, timeout_ms)
        return version

    expire = touch

    async def ttl(self, key: Key, *, timeout_ms: int = 0) -> int | None:
        """As kvd.Client.ttl(): seconds; 0: it never expires; None: there is no such key."""
        head = await self.head(key, timeout_ms=timeout_ms)
        if head is None or not head.expires_s:
            return None if head is None else 0
        now_ns = self.clock_ns()
        if now_ns is None:
            await self.ping(timeout_ms=timeout_ms)
            now_ns = self.clock_ns()
        return seconds_left(head, now_ns)

    async def head(self, key: Key, *, timeout_ms: int = 0) -> Head | None:
        """Length, version, flags and expiry time; None: there is no such key."""
        operation = Operation()
        operation.prepare_exists(key, result_head)
        head: Head | None = await self._one(operation, timeout_ms)
        return head

    async def exists(self, key: Key, *, timeout_ms: int = 0) -> bool:
        """Whether the key exists."""
        return await self.head(key, timeout_ms=timeout_ms) is not None

    async def ping(self, *, timeout_ms: int = 0) -> None:
        """Waits for a response of the server."""
        operation = Operation()
        operation.prepare_ping()
        await self._one(operation, timeout_ms)

    async def setdefault(self, key: Key, value: Readable, **arguments: Any) -> bytes:
        """As kvd.Client.setdefault()."""
        return await self._aside(SyncClient.setdefault, key, value, **arguments)

    @overload
    async def pop(self, key: Key) -> bytes | None: ...

    @overload
    async def pop(self, key: Key, default: D) -> bytes | D: ...

    async def pop(self, key: Key, default: Any = None) -> Any:
        """As kvd.Client.pop()."""
        return await self._aside(SyncClient.pop, key, default)

    # Many at once.

    @overload
    async def get_many(self, keys: Iterable[Key], *, as_dict: Literal[False] = False,
                       timeout_ms: int = 0) -> list[bytes | None]: ...

    @overload
    async def get_many(self, keys: Iterable[K], *, as_dict: Literal[True],
                       timeout_ms: int = 0) -> dict[K, bytes]: ...

    async def get_many(self, keys: Iterable[Any], *, as_dict: bool = False,
                       timeout_ms: int = 0) -> Any:
        """As kvd.Client.get_many()."""
        wanted = list(keys_of(keys))
        operations = []
        for key in wanted:
            operation = Operation()
            operation.prepare_get(key, self._expect, result_value)
            operations.append(operation)
        await self._run(operations, timeout_ms)
        values = SyncClient._results(operations)
        return found_of(wanted, values) if as_dict else values

    async def put_many(self, items: Pairs, *, mode: int = PutMode.SET, flags: int = 0,
                       ttl_s: int = 0, pin_s: int = 0, priority: int = Priority.NORMAL,
                       timeout_ms: int = 0) -> list[int]:
        """As kvd.Client.put_many()."""
        operations = []
        for key, value in pairs_of(items):
            operation = Operation()
            operation.prepare_put(key, _copied(value), mode, flags, ttl_s, 0, pin_s, priority)
            operations.append(operation)
        await self._run(operations, timeout_ms)
        return SyncClient._results(operations)

    set_many = put_many

    async def delete_many(self, keys: Iterable[Key], *, timeout_ms: int = 0) -> list[bool]:
        """As kvd.Client.delete_many()."""
        operations = []
        for key in keys_of(keys):
            operation = Operation()
            operation.prepare_delete(key, None)
            operations.append(operation)
        await self._run(operations, timeout_ms)
        return SyncClient._results(operations)

    async def batch_get_into(self, keys: Iterable[Key], buffers: Iterable[Writable], *,
                             timeout_ms: int = 0) -> list[int]:
        """As kvd.Client.batch_get_into(): lengths, or minus the status of each."""
        operations = []
        for key, buffer in buffers_of(keys, buffers):
            operation = Operation()
            operation.prepare_get_into(key, buffer, code_of_length)
            operations.append(operation)
        await self._run(operations, timeout_ms)
        return [code_of_length(operation) for operation in operations]

    async def batch_get_ranges_into(self, keys: Iterable[Key], offsets: Iterable[int],
                                    buffers: Iterable[Writable], *,
                                    timeout_ms: int = 0) -> list[int]:
        """As kvd.Client.batch_get_ranges_into(): bytes, or minus the status of each."""
        operations = []
        for key, offset, buffer in ranges_of(keys, offsets, buffers):
            operation = Operation()
            operation.prepare_range_into(key, offset, buffer, code_of_range)
            operations.append(operation)
        await self._run(operations, timeout_ms)
        return [code_of_range(operation) for operation in operations]

    async def batch_put_from(self, keys: Iterable[Key], buffers: Iterable[Readable], *,
                             flags: int = 0, ttl_s: int = 0, pin_s: int = 0,
                             priority: int = Priority.NORMAL, timeout_ms: int = 0) -> list[int]:
        """As kvd.Client.batch_put_from(): 0, or minus the status of each."""
        operations = []
        for key, buffer in buffers_of(keys, buffers):
            operation = Operation()
            operation.prepare_put(key, buffer, PutMode.SET, flags, ttl_s, 0, pin_s, priority)
            operations.append(operation)
        await self._run(operations, timeout_ms)
        return [code_of_status(operation) for operation in operations]

    async def heads(self, keys: Iterable[Key], *, timeout_ms: int = 0) -> list[Head | None]:
        """As kvd.Client.heads()."""
        operations = []
        for key in keys_of(keys):
            operation = Operation()
            operation.prepare_exists(key, result_head)
            operations.append(operation)
        await self._run(operations, timeout_ms)
        return SyncClient._results(operations)

    async def batch_sizes(self, keys: Iterable[Key], *, timeout_ms: int = 0) -> list[int]:
        """As kvd.Client.batch_sizes(): the length of each value, or minus the status."""
        operations = []
        for key in keys_of(keys):
            operation = Operation()
            operation.prepare_exists(key, code_of_length)
            operations.append(operation)
        await self._run(operations, timeout_ms)
        return [code_of_length(operation) for operation in operations]

    async def batch_exists(self, keys: Iterable[Key], *, timeout_ms: int = 0) -> list[bool]:
        """Whether each of the keys exists."""
        return [head is not None for head in await self.heads(keys, timeout_ms=timeout_ms)]

    async def exists_prefix(self, keys: Iterable[Key], *, timeout_ms: int = 0) -> int:
        """How many keys exist before the first that does not."""
        wanted = list(keys_of(keys))
        for begin in range(0, len(wanted), _PREFIX_STEP):
            part = await self.batch_exists(wanted[begin:begin + _PREFIX_STEP],
                                           timeout_ms=timeout_ms)
            if not all(part):
                return begin + part.index(False)
        return len(wanted)

    # By the second connection.

    def _side_call(self, method: Callable[..., T], arguments: tuple[Any, ...],
                   named: dict[str, Any]) -> T:
        if self._pointer is None:
            raise self._closed()
        if self._side is None:
            self._side = SyncClient(self.url, **self._options)
        return method(self._side, *arguments, **named)

    async def _aside(self, method: Callable[..., T], *arguments: Any, **named: Any) -> T:
        loop = self._check_loop()
        if self._side_thread is None:
            self._side_thread = concurrent.futures.ThreadPoolExecutor(1, "kvd-aside")
        return await loop.run_in_executor(self._side_thread, self._side_call, method, arguments,
                                          named)

    async def scan(self, prefix: bytes | str = b"", *, values: bool = False,
                   count: int = 0) -> AsyncIterator[Entry]:
        """As kvd.Client.scan(): `async for entry in store.scan("user"):`."""
        cursor = 0
        while True:
            found, cursor = await self._aside(SyncClient.scan_part, cursor, prefix,
                                              values=values, count=count)
            for entry in found:
                yield entry
            if not cursor:
                return

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.keys()

    async def keys(self, prefix: bytes | str = b"") -> AsyncIterator[bytes]:
        """As kvd.Client.keys(): `async for key in store.keys("user"):`."""
        async for entry in _once(self.scan(prefix)):
            yield entry.key

    async def items(self, prefix: bytes | str = b"") -> AsyncIterator[tuple[bytes, bytes]]:
        """As kvd.Client.items()."""
        async for key, value, _ in _once(self.scan(prefix, values=True)):
            if value is None:  # too long for a scan
                value = await self.get(key)
            if value is not None:
                yield key, value

    async def scan_uses(self, prefix: bytes | str = b"", *,
                        count: int = 0) -> AsyncIterator[Used]:
        """As kvd.Client.scan_uses()."""
        cursor = 0
        while True:
            found, cursor = await self._aside(SyncClient.scan_uses_part, cursor, prefix,
                                              count=count)
            for used in found:
                yield used
            if not cursor:
                return

    async def flush(self) -> None:
        """Removes all keys, and waits until no reader can see them."""
        await self._aside(SyncClient.flush)

    async def flush_start(self, delay_s: int = 0) -> int:
        """Starts a flush in @delay_s seconds; a ticket for flush_done()."""
        return await self._aside(SyncClient.flush_start, delay_s)

    async def flush_done(self, ticket: int) -> bool:
        """Whether that flush is done."""
        return await self._aside(SyncClient.flush_done, ticket)

    async def flush_cancel(self, ticket: int = 0, *, any_owner: bool = False) -> int:
        """Cancels flushes that were started with a delay, and returns how many."""
        return await self._aside(SyncClient.flush_cancel, ticket, any_owner=any_owner)

    async def stats(self) -> dict[str, int | str]:
        """The server's statistics."""
        return await self._aside(SyncClient.stats)

    async def info(self) -> dict[str, int | str]:
        """The properties of the connection: the fields of struct kvd_info."""
        return self._info()

    async def clients(self) -> list[dict[str, str]]:
        """The server's connections."""
        return await self._aside(SyncClient.clients)

    async def kill(self, client_id: int) -> None:
        """Closes the connection with this id."""
        await self._aside(SyncClient.kill, client_id)

    async def revoke(self, who: str) -> int:
        """Closes all connections of a client, and returns how many there were."""
        return await self._aside(SyncClient.revoke, who)

    async def config(self) -> dict[str, str]:
        """The server's options as they are now, by section.key."""
        return await self._aside(SyncClient.config)

    async def config_set(self, options: Mapping[str, str]) -> None:
        """Changes options of the running server, all of them or none."""
        await self._aside(SyncClient.config_set, options)

    async def config_rewrite(self) -> str:
        """Writes what config_set() has changed into the server's file."""
        return await self._aside(SyncClient.config_rewrite)

    async def tenants(self) -> list[dict[str, str]]:
        """The server's tenants."""
        return await self._aside(SyncClient.tenants)

    async def tenant_create(self, name: str, size: int) -> None:
        """Creates a tenant with @size bytes."""
        await self._aside(SyncClient.tenant_create, name, size)

    async def tenant_resize(self, name: str, size: int) -> None:
        """Changes the size of a tenant."""
        await self._aside(SyncClient.tenant_resize, name, size)

    async def tenant_drop(self, name: str) -> None:
        """Drops a tenant with all of its items."""
        await self._aside(SyncClient.tenant_drop, name)

    async def fleet_info(self) -> FleetInfo:
        """What the client knows of its fleet."""
        return self._fleet_info()

    async def fleet_member(self, number: int) -> FleetMember:
        """A member of the fleet, from number 0 on."""
        return self._fleet_member(number)

    async def fleet_shard(self, number: int) -> FleetShard:
        """A shard of the fleet, from number 0 on."""
        return self._fleet_shard(number)

    async def fleet_key(self, key: Key) -> int:
        """The number of the shard that the key belongs to."""
        return self._fleet_key(key)

    async def fleet_drain(self, member: str) -> None:
        """Has the member give its shards to the others, as kvd.Client.fleet_drain()."""
        await self._aside(SyncClient.fleet_drain, member)

    async def fleet_undrain(self, member: str) -> None:
        """Ends what fleet_drain() has begun."""
        await self._aside(SyncClient.fleet_undrain, member)

    async def fleet_rebalance(self) -> None:
        """Has each member get its share of the shards."""
        await self._aside(SyncClient.fleet_rebalance)
