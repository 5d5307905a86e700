# SPDX-License-Identifier: MIT
"""What a store of kvd.mooncake is set up with: its clients and registered buffers. And how keys,
results and failures of kvd become those of Mooncake."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import threading
from contextlib import AbstractContextManager, ExitStack
from ctypes import c_size_t, c_void_p
from typing import Any, Callable, Final, TypeVar, Union

from ._abi import KEY_MAX
from ._engine import Arena
from ._lib import default_url, status_text
from ._mooncake_types import CODES, Code
from ._operations import check_number
from .client import Client
from .errors import Error, InvalidError, Status
from .pool import ClientPool

T = TypeVar("T")
# Of each key: what was asked for, or minus a status.
Results = list[Union[T, int]]

_SCHEMES: Final = frozenset((
    "softnic", "rdma", "rdma+tcp", "rdma+tls", "fleet", "fleet+tcp", "fleet+tls", "fleet+softnic",
))
_SETUP: Final = ("local_hostname", "metadata_server", "master_server_addr",
                 "master_server_address", "tenant_id")
_OPTIONS: Final = frozenset(Client.__init__.__kwdefaults__ or ()) - {"timeout_ms"}
_MISSES: Final = frozenset((
    Status.ERR_TIMEOUT, Status.ERR_DISCONNECTED, Status.ERR_UNREACHABLE, Status.ERR_REFUSED,
    Status.ERR_BUSY, Status.ERR_CANCELED, Status.ERR_UNKNOWN, Status.ERR_LIMIT, Status.ERR_AWAY,
    Status.ERR_MOVED,
))
_HINTS: Final[dict[int, str]] = {
    Status.ERR_TOO_LARGE: ": raise limits.max_value of the server",
    Status.ERR_INVALID: ": the soft pin is longer than memory.pin_time_max of the server",
    Status.ERR_BUSY: ": with a soft pin, memory.pin_share of the server may be used up",
}
_TIME_MAX_MS: Final = 3600000
_DIGEST: Final = 64  # characters of SHA-256
_libc: Final = ctypes.CDLL(None)
log = logging.getLogger("kvd.mooncake")


def url_of(master: str, metadata: str) -> str:
    """The URL of kvd: of the two addresses of Mooncake's configuration the first that is one, or
    $KVD_URL. InvalidError: there is none."""
    for address in (master, metadata):
        if address.partition("://")[0] in _SCHEMES:
            return address
    if "KVD_URL" in os.environ:
        return default_url()
    raise InvalidError(f"no URL of kvd: the master server's address is {master!r}; give one like "
                       f"rdma://HOST:7471 there, or set KVD_URL")


def key_of(key: str | bytes) -> bytes:
    """kvd's key. One that is too long ends with the SHA-256 of all of it."""
    data = key if isinstance(key, bytes) else key.encode()
    if len(data) <= KEY_MAX:
        return data
    return data[:KEY_MAX - _DIGEST] + hashlib.sha256(data).hexdigest().encode()


def _is_host_memory(address: int, size: int) -> bool:
    """Whether the first and the last byte are memory that the CPU can read: that of a GPU is not,
    and reading it would end the process. The kernel reads them for write(), or says EFAULT."""
    read, write = os.pipe()
    try:
        return all(_libc.write(write, c_void_p(at), c_size_t(1)) == 1
                   for at in (address, address + size - 1))
    finally:
        os.close(read)
        os.close(write)


def results_of(call: Callable[[], list[T]]) -> Results[T]:
    """What a call on many keys returns, with minus the status in the place of an error."""
    try:
        return list(call())
    except Error as error:
        if error.results is None:
            raise
        return [-result.status if isinstance(result, Error) else result
                for result in error.results]


def code(result: int) -> int:
    """A result that is not negative, or the code for minus a status."""
    return result if result >= 0 else int(CODES.get(-result, Code.INTERNAL_ERROR))


class Notes:
    """Logs when calls of a kind begin to fail, fail for another reason, or work again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._statuses: dict[str, int] = {}

    def note(self, kind: str, status: int, text: str) -> None:
        """@status: of the call. All signs of a server that is gone are one reason."""
        if status in _MISSES:
            status = Status.ERR_DISCONNECTED
        with self._lock:
            before = self._statuses.get(kind, 0)
            self._statuses[kind] = status
        if status not in (0, before):
            log.warning("%s fails: %s", kind, text)
        elif before and not status:
            log.warning("%s works again", kind)


def _pool_of(url: str, size: int, timeout_ms: int, options: dict[str, Any]) -> ClientPool:
    """A pool with all of its clients open, so that no call waits until one has connected. A call on
    a value lasts for at most @timeout_ms, and so does waiting for calls of other threads."""
    pool = ClientPool(url, size=size, wait_ms=timeout_ms, timeout_ms=timeout_ms, **options)
    try:
        with ExitStack() as lent:
            for _ in range(size):
                lent.enter_context(pool.client())
    except BaseException:
        pool.close()
        raise
    return pool


class Session:
    """What setup() has made and close() ends."""

    def __init__(self, url: str, hostname: str, count: int, timeout_ms: int,
                 lookup_timeout_ms: int, options: dict[str, Any]) -> None:
        self.url = url
        self.hostname = hostname
        self.options = options
        # Lookups do not wait for large values.
        self.lookups = _pool_of(url, 1, lookup_timeout_ms, options)
        try:
            self.transfers = _pool_of(url, count, timeout_ms, options)
        except BaseException:
            self.lookups.close()
            raise
        self.lock = threading.Lock()
        self.arenas: dict[int, Arena] = {}  # by address
        self.notes = Notes()
        self.pid = os.getpid()
        self.closing = False

    def client(self, lookup: bool) -> AbstractContextManager[Client]:
        """Lends a client for a lookup or a transfer, as kvd.ClientPool does. InvalidError: the
        session is closed, or the parent process's."""
        if os.getpid() != self.pid:
            raise InvalidError("the clients are the parent process's: set up again after fork()")
        return (self.lookups if lookup else self.transfers).client()

    def register(self, address: int, size: int) -> None:
        """InvalidError: it can't be registered. Other errors as of kvd.Client's register()."""
        if size <= 0:
            raise InvalidError(f"a buffer has a positive number of bytes, not {size}")
        if not _is_host_memory(address, size):
            raise InvalidError(f"{size} bytes at {address:#x} are not host memory; kvd does not "
                               f"move that of a GPU")
        with self.lock:
            if address in self.arenas:
                raise InvalidError(f"a buffer at {address:#x} is registered already")
            self.arenas[address] = Arena.of(self.url, self.options, address, size)

    def unregister(self, address: int) -> None:
        """InvalidError: none is registered there. BusyError: operations use it."""
        with self.lock:
            if address not in self.arenas:
                raise InvalidError(f"no buffer at {address:#x} is registered")
            self.arenas[address].leave()
            del self.arenas[address]

    def close(self) -> None:
        """Waits for the calls that are under way: they use the buffers."""
        if os.getpid() != self.pid:
            return  # all of it is the parent's
        self.closing = True
        self.lookups.close(wait=True)
        self.transfers.close(wait=True)
        with self.lock:
            while self.arenas:
                address, arena = self.arenas.popitem()
                try:
                    arena.leave()
                except Error as error:  # another client of the process uses it
                    log.error("the buffer at %#x stays registered: %s", address, error)


def _time_of(given: dict[str, Any], name: str, default_ms: int) -> int:
    value = given.pop(name, None)
    return check_number(default_ms if value is None else value, name, _TIME_MAX_MS + 1)


def session_of(given: dict[str, Any]) -> Session:
    """Connects. @given: the arguments of setup(), by name."""
    hostname, metadata, master, other, tenant = (given.pop(name, None) for name in _SETUP)
    options = {name: given.pop(name) for name in _OPTIONS & given.keys()}
    if tenant not in (None, "", "default"):
        options["tenant"] = tenant
    times = (_time_of(given, "timeout_ms", 5000), _time_of(given, "lookup_timeout_ms", 500))
    count = check_number(given.pop("num_clients", 4), "num_clients")
    if count < 1:
        raise InvalidError(f"num_clients is at least 1, not {count}")
    if unused := sorted(name for name, value in given.items() if value):
        log_unused("setup(): " + ", ".join(unused))
    url = url_of(master or other or "", metadata or "")
    return Session(url, hostname or "", count, *times, options)


@functools.lru_cache(maxsize=64)
def log_unused(names: str) -> None:
    """Says once that these have no meaning."""
    log.info("without a meaning for kvd: %s", names)


def first_error(kind: str, keys: list[str], results: Results[Any]) -> tuple[int, str]:
    """The first status of results that is an error, and its text."""
    for key, result in zip(keys, results):
        if isinstance(result, int) and result < 0 and result != -Status.NOT_FOUND:
            hint = _HINTS.get(-result, "") if kind in ("put", "upsert") else ""
            return -result, f"{status_text(-result)}{hint} (key {key})"
    return 0, ""
