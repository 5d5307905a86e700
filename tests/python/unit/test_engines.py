# SPDX-License-Identifier: MIT
"""The adapters for SGLang and vLLM: their methods against the recorded signatures, engines that are
missing or have another interface, what of a job is a miss, and that the scheduler's thread makes no
call of the library."""

import gc
import inspect
import logging
import pathlib
import sys
import threading
import time
import types
import weakref

import kvd
import kvd._engine
import kvd._vllm_interface
import kvd.sglang
import kvd.vllm
import numpy
import pytest
from kvd import Status

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "engines"))
import standins  # noqa: E402

URL = "softnic:///fake"
DEADLINE_S = 300
ROW = 64
MODEL = types.SimpleNamespace(config=types.SimpleNamespace(
    model=types.SimpleNamespace(name="m", dtype="f"), parallel=types.SimpleNamespace(tp_size=2)))


def names(function):
    return list(inspect.signature(function).parameters)[1:]


@pytest.mark.parametrize("name", ["sglang", "vllm blocks", "vllm chunks"])
def test_signatures(monkeypatch, name):
    """Engines call by position and by name."""
    record = standins.RECORD[name]
    if name == "sglang":
        standins.sglang(monkeypatch)
        kind = kvd.sglang.KvdHiCacheStorage
    else:
        standins.vllm(monkeypatch, name.split()[1])
        kind = kvd.vllm.KvdTierManager
        assert kind.interface.name == name.split()[1]
    for method, given in record["methods"].items():
        assert names(getattr(kind, method)) == given, method
    assert names(kind.__init__)[:len(record["constructor"])] == record["constructor"]
    inspect.signature(kind.__init__).bind(None, *record["constructor"])
    assert not inspect.isabstract(kind)


def test_without_the_engines(monkeypatch):
    for name in ("sglang", "vllm"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="is for SGLang, which loads it: sglang.srt"):
        kvd.sglang.KvdHiCacheStorage
    with pytest.raises(ImportError, match="is for vLLM, which loads it: vllm.v1"):
        kvd.vllm.KvdTierManager
    for module in (kvd.sglang, kvd.vllm):
        with pytest.raises(AttributeError, match="has no attribute 'Other'"):
            module.Other


def refused(tiering, match):
    with pytest.raises(ImportError, match=match) as caught:
        kvd.vllm.KvdTierManager
    assert "It knows those of 0.26 to 0.28" in str(caught.value)


def test_other_interfaces_are_refused(monkeypatch):
    """Each is named in the error, with what kvd knows."""
    tiering = standins.vllm(monkeypatch, "blocks")

    def init(self, vllm_config, primary_kv_view):
        pass

    known = tiering.SecondaryTierManager
    tiering.SecondaryTierManager = type("Older", (known,), {"__init__": init})
    refused(tiering, r"SecondaryTierManager\(self, vllm_config, primary_kv_view\)")
    tiering.SecondaryTierManager = type(known)("Newer", (known,), {
        "publish": standins.abc.abstractmethod(lambda self: None)})
    refused(tiering, "a tier has to have publish")
    del tiering.SecondaryTierManager
    refused(tiering, "there is no SecondaryTierManager")
    tiering.SecondaryTierManager = known
    tiering.TransferJob = standins.dataclass("TransferJob", ["job_id", "slots"])
    refused(tiering, "a job has none of chunk_ids, block_ids")
    del tiering.TransferJob
    base = sys.modules["vllm.v1.kv_offload.base"]
    base.LookupResult = bool
    standins.module(monkeypatch, "vllm.version", __version__="0.99")
    refused(tiering, r"\(0.99\): lookups have other answers")


def test_sglang_needs_its_interface_of_version_1(monkeypatch):
    standins.sglang(monkeypatch)
    for extra in (None, {"kvd": {"url": URL}}):
        with pytest.raises(kvd.InvalidError, match='set "interface_v1": 1'):
            kvd.sglang.KvdHiCacheStorage(types.SimpleNamespace(extra_config=extra), {})


def sglang_storage(monkeypatch, **options):
    engine = standins.sglang(monkeypatch)
    config = engine.HiCacheStorageConfig(
        *[0, 1, 0, 1, 0, 1, False, False, True, "m"],
        extra_config={"interface_v1": 1, "kvd": {"url": URL, **options}})
    return kvd.sglang.KvdHiCacheStorage(config, {})


class Pool:
    """A host pool with one piece for each of 4 pages of one token."""

    page_size, layout, dtype = 1, "page_first", "uint8"

    def __init__(self):
        self.array = numpy.zeros((4, ROW), numpy.uint8)
        tensor = types.SimpleNamespace(data_ptr=lambda: self.array.ctypes.data,
                                       numel=lambda: 4 * ROW, element_size=lambda: 1)
        self.kv_buffer = [tensor]

    def get_page_buffer_meta(self, indices):
        return [self.array[i].ctypes.data for i in indices], ROW


def test_memory_that_cannot_be_registered(fake, monkeypatch):
    """The error names the limit, and nothing stays."""
    fake.status["kvd_register"] = Status.ERR_NO_MEMORY
    storage = sglang_storage(monkeypatch)
    with pytest.raises(kvd.NoMemoryError, match="the reason. Raise RLIMIT_MEMLOCK"):
        storage.register_mem_pool_host(Pool())
    storage.close()
    standins.vllm(monkeypatch, "blocks")
    with pytest.raises(kvd.NoMemoryError, match="the reason. Raise RLIMIT_MEMLOCK"):
        tier_of()
    assert not kvd._engine.Arena._all


def test_pools_of_several_buffers(fake, monkeypatch):
    """Buffers that adjoin each other are one registration; what is registered is not again."""
    pool, storage = Pool(), sglang_storage(monkeypatch)
    base, size = pool.array.ctypes.data, pool.array.nbytes

    def tensor(begin, length):
        return types.SimpleNamespace(data_ptr=lambda: base + begin, numel=lambda: length,
                                     element_size=lambda: 1)

    pool.kv_buffer = [tensor(ROW, ROW), tensor(0, ROW), tensor(3 * ROW, ROW), tensor(7, 0), None]
    storage.register_mem_pool_host(pool)
    assert sorted(fake.memory.values()) == [(base, 2 * ROW), (base + 3 * ROW, ROW)]
    storage.register_mem_host_pool_v2(pool, "kv")
    storage.register_mem_host_pool_v2(pool, "draft")
    assert len(fake.memory) == 2
    pool.kv_buffer = tensor(0, size)
    with pytest.raises(kvd.NoMemoryError):
        fake.status["kvd_register"] = Status.ERR_NO_MEMORY
        storage.register_mem_host_pool_v2(pool, "swa")
    storage.close()


@pytest.mark.parametrize("status", [status for status in Status if status])
def test_statuses_of_sglang(fake, monkeypatch, caplog, status):
    """Whatever a page ends with, the call returns; the log has it, unless the page is absent."""
    storage = sglang_storage(monkeypatch, ttl_s=9)
    pool = Pool()
    storage.register_mem_pool_host(pool)
    assert storage.batch_set_v1(["a", "b"], [0, 1]) == [True, True]
    assert [op.ttl_s for op in fake.ops if op.op == kvd.Op.PUT] == [9, 9]
    wait = fake.wait
    fake.hold = True
    fake.wait = lambda *given: fake.end(None, int(status)) or wait(*given)
    assert storage.batch_get_v1(["a", "b"], [2, 3]) == [False, False]
    assert ("load fails" in caplog.text) == (status not in kvd._engine.ABSENT)
    fake.wait, fake.hold = wait, False
    assert storage.batch_get_v1(["a", "b"], [2, 3]) == [True, True]
    # No call ends with NOT_FOUND.
    call = max(status, Status.ERR_INVALID)
    fake.status["kvd_exists_leading"] = fake.status["kvd_exists_many"] = call
    caplog.clear()
    assert storage.batch_exists(["a"]) == 0 and storage.batch_set_v1(["c"], [0]) == [False]
    assert "lookup fails" in caplog.text and "store fails" in caplog.text
    storage.close()


@pytest.mark.parametrize("metrics", [False, True])
def test_rates(fake, monkeypatch, metrics):
    """Rates are kept for SGLang's metrics alone, which take them."""
    def made():
        return types.SimpleNamespace(prefetch_pgs=[], backup_pgs=[], prefetch_bandwidth=[],
                                     backup_bandwidth=[])

    storage, pool = sglang_storage(monkeypatch), Pool()
    storage._metrics = made if metrics else None
    storage.register_mem_pool_host(pool)
    for _ in range(2):
        assert storage.batch_set_v1(["a"], [0]) == storage.batch_get_v1(["a"], [1]) == [True]
    stats = storage.get_stats()
    assert (stats and (stats.prefetch_pgs, stats.backup_pgs)) == (
        ([1, 1], [1, 0]) if metrics else None)
    assert storage._loaded.pages == storage._stored.pages == []
    storage.close()


def test_page_of_another_length(fake, monkeypatch):
    """A page of which the server has more or less than fits is a miss, and is stored again."""
    storage, pool = sglang_storage(monkeypatch), Pool()
    storage.register_mem_pool_host(pool)
    assert storage.batch_set_v1(["a", "b"], [0, 1]) == [True, True]
    for item, length in zip(fake.items.values(), (ROW - 1, ROW + 1)):
        item.value, item.value_len = bytes(length), length
    assert storage.batch_get_v1(["a", "b"], [2, 3]) == [False, False]
    assert storage.batch_set_v1(["a", "b"], [0, 1]) == [True, True]
    assert storage.batch_get_v1(["a", "b"], [2, 3]) == [True, True]
    storage.close()


def tier_of(rows=8, **options):
    """A tier on an array of rows, which it has as `array`."""
    array = numpy.zeros((rows, ROW), numpy.int8)
    tier = kvd.vllm.KvdTierManager(offloading_spec=MODEL, primary_kv_view=memoryview(array),
                                   tier_type="KvdTierManager", url=URL, **options)
    tier.array = array
    return tier


@pytest.fixture(params=["blocks", "chunks"])
def tier(fake, monkeypatch, request):
    standins.vllm(monkeypatch, request.param)
    tier = tier_of()
    yield tier
    tier.shutdown()
    assert not kvd._engine.Arena._all


def job(tier, number, keys, rows):
    return types.SimpleNamespace(job_id=number, keys=keys, **{tier.interface.slots: rows})


def wait_for(condition):
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def finished(tier):
    """The next result."""
    results = []
    wait_for(lambda: results.extend(tier.get_finished_jobs()) or results)
    (result,) = results
    return result


def looked_up(tier, keys):
    """The answers, in the words of LookupResult."""
    wait_for(lambda: tier._replies or not tier._asked)
    return [tier.lookup(key, None).name for key in keys]


def test_lookups_and_jobs(tier, fake):
    keys = [b"a\0", b"\xff" * 600, b"c"]
    assert [tier.lookup(key, None).name for key in keys] == ["RETRY"] * 3
    assert not fake.ops and tier.has_pending_work()
    tier.on_schedule_end(None)
    assert looked_up(tier, keys) == ["MISS"] * 3 and not tier.has_pending_work()
    tier.array[:3] = [[1], [2], [3]]
    tier.submit_store(job(tier, 7, keys, numpy.arange(3)))
    result = finished(tier)
    assert (result.job_id, result.success) == (7, True)
    assert looked_up(tier, keys) == ["HIT"] * 3
    assert all(len(key) <= kvd.KEY_MAX for key in fake.items)
    tier.submit_load(job(tier, 8, keys[::-1], [5, 6, 7]))
    assert finished(tier).success
    assert (tier.array[5:] == [[3], [2], [1]]).all()
    puts = [op.key for op in fake.ops if op.op == kvd.Op.PUT]
    tier.submit_store(job(tier, 9, keys + [b"d"], [0, 1, 2, 3]))  # only the last one is missing
    assert finished(tier).success
    assert len([op for op in fake.ops if op.op == kvd.Op.PUT]) == len(puts) + 1
    tier.submit_store(job(tier, 10, [], []))
    assert finished(tier).success
    assert tier.on_new_request(None) and not tier.has_pending_work()


def test_the_scheduler_calls_nothing(tier, fake):
    """All calls on the handle are the thread's; none of them waits in the library."""
    threads = {}
    for name in ("submit", "poll", "arm", "wait", "cancel"):
        def called(*given, method=getattr(fake, name), name=name):
            threads.setdefault(name, set()).add(threading.get_ident())
            return method(*given)
        setattr(fake, name, called)
    for i in range(4):
        for number in range(200):
            tier.lookup(b"%d" % number, None)
        tier.submit_store(job(tier, 2 * i, [b"x%d" % i], [0]))
        tier.submit_load(job(tier, 2 * i + 1, [b"x%d" % i], [1]))
        tier.on_schedule_end(None)
        tier.drain_jobs()
        assert len(tier.get_finished_jobs()) == 2
    assert threads.keys() >= {"submit", "poll", "arm"} and "wait" not in threads
    assert set.union(*threads.values()) == {tier._runner._thread.ident}


def test_answers(monkeypatch):
    """Each is seen once, however late; then it is good for a while. Their number is bounded."""
    now = [0.0]
    monkeypatch.setattr(kvd.vllm.time, "monotonic", lambda: now[0])
    answers = kvd.vllm.Answers(3, 2.0)
    assert answers.get(b"a") is None
    answers.set(b"a", True)
    now[0] = 100.0
    assert answers.get(b"a") is True
    now[0] = 102.0
    assert answers.get(b"a") is True
    now[0] = 102.1
    assert answers.get(b"a") is None and len(answers) == 0
    for key in (b"a", b"b", b"a", b"c", b"d"):
        answers.set(key, key == b"a")
    assert [answers.get(key) for key in (b"a", b"b", b"c", b"d")] == [True, None, False, False]
    answers.forget(b"a")
    assert answers.get(b"a") is None


def test_answers_nobody_waits_for(tier, fake, monkeypatch):
    """Answers for a request that was aborted do not keep the engine busy. That a block was stored
    is not known for ever: kvd may have evicted it before it is looked up."""
    tier.lookup(b"a", None)
    tier.on_schedule_end(None)
    wait_for(lambda: not tier.has_pending_work())
    tier.submit_store(job(tier, 1, [b"b"], [0]))
    assert finished(tier).success
    assert tier.lookup(b"b", None).name == "HIT"
    fake.items.clear()
    now = time.monotonic
    monkeypatch.setattr(kvd.vllm.time, "monotonic", lambda: now() + 3)
    assert [tier.lookup(key, None).name for key in (b"a", b"b")] == ["MISS", "RETRY"]


def test_a_handle_that_does_not_connect_again(tier, fake, caplog):
    """With reconnect=0. What is submitted ends at once, each time."""
    arms = []
    fake.arm = lambda handle: arms.append(1) or Status.ERR_DISCONNECTED
    fake._execute = lambda op: setattr(op, "status", Status.ERR_DISCONNECTED)
    for number in range(3):
        tier.submit_load(job(tier, number, [b"a"], [0]))
        assert not finished(tier).success
        wait_for(lambda: len(arms) > number)
    assert "ends" not in caplog.text and tier._runner._thread.is_alive()


def test_what_is_stored_meanwhile(tier, fake):
    """A lookup that was on its way when its block was stored says nothing about it."""
    fake.hold = True
    tier.lookup(b"a", None)
    tier.on_schedule_end(None)
    wait_for(lambda: fake.flying)
    tier.submit_store(job(tier, 1, [b"a"], [0]))
    wait_for(lambda: len(fake.flying) == 2)
    fake.end(2, int(Status.NOT_FOUND))
    wait_for(lambda: fake.flying)
    fake.hold = False
    fake.end()
    assert finished(tier).success
    assert tier.lookup(b"a", None).name == "HIT"


@pytest.mark.parametrize("status", [status for status in Status if status])
def test_statuses_of_vllm(tier, fake, caplog, status):
    """Blocks that do not come are misses at once, and then unknown; the rest of a job came."""
    caplog.set_level(logging.WARNING, "kvd.vllm")
    keys = [b"a", b"b"]
    tier.submit_store(job(tier, 1, keys, [0, 1]))
    assert finished(tier).success
    fake.hold = True
    tier.submit_load(job(tier, 2, keys, [2, 3]))
    wait_for(lambda: len(fake.flying) == 2)
    fake.end(1)
    fake.end(1, int(status))
    result = finished(tier)
    assert not result.success
    if tier.interface.name == "chunks":
        assert result.successful_keys == (b"a",) and result.transfer_bytes == ROW
    assert looked_up(tier, keys) == ["HIT", "MISS"]
    assert ("load fails" in caplog.text) == (status not in kvd._engine.ABSENT)

    tier.lookup(b"c", None)
    tier.on_schedule_end(None)
    wait_for(lambda: fake.flying)
    fake.end(None, int(status))
    assert looked_up(tier, [b"c"]) == ["MISS"]
    # A server that is away is not asked again for a second.
    assert tier.lookup(b"d", None).name == ("MISS" if status == Status.ERR_AWAY else "RETRY")
    tier.on_schedule_end(None)
    tier.submit_store(job(tier, 3, [b"e"], [0]))
    wait_for(lambda: len(fake.flying) == (1 if status == Status.ERR_AWAY else 2))
    fake.end(None, int(status))
    if status == Status.NOT_FOUND:
        wait_for(lambda: fake.flying)
        fake.end(None, int(Status.ERR_NO_SPACE))
    assert not finished(tier).success
    assert "store fails" in caplog.text


def test_an_answer_of_another_length(tier, fake):
    tier.submit_store(job(tier, 1, [b"a"], [0]))
    assert finished(tier).success
    (item,) = fake.items.values()
    item.value, item.value_len = item.value[:-1], ROW - 1
    tier.submit_load(job(tier, 2, [b"a"], [1]))
    assert not finished(tier).success
    assert tier.lookup(b"a", None).name == "MISS"


@pytest.mark.parametrize("sent", [False, True])
def test_shutdown_with_jobs_under_way(tier, fake, sent):
    """Jobs end, canceled, and after it nothing of theirs is used; later jobs are refused."""
    fake.hold, fake.sent = True, sent
    tier.submit_load(job(tier, 1, [b"a", b"b"], [0, 1]))
    tier.submit_store(job(tier, 2, [b"c"], [2]))
    tier.lookup(b"d", None)
    tier.on_schedule_end(None)
    wait_for(lambda: len(fake.flying) == 4)
    tier.shutdown()
    assert fake.handles == [] and fake.memory == {}
    for submit in (tier.submit_store, tier.submit_load):
        with pytest.raises(kvd.InvalidError, match="was shut down"):
            submit(job(tier, 3, [b"e"], [0]))
    results = {result.job_id: result.success for result in tier.get_finished_jobs()}
    assert results == {1: False, 2: False}
    assert looked_up(tier, [b"d"]) == ["MISS"]
    tier.drain_jobs()
    tier.shutdown()


def test_dropped(fake, monkeypatch):
    """The registration ends with the tier, and the memory stays until then."""
    standins.vllm(monkeypatch, "blocks")
    array = numpy.zeros((8, ROW), numpy.int8)
    gone = weakref.ref(array)
    tier = kvd.vllm.KvdTierManager(MODEL, memoryview(array), "KvdTierManager", url=URL)
    fake.hold = True
    tier.submit_load(job(tier, 1, [b"a"], [0]))
    wait_for(lambda: fake.flying)
    closed, entered, go = fake.close, threading.Event(), threading.Event()
    fake.close = lambda *given: entered.set() or go.wait(DEADLINE_S) and closed(*given)
    del array, tier
    gc.collect()
    assert entered.wait(DEADLINE_S)
    assert fake.memory and gone() is not None
    go.set()
    wait_for(lambda: not kvd._engine.Arena._all and gone() is None)
    assert not fake.memory


def test_thread_that_dies(tier, fake, caplog):
    """Jobs end then, and so do those that come later."""
    monkey = pytest.MonkeyPatch()
    monkey.setattr(tier._runner, "_move", lambda: 1 // 0)
    tier.submit_load(job(tier, 1, [b"a"], [0]))
    assert not finished(tier).success
    tier._runner._thread.join(DEADLINE_S)
    tier.submit_store(job(tier, 2, [b"a"], [0]))
    assert not finished(tier).success
    tier.drain_jobs()
    assert "the thread of kvd's operations ends" in caplog.text


def test_many_operations(tier, fake):
    """More than may be under way at once: lookups before loads, loads before stores."""
    keys = [b"%d" % i for i in range(8)]
    fake.hold = True
    for i in range(40):
        tier.submit_load(job(tier, i, keys, range(8)))
    wait_for(lambda: len(fake.flying) == 128)
    tier.lookup(b"x", None)
    tier.on_schedule_end(None)
    wait_for(lambda: len(fake.flying) == 129)
    fake.hold = False
    fake.end()
    tier.drain_jobs()
    assert sorted(result.job_id for result in tier.get_finished_jobs()) == list(range(40))


def test_arguments(fake, monkeypatch):
    standins.vllm(monkeypatch, "chunks")
    for options in ({"answers": 0}, {"ttl_s": -1}, {"answer_ms": -1}, {"lookup_timeout_ms": -1}):
        with pytest.raises(kvd.InvalidError):
            tier_of(**options)
    with pytest.raises(TypeError):
        tier_of(hosts=1)
    for view in (memoryview(b"abc"), memoryview(bytearray(64))[::2], memoryview(bytearray(0))):
        with pytest.raises(kvd.InvalidError, match="contiguous memory"):
            kvd.vllm.KvdTierManager(MODEL, view, "KvdTierManager", url=URL)
