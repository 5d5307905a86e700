# SPDX-License-Identifier: MIT
"""The connector that LMCache's distributed (multi-process) mode loads as `native_plugin`, which
keeps KV caches of LLMs in kvd. It imports nothing of LMCache; LMCACHE.md says how to use it.

    --l2-adapter '{"type": "native_plugin", "module_path": "kvd.lmcache",
                   "class_name": "Connector", "adapter_params": {"url": "rdma://HOST:7471"}}'

Batches are queued, and executed by worker threads with a client each; lookups have a thread and
client of their own, so that they do not wait for large values. Each batch ends once, in any order.

Guarantees. A chunk that is reported as loaded has the bytes that one PUT stored under its key, and
the length of its buffer. Everything else is a miss, and leaves the buffer's content undefined: the
chunk is missing, was evicted meanwhile, or has another length; or the server is busy, restarts, or
is gone. `ok` is False if somebody must fix something (rights, a device, a value that is longer than
the server allows), and for a store batch if a chunk was not stored. LMCache drops the text of an
error, so it also goes to the log `kvd.lmcache`.
"""

from __future__ import annotations

import collections
import itertools
import logging
import os
import queue
import threading
import weakref
from typing import Any, Callable, Final, NamedTuple, Optional, Sequence

from ._engine import ABSENT, MISSES, Arena, Health, bounded_key, first_error
from ._operations import check_ttl, keys_of
from ._owner import Owner
from .client import Client
from .errors import Error, InvalidError, Status
from .memory import MemoryInfo

# What LMCache gets for each batch: its number, whether it succeeded, the error, and the result of
# each key (for a store: None).
Completion = tuple[int, bool, str, Optional[list[bool]]]

_log = logging.getLogger("kvd.lmcache")
_os: Any = os  # older type checkers do not know eventfd


class _Result(NamedTuple):
    ok: bool
    found: list[bool] | None
    status: int = 0  # of the error
    error: str = ""


class _Batch(NamedTuple):
    number: int
    execute: Callable[[Client, _Batch, int], _Result]
    keys: list[bytes]
    views: list[memoryview]


class _Shared(Health):
    """The state that worker threads share. They hold no reference to the connector itself."""

    def __init__(self, ttl_s: int) -> None:
        super().__init__(_log)
        self.ttl_s = ttl_s
        self.event_fd: int = _os.eventfd(0, _os.EFD_NONBLOCK | _os.EFD_CLOEXEC)
        self.done: collections.deque[Completion] = collections.deque()
        self.closing = False

    def finish(self, number: int, kind: str, result: _Result) -> None:
        self.note(kind, result.status, result.error)
        self.done.append((number, result.ok, result.error, result.found))
        _os.eventfd_write(self.event_fd, 1)


def _work(shared: _Shared, client: Client, batches: queue.SimpleQueue[_Batch | None]) -> None:
    """A worker thread: executes batches until None comes."""
    while (batch := batches.get()) is not None:
        if shared.closing:
            continue
        number, kind = batch.number, batch.execute.__name__.strip("_")
        try:
            result = batch.execute(client, batch, shared.ttl_s)
        except Exception as error:  # the thread must live, and the batch end
            status = error.status if isinstance(error, Error) else Status.ERR_INVALID
            if kind == "store":
                result = _Result(False, None, status, str(error) or repr(error))
            else:
                result = _Result(status in MISSES, [False] * len(batch.keys), status,
                                 str(error) or repr(error))
        batch = None  # the buffers are the caller's again
        shared.finish(number, kind, result)


def _load(client: Client, batch: _Batch, ttl_s: int) -> _Result:
    codes = client.batch_get_into(batch.keys, batch.views)
    found = [code == view.nbytes for code, view in zip(codes, batch.views)]
    status, error = first_error(batch.keys, codes, MISSES)
    if status:
        return _Result(False, found, status, error)
    return _Result(True, found, *first_error(batch.keys, codes, ABSENT))


def _store(client: Client, batch: _Batch, ttl_s: int) -> _Result:
    codes = client.batch_put_from(batch.keys, batch.views, ttl_s=ttl_s)
    status, error = first_error(batch.keys, codes, frozenset())
    return _Result(not status, None, status, error)


def _lookup(client: Client, batch: _Batch, ttl_s: int) -> _Result:
    return _Result(True, client.batch_exists(batch.keys))


def _delete(client: Client, batch: _Batch, ttl_s: int) -> _Result:
    """A missing chunk counts as deleted, too: otherwise LMCache, which counts what it believes to
    be stored, would ask again and again for chunks that kvd has evicted."""
    try:
        client.delete_many(batch.keys)
    except Error as error:
        if error.results is None:
            raise
        gone = [not isinstance(result, Error) for result in error.results]
        return _Result(error.status in MISSES, gone, error.status, str(error))
    return _Result(True, [True] * len(batch.keys))


def _stop(shared: _Shared, queues: list[queue.SimpleQueue[_Batch | None]],
          threads: list[threading.Thread], clients: list[Client], pid: int) -> None:
    """Ends the workers after their current batches, and frees what they use."""
    if os.getpid() != pid:
        return  # the threads are the parent's
    if threading.current_thread() in threads:  # where garbage was collected: it can't join itself
        threading.Thread(target=_stop, args=(shared, queues, threads, clients, pid)).start()
        return
    shared.closing = True
    for batches in queues:
        for _ in threads:
            batches.put(None)
    for thread in threads:
        thread.join()
    for client in clients:
        client.close()
    os.close(shared.event_fd)


class Connector(Owner):
    """Chunks of a KV cache in kvd. All methods but close() may be called by any thread.

    `url` as of kvd.Client. `num_workers` threads load, store and delete, one batch each at a time.
    `timeout_ms` bounds each chunk of a batch, from the batch's start. `lookup_timeout_ms` bounds 32
    keys of a lookup, and so how long a server that goes away delays a request: later requests miss
    at once, until it is back. `ttl_s`: the seconds
    after which chunks expire; 0: they stay until they are evicted. `prefix` is put before each key,
    for caches that must not see each other. Other options are those of kvd.Client.

    Connecting fails with the errors of kvd.Client; later losses are misses, and the clients
    reconnect by themselves. Not usable in a child process after fork().
    """

    _instead = "make another one, with the same arguments"

    def __init__(self, url: str | None = None, *, num_workers: int = 2, timeout_ms: int = 5000,
                 lookup_timeout_ms: int = 500, ttl_s: int = 0, prefix: str = "",
                 **options: Any) -> None:
        if num_workers < 1:
            raise InvalidError(f"num_workers is at least 1, not {num_workers}")
        check_ttl(ttl_s)
        self._prefix: Final = prefix
        self._numbers = itertools.count(1)
        self._arena: Arena | None = None
        self._pid: Final = os.getpid()
        clients: list[Client] = []
        try:
            clients.append(Client(url, timeout_ms=lookup_timeout_ms, **options))
            for _ in range(num_workers):
                clients.append(Client(url, timeout_ms=timeout_ms, **options))
        except BaseException:
            for client in clients:
                client.close()
            raise
        self._url: Final = url
        self._options: Final = options
        self._shared: Final = _Shared(ttl_s)
        self._lookups: Final[queue.SimpleQueue[_Batch | None]] = queue.SimpleQueue()
        self._transfers: Final[queue.SimpleQueue[_Batch | None]] = queue.SimpleQueue()
        threads = []
        for i, client in enumerate(clients):
            batches = self._transfers if i else self._lookups
            threads.append(threading.Thread(target=_work, args=(self._shared, client, batches),
                                            name=f"kvd-lmcache-{i}", daemon=True))
            threads[-1].start()
        # Also at the end of the process, before threads are stopped in the middle of a call.
        queues = [self._lookups, self._transfers]
        self._stop: Final = weakref.finalize(self, _stop, self._shared, queues, threads, clients,
                                             self._pid)

    def register(self, address: int, size: int) -> MemoryInfo:
        """Registers the arena that has all buffers, once, so that chunks are moved without a copy.
        Takes 0.1 to 0.4 s for each GiB on an RDMA device. The arena must stay until close().
        Connectors of one URL that register the same arena share its registration.

        The library registers more than the device's max_mr_size in pieces; `registrations` of the
        result says how many. InvalidError: this was done before, or some of it is registered in
        another way. NoMemoryError: the device can't (RLIMIT_MEMLOCK)."""
        self._check()
        if self._arena is not None:
            raise InvalidError("an arena is registered already")
        if size <= 0:
            raise InvalidError(f"an arena has a positive number of bytes, not {size}")
        self._arena = Arena.of(self._url, self._options, address, size)
        return self._arena.memory.info()

    def event_fd(self) -> int:
        """The descriptor that is readable while there are completions."""
        self._check()
        return self._shared.event_fd

    def submit_batch_get(self, keys: Sequence[str], memoryviews: Sequence[Any]) -> int:
        """Starts to load each chunk into its buffer; returns the batch's number."""
        views = [memoryview(view) for view in memoryviews]
        if any(view.readonly for view in views):
            raise TypeError("a chunk can't be loaded into a read-only buffer")
        return self._submit(self._transfers, _load, keys, views)

    def submit_batch_set(self, keys: Sequence[str], memoryviews: Sequence[Any]) -> int:
        """Starts to store each buffer; buffers must stay unchanged until the batch ends."""
        views = [memoryview(view) for view in memoryviews]
        return self._submit(self._transfers, _store, keys, views)

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        """Starts to ask which chunks exist."""
        return self._submit(self._lookups, _lookup, keys)

    def submit_batch_delete(self, keys: Sequence[str]) -> int:
        """Starts to delete chunks. The completion says for each whether it is gone."""
        return self._submit(self._transfers, _delete, keys)

    def drain_completions(self) -> list[Completion]:
        """The batches that have ended since the last call; does not block. For each: its number,
        whether it succeeded, the error or "", and a list of the results of its keys (for a store:
        None)."""
        shared = self._shared
        if self._stop.alive:
            try:
                _os.eventfd_read(shared.event_fd)
            except BlockingIOError:
                pass
        ended = []
        while shared.done:
            ended.append(shared.done.popleft())
        return ended

    def close(self) -> None:
        """Waits for batches that are being executed, drops queued ones, and disconnects. No other
        thread may be in a call. A second call does nothing."""
        self._stop()
        if self._arena is not None and os.getpid() == self._pid:
            self._arena.leave()
            self._arena = None

    def _check(self) -> None:
        if not self._stop.alive:
            raise InvalidError("the connector is closed")
        if os.getpid() != self._pid:
            raise InvalidError("this connector is the parent process's: make one after fork()")

    def _submit(self, batches: queue.SimpleQueue[_Batch | None],
                execute: Callable[[Client, _Batch, int], _Result], keys: Sequence[str],
                views: list[memoryview] | None = None) -> int:
        self._check()
        if not keys:
            raise InvalidError("a batch has at least one key")
        if views is not None:
            if len(keys) != len(views):
                raise InvalidError(f"{len(keys)} keys, but {len(views)} buffers")
            if not all(view.c_contiguous for view in views):
                raise TypeError("the buffer of a chunk is contiguous")
        number = next(self._numbers)
        batches.put(_Batch(number, execute, [self._key(key) for key in keys_of(keys)],
                           views or []))
        return number

    def _key(self, key: str) -> bytes:
        """kvd's key of a chunk; one that is too long ends with the SHA-256 of all of it."""
        return bounded_key((self._prefix + key).encode())
