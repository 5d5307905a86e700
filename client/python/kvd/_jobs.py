# SPDX-License-Identifier: MIT
"""A thread that has a handle of its own, submits operations which other threads give it in batches,
and waits on the handle's descriptor: what kvd.aio does with an event loop, without one.

Guarantees. Each batch ends once, by a call of its `ended` in the runner's thread (in that of add()
after stop()); memory of a batch is not touched after that. Batches are submitted by kind: lookups
before loads, loads before stores; of each kind a bounded number of operations is under way, so that
a lookup does not wait for all stores that are queued.
"""

from __future__ import annotations

import collections
import logging
import os
import select
import threading
from ctypes import c_void_p
from typing import Any, Callable, Final, Optional

from ._handle import CHUNK
from ._lib import error_text, lib
from ._operations import Operation
from .client import Client
from .errors import NoMemoryError, Status

LOOKUP, LOAD, STORE = range(3)
_MOST: Final = (4096, 128, 64)  # operations of each kind that are under way
_DONE_MAX: Final = 256
_DONE: Final = c_void_p * _DONE_MAX
_BUSY: Final = int(Status.ERR_BUSY)
_os: Any = os  # older type checkers do not know eventfd


class Batch:
    """Operations of one kind. `ended` gets it when all have ended, and may return another batch
    that continues it."""

    __slots__ = ("kind", "operations", "left", "ended")

    def __init__(self, kind: int, operations: list[Operation],
                 ended: Callable[[Batch], Optional[Batch]]) -> None:
        self.kind = kind
        self.operations = operations
        self.left = len(operations)
        self.ended = ended
        for operation in operations:
            operation.group = self


class Runner:
    """@url, @options: as of kvd.Client. Connecting fails with its errors. All methods may be called
    by any thread; none but wait_idle() and stop() blocks."""

    def __init__(self, url: str | None, options: dict[str, Any], log: logging.Logger) -> None:
        self._log = log
        self._link: Final = Client(url, **options)
        self.value_max: Final = int(self._link.info()["value_max"])  # bytes
        self._pid: Final = os.getpid()
        self._fd: Final[int] = lib.kvd_fd(self._link._pointer)
        if self._fd < 0:
            error = NoMemoryError(error_text(self._link._pointer))
            self._link.close()
            raise error
        self._wake: Final[int] = _os.eventfd(0, _os.EFD_NONBLOCK | _os.EFD_CLOEXEC)
        self._poller: Final = select.poll()
        self._poller.register(self._wake, select.POLLIN)
        self._poller.register(self._fd, select.POLLIN)
        self._new: collections.deque[Batch] = collections.deque()
        self._changed: Final = threading.Condition()  # guards the next three
        self._unfinished = 0  # batches, each with those that continue it
        self._stopping = self._stopped = False
        # Of the thread:
        self._queues: Final = [collections.deque[Operation]() for _ in _MOST]
        self._under_way = [0] * len(_MOST)
        self._flying: dict[int, Operation] = {}
        self._link._pins.append(self._flying)
        self._done = _DONE()
        self._thread: Final = threading.Thread(target=self._run, name="kvd-jobs", daemon=True)
        self._thread.start()

    def add(self, batch: Batch) -> None:
        """Starts a batch. After stop() it ends at once, canceled."""
        with self._changed:
            stopped = self._stopping
            if not stopped:
                self._unfinished += 1
                self._new.append(batch)
                _os.eventfd_write(self._wake, 1)
        following: Batch | None = batch if stopped else None
        while following is not None:
            self._cancel(following.operations)
            following = following.ended(following)

    def wait_idle(self, timeout_s: float | None = None) -> bool:
        """Waits until all batches have ended; says whether they have."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._unfinished, timeout_s)

    def stop(self, timeout_s: float = 10.0) -> bool:
        """Ends all batches, those under way too, and disconnects. Returns False if the thread is
        still in a call after @timeout_s. A second call does nothing."""
        if os.getpid() != self._pid:
            return True  # the thread is the parent's
        with self._changed:
            if self._stopped:
                return True
            if not self._stopping:
                self._stopping = True
                _os.eventfd_write(self._wake, 1)
        self._thread.join(timeout_s)
        with self._changed:
            if self._thread.is_alive():
                return False
            self._stopped = True
        os.close(self._wake)
        return True

    # The thread.

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._take()
                if not self._move():
                    self._sleep()
        except Exception:
            self._log.exception("the thread of kvd's operations ends: nothing is stored or loaded")
            with self._changed:
                self._stopping = True
        self._end()

    def _take(self) -> None:
        while self._new:
            self._begin(self._new.popleft())

    def _begin(self, batch: Batch) -> None:
        if batch.operations:
            self._queues[batch.kind].extend(batch.operations)
        else:
            self._finish(batch)

    def _submit(self) -> list[Operation]:
        """Submits what may be under way; returns operations that can't be."""
        part: list[Operation] = []
        for kind, queue in enumerate(self._queues):
            while queue and self._under_way[kind] < _MOST[kind] and len(part) < CHUNK:
                part.append(queue.popleft())
                self._under_way[kind] += 1
        if not part:
            return part
        for operation in part:
            self._flying[operation.address] = operation
        return self._link._submit_part(part)

    def _move(self) -> bool:
        """Submits operations and takes those that have ended; whether there were any."""
        with self._link._guard:
            refused = self._submit()
            count = lib.kvd_poll(self._link._pointer, self._done, _DONE_MAX)
        ended = [self._done[i] or 0 for i in range(count)]
        for address in [operation.address for operation in refused] + ended:
            self._ended(self._flying.pop(address))
        return bool(ended or refused)

    def _ended(self, operation: Operation) -> None:
        batch: Batch = operation.group
        operation.holder = None  # the memory is the caller's again
        self._under_way[batch.kind] -= 1
        batch.left -= 1
        if not batch.left:
            self._finish(batch)

    def _finish(self, batch: Batch) -> None:
        try:
            following = batch.ended(batch)
        except Exception:  # the thread must live
            self._log.exception("a batch ended in an unexpected way")
            following = None
        if following is not None:
            self._begin(following)
            return
        with self._changed:
            self._unfinished -= 1
            self._changed.notify_all()

    def _sleep(self) -> None:
        """Waits until there is something to do."""
        with self._link._guard:
            status = lib.kvd_arm(self._link._pointer)
        if status == _BUSY:
            return
        # Without KVD_OK it does not connect again, and what is submitted ends at once.
        self._poller.modify(self._fd, 0 if status else select.POLLIN)
        self._poller.poll()
        try:
            _os.eventfd_read(self._wake)
        except BlockingIOError:
            pass

    def _end(self) -> None:
        """Closes the handle, after which libkvd uses nothing of the operations, and ends them."""
        self._take_queued()
        flying = list(self._flying.values())
        for operation in flying:
            lib.kvd_cancel(self._link._pointer, operation.address)
        self._link.close()
        self._flying.clear()
        self._cancel(flying)
        for operation in flying:
            self._ended(operation)
        self._take_queued()

    def _take_queued(self) -> None:
        """Ends what was not submitted, and what continues that."""
        self._take()
        for kind, queue in enumerate(self._queues):
            while queue:
                operation = queue.popleft()
                self._under_way[kind] += 1
                self._cancel([operation])
                self._ended(operation)
        if self._new or any(self._queues):
            self._take_queued()

    @staticmethod
    def _cancel(operations: list[Operation]) -> None:
        for operation in operations:
            operation.holder = None
            operation.op.status = Status.ERR_CANCELED
            operation.text = "the adapter was closed"
