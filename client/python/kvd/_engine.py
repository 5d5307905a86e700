# SPDX-License-Identifier: MIT
"""What the adapters for inference engines share: which statuses are misses, keys of any length, the
engine's memory, which is registered once for each process, and when to write to the log."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import threading
from typing import Any, Final, Sequence

from ._abi import KEY_MAX
from ._lib import default_url, status_text
from .client import Client
from .errors import NoMemoryError, Status
from .memory import Memory

# Statuses that do not point to the configuration: the chunk is just not there now.
MISSES: Final = frozenset((
    Status.NOT_FOUND, Status.ERR_BUFFER, Status.ERR_TIMEOUT, Status.ERR_DISCONNECTED,
    Status.ERR_UNREACHABLE, Status.ERR_REFUSED, Status.ERR_BUSY, Status.ERR_CANCELED,
    Status.ERR_UNKNOWN, Status.ERR_LIMIT, Status.ERR_AWAY, Status.ERR_MOVED,
))
MISSING: Final = frozenset((Status.NOT_FOUND,))
# The server has answered: there is no such chunk, or it has another length.
ABSENT: Final = frozenset((Status.NOT_FOUND, Status.ERR_BUFFER))
# Statuses of a server that is gone, or lets this client in no more.
LOSSES: Final = frozenset((
    Status.ERR_DISCONNECTED, Status.ERR_UNREACHABLE, Status.ERR_REFUSED, Status.ERR_AWAY,
    Status.ERR_AUTH,
))
_DIGEST: Final = 64  # characters of SHA-256


def bounded_key(data: bytes) -> bytes:
    """@data as a key of kvd; one that is too long ends with the SHA-256 of all of it."""
    if len(data) <= KEY_MAX:
        return data
    return data[:KEY_MAX - _DIGEST] + hashlib.sha256(data).hexdigest().encode()


def first_error(keys: Sequence[bytes], codes: Sequence[int], but: frozenset[Status]) \
        -> tuple[int, str]:
    """The first status (in @codes: minus the status) that is not in @but, and its text; 0 and ""
    if there is none."""
    for key, code in zip(keys, codes):
        if code < 0 and -code not in but:
            text = status_text(-code)
            if -code in LOSSES:
                return -code, text  # whatever the key
            if -code == Status.ERR_TOO_LARGE:
                text += ": raise limits.max_value of the server"
            return -code, f"{text} (key {key.decode(errors='replace')})"
    return 0, ""


class Health:
    """Writes to the log when a kind of batch begins to fail, fails for another reason, or works
    again. All signs of a server that is gone (timeouts, losses, refusals) are one reason."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self.statuses: dict[str, int] = {}  # of the last batch of each kind, as note() has them

    def note(self, kind: str, status: int, error: str) -> None:
        """A batch of @kind ended with @status and the text @error; 0: it worked."""
        status = Status.ERR_DISCONNECTED if status in MISSES else status
        before = self.statuses.get(kind, 0)
        self.statuses[kind] = status
        if status not in (0, before):
            self._log.warning("%s fails: %s", kind, error)
        elif before and not status:
            self._log.warning("%s works again", kind)


class Arena:
    """Registered memory of an engine, shared by all adapters of the process that named it."""

    _all: dict[tuple[str, int, int], Arena] = {}
    # Held while one is registered. The collector may end an adapter, and so call leave(), in any
    # thread at any time, also in the one that holds it.
    _lock = threading.RLock()

    def __init__(self, key: tuple[str, int, int], memory: Memory) -> None:
        self.key = key
        self.memory = memory
        self.users = 1

    @classmethod
    def of(cls, url: str | None, options: dict[str, Any], address: int, size: int) -> Arena:
        """The arena at @address, registered if no adapter did that.

        InvalidError: some of it is registered in another way. NoMemoryError: the device can't
        register it, and the text names the limit."""
        key = (url or default_url(), address, size)
        with cls._lock:
            arena = cls._all.get(key)
            if arena is not None:
                arena.users += 1
                if cls._all.get(key) is arena:  # else the collector has just ended it
                    return arena
            with Client(url, **options) as client:  # not a worker's, which may be in use
                block = (ctypes.c_ubyte * size).from_address(address)
                try:
                    memory = client.register(block)
                except NoMemoryError as error:
                    raise NoMemoryError(
                        f"{size} bytes of the engine's memory can't be registered with the "
                        f"device: {error}. Raise RLIMIT_MEMLOCK: `ulimit -l unlimited`, "
                        "systemd: LimitMEMLOCK=infinity, docker: --ulimit memlock=-1"
                    ) from error
            arena = cls._all[key] = cls(key, memory)
            return arena

    def has(self, address: int, size: int) -> bool:
        """Whether these bytes are in it."""
        begin = self.memory.address
        return begin <= address and address + size <= begin + self.memory.nbytes

    def leave(self) -> None:
        """Ends one of() call; the last one ends the registration. BusyError: it was the last one,
        and operations use the memory: it stays registered, and this use does not end."""
        with self._lock:
            self.users -= 1
            if self.users:
                return
            try:
                self.memory.release()
            except BaseException:
                self.users += 1
                raise
            del self._all[self.key]


def _after_fork() -> None:
    """The parent's registrations are not the child's, and a thread may have had the lock."""
    Arena._all = {}
    Arena._lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
