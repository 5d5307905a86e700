# SPDX-License-Identifier: MIT
"""The threads of a connector for LMCache, and what they share: queues, completions, counters.

Locks, in this order: arena_lock, breaker.changed, _lock. None is held while a batch is executed.
"""

from __future__ import annotations

import collections
import os
import queue
import threading
from typing import Any, Callable, Final

from ._batches import WAITED, Batch, Link, Result, Results, Ticket, execute, failed
from ._breaker import Breaker, warn
from ._engine import MISSES, Arena
from ._lib import default_url
from .client import Client
from .errors import Status

# What LMCache gets for each batch: its number, whether it succeeded, the error, and the result of
# each key: whether it was found, loaded, stored, or is gone; with variable_length, the length of
# what was loaded, 0 if nothing was.
Completion = tuple[int, bool, str, Results]

_PROBE_END_S: Final = 0.05  # for which close() waits for a probe
_NAMES: Final = {"lookup": ("lookups", "lookup_hits"), "load": ("loads", "load_hits"),
                 "store": ("stores", "stored"), "delete": ("deletes", "deleted")}
_COUNTS: Final = (*(name for names in _NAMES.values() for name in names),
                  "bytes_loaded", "bytes_stored", "failed", "away", "expired")
_os: Any = os  # older type checkers do not know eventfd


class Shared:
    """The state that all threads share. They hold no reference to the connector itself."""

    def __init__(self, url: str | None, timeout_ms: int, options: dict[str, Any]) -> None:
        self.url = url
        self.options = options
        self.breaker = Breaker(default_url() if url is None else url, self.probe,
                               lambda: self.wanted is None)
        self.event_fd: int = _os.eventfd(0, _os.EFD_NONBLOCK | _os.EFD_CLOEXEC)
        self.done: collections.deque[Completion] = collections.deque()
        self.queues: tuple[queue.SimpleQueue[Batch | None], ...] = (queue.SimpleQueue(),
                                                                    queue.SimpleQueue())
        self.statuses: dict[str, int] = {}  # of the last batch of each kind; misses are one
        self.counts = dict.fromkeys(_COUNTS, 0)
        self.timeout_ms = timeout_ms  # of a probe
        self.arena_lock = threading.Lock()  # held while a probe registers it
        self.arena: Arena | None = None
        # The arena that a probe must register: address, size. breaker.changed guards it.
        self.wanted: tuple[int, int] | None = None
        self._lock = threading.Lock()  # of counts, statuses

    def submit(self, queue_of: queue.SimpleQueue[Batch | None], ticket: Ticket,
               batch_of: Callable[[], Batch]) -> None:
        """Has a batch wait for its thread. While the server is away it ends here."""
        breaker = self.breaker
        batch = None if breaker.status else batch_of()  # which takes a while
        with breaker.changed:
            if batch is not None and not breaker.status:
                queue_of.put(batch)
                return
            result = failed(ticket, breaker.status or Status.ERR_AWAY, breaker.error())
        self.finish(ticket, result, away=True)

    def lose(self, losses: int, status: int, why: str) -> None:
        """A thread has found the server gone: all batches that wait end, too."""
        waiting: list[Batch] = []
        with self.breaker.changed:
            if self.breaker.closing or not self.breaker.trip(losses, status, why):
                return
            error = self.breaker.error()
            for batches in self.queues:
                waiting += _drain(batches)
        while waiting:
            ticket = waiting.pop(0).ticket
            self.finish(ticket, failed(ticket, status, error), away=True)
        warn("%s", error)

    def finish(self, ticket: Ticket, result: Result, away: bool = False) -> None:
        """Ends a batch; the log, which may block, comes last."""
        changed = False
        if ticket.kind in _NAMES:
            with self._lock:
                self._count(ticket, result, away)
                status = Status.ERR_TIMEOUT if result.status in MISSES else result.status
                if not away:
                    changed = status != self.statuses.get(ticket.kind, 0)
                    self.statuses[ticket.kind] = status
        if ticket.reply is not None:
            ticket.reply.put(result)
        else:
            self.done.append((ticket.number, result.ok, result.error, result.results))
            _os.eventfd_write(self.event_fd, 1)
        if changed:
            self._note(ticket.kind, result)

    def _count(self, ticket: Ticket, result: Result, away: bool) -> None:
        counts = self.counts
        all_name, good_name = _NAMES[ticket.kind]
        counts[all_name] += ticket.keys
        counts[good_name] += sum(map(bool, result.results))
        if result.bytes:
            counts["bytes_stored" if ticket.kind == "store" else "bytes_loaded"] += result.bytes
        counts["failed"] += not result.ok
        counts["away"] += away
        counts["expired"] += result.error is WAITED

    def counted(self) -> dict[str, int]:
        with self._lock:
            return dict(self.counts)

    def _note(self, kind: str, result: Result) -> None:
        """Batches of this kind begin to fail, fail for another reason, or work again. Timeouts and
        the like are one reason, and have no line if the server is away: that has."""
        if result.status:
            warn("%s fails: %s", kind, result.error)
        else:
            warn("%s works again", kind)

    def probe(self) -> None:
        """Asks the server, and registers the arena if that was not possible before."""
        with Client(self.url, timeout_ms=self.timeout_ms, **self.options) as client:
            if not client.url.startswith("fleet"):  # one of whose members may be away
                client.ping()
        with self.arena_lock:
            wanted = self.wanted
            if wanted is not None and not self.breaker.closing:
                self.arena = Arena.of(self.url, self.options, *wanted)
                with self.breaker.changed:
                    self.wanted = None


def _drain(batches: queue.SimpleQueue[Batch | None]) -> list[Batch]:
    """Takes all batches of a queue."""
    taken = []
    try:
        while (batch := batches.get_nowait()) is not None:
            taken.append(batch)
    except queue.Empty:
        pass
    return taken


def work(shared: Shared, link: Link, batches: queue.SimpleQueue[Batch | None]) -> None:
    """A worker thread: executes batches until None comes."""
    breaker = shared.breaker
    while (batch := batches.get()) is not None:
        ticket, loss = batch.ticket, False
        if breaker.closing:
            result = failed(ticket, Status.ERR_INVALID, "the connector is closed")
            if ticket.reply is not None:
                ticket.reply.put(result)
            continue
        away = breaker.status
        if away:
            result = failed(ticket, away, breaker.error())
        else:
            result, loss = execute(link, batch)
        batch = None  # the buffers are the caller's again
        if loss:
            shared.lose(link.losses, result.status, result.error)
        elif not result.status:
            breaker.works()
        lost = bool(away) or loss or link.lost()
        shared.finish(ticket, result, away=lost and bool(result.status))
    link.close()


def stop(shared: Shared, threads: list[threading.Thread], pid: int) -> None:
    """Ends the workers after their current batches, and frees what they use. A probe that waits for
    the network is left to itself: it uses nothing of the caller's."""
    if os.getpid() != pid:
        return  # the threads are the parent's
    shared.breaker.close()
    for batches in shared.queues:
        for _ in threads:
            batches.put(None)
    for thread in threads:
        thread.join()
    shared.breaker.thread.join(_PROBE_END_S)
    os.close(shared.event_fd)
    with shared.arena_lock:
        arena, shared.arena = shared.arena, None
    if arena is not None:
        arena.leave()
