# SPDX-License-Identifier: MIT
"""Clients that threads share: each call takes a client that no other thread uses."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any, Final, Iterator

from .client import Client
from .errors import InvalidError


class Pool:
    """A fixed number of clients of one URL. Any thread may call use() and close().

    All connect at once, with the errors of kvd.Client. The client that was given back last is taken
    first, so that one client learns that the server is away, not each of them."""

    def __init__(self, url: str, count: int, options: dict[str, Any]) -> None:
        self._idle: Final[list[Client]] = []
        self._change: Final = threading.Condition()
        self._count: Final = count
        self._pid: Final = os.getpid()
        self._closed = False
        try:
            for _ in range(count):
                self._idle.append(Client(url, **options))
        except BaseException:
            for client in self._idle:
                client.close()
            raise

    @contextlib.contextmanager
    def use(self) -> Iterator[Client]:
        """Lends a client; waits while other threads have all of them, whose calls last for at most
        their timeout_ms. InvalidError: close() was called, or the pool is the parent process's."""
        if os.getpid() != self._pid:
            raise InvalidError("the clients are the parent process's: set up again after fork()")
        with self._change:
            while not self._idle and not self._closed:
                self._change.wait()
            if self._closed:
                raise InvalidError("the clients are closed")
            client = self._idle.pop()
        try:
            yield client
        finally:
            with self._change:
                self._idle.append(client)
                self._change.notify_all()

    def close(self) -> None:
        """Waits for the calls that are under way, and disconnects. In a child process, and the
        second time, it does nothing."""
        if os.getpid() != self._pid:
            return
        with self._change:
            if self._closed:
                return
            self._closed = True
            self._change.notify_all()
            while len(self._idle) < self._count:
                self._change.wait()
        for client in self._idle:
            client.close()
