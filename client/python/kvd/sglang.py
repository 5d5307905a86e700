# SPDX-License-Identifier: MIT
"""The storage that SGLang's HiCache loads as the backend `dynamic`, which keeps the pages of its KV
cache in kvd. SGLANG.md says how to use it.

    --hicache-storage-backend dynamic --hicache-storage-backend-extra-config '{
        "backend_name": "kvd", "module_path": "kvd.sglang", "class_name": "KvdHiCacheStorage",
        "interface_v1": 1, "kvd": {"url": "rdma://HOST:7471"}}'

`KvdHiCacheStorage` is made when it is first asked for, of Storage below and SGLang's base class;
importing this module imports nothing of SGLang's.

Threads. SGLang's threads call at the same time. Lookups, loads and stores have a connection each,
and wait for others of their kind only. Each call blocks until its batch has ended: buffers are
SGLang's again then.

Guarantees. A page that is reported as loaded has the bytes that one PUT stored under its key.
Everything else is a miss, and leaves the page's memory undefined: it is missing, was evicted
meanwhile, or has another length; or the server is busy, restarts, or is away. Nothing is raised by
calls that SGLang's transfer threads make, since an exception ends such a thread for good; the log
`kvd.sglang` has the reason.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import logging
import threading
import time
from typing import Any, Final, Iterator

from . import memory
from ._engine import ABSENT, MISSES, MISSING, Arena, Health, first_error
from ._operations import check_ttl
from ._sglang_pool import KV, Part, Pool, ranges_of
from .client import Client
from .errors import Error, InvalidError, Status, error_of

_ENGINE: Final = "sglang.srt.mem_cache.hicache_storage"
_METRICS: Final = ("sglang.srt.observability.metrics_collector", "sglang.srt.metrics.collector")
_DELETE_STEP: Final = 1024  # keys that clear() deletes together
_log = logging.getLogger("kvd.sglang")


def _name_of(pool: Any) -> str:
    """The name of a pool, which SGLang has as a member of its PoolName."""
    return str(getattr(pool, "value", pool))


class _Connection:
    """A client that several threads use, one at a time."""

    def __init__(self, url: str | None, timeout_ms: int, options: dict[str, Any]) -> None:
        self._client = Client(url, timeout_ms=timeout_ms, **options)
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def use(self) -> Iterator[Client]:
        with self._lock:
            yield self._client

    def close(self) -> None:
        with self._lock:
            self._client.close()


class _Rates:
    """What SGLang's StorageMetrics wants: pages of each batch, and GB/s."""

    def __init__(self) -> None:
        self.pages: list[int] = []
        self.bandwidth: list[float] = []

    def add(self, pages: int, size: int, seconds: float) -> None:
        self.pages.append(pages)
        self.bandwidth.append(size / (1 << 30) / max(seconds, 1e-9))

    def take(self, pages: list[int], bandwidth: list[float]) -> None:
        pages.extend(self.pages)
        bandwidth.extend(self.bandwidth)
        self.pages, self.bandwidth = [], []


class Storage:
    """KvdHiCacheStorage without SGLang's base class.

    @storage_config: SGLang's HiCacheStorageConfig. Its extra_config has `interface_v1`, and in
    `kvd` what kvd needs: `url` as of kvd.Client; `timeout_ms` bounds each page of a batch, from the
    batch's start, and `lookup_timeout_ms` 32 keys of a lookup; `ttl_s`: the seconds after which
    pages expire (0: never); `prefix` is put before each key, for caches that must not see each
    other. Others are options of kvd.Client.

    InvalidError: the configuration. Connecting fails with the errors of kvd.Client."""

    engine: Any  # SGLang's module

    def __init__(self, storage_config: Any, kwargs: dict[str, Any] | None = None) -> None:
        extra = storage_config.extra_config or {}
        if not extra.get("interface_v1"):
            raise InvalidError('set "interface_v1": 1 in --hicache-storage-backend-extra-config: '
                               "without it SGLang copies each page")
        options = dict(extra.get("kvd") or {})
        self._url: Final = options.pop("url", None)
        timeout_ms = options.pop("timeout_ms", 5000)
        lookup_timeout_ms = options.pop("lookup_timeout_ms", 500)
        self._ttl_s: Final = check_ttl(options.pop("ttl_s", 0))
        self._head: Final = f"{options.pop('prefix', '')}{storage_config.model_name or ''}/"
        self._options: Final = options
        self._config: Final = storage_config
        self._health: Final = Health(_log)
        self._metrics: Any = None
        if getattr(storage_config, "enable_storage_metrics", False):
            self._metrics = _storage_metrics()
        self._loaded, self._stored = _Rates(), _Rates()
        self._pools: dict[str, Pool] = {}
        self._arenas: list[Arena] = []
        with contextlib.ExitStack() as made:
            connections = []
            for timeout in (lookup_timeout_ms, timeout_ms, timeout_ms):
                connections.append(_Connection(self._url, timeout, options))
                made.callback(connections[-1].close)
            made.pop_all()
        self._lookups, self._loads, self._stores = connections

    def close(self) -> None:
        """Disconnects, and ends the registration of memory. No thread may be in a call. BusyError:
        operations of others use some of it, which stays registered."""
        for connection in (self._lookups, self._loads, self._stores):
            connection.close()
        with contextlib.ExitStack() as left:  # all of them, whatever one raises
            while self._arenas:
                left.callback(self._arenas.pop().leave)

    # Memory.

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        """Registers the memory of the host pool, once, so that pages are moved without a copy.
        Takes 0.1 to 0.4 s for each GiB on an RDMA device.

        NoMemoryError: the device can't (RLIMIT_MEMLOCK). InvalidError: some of it is registered in
        another way."""
        self.mem_pool_host = mem_pool_host
        self._register(mem_pool_host, KV)

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        """Registers the memory of one of several pools, as register_mem_pool_host(). That of the KV
        cache is registered already."""
        name = _name_of(host_pool_name)
        if name != KV or KV not in self._pools:
            self._register(host_pool, name)

    def _register(self, host: Any, name: str) -> None:
        for address, size in ranges_of(host):
            if not any(arena.has(address, size) for arena in self._arenas):
                self._arenas.append(Arena.of(self._url, self._options, address, size))
        self._pools[name] = Pool(host, name, self._config, self._head)

    # One pool: SGLang's calls of version 1.

    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        """How many of the pages exist before the first that does not."""
        with self._guarded("lookup"):
            pool = self._pools[KV]
            if pool.logical:
                return len(keys)
            with self._lookups.use() as client:
                leading = client.exists_prefix(pool.keys(keys)) // pool.parts
            self._health.note("lookup", 0, "")
            return leading
        return 0

    def batch_get_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) \
            -> list[bool]:
        """Loads pages into the pool. Says of each whether it was loaded."""
        return self._transfer({KV: (keys, host_indices)}, self._load)[KV]

    def batch_set_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) \
            -> list[bool]:
        """Stores pages of the pool that kvd does not have. Says of each whether kvd has it."""
        return self._transfer({KV: (keys, host_indices)}, self._store)[KV]

    # Several pools: version 2.

    def batch_exists_v2(self, keys: list[str], pool_transfers: Any = None,
                        extra_info: Any = None) -> Any:
        """The longest prefix that all pools can restore: a PoolTransferResult."""
        transfers = list(pool_transfers or ())
        leading = self.batch_exists(keys)
        hits: dict[Any, int] = {self.engine.PoolName.KV: leading} if leading else {}
        usable = set(range(1, leading + 1))
        present = self._present([_name_of(transfer.name) for transfer in transfers],
                                keys[:leading])
        for transfer, found in zip(transfers, present):
            window = 0
            if transfer.hit_policy == self.engine.PoolHitPolicy.TRAILING_PAGES:
                window = max(1, len(transfer.keys or ()))
            restorable = [end for end in range(1, leading + 1)
                          if all(found[max(0, end - window) if window else 0:end])]
            if restorable:
                hits[transfer.name] = restorable[-1]
            usable &= set(restorable)
        more = {}
        kind = self.engine.PoolTransferResult
        if "restorable_prefix_pages" in {field.name for field in dataclasses.fields(kind)}:
            more["restorable_prefix_pages"] = sorted(usable)
        return kind(max(usable, default=0), hits, **more)

    def batch_get_v2(self, transfers: list[Any], extra_info: Any = None) -> dict[Any, list[bool]]:
        """Loads pages into several pools, in one batch: for each pool what version 1 returns."""
        return self._transfer_pools(transfers, self._load)

    def batch_set_v2(self, transfers: list[Any], extra_info: Any = None) -> dict[Any, list[bool]]:
        """Stores pages of several pools, in one batch."""
        return self._transfer_pools(transfers, self._store)

    def _transfer_pools(self, transfers: list[Any], move: Any) -> dict[Any, list[bool]]:
        results = self._transfer({_name_of(transfer.name): (list(transfer.keys or ()),
                                                            transfer.host_indices)
                                  for transfer in transfers}, move)
        return {transfer.name: results[_name_of(transfer.name)] for transfer in transfers}

    # Single pages in memory of the caller, whose bytes are in the order of the pool's buffers.

    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        """Loads a page into @target_location: a tensor, or the address of @target_sizes bytes.
        Returns it, or None."""
        return self.batch_get([key], [target_location], [target_sizes])[0]

    def batch_get(self, keys: list[str], target_locations: Any = None,
                  target_sizes: Any = None) -> list[Any]:
        """Loads pages into memory of the caller, as get(). Returns the places, None for a page that
        was not loaded."""
        found = [False] * len(keys)
        with self._guarded("load"):
            found = self._load(self._flat(keys, target_locations, target_sizes))
        return [at if ok else None for at, ok in zip(target_locations or (), found)]

    def set(self, key: str, value: Any = None, target_location: Any = None,
            target_sizes: Any = None) -> bool:
        """Stores a page: the tensor @value, or @target_location as of get()."""
        return self.batch_set([key], [value], [target_location], [target_sizes])

    def batch_set(self, keys: list[str], values: Any = None, target_locations: Any = None,
                  target_sizes: Any = None) -> bool:
        """Stores pages that are in memory of the caller, as set(). Says whether kvd has all."""
        places = [place if value is None else value for value, place in
                  zip(values or [None] * len(keys), target_locations or [None] * len(keys))]
        with self._guarded("store"):
            return all(self._store(self._flat(keys, places, target_sizes)))
        return False

    def exists(self, key: str) -> bool:
        """Whether a page exists."""
        return self.batch_exists([key]) == 1

    def clear(self) -> bool:
        """Deletes all pages of this model and prefix, of all ranks. Blocks until that is done."""
        with self._guarded("delete"), self._stores.use() as client:
            keys: list[bytes] = []
            for entry in client.scan(self._head):
                keys.append(entry.key)
                if len(keys) == _DELETE_STEP:
                    client.delete_many(keys)
                    keys = []
            client.delete_many(keys)
            return True
        return False

    def get_stats(self) -> Any:
        """What was moved since the last call, as SGLang's StorageMetrics; None unless SGLang has
        --enable-metrics."""
        if self._metrics is None:
            return None
        metrics = self._metrics()
        self._loaded.take(metrics.prefetch_pgs, metrics.prefetch_bandwidth)
        self._stored.take(metrics.backup_pgs, metrics.backup_bandwidth)
        return metrics

    # What they share.

    @contextlib.contextmanager
    def _guarded(self, kind: str) -> Iterator[None]:
        """Notes what is raised within, and goes on after it."""
        try:
            yield
        except Exception as error:  # the thread must live
            status = error.status if isinstance(error, Error) else Status.ERR_INVALID
            self._health.note(kind, status, str(error) or repr(error))

    def _present(self, names: list[str], pages: list[str]) -> list[list[bool]]:
        """For each of these pools, which pages it has in kvd: one batch."""
        if not names or not pages:
            return [[] for _ in names]
        found = [[False] * len(pages) for _ in names]
        with self._guarded("lookup"):
            pools = [self._pools[name] for name in names]
            with self._lookups.use() as client:
                exist = iter(client.batch_exists([key for pool in pools
                                                  for key in pool.keys(pages)]))
            found = [[all([next(exist) for _ in range(pool.parts)]) for _ in pages]
                     for pool in pools]
        return found

    def _transfer(self, wanted: dict[str, tuple[list[str], Any]], move: Any) \
            -> dict[str, list[bool]]:
        """Moves pages of pools by self._load or self._store. A pool that only counts has all."""
        results = {name: [False] * len(keys) for name, (keys, _) in wanted.items()}
        with self._guarded(move.__name__.strip("_")):
            parts: list[Part] = []
            for name, (keys, indices) in wanted.items():
                if self._pools[name].logical:
                    results[name] = [True] * len(keys)
                elif keys:
                    parts += self._pools[name].pages(keys, indices)
            moved = iter(move(parts))
            for name, (keys, _) in wanted.items():
                pool = self._pools[name]
                if not pool.logical:
                    results[name] = [all([next(moved) for _ in range(pool.parts)]) for _ in keys]
        return results

    def _flat(self, keys: list[str], places: Any, sizes: Any) -> list[Part]:
        pool = self._pools[KV]
        if pool.parts != 1:
            raise InvalidError("pages in memory of the caller are not split by heads")
        parts = []
        for key, place, size in zip(pool.keys(keys), places, sizes or [None] * len(keys)):
            if hasattr(place, "data_ptr"):
                if not place.is_contiguous():
                    raise InvalidError("the tensor of a page is contiguous")
                place, size = place.data_ptr(), place.numel() * place.element_size()
            parts.append(Part(key, memory.anywhere(place, size), size))
        return parts

    def _load(self, parts: list[Part]) -> list[bool]:
        begin = time.monotonic()
        keys = [part.key for part in parts]
        with self._loads.use() as client:
            codes = client.batch_get_into(keys, [part.page for part in parts])
        found = [code == part.size for code, part in zip(codes, parts)]
        size = sum(part.size for part, ok in zip(parts, found) if ok)
        if self._metrics is not None:
            self._loaded.add(sum(found), size, time.monotonic() - begin)
        status, error = first_error(keys, codes, MISSES)
        if not status:
            status, error = first_error(keys, codes, ABSENT)
        self._health.note("load", status, error)
        return found

    def _store(self, parts: list[Part]) -> list[bool]:
        begin = time.monotonic()
        with self._stores.use() as client:
            keys = [part.key for part in parts]
            sizes = client.batch_sizes(keys)
            status, error = first_error(keys, sizes, MISSING)
            if status:
                raise error_of(status, error)
            # A page of another length is none.
            exist = [size == part.size for size, part in zip(sizes, parts)]
            new = [part for part, there in zip(parts, exist) if not there]
            keys = [part.key for part in new]
            codes = client.batch_put_from(keys, [part.page for part in new], ttl_s=self._ttl_s)
        stored = iter(codes)
        results = [there or next(stored) == 0 for there in exist]
        size = sum(part.size for part, code in zip(new, codes) if not code)
        if self._metrics is not None:
            self._stored.add(len(new), size, time.monotonic() - begin)
        self._health.note("store", *first_error(keys, codes, frozenset()))
        return results


def _storage_metrics() -> Any:
    for name in _METRICS:
        with contextlib.suppress(ImportError, AttributeError):
            return importlib.import_module(name).StorageMetrics
    raise ImportError(f"SGLang wants metrics of its storage, but has no StorageMetrics in "
                      f"{' or '.join(_METRICS)}: start it without --enable-metrics")


@functools.lru_cache(maxsize=None)
def _class_of(engine: Any) -> type[Storage]:
    return type("KvdHiCacheStorage", (Storage, engine.HiCacheStorage),
                {"engine": engine, "__module__": __name__, "__doc__": Storage.__doc__})


def __getattr__(name: str) -> Any:
    if name != "KvdHiCacheStorage":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        engine = importlib.import_module(_ENGINE)
    except ImportError as error:
        raise ImportError(f"kvd.sglang.KvdHiCacheStorage is for SGLang, which loads it: {_ENGINE} "
                          f"can't be imported here ({error})") from error
    return _class_of(engine)
