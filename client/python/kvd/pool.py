# SPDX-License-Identifier: MIT
"""A pool of clients for threads, each of which borrows one for as long as it needs it."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Iterator

from ._lib import default_url
from ._operations import check_number
from ._owner import Owner
from .client import Client
from .errors import InvalidError, TimedOutError

_WAIT_MAX_MS: Final = 3600000
_pools: weakref.WeakSet[ClientPool] = weakref.WeakSet()


class ClientPool(Owner):
    """Lends at most @size clients of one server or fleet, to as many threads at a time.

        pool = kvd.ClientPool(size=4)
        with pool.client() as store:
            store.set("name", "Ada")

    `url` and the other options are those of kvd.Client. The first client is opened at once, so what
    is wrong with them is raised here; others when all that are open are in use. They stay open: one
    that has lost its server is kept, since it connects again. All methods may be called by any
    thread. In a child process the pool opens clients of its own.
    """

    _instead = "open another one, with the same URL and options"

    def __init__(self, url: str | None = None, *, size: int = 8, wait_ms: int = 2000,
                 **options: Any) -> None:
        self.url: Final = default_url() if url is None else url
        self.size: Final = check_number(size, "size")
        if self.size == 0:
            raise InvalidError("size is at least 1, not 0")
        self.wait_ms: Final = check_number(wait_ms, "wait_ms", _WAIT_MAX_MS + 1)
        if options.get("reconnect") == 0:
            raise InvalidError("a pool keeps clients that lost their server: reconnect can't be 0")
        self._options: Final = options
        self._closed = False
        self._renew()
        self._idle.append(self._open())
        _pools.add(self)

    def _renew(self) -> None:
        """Of the parent's clients, none is the child's, and a thread may have had the lock."""
        self._changed = threading.Condition(threading.Lock())
        self._lent = 0
        self._idle: list[Client] = []  # the one that was used last is lent first

    def _open(self) -> Client:
        return Client(self.url, **self._options)

    @contextmanager
    def client(self) -> Iterator[Client]:
        """Lends a client for the length of a `with` block; waits until one is free.

        TimedOutError: all were in use for wait_ms; a thread that borrows a second client may wait
        for itself. InvalidError: the pool is closed. Opening a client raises what kvd.Client()
        does."""
        client = self._borrow()
        try:
            yield client
        finally:
            self._give_back(client)

    def _borrow(self) -> Client:
        with self._changed:
            if not self._changed.wait_for(lambda: self._closed or self._lent < self.size,
                                          self.wait_ms / 1000):
                raise TimedOutError(f"all {self.size} clients of the pool were in use for "
                                    f"{self.wait_ms} ms: make the pool's size or wait_ms larger")
            if self._closed:
                raise InvalidError("the pool is closed")
            self._lent += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self._open()
        except BaseException:
            self._place_free()
            raise

    def _place_free(self) -> None:
        with self._changed:
            self._lent -= 1
            if self._closed:
                self._changed.notify_all()  # several threads may wait in close()
            else:
                self._changed.notify()

    def _give_back(self, client: Client) -> None:
        if client._guard.forked:  # lent by the parent, before fork(2)
            client.close()
            return
        with self._changed:
            keep = not self._closed and not client.closed
            if keep:
                self._idle.append(client)
        if not keep:
            client.close()
        self._place_free()

    def close(self, *, wait: bool = False) -> None:
        """Closes the clients: those in use when they are given back. Calls that wait for a client
        raise InvalidError. A second call closes nothing.

        With @wait, returns when the last one is closed, so that memory that their calls use may be
        freed. A thread that has a client lent would wait for itself."""
        with self._changed:
            self._closed = True
            idle, self._idle = self._idle, []
            self._changed.notify_all()
        for client in idle:
            client.close()
        if wait:
            with self._changed:
                self._changed.wait_for(lambda: not self._lent)

    def __enter__(self) -> ClientPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<kvd.ClientPool of {self.size} clients of {self.url}{state}>"


def _after_fork() -> None:
    for pool in list(_pools):
        idle = pool._idle
        pool._renew()
        for client in idle:
            client.close()  # frees the child's copy: the parent's connection stays


os.register_at_fork(after_in_child=_after_fork)
