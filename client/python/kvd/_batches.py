# SPDX-License-Identifier: MIT
"""Batches of chunks: how a thread of kvd.lmcache executes one with a client, and its result.

Guarantees. A. The buffers of a batch are touched for at most queue_timeout_ms + timeout_ms from its
submission: it is not begun after queue_timeout_ms, and ends timeout_ms after that. B. They are not
touched after its end: an operation that has not ended when the server is found to be away ends with
its connection, which is closed first. C. While the server is away the network is not used:
_breaker.py.
"""

from __future__ import annotations

import queue
import time
from typing import Any, Callable, Final, NamedTuple, Optional

from ._breaker import Breaker
from ._engine import ABSENT, LOSSES, MISSES, MISSING, first_error
from ._handle import CHUNK, POINTERS
from ._lib import lib
from ._operations import Operation, code_of_length, code_of_status
from .client import Client
from .errors import Error, Status

# Statuses of a server that is gone or slow: the connection's state tells which.
_DOUBTS: Final = frozenset((Status.ERR_TIMEOUT, Status.ERR_UNKNOWN))
WAITED: Final = "it has waited for queue_timeout_ms"
# Of opening a connection, if the server has no room for one more: others may work.
_FULL: Final = frozenset((Status.ERR_REFUSED, Status.ERR_LIMIT))
_LOOKUP: Final = 32  # keys of a round trip
_WAIT_MS: Final = 100  # so soon a batch notices that another one has found the server away

# Of each key: whether it was found, stored or deleted; or the length of what was loaded.
Results = list[int]


class Result(NamedTuple):
    ok: bool
    results: Results
    status: int = 0  # of the error
    error: str = ""
    bytes: int = 0  # that were loaded or stored
    value: Any = None  # of what is not a batch of LMCache's


class Ticket(NamedTuple):
    """What is known of a batch when its buffers are the caller's again."""

    number: int
    kind: str
    keys: int
    reply: Optional[queue.SimpleQueue[Result]]  # of what a thread waits for


class Batch(NamedTuple):
    ticket: Ticket
    execute: Callable[[Link, Batch], Result]
    keys: list[bytes]
    views: list[memoryview]
    begin_by: float  # time.monotonic() until which it may be begun
    args: tuple[Any, ...] = ()


def failed(ticket: Ticket, status: int, error: str) -> Result:
    """The result of a batch of which nothing was done. A store has no misses."""
    ok = status in MISSES and ticket.kind != store.__name__
    return Result(ok, [False] * ticket.keys, status, error)


class Link:
    """A thread's client. It is opened for the first batch after each time that kvd was away."""

    def __init__(self, breaker: Breaker, connect: Callable[[], Client], timeout_ms: int,
                 ttl_s: int, variable_length: bool) -> None:
        self.breaker: Final = breaker
        self.timeout_ms: Final = timeout_ms
        self.ttl_s: Final = ttl_s
        self.variable_length: Final = variable_length
        self._connect: Final = connect
        self._client: Client | None = None
        self._losses = 0  # that there were when it was opened

    def open(self) -> None:
        """Connects, unless that is done. Errors of kvd.Client."""
        with self.breaker.changed:
            losses = self.breaker.losses
        if self._client is None or self._losses != losses:
            self.close()
            self._losses = losses
            self._client = self._connect()

    def close(self) -> None:
        """Disconnects. Afterwards no buffer is touched."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    @property
    def losses(self) -> int:
        return self._losses

    def lost(self) -> bool:
        """Whether another thread has found the server away since the client was opened."""
        return self.breaker.lost(self._losses)

    def is_loss(self, status: int) -> bool:
        """Whether the server is gone if a batch ended with @status. The members of a fleet come and
        go one by one, and libkvd keeps count of them."""
        if self._client is None:  # another thread knows it
            return False
        if self._client.url.startswith("fleet"):
            return False
        return status in LOSSES or \
            status in _DOUBTS and self._client.info()["connection"] != "up"

    def run(self, operations: list[Operation]) -> None:
        """Executes them all at once. Those that have not ended when the server is found away have
        the status ERR_AWAY."""
        waiting: dict[int | None, Operation] = {
            operation.address: operation for operation in operations}
        client, done = self.client, POINTERS()
        try:
            with client._guard:
                pointer = client._open_pointer()
                for begin in range(0, len(operations), CHUNK):
                    part = operations[begin:begin + CHUNK]
                    client._pins.append(part)
                    for operation in client._submit_part(part):
                        del waiting[operation.address]
                lost = False
                while waiting and not lost:
                    lost = self.lost()
                    least = min(len(waiting), CHUNK)
                    wait_ms = 0 if lost else _WAIT_MS  # what has ended already, counts
                    for i in range(lib.kvd_wait(pointer, done, CHUNK, least, wait_ms)):
                        del waiting[done[i]]
                if not waiting:
                    client._pins.clear()
        finally:
            if waiting:
                self.close()
        for operation in waiting.values():
            operation.op.status = Status.ERR_AWAY


def load(link: Link, batch: Batch) -> Result:
    operations = []
    for key, view in zip(batch.keys, batch.views):
        operation = Operation()
        operation.prepare_get_into(key, view, code_of_length)
        operations.append(operation)
    link.run(operations)
    codes = [code_of_length(operation) for operation in operations]
    sizes = [view.nbytes for view in batch.views]
    if link.variable_length:
        results = [max(code, 0) for code in codes]
    else:
        results = [code == size for code, size in zip(codes, sizes)]
    count = sum(code for code, result in zip(codes, results) if result)
    status, error = first_error(batch.keys, codes, MISSES)
    if status:
        return Result(False, results, status, error, count)
    return Result(True, results, *first_error(batch.keys, codes, ABSENT), count)


def store(link: Link, batch: Batch) -> Result:
    operations = []
    for key, view in zip(batch.keys, batch.views):
        operation = Operation()
        operation.prepare_put(key, view, 0, 0, link.ttl_s, 0, 0, 0)
        operations.append(operation)
    link.run(operations)
    codes = [code_of_status(operation) for operation in operations]
    count = sum(view.nbytes for view, code in zip(batch.views, codes) if not code)
    status, error = first_error(batch.keys, codes, frozenset())
    stored: Results = [not code for code in codes]
    return Result(not status, stored, status, error, count)


def delete(link: Link, batch: Batch) -> Result:
    """A missing chunk counts as deleted, too: otherwise LMCache, which counts what it believes to
    be stored, would ask again and again for chunks that kvd has evicted."""
    operations = []
    for key in batch.keys:
        operation = Operation()
        operation.prepare_delete(key, None)
        operations.append(operation)
    link.run(operations)
    codes = [code_of_status(operation) for operation in operations]
    status, error = first_error(batch.keys, codes, MISSING)
    gone: Results = [not code or code == -Status.NOT_FOUND for code in codes]
    return Result(status in MISSES or not status, gone, status, error)


def _sizes(link: Link, keys: list[bytes]) -> tuple[list[int], int, str]:
    """The length of each key's value, or minus the status; the first error, and its text. The rest
    of the keys is not asked for after one, nor after timeout_ms: a server that goes away costs a
    lookup one deadline, however long it is."""
    codes: list[int] = []
    status, error = 0, ""
    end = time.monotonic() + link.timeout_ms / 1000
    for begin in range(0, len(keys), _LOOKUP):
        if begin and link.lost():
            status, error = Status.ERR_AWAY, link.breaker.error()
        elif begin and time.monotonic() > end:
            status, error = Status.ERR_TIMEOUT, "the lookup took longer than lookup_timeout_ms"
        else:
            part = keys[begin:begin + _LOOKUP]
            sizes = link.client.batch_sizes(part)
            codes += sizes
            status, error = first_error(part, sizes, MISSING)
        if status:
            codes += [-status] * (len(keys) - len(codes))
            break
    return codes, status, error


def lookup(link: Link, batch: Batch) -> Result:
    codes, status, error = _sizes(link, batch.keys)
    found: Results = [code >= 0 for code in codes]
    return Result(not status or status in MISSES, found, status, error)


def sizes(link: Link, batch: Batch) -> Result:
    codes, status, error = _sizes(link, batch.keys)
    found = [code if code >= 0 else None for code in codes]
    return Result(not status or status in MISSES, [], status, error, value=found)


def page(link: Link, batch: Batch) -> Result:
    prefix, size, cursor = batch.args
    entries, after = link.client.scan_part(cursor, prefix, count=size)
    return Result(True, [], value=([(entry.key, entry.head.value_len) for entry in entries],
                                   after))


def execute(link: Link, batch: Batch) -> tuple[Result, bool]:
    """Begins and ends a batch, whatever happens: the thread must live. The result, and whether
    the server is gone."""
    try:
        link.open()
    except Error as error:
        return failed(batch.ticket, error.status, str(error)), error.status not in _FULL
    if time.monotonic() > batch.begin_by:
        return failed(batch.ticket, Status.ERR_TIMEOUT, WAITED), False
    try:
        result = batch.execute(link, batch)
    except Exception as error:
        status = error.status if isinstance(error, Error) else Status.ERR_INVALID
        result = failed(batch.ticket, status, str(error) or repr(error))
    return result, link.is_loss(result.status)
