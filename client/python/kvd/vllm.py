# SPDX-License-Identifier: MIT
"""The secondary tier that vLLM's OffloadingConnector loads by its `module_path`, which keeps blocks
of the KV cache in kvd. VLLM.md says how to use it.

    "secondary_tiers": [{"type": "KvdTierManager", "module_path": "kvd.vllm",
                         "url": "rdma://HOST:7471"}]

`KvdTierManager` is made when it is first asked for, of Tier below and vLLM's base class; importing
this module imports nothing of vLLM's.

Threads. vLLM calls a tier in its scheduler, one call at a time. No call but drain_jobs() and
shutdown() blocks: operations are executed by one thread (_jobs.Runner), and lookups look at answers
that came before.

Guarantees. A job that succeeded has stored all of its blocks, or loaded them, each with the bytes
that one PUT stored under its key. Memory of the primary tier is not touched once a job is reported
as finished, after drain_jobs(), or after shutdown(). A block that is missing, was evicted
meanwhile, or has another length, and any block while the server is away, is a miss. The log
`kvd.vllm` has the reasons.
"""

from __future__ import annotations

import collections
import functools
import logging
import time
from typing import Any, Final, Iterable, NamedTuple

from . import _vllm_interface
from ._abi import PutMode
from ._buffers import writable
from ._engine import ABSENT, MISSES, Arena, Health, bounded_key, first_error
from ._jobs import LOAD, LOOKUP, STORE, Batch, Runner
from ._operations import Operation, check_number, check_ttl, result_found, result_length
from ._owner import Ending
from ._vllm_interface import Interface
from .errors import InvalidError, Status

_AWAY_S: Final = 1.0  # for which lookups of a server that is away are not asked
_log = logging.getLogger("kvd.vllm")


class Answers:
    """Answers to lookups: at most @most, the oldest go first. An answer is good until it was used,
    and for @keep_s after its first use: a scheduler that is slow sees each answer once, so that it
    never asks for ever. What is known without a question is good for @keep_s."""

    def __init__(self, most: int, keep_s: float) -> None:
        self._most, self._keep_s = most, keep_s
        self._known: dict[bytes, tuple[bool, float | None]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: bytes) -> bool | None:
        """Whether the block exists; None: it is not known."""
        entry = self._known.get(key)
        if entry is None:
            return None
        found, until = entry
        now = time.monotonic()
        if until is None:
            self._known[key] = found, now + self._keep_s
        elif until < now:
            del self._known[key]
            return None
        return found

    def set(self, key: bytes, found: bool) -> None:
        self._known.pop(key, None)
        self._known[key] = found, None
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]

    def note(self, key: bytes, found: bool) -> None:
        """As set(), of what was not asked: nobody may use it before kvd has evicted the block."""
        self.set(key, found)
        self._known[key] = found, time.monotonic() + self._keep_s

    def forget(self, key: bytes) -> None:
        self._known.pop(key, None)


# Of a batch of lookups: its number, vLLM's keys and kvd's, 0 or minus the status of each.
_Reply = tuple[int, list[bytes], list[bytes], list[int]]


class _Job(NamedTuple):
    """A job of vLLM's that is under way."""

    number: int
    blocks: list[bytes]  # vLLM's keys
    keys: list[bytes]  # kvd's
    places: list[tuple[int, int]]  # address and bytes of each block
    kind: str
    begin: float


class _Ended(NamedTuple):
    job: _Job
    codes: list[int]  # of each block: 0 or minus the status
    size: int  # bytes that were moved


def _namespace(spec: Any, row: int) -> str:
    """What all instances have in common that may share blocks: vLLM's keys name tokens only."""
    config = getattr(spec, "config", None)
    model: Any = getattr(config, "model", None)
    parallel = getattr(config, "parallel", None)
    if not getattr(model, "name", None) or parallel is None:
        raise InvalidError("this vLLM does not say which model it runs: set `namespace` in the "
                           "tier's configuration, to a name of the model and its parallelism")
    sizes = ".".join(str(getattr(parallel, size, 1)) for size in (
        "world_size", "tp_size", "pp_size", "pcp_size", "dcp_size"))
    layout = getattr(config, "kv_cache_layout", None), getattr(config, "canonical_layout", False)
    return f"{model.name}@{getattr(model, 'dtype', '')}@{sizes}@{layout[0]}.{layout[1]}@{row}"


def _exists(keys: list[bytes], timeout_ms: int = 0) -> list[Operation]:
    """Operations that ask for @keys; @timeout_ms 0: that of the options."""
    operations = []
    for key in keys:
        operation = Operation()
        operation.prepare_exists(key, result_found)
        operation.op.timeout_ms = timeout_ms
        operations.append(operation)
    return operations


def _end(runner: Runner, arena: Arena, view: Any = None) -> None:
    """Ends all jobs, and then the registration of the primary tier."""
    if runner.stop():
        arena.leave()
    else:
        _log.error("kvd's thread does not end: the primary tier stays registered")


class Tier:
    """KvdTierManager without vLLM's base class.

    What is set in the tier's entry of `secondary_tiers`: `url` as of kvd.Client. `timeout_ms`
    bounds each block of a job from when it is submitted, `lookup_timeout_ms` a lookup. `answers`:
    how many answers to lookups are kept, and `answer_ms` for how long after their first use.
    `ttl_s`: the seconds after which blocks expire (0: never). `prefix` is put before each key, for
    caches that must not see each other; `namespace`, which follows it, names the model and how it
    is divided (unset: as vLLM has it). Others are options of kvd.Client.

    InvalidError: the configuration; a block is longer than the server allows. NoMemoryError: the
    device can't register the primary tier (RLIMIT_MEMLOCK). Connecting fails with the errors of
    kvd.Client."""

    interface: Interface

    def __init__(self, offloading_spec: Any, primary_kv_view: memoryview, tier_type: str,
                 backpressure_detector: Any = None, *, url: str | None = None,
                 timeout_ms: int = 5000, lookup_timeout_ms: int = 500, answers: int = 1 << 16,
                 answer_ms: int = 2000, ttl_s: int = 0, prefix: str = "",
                 namespace: str | None = None, **options: Any) -> None:
        given = {"offloading_spec": offloading_spec, "primary_kv_view": primary_kv_view,
                 "tier_type": tier_type}
        if self.interface.name == "chunks":
            given["backpressure_detector"] = backpressure_detector
        super().__init__(**given)
        self._ttl_s: Final = check_ttl(ttl_s)
        self._lookup_timeout_ms: Final = check_number(lookup_timeout_ms, "lookup_timeout_ms",
                                                      3600001)
        if check_number(answers, "answers") == 0:
            raise InvalidError("answers is at least 1")
        self._answers: Final = Answers(answers, check_number(answer_ms, "answer_ms") / 1000)
        self._rows: Final = primary_kv_view.shape[0] if primary_kv_view.shape else 0
        if not self._rows or not primary_kv_view.c_contiguous or primary_kv_view.readonly:
            raise InvalidError("the primary tier is contiguous memory of at least one block")
        self._row: Final = primary_kv_view.nbytes // self._rows
        self._address: Final = writable(primary_kv_view)[0] or 0
        space = _namespace(offloading_spec, self._row) if namespace is None else namespace
        self._head: Final = f"{prefix}{space}/".encode()
        self._health: Final = Health(_log)
        # Of lookups: what to ask at the end of this step, what is asked and in which batch.
        self._wanted: list[bytes] = []
        self._asked: dict[bytes, int] = {}
        self._turn = 0
        self._away_until = 0.0
        self._jobs = 0  # under way, or ended and not reported
        # From the runner's thread.
        self._replies: collections.deque[_Reply] = collections.deque()
        self._ended: collections.deque[_Ended] = collections.deque()
        self._runner: Final = Runner(url, {"timeout_ms": timeout_ms, **options}, _log)
        try:
            longest = self._runner.value_max
            if self._row > longest:
                raise InvalidError(f"a block has {self._row} bytes, and the server takes {longest}:"
                                   " raise its limits.max_value")
            self._arena: Arena | None = Arena.of(url, options, self._address,
                                                 primary_kv_view.nbytes)
        except BaseException:
            self._runner.stop()
            raise
        # With the memory, which stays until no operation uses it.
        self._ending: Final = Ending(self, _end, self._runner, self._arena, primary_kv_view)

    # Lookups.

    def lookup(self, key: bytes, req_context: Any) -> Any:
        """HIT, MISS, or RETRY: it is asked at the end of this step."""
        self._take_replies()
        results = self.interface.lookup_result
        found = self._answers.get(key)
        if found is not None:
            return results.HIT if found else results.MISS
        if key in self._asked:
            return results.RETRY
        if time.monotonic() < self._away_until:
            return results.MISS
        self._asked[key] = self._turn
        self._wanted.append(key)
        return results.RETRY

    def on_schedule_end(self, context: Any) -> None:
        """Asks for what this step looked up, in one batch."""
        wanted, self._wanted = self._wanted, []
        if not wanted:
            return
        keys = [self._key(block) for block in wanted]
        turn, replies = self._turn, self._replies
        self._turn += 1

        def ended(batch: Batch) -> None:
            replies.append((turn, wanted, keys, [-o.op.status for o in batch.operations]))

        self._runner.add(Batch(LOOKUP, _exists(keys, self._lookup_timeout_ms), ended))

    def _take_replies(self) -> None:
        while self._replies:
            turn, blocks, keys, codes = self._replies.popleft()
            for block, code in zip(blocks, codes):
                if self._asked.get(block) == turn:  # else it was stored meanwhile
                    del self._asked[block]
                    self._answers.set(block, code == 0)
            if -Status.ERR_AWAY in codes:
                self._away_until = time.monotonic() + _AWAY_S
            self._health.note("lookup", *first_error(keys, codes, ABSENT))

    # Jobs.

    def submit_store(self, job_metadata: Any) -> None:
        """Starts to store blocks that kvd does not have, or has with another length."""
        job = self._begin(job_metadata, "store")
        for block in job.blocks:  # whatever is being asked was true before
            self._asked.pop(block, None)
            self._answers.forget(block)
        ttl_s, ended = self._ttl_s, self._ended

        def put(exists: Batch) -> Batch | None:
            codes = [-operation.op.status for operation in exists.operations]
            lengths = [operation.op.item.value_len for operation in exists.operations]
            which = [i for i, code in enumerate(codes) if code == -Status.NOT_FOUND or
                     not code and lengths[i] != job.places[i][1]]
            operations = []
            for i in which:
                operation = Operation()
                operation.prepare_put(job.keys[i], job.places[i], PutMode.SET, 0, ttl_s, 0, 0, 0)
                operations.append(operation)

            def stored(batch: Batch) -> None:
                size = 0
                for i, operation in zip(which, batch.operations):
                    codes[i] = -operation.op.status
                    size += job.places[i][1] if not operation.op.status else 0
                ended.append(_Ended(job, codes, size))

            return Batch(STORE, operations, stored)

        self._runner.add(Batch(LOOKUP, _exists(job.keys), put))

    def submit_load(self, job_metadata: Any) -> None:
        """Starts to load blocks into the primary tier."""
        job = self._begin(job_metadata, "load")
        operations = []
        for key, place in zip(job.keys, job.places):
            operation = Operation()
            operation.prepare_get_into(key, place, result_length)
            operations.append(operation)
        row, ended = self._row, self._ended

        def loaded(batch: Batch) -> None:
            codes = []
            for operation in batch.operations:
                op = operation.op
                if not op.status and op.item.value_len != row:
                    op.status = Status.ERR_BUFFER
                codes.append(-op.status)
            ended.append(_Ended(job, codes, row * codes.count(0)))

        self._runner.add(Batch(LOAD, operations, loaded))

    def _begin(self, metadata: Any, kind: str) -> _Job:
        if self._arena is None:
            raise InvalidError("this tier was shut down")
        blocks = [bytes(key) for key in metadata.keys]
        rows = [int(row) for row in getattr(metadata, self.interface.slots)]
        if len(rows) != len(blocks) or any(not 0 <= row < self._rows for row in rows):
            raise InvalidError(f"job {metadata.job_id} has {len(blocks)} keys, and the rows {rows} "
                               f"of a primary tier of {self._rows}")
        self._jobs += 1
        return _Job(metadata.job_id, blocks, [self._key(block) for block in blocks],
                    [(self._address + row * self._row, self._row) for row in rows], kind,
                    time.monotonic())

    def get_finished_jobs(self) -> Iterable[Any]:
        """The jobs that have ended since the last call."""
        results = []
        while self._ended:
            results.append(self._result(self._ended.popleft()))
        return results

    def _result(self, ended: _Ended) -> Any:
        job, codes, size = ended
        self._jobs -= 1
        good = [block for block, code in zip(job.blocks, codes) if code == 0]
        for block, code in zip(job.blocks, codes):
            if code == 0:
                self._answers.note(block, True)
            elif job.kind == "load":  # else it would be looked up, found and loaded again and again
                self._answers.set(block, False)
        status, error = first_error(job.keys, codes, MISSES)
        if not status:
            status, error = first_error(job.keys, codes,
                                        ABSENT if job.kind == "load" else frozenset())
        self._health.note(job.kind, status, error)
        more: dict[str, Any] = {"transfer_time": time.monotonic() - job.begin,
                                "transfer_bytes": size, "transfer_size": size}
        if job.kind == "load" and good and len(good) < len(codes):
            more["successful_keys"] = tuple(good)
        return self.interface.job_result(
            job_id=job.number, success=len(good) == len(codes),
            **{name: value for name, value in more.items() if name in self.interface.result_fields})

    # The rest.

    def has_pending_work(self) -> bool:
        """Whether the engine has to go on calling, with no request to schedule."""
        self._take_replies()  # also those for requests that were aborted
        return bool(self._jobs or self._asked)

    def on_new_request(self, req_context: Any) -> Any:
        """kvd has no wishes: blocks are stored as vLLM sees fit."""
        return self.interface.request_context()

    def drain_jobs(self) -> None:
        """Blocks until all jobs have ended: for as long as their timeouts, at most."""
        self._runner.wait_idle()

    def shutdown(self) -> None:
        """Cancels jobs, and disconnects, within 10 s. Jobs under way end; get_finished_jobs() has
        them. A second call does nothing."""
        arena, self._arena = self._arena, None
        if arena is not None and self._ending.cancel():
            _end(self._runner, arena)

    def _key(self, block: bytes) -> bytes:
        return bounded_key(self._head + block.hex().encode())


@functools.lru_cache(maxsize=None)
def _class_of(interface: Interface) -> type[Tier]:
    return type("KvdTierManager", (Tier, interface.manager),
                {"interface": interface, "__module__": __name__, "__doc__": Tier.__doc__})


def __getattr__(name: str) -> Any:
    if name != "KvdTierManager":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _class_of(_vllm_interface.installed(frozenset(dir(Tier))))
