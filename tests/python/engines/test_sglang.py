# SPDX-License-Identifier: MIT
"""kvd.sglang under a driver that behaves like SGLang's HiCache controller: threads that prefetch
and back up at once, eviction under the reader's hands, a server that is killed in mid-batch.
KVD_ENGINES_CHUNK is the bytes of a page, KVD_ENGINES_BATCH how many a batch has."""

import os
import signal
import threading

import kvd
import numpy
import pytest
import standins
from chunks import generation_of
from conftest import DEADLINE_S, URL, Server
from hicache import Controller, HostPool, Tensor

CHUNK = int(os.environ["KVD_ENGINES_CHUNK"])
BATCH = int(os.environ["KVD_ENGINES_BATCH"])
TIMEOUT_MS = int(os.environ.get("KVD_ENGINES_TIMEOUT_MS", "500"))


@pytest.fixture
def engine(monkeypatch):
    return standins.sglang(monkeypatch)


def config(engine, **given):
    """@given: fields of the configuration, and what kvd's part of the extra one has."""
    fields = {"tp_rank": 0, "tp_size": 1, "pp_rank": 0, "pp_size": 1, "attn_cp_rank": 0,
              "attn_cp_size": 1, "is_mla_model": False, "enable_storage_metrics": False,
              "is_page_first_layout": True, "model_name": "meta-llama/Llama-3.1-8B"}
    options = {"url": URL, "timeout_ms": 60000, "lookup_timeout_ms": 60000}
    for name, value in given.items():
        known = name in fields or name in standins.RECORD["sglang"]["config"]["optional"]
        (fields if known else options)[name] = value
    fields.setdefault("extra_config", {
        "backend_name": "kvd", "module_path": "kvd.sglang", "class_name": "KvdHiCacheStorage",
        "interface_v1": 1, "kvd": options})
    return engine.HiCacheStorageConfig(**fields)


def storage_of(engine, pool=None, **given):
    import kvd.sglang
    storage = kvd.sglang.KvdHiCacheStorage(config(engine, **given), {})
    assert isinstance(storage, engine.HiCacheStorage)
    if pool is not None:
        storage.register_mem_pool_host(pool)
    return storage


def keys_of(name, count=BATCH):
    """SGLang's keys are hashes of the tokens so far."""
    return [f"{name}{i:062x}" for i in range(count)]


def check(loaded):
    """What is said to be loaded is right. How many that are."""
    hits, pages = loaded
    for key, page in pages:
        if page is not None:
            generation_of(page, key)
    return sum(page is not None for _, page in pages)


def test_batches(engine, store):
    """Backups and prefetches of whole batches; the prefix ends at the first page that is not
    there; pages are overwritten as soon as a call has returned."""
    pool = HostPool(2 * BATCH, CHUNK)
    controller = Controller(storage_of(engine, pool), pool)
    with pytest.raises(kvd.InvalidError):  # all of the pool is registered
        store.register(memoryview(pool.mapping)[:4096])
    keys = keys_of("a")
    for page, key in enumerate(keys):
        pool.put(page, key)
    assert controller.backup(keys, range(BATCH)).get(timeout=DEADLINE_S) == [True] * BATCH
    pool.wipe(range(BATCH))
    into = range(2 * BATCH - 1, BATCH - 1, -1)
    assert check(controller.prefetch(keys, into).get(timeout=DEADLINE_S)) == BATCH
    assert check(controller.prefetch(keys + keys_of("b", 3), range(BATCH + 3)).get(
        timeout=DEADLINE_S)) == BATCH
    names = [entry.key for entry in store.scan()]
    store.delete(sorted(names)[5])
    assert check(controller.prefetch(keys, into).get(timeout=DEADLINE_S)) == 5
    # What is there is not stored again.
    for page, key in enumerate(keys):
        pool.put(page, key, generation=1)
    assert all(controller.backup(keys, range(BATCH)).get(timeout=DEADLINE_S))
    hits, pages = controller.prefetch(keys, into).get(timeout=DEADLINE_S)
    assert [generation_of(page, key) for key, page in pages] == [int(i == 5) for i in range(BATCH)]
    assert controller.storage.clear() and list(store.scan()) == []
    controller.close()
    store.register(memoryview(pool.mapping)).release()


def test_eviction_under_the_readers_hands(engine, store):
    """The backup thread keeps the store full while the other one loads what was stored lately and
    long ago."""
    pool = HostPool(2 * BATCH, CHUNK)
    controller = Controller(storage_of(engine, pool), pool)
    rounds = max(4, 3 * store.stats()["region_bytes"] // (2 * BATCH * CHUNK))
    written, hits, misses = [], 0, 0
    for i in range(rounds):
        keys = keys_of(f"{i:02x}")
        for page, key in enumerate(keys):
            pool.put(page, key)
        storing = controller.backup(keys, range(BATCH))
        for known in (*written[-1:], *written[:1]):
            loaded = check(controller.prefetch(known, range(BATCH, 2 * BATCH)).get(
                timeout=DEADLINE_S))
            hits, misses = hits + loaded, misses + BATCH - loaded
        assert all(storing.get(timeout=DEADLINE_S))
        written.append(keys)
    for known in written:  # what is there at the end, when nothing is stored any more
        loaded = check(controller.prefetch(known, range(BATCH, 2 * BATCH)).get(
            timeout=DEADLINE_S))
        hits, misses = hits + loaded, misses + BATCH - loaded
    assert hits and misses and store.stats()["evictions"] > 0
    controller.close()


def test_server_is_killed_in_mid_batch(engine, shared_server, caplog):
    """Calls return, and raise nothing; what is said to be loaded is right; while the server is away
    all is a miss, and afterwards all goes on by itself."""
    shared_server.end()
    server = Server()
    pool = HostPool(2 * BATCH, CHUNK)
    controller = Controller(storage_of(engine, pool, timeout_ms=TIMEOUT_MS, lookup_timeout_ms=300),
                            pool)
    try:
        keys = keys_of("k")
        for page, key in enumerate(keys):
            pool.put(page, key)
        while not all(controller.backup(keys, range(BATCH)).get(timeout=DEADLINE_S)):
            pass  # a slow machine
        caplog.clear()
        controller.storage._health.statuses.clear()
        into = range(BATCH, 2 * BATCH)
        loading = controller.prefetch(keys, into)
        storing = controller.backup(keys_of("n"), range(BATCH))
        server.end(signal.SIGKILL)
        check(loading.get(timeout=DEADLINE_S))
        storing.get(timeout=DEADLINE_S)
        for _ in range(3):
            assert controller.prefetch(keys, into).get(timeout=DEADLINE_S) == (0, [])
            assert controller.storage.batch_get_v1(keys[:2], pool.indices([0, 1])) == [False] * 2
        assert not any(controller.backup(keys, range(BATCH)).get(timeout=DEADLINE_S))
        for kind in ("lookup", "load", "store"):
            assert caplog.text.count(f"{kind} fails: ") == 1

        server = Server()  # which has nothing
        for page, key in enumerate(keys):
            pool.put(page, key)
        while not all(controller.backup(keys, range(BATCH)).get(timeout=DEADLINE_S)):
            pass  # the connections are made again
        while check(controller.prefetch(keys, into).get(timeout=DEADLINE_S)) < BATCH:
            pass
    finally:
        controller.close()
        server.end()
        shared_server.__init__()


def test_ranks_and_models_do_not_collide(engine, store):
    """The same page of other ranks, layouts and models is another one; of an MLA model, or of
    instances that split heads, it is the same."""
    def seen(pool=None, **given):
        pool = pool or HostPool(4, 4096)
        storage = storage_of(engine, pool, **given)
        found = storage.batch_exists(["h"])
        pool.put(0, "h")
        assert storage.batch_set_v1(["h"], pool.indices([0])) == [True]
        assert storage.batch_exists(["h"]) == 1
        assert storage.batch_get_v1(["h"], pool.indices([1])) == [True]
        assert generation_of(pool.bytes(1), "h") == 0
        storage.close()
        return bool(found)

    assert not seen() and seen()
    assert not seen(tp_rank=0, tp_size=2) and not seen(tp_rank=1, tp_size=2)
    assert not seen(pp_rank=1, pp_size=2) and not seen(attn_cp_rank=1, attn_cp_size=2)
    assert not seen(model_name="other") and not seen(prefix="mine:")
    assert not seen(HostPool(4, 4096, "layer_first"))
    mla = {"is_mla_model": True, "model_name": "mla"}
    assert not seen(HostPool(4, 4096, "mla"), **mla)
    assert seen(HostPool(4, 4096, "mla"), tp_rank=1, tp_size=2, **mla)
    assert not seen(HostPool(4, 4096, "mla"), tp_rank=1, tp_size=2, pp_rank=1, pp_size=2, **mla)
    split = {"should_split_heads": True, "tp_lcm_size": 4}
    assert not seen(tp_rank=0, tp_size=2, **split)  # ranks 0 and 1 of 4
    assert not seen(tp_rank=1, tp_size=2, **split)
    pool = HostPool(4, 2048)
    storage = storage_of(engine, pool, tp_rank=1, tp_size=4, **split)
    assert storage.batch_exists(["h"]) == 1
    assert storage.batch_get_v1(["h"], pool.indices([0])) == [True]
    whole = HostPool(1, 4096)
    whole.put(0, "h")
    assert (pool.array[:, 0] == whole.array[:, 0, 1024:]).all()
    storage.close()


def test_storages_of_one_process(engine, store):
    """Storages share the registration of a pool, which stays until the last one is closed."""
    pool = HostPool(4, 4096)
    first, second = storage_of(engine, pool), storage_of(engine, pool, prefix="second:")
    pool.put(0, "h")
    assert first.batch_set_v1(["h"], pool.indices([0])) == [True]
    first.close()
    assert second.batch_exists(["h"]) == 0
    assert second.batch_set_v1(["h"], pool.indices([0])) == [True]
    assert second.batch_get_v1(["h"], pool.indices([1])) == [True]
    generation_of(pool.bytes(1), "h")
    with pytest.raises(kvd.InvalidError):
        store.register(memoryview(pool.mapping))
    second.close()
    store.register(memoryview(pool.mapping)).release()


def test_keys_of_any_length(engine, store):
    pool = HostPool(8, 4096)
    storage = storage_of(engine, pool)
    keys = ["k" * 900, "k" * 1500, "k" * 1499 + "j", "é"]
    for page, key in enumerate(keys):
        pool.put(page, key)
    assert storage.batch_set_v1(keys, pool.indices(range(4))) == [True] * 4
    assert storage.batch_get_v1(keys, pool.indices(range(4, 8))) == [True] * 4
    for page, key in enumerate(keys):
        generation_of(pool.bytes(4 + page), key)
    assert len({entry.key for entry in store.scan()}) == 4
    storage.close()


@pytest.mark.parametrize("newer", [False, True])
def test_several_pools(monkeypatch, store, newer):
    """Version 2: the prefix that all pools can restore, by their policies."""
    engine = standins.sglang(monkeypatch, newer)
    pools = {"kv": HostPool(16, 4096), "indexer": HostPool(16, 2048, "mla"),
             "mamba": HostPool(16, 1024, "mla")}
    storage = storage_of(engine, pools["kv"])
    for name, pool in pools.items():
        storage.register_mem_host_pool_v2(pool, engine.PoolName(name))
    keys = keys_of("v", 8)

    def transfer(name, keys):
        for page, key in enumerate(keys):
            pools[name].put(page, name + key)
        return engine.PoolTransfer(name=engine.PoolName(name), keys=keys,
                                   host_indices=pools[name].indices(range(len(keys))))

    stored = storage.batch_set_v2([transfer("kv", keys), transfer("indexer", keys[:6]),
                                   transfer("mamba", [keys[3], keys[6]])])
    assert stored == {engine.PoolName.KV: [True] * 8, engine.PoolName.INDEXER: [True] * 6,
                      engine.PoolName.MAMBA: [True] * 2}

    def exists(*transfers):
        result = storage.batch_exists_v2(keys + ["absent"], list(transfers))
        if newer:
            assert max(result.restorable_prefix_pages, default=0) == result.kv_hit_pages
        return result.kv_hit_pages, {str(name): n for name, n in
                                     result.extra_pool_hit_pages.items()}

    def of(name, policy="ALL_PAGES", keys=None):
        return engine.PoolTransfer(name=engine.PoolName(name), keys=keys,
                                   hit_policy=engine.PoolHitPolicy[policy])

    assert exists() == (8, {"kv": 8})
    assert exists(of("indexer")) == (6, {"kv": 8, "indexer": 6})
    assert exists(of("mamba", "TRAILING_PAGES")) == (7, {"kv": 8, "mamba": 7})
    # The indexer ends before the last state of Mamba: the one before it counts.
    assert exists(of("indexer"), of("mamba", "TRAILING_PAGES")) == \
        (4, {"kv": 8, "indexer": 6, "mamba": 7})
    assert exists(of("mamba", "TRAILING_PAGES", keys[:2])) == (0, {"kv": 8})
    assert exists(of("swa"))[0] == 0  # such a pool was not registered

    for pool in pools.values():
        pool.wipe(range(16))
    loads = [engine.PoolTransfer(name=engine.PoolName(name), keys=wanted,
                                 host_indices=pools[name].indices(range(8, 8 + len(wanted))))
             for name, wanted in (("kv", keys), ("mamba", [keys[3], keys[4]]))]
    loaded = storage.batch_get_v2(loads)
    assert loaded == {engine.PoolName.KV: [True] * 8, engine.PoolName.MAMBA: [True, False]}
    for i, key in enumerate(keys):
        generation_of(pools["kv"].bytes(8 + i), "kv" + key)
    generation_of(pools["mamba"].bytes(8), "mamba" + keys[3])
    # The state of Mamba is a rank's own, and what the indexer has is of all.
    other = storage_of(engine, pools["kv"], tp_rank=1, tp_size=2)
    for name, pool in pools.items():
        other.register_mem_host_pool_v2(pool, engine.PoolName(name))
    found = other._present(["indexer", "mamba"], keys)
    assert [sum(pages) for pages in found] == [6, 0]
    other.close()
    storage.close()


def test_pool_that_only_counts(engine, store):
    """The pages of such a pool are there, since other pools have the data."""
    pool = HostPool(4, 4096)
    pool.kv_buffer = None
    storage = storage_of(engine, pool)
    assert storage.batch_exists(["a", "b"]) == 2
    assert storage.batch_get_v1(["a", "b"], pool.indices([0, 1])) == [True, True]
    assert storage.batch_set_v1(["a", "b"], pool.indices([0, 1])) == [True, True]
    assert list(store.scan()) == []
    storage.close()


def test_pages_in_memory_of_the_caller(engine, store):
    pool = HostPool(4, 4096)
    storage = storage_of(engine, pool)
    page, into = numpy.arange(4096, dtype=numpy.uint8), numpy.zeros(4096, numpy.uint8)
    assert storage.get("a", Tensor(into)) is None
    assert storage.set("a", Tensor(page)) and storage.exists("a") and not storage.exists("b")
    target = Tensor(into)
    assert storage.get("a", target) is target and (into == page).all()
    assert storage.set("b", None, pool.array[0, 1].ctypes.data, 2048)  # in registered memory
    assert storage.batch_get(["b", "c"], [into.ctypes.data] * 2, [2048] * 2) == \
        [into.ctypes.data, None]
    assert not storage.set("c", Tensor(page.reshape(64, 64).T))
    storage.close()


def test_statistics(engine, store, monkeypatch):
    class StorageMetrics:
        def __init__(self):
            self.prefetch_pgs, self.backup_pgs = [], []
            self.prefetch_bandwidth, self.backup_bandwidth = [], []

    storage = storage_of(engine)
    assert storage.get_stats() is None
    storage.close()
    with pytest.raises(ImportError, match="--enable-metrics"):
        storage_of(engine, enable_storage_metrics=True)
    standins.module(monkeypatch, "sglang.srt.metrics.collector", StorageMetrics=StorageMetrics)
    pool = HostPool(8, 4096)
    storage = storage_of(engine, pool, enable_storage_metrics=True)
    pages = keys_of("s", 4)
    storage.batch_set_v1(pages, pool.indices(range(4)))
    storage.batch_get_v1(pages + ["absent"], pool.indices(range(5)))
    stats = storage.get_stats()
    assert (stats.backup_pgs, stats.prefetch_pgs) == ([4], [4])
    assert len(stats.backup_bandwidth) == len(stats.prefetch_bandwidth) == 1
    assert storage.get_stats().backup_pgs == []
    storage.close()


def test_what_somebody_has_to_mend(engine, store, caplog):
    """Nothing is raised by what SGLang's threads call: it goes to the log, once."""
    pool = HostPool(4, 4096)
    storage = storage_of(engine, pool)
    for _ in range(2):
        assert storage.batch_get_v1(["a", "b"], pool.indices([0])) == [False, False]
    assert caplog.text.count("2 pages of 4 tokens have 4 indices") == 1
    pieces = HostPool(4, 65 * 64, "layer_first", pieces=65)
    storage.register_mem_host_pool_v2(pieces, "swa")
    assert storage.batch_set_v2([engine.PoolTransfer(
        name="swa", keys=["a"], host_indices=pieces.indices([0]))]) == {"swa": [False]}
    assert "--hicache-mem-layout page_first" in caplog.text
    large = HostPool(1, store.info()["value_max"] + 4096)
    storage.register_mem_host_pool_v2(large, "mamba")
    assert storage.batch_set_v2([engine.PoolTransfer(
        name="mamba", keys=["a"], host_indices=large.indices([0]))]) == {"mamba": [False]}
    assert "limits.max_value" in caplog.text
    storage.close()


def test_threads_of_the_engine(engine, store):
    """Many threads in all kinds of calls at once."""
    pool = HostPool(8 * 4, 4096)
    storage = storage_of(engine, pool)
    failures = []

    def work(number):
        try:
            pages = range(4 * number, 4 * number + 4)
            for i in range(20):
                keys = keys_of(f"{number}{i:02x}", 4)
                for page, key in zip(pages, keys):
                    pool.put(page, key)
                assert storage.batch_set_v1(keys, pool.indices(pages)) == [True] * 4
                pool.wipe(pages)
                assert storage.batch_exists(keys + ["absent"]) == 4
                assert storage.batch_get_v1(keys, pool.indices(pages)) == [True] * 4
                for page, key in zip(pages, keys):
                    generation_of(pool.bytes(page), key)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    storage.close()
