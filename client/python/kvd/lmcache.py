# SPDX-License-Identifier: MIT
"""The connector that LMCache's distributed (multi-process) mode loads as `native_plugin`, which
keeps KV caches of LLMs in kvd. It imports nothing of LMCache; LMCACHE.md says how to use it.

    --l2-adapter '{"type": "native_plugin", "module_path": "kvd.lmcache",
                   "class_name": "Connector", "adapter_params": {"url": "rdma://HOST:7471"}}'

Batches are queued, and executed by worker threads with a client each; lookups have a thread and
client of their own, so that they do not wait for large values. Each batch ends once, in any order.

Guarantees. A chunk that is reported as loaded has the bytes that one PUT stored under its key, and
the length of its buffer (with variable_length: at most that length, which is reported). Everything
else is a miss, and leaves the buffer's content undefined: the chunk is missing, was evicted
meanwhile, or has another length; or the server is busy, restarts, or is gone. `ok` is False if
somebody must fix something (rights, a device, a value that is longer than the server allows), and
for a store batch if a chunk was not stored. LMCache drops the text of an error, so it also goes to
the log `kvd.lmcache`. A server that is gone costs one deadline; then each batch ends at once, in
submit_batch_...(), until a probe of the connector's has succeeded (_breaker.py, _batches.py).
"""

from __future__ import annotations

import itertools
import os
import queue
import threading
import time
from typing import Any, Callable, Final, Sequence

from ._abi import KEY_MAX
from ._batches import Batch, Link, Result, Ticket, delete, load, lookup, page, sizes, store
from ._engine import Arena, bounded_key
from ._operations import check_number, check_ttl, keys_of
from ._owner import Ending, Owner
from ._workers import Completion, Shared, stop, work
from .client import Client
from .errors import Error, InvalidError, Status, error_of
from .memory import MemoryInfo

# Statuses of a server that may be there later: a connector starts without it.
_LATER: Final = frozenset((
    Status.ERR_TIMEOUT, Status.ERR_DISCONNECTED, Status.ERR_UNREACHABLE, Status.ERR_REFUSED,
    Status.ERR_BUSY, Status.ERR_AWAY,
))
# LMCache gives buffers away 300 s after it has locked them, whether the batch has ended or not.
_TIMES_MS_MAX: Final = 240000
_PAGE_MAX: Final = 5000  # keys
_os: Any = os  # older type checkers do not know eventfd


class Connector(Owner):
    """Chunks of a KV cache in kvd. All methods but close() may be called by any thread.

    `url` as of kvd.Client. `num_workers` threads load, store and delete, one batch each at a time.
    `timeout_ms` bounds a batch from its start, and `lookup_timeout_ms` 32 keys of a lookup (one
    that has taken longer asks for no more keys). A batch that no thread has begun
    `queue_timeout_ms` after its submission ends as a miss; together with the longer of the other
    two at most 240 s, for LMCache uses buffers again after 300 s. `ttl_s`: the seconds after which
    chunks expire; 0: they stay until they are evicted. `prefix` is put before each key, for caches
    that must not see each other. `variable_length`: a chunk may be shorter than the buffer that it
    is loaded to, whose rest is undefined then; the completion has its length. Other options are
    those of kvd.Client.

    A server that is gone costs the batches that are executed at most one of these times. From then
    on all batches end at once, as misses, until a probe has succeeded; probes are made after random
    pauses of up to a second. That is also the state of a connector that starts without the server.
    In a fleet, whose members come and go one by one, each thread finds out about each member.

    Errors of kvd.Client, except those of a server that may be there later (UnreachableError,
    RefusedError, TimedOutError, ...). Not usable in a child process after fork().
    """

    _instead = "make another one, with the same arguments"

    def __init__(self, url: str | None = None, *, num_workers: int = 2, timeout_ms: int = 5000,
                 lookup_timeout_ms: int = 500, queue_timeout_ms: int = 30000, ttl_s: int = 0,
                 prefix: str = "", variable_length: bool = False, **options: Any) -> None:
        if num_workers < 1:
            raise InvalidError(f"num_workers is at least 1, not {num_workers}")
        check_ttl(ttl_s)
        times = check_number(queue_timeout_ms, "queue_timeout_ms") + \
            max(check_number(timeout_ms, "timeout_ms"),
                check_number(lookup_timeout_ms, "lookup_timeout_ms"))
        if times > _TIMES_MS_MAX:
            raise InvalidError(f"queue_timeout_ms and timeout_ms are {_TIMES_MS_MAX} at most "
                               f"together, not {times}: LMCache's locks end after 300 s")
        self._prefix: Final = prefix
        self._numbers: Final = itertools.count(1)
        self._pid: Final = os.getpid()
        self._queue_s: Final = queue_timeout_ms / 1000
        self._options: Final = options
        self._shared: Final = Shared(url, lookup_timeout_ms, options)
        self._lookups, self._transfers = self._shared.queues
        links = []
        for i in range(num_workers + 1):
            link_ms = timeout_ms if i else lookup_timeout_ms
            links.append(Link(self._shared.breaker, _connector(url, link_ms, options), link_ms,
                              ttl_s, variable_length))
        try:
            self._connect(links)
        except BaseException:
            for link in links:
                link.close()
            os.close(self._shared.event_fd)
            raise
        threads = [self._shared.breaker.thread]
        for i, link in enumerate(links):
            batches = self._transfers if i else self._lookups
            threads.append(threading.Thread(target=work, args=(self._shared, link, batches),
                                            name=f"kvd-lmcache-{i}", daemon=True))
        for thread in threads:
            thread.start()
        self._stop: Final = Ending(self, stop, self._shared, threads[1:], self._pid)

    def _connect(self, links: list[Link]) -> None:
        for link in links:
            try:
                link.open()
            except Error as error:
                if error.status not in _LATER:
                    raise
                self._shared.lose(0, error.status, str(error))
                return

    def register(self, address: int, size: int) -> MemoryInfo | None:
        """Registers the arena that has all buffers, once, so that chunks are moved without a copy.
        Takes 0.1 to 0.4 s for each GiB on an RDMA device. The arena must stay until close().
        Connectors of one URL that register the same arena share its registration. None: kvd is
        away; this will be done before it counts as back, and until it can be done kvd stays away.

        The library registers more than the device's max_mr_size in pieces; `registrations` of the
        result says how many. InvalidError: this was done before, or some of it is registered in
        another way. NoMemoryError: the device can't (RLIMIT_MEMLOCK)."""
        self._check()
        if size <= 0:
            raise InvalidError(f"an arena has a positive number of bytes, not {size}")
        shared = self._shared
        with shared.breaker.changed:
            if shared.arena is not None or shared.wanted is not None:
                raise InvalidError("an arena is registered already")
            if shared.breaker.status:
                shared.wanted = (address, size)
                return None
        try:
            arena = Arena.of(shared.url, self._options, address, size)
        except Error as error:
            if error.status not in _LATER:
                raise
            with shared.breaker.changed:
                shared.wanted = (address, size)
                losses = shared.breaker.losses  # kvd may have been away and back meanwhile
            shared.lose(losses, error.status, str(error))
            return None
        shared.arena = arena
        return arena.memory.info()

    def event_fd(self) -> int:
        """The descriptor that is readable while there are completions."""
        self._check()
        return self._shared.event_fd

    def submit_batch_get(self, keys: Sequence[str], memoryviews: Sequence[Any]) -> int:
        """Starts to load each chunk into its buffer; returns the batch's number."""
        views = [memoryview(view) for view in memoryviews]
        if any(view.readonly for view in views):
            raise TypeError("a chunk can't be loaded into a read-only buffer")
        return self._submit(self._transfers, load, keys, views)

    def submit_batch_set(self, keys: Sequence[str], memoryviews: Sequence[Any]) -> int:
        """Starts to store each buffer; buffers must stay unchanged until the batch ends."""
        views = [memoryview(view) for view in memoryviews]
        return self._submit(self._transfers, store, keys, views)

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        """Starts to ask which chunks exist."""
        return self._submit(self._lookups, lookup, keys)

    def submit_batch_delete(self, keys: Sequence[str]) -> int:
        """Starts to delete chunks. The completion says for each whether it is gone."""
        return self._submit(self._transfers, delete, keys)

    def drain_completions(self) -> list[Completion]:
        """The batches that have ended since the last call; does not block. For each: its number,
        whether it succeeded, the error or "", and a list of the results of its keys."""
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

    def report_status(self) -> dict[str, Any]:
        """Whether kvd is there, since when and why not, and counters since the start, in chunks
        and bytes; `failed`, `away` and `expired` count batches: that failed, that ended because kvd
        was away, that no thread has begun in time. `queued` batches wait now. Does not block."""
        shared, breaker = self._shared, self._shared.breaker
        with breaker.changed:
            status = {
                "is_healthy": not breaker.status and not breaker.closing,
                "connection": "closed" if breaker.closing else "away" if breaker.status else "up",
                "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(breaker.since)),
                "why": breaker.why,
                "url": breaker.url,
                "losses": breaker.losses,
                "probes": breaker.probes,
                "queued": sum(batches.qsize() for batches in shared.queues),
            }
        return {**status, **shared.counted()}

    def get_object_sizes(self, keys: Sequence[str]) -> list[int | None]:
        """The length of each chunk; None: it is not there, or kvd does not answer. Blocks, for as
        long as a lookup may take, unless kvd is away."""
        keys_of(keys)
        sizes_of: list[int | None] | None = self._ask(sizes, keys).value
        return [None] * len(keys) if sizes_of is None else sizes_of

    def list_l2_keys(self, model_name: str | None = None, page_size: int = 500,
                     cursor: str | None = None) -> tuple[list[tuple[str, int]], str | None]:
        """A page of the chunks, of one model or all: their keys and lengths, at most @page_size
        and perhaps none, and the cursor of the next page; None: that was all. Chunks that are there
        from the first page to the last are listed, perhaps twice. Keys that are too long for kvd
        are left out. Blocks, for as long as a lookup may take.

        InvalidError: page_size is not positive, or the cursor is none. AwayError, and other errors
        of kvd.Client."""
        if page_size <= 0:
            raise InvalidError(f"page_size is at least 1, not {page_size}")
        if cursor is not None and not (cursor.isascii() and cursor.isdigit()):
            raise InvalidError(f"{cursor!r} is no cursor of list_l2_keys()")
        prefix = (self._prefix + (f"{model_name}@" if model_name is not None else "")).encode()
        result = self._ask(page, [], prefix, min(page_size, _PAGE_MAX), int(cursor or 0))
        if result.value is None:
            raise error_of(result.status, result.error)
        found, after = result.value
        skip = len(self._prefix.encode())
        return [(key[skip:].decode(errors="replace"), size) for key, size in found
                if len(key) < KEY_MAX], str(after) if after else None

    def close(self) -> None:
        """Waits for batches that are being executed, drops queued ones, and disconnects. No other
        thread may be in a call. A second call does nothing. While kvd is away it takes some
        0.1 s, unless the arena is being registered."""
        self._stop()

    def _check(self) -> None:
        if not self._stop.alive:
            raise InvalidError("the connector is closed")
        if os.getpid() != self._pid:
            raise InvalidError("this connector is the parent process's: make one after fork()")

    def _submit(self, batches: queue.SimpleQueue[Batch | None],
                run: Callable[[Link, Batch], Result], keys: Sequence[str],
                views: list[memoryview] | None = None) -> int:
        self._check()
        if not keys:
            raise InvalidError("a batch has at least one key")
        if views is not None:
            if len(keys) != len(views):
                raise InvalidError(f"{len(keys)} keys, but {len(views)} buffers")
            if not all(view.c_contiguous for view in views):
                raise TypeError("the buffer of a chunk is contiguous")
        keys_of(keys)
        ticket = Ticket(next(self._numbers), run.__name__, len(keys), None)
        self._shared.submit(batches, ticket, lambda: self._batch(ticket, run, keys, views or []))
        return ticket.number

    def _batch(self, ticket: Ticket, run: Callable[[Link, Batch], Result], keys: Sequence[str],
               views: list[memoryview], *args: Any) -> Batch:
        return Batch(ticket, run, [self._key(key) for key in keys], views,
                     time.monotonic() + self._queue_s, args)

    def _ask(self, run: Callable[[Link, Batch], Result], keys: Sequence[str], *args: Any) -> Result:
        """Has the thread of lookups do something, and waits for it."""
        self._check()
        reply: queue.SimpleQueue[Result] = queue.SimpleQueue()
        ticket = Ticket(0, run.__name__, len(keys), reply)
        self._shared.submit(self._lookups, ticket,
                            lambda: self._batch(ticket, run, keys, [], *args))
        return reply.get()

    def _key(self, key: str) -> bytes:
        """kvd's key of a chunk; one that is too long ends with the SHA-256 of all of it."""
        return bounded_key((self._prefix + key).encode())


def _connector(url: str | None, timeout_ms: int, options: dict[str, Any]) -> Callable[[], Client]:
    return lambda: Client(url, timeout_ms=timeout_ms, **options)
