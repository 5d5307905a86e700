# SPDX-License-Identifier: MIT
"""kvd.lmcache under a driver that behaves like LMCache's: batches of 32 chunks, lookups of 256
keys, eviction under the reader's hands, a server that is killed in mid-batch. KVD_LMCACHE_CHUNK
is the bytes of a chunk."""

import ctypes
import gc
import importlib
import logging
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
import types
from typing import NamedTuple

import kvd
import kvd.lmcache
import pytest
from chunks import fill, generation_of
from conftest import URL, Server, Stopped
from driver import DEADLINE_S, Driver, check_loaded

CHUNK = int(os.environ["KVD_LMCACHE_CHUNK"])
BATCH = 32
LOOKUP = 256
ROUNDS = int(os.environ.get("KVD_LMCACHE_ROUNDS", "1"))
# In which a batch can be stored here, and for which those that wait for a server that is gone do.
TIMEOUT_MS = int(os.environ.get("KVD_LMCACHE_TIMEOUT_MS", "500"))


def keys_of(name, count=BATCH):
    """Keys as LMCache makes them: model, rank, group, hash of the chunk."""
    return [f"meta-llama/Llama-3.1-8B@00000001@0@{name}{i:056x}" for i in range(count)]


def arena_of(count, chunk=CHUNK):
    """Memory as LMCache's arena: @count views of @chunk bytes of one mapping, by ctypes."""
    arena = mmap.mmap(-1, count * chunk)
    kind = ctypes.c_ubyte * chunk
    return [memoryview(kind.from_buffer(arena, i * chunk)) for i in range(count)]


def make(**options):
    options.setdefault("timeout_ms", 60000)
    options.setdefault("lookup_timeout_ms", 60000)
    return kvd.lmcache.Connector(URL, **options)


@pytest.fixture
def driver(store):
    driver = Driver(make())
    yield driver
    driver.close()


def test_batches(driver):
    keys, views = keys_of("a"), arena_of(2 * BATCH)
    for key, view in zip(keys, views):
        fill(view, key)
    stored = driver.store(keys, views[:BATCH]).done()
    assert (stored.ok, stored.error, stored.found) == (True, "", [True] * BATCH)

    lookup = driver.lookup(keys_of("a", LOOKUP)).done()
    assert lookup.ok and lookup.found == [i < BATCH for i in range(LOOKUP)]

    # The other way round, and with keys that are not there.
    wanted = keys[::-1][:BATCH - 2] + keys_of("absent", 2)
    loaded = driver.load(wanted, views[BATCH:])
    assert check_loaded(loaded) == BATCH - 2
    assert (loaded.ok, loaded.error) == (True, "") and loaded.found[-2:] == [False, False]

    deleted = driver.delete([keys[0], "absent", keys[1]]).done()
    assert deleted.ok and deleted.found == [True, True, True]  # none of them is there now
    assert driver.lookup(keys[:3]).done().found == [False, False, True]


def test_many_batches_at_once(driver):
    """Batches that are under way together: each gets its own result."""
    names = [f"m{i}" for i in range(8)]
    views = arena_of(8 * 4, 1 << 16)
    for i, name in enumerate(names):
        for j, key in enumerate(keys_of(name, 4)):
            fill(views[4 * i + j], key)
    tasks = [driver.store(keys_of(name, 4), views[4 * i:4 * i + 4])
             for i, name in enumerate(names)]
    assert all(task.done().ok for task in tasks)
    into = arena_of(8 * 4, 1 << 16)
    tasks = [driver.load(keys_of(name, 4), into[4 * i:4 * i + 4]) for i, name in enumerate(names)]
    tasks += [driver.lookup(keys_of(name, 5)) for name in names]
    assert [check_loaded(task) for task in tasks[:8]] == [4] * 8
    assert [task.done().found for task in tasks[8:]] == [[True] * 4 + [False]] * 8



def test_eviction_under_the_readers_hands(driver, store):
    """A writer keeps the store full while a reader loads what was stored lately and long ago."""
    batches = max(4 * ROUNDS, 3 * store.stats()["region_bytes"] // (2 * BATCH * CHUNK))
    written, over = [], threading.Event()
    failures = []

    def write():
        try:
            views = arena_of(BATCH)
            for i in range(batches):
                keys = keys_of(f"e{i}")
                for key, view in zip(keys, views):
                    fill(view, key)
                task = driver.store(keys, views).done()
                assert task.ok, task.error
                written.append(keys)
        except BaseException as error:
            failures.append(error)
        finally:
            over.set()

    writer = threading.Thread(target=write)
    writer.start()
    arena, hits, misses, last, earlier = arena_of(2 * BATCH), 0, 0, False, None
    while not last:
        last = over.is_set()
        for keys, views in zip((*written[-1:], *written[:1]), (arena[:BATCH], arena[BATCH:])):
            task = driver.load(keys, views)
            loaded = check_loaded(task)
            hits, misses = hits + loaded, misses + BATCH - loaded
            if earlier is not None:
                earlier.check_untouched()
            task.use_again()
            earlier = task
    writer.join()
    assert not failures, failures
    assert hits and misses and store.stats()["evictions"] > 0


def test_a_chunk_that_is_stored_again_is_one_of_the_two(driver):
    (key,), views = keys_of("t", 1), arena_of(3)
    for generation in range(2):
        fill(views[generation], key, generation)
    assert driver.store([key], [views[0]]).done().ok
    seen = set()
    for i in range(20 * ROUNDS):
        store = driver.store([key], [views[i % 2]])
        task = driver.load([key], [views[2]])
        if check_loaded(task):
            seen.add(generation_of(views[2], key))
        assert store.done().ok, store.error
    assert seen <= {0, 1} and seen


class Outage:
    """A kvd of a test's own, and a connector whose driver meets its end in the middle of batches:
    each ends; what is said to be loaded is right; what is said to be stored is stored in each key;
    buffers that are used again are never written."""

    def __init__(self, **options):
        self.server = Server()
        options.setdefault("timeout_ms", TIMEOUT_MS)
        self.driver = Driver(make(lookup_timeout_ms=300, **options))
        self.views = arena_of(3 * BATCH)
        self.keys = keys_of("k")
        for key, view in zip(self.keys, self.views):
            fill(view, key)
        while not self.store().ok:
            pass  # a slow machine

    def store(self):
        return self.driver.store(self.keys, self.views[:BATCH]).done()

    def status(self):
        return self.driver.connector.report_status()

    def batches(self):
        """Loads and stores that are executed and that wait: two of each."""
        views = self.views[BATCH:]
        half = BATCH // 2
        loads = [self.driver.load(self.keys[:half], views[half * i:half * (i + 1)])
                 for i in range(2)]
        stores = [self.driver.store(keys_of(f"n{i}", half), self.views[:half]) for i in range(2)]
        return loads, stores

    def check(self, loads, stores):
        """Of batches that an end of the server has met."""
        for task in loads:
            check_loaded(task)
            assert task.ok
            task.use_again()
        for task in stores:
            task.done()
            assert len(task.found) == len(task.keys) and task.ok == all(task.found)

    def check_away(self):
        """Nothing is asked while it is away, and everything ends."""
        await_status(self.driver, "away")
        half = BATCH // 2
        before = self.status()
        for _ in range(20):
            gone = self.driver.lookup(keys_of("k", LOOKUP)).done()
            assert gone.ok and gone.error and gone.found == [False] * LOOKUP
        view = self.views[-half:]
        lost = self.driver.load(self.keys[:half], view).done()
        assert lost.ok and lost.error and lost.found == [False] * half
        failed = self.driver.store(self.keys[:half], view).done()
        assert not failed.ok and failed.error and failed.found == [False] * half
        deleted = self.driver.delete(self.keys[:2]).done()
        assert deleted.ok and deleted.error and deleted.found == [False, False]
        after = self.status()
        assert after["away"] - before["away"] == 23 and after["losses"] == before["losses"]
        assert not after["is_healthy"] and after["why"]

    def works(self):
        """All goes on by itself."""
        await_status(self.driver, "up")
        while not self.store().ok:
            pass
        views = self.views[-BATCH:]
        while check_loaded(self.driver.load(self.keys, views)) < BATCH:
            pass

    def end(self):
        self.driver.close()
        self.server.end(signal.SIGKILL)


@pytest.fixture
def outage(shared_server):
    shared_server.end()
    outage = Outage()
    yield outage
    outage.end()
    shared_server.__init__()


def await_status(driver, connection):
    end = time.monotonic() + DEADLINE_S
    while driver.connector.report_status()["connection"] != connection:
        assert time.monotonic() < end, driver.connector.report_status()
        driver.lookup(["x"]).done()


def test_server_is_killed_in_mid_batch(outage, caplog):
    caplog.set_level(logging.WARNING, "kvd.lmcache")
    for _ in range(ROUNDS):
        caplog.clear()
        losses = outage.status()["losses"]
        loads, stores = outage.batches()
        outage.server.end(signal.SIGKILL)
        outage.driver.lookup(outage.keys).done()  # whose deadline ends the others'
        outage.check(loads, stores)
        outage.check_away()
        # Two lines, and not one for each batch.
        assert outage.status()["losses"] == losses + 1
        assert caplog.text.count(" is away: ") == 1
        outage.server = Server()  # which has nothing
        outage.works()
        while " is back after " not in caplog.text:
            pass
        for task in loads:
            task.check_untouched()


def test_server_restarts_in_mid_batch(outage):
    """So soon that nobody may notice."""
    for _ in range(2 * ROUNDS):
        loads, stores = outage.batches()
        outage.server.end()
        outage.server = Server()
        outage.check(loads, stores)
        outage.works()
        for task in loads:
            task.check_untouched()


def test_server_is_stopped_in_mid_batch(outage):
    """Nothing is answered, connections stay, and kvd may later go on with what it has begun."""
    for _ in range(ROUNDS):
        loads, stores = outage.batches()
        with Stopped(outage.server):
            outage.check(loads, stores)
            # What needs no thread of the server's may still work: a store always needs one.
            while outage.status()["connection"] == "up":
                assert not outage.store().ok
            outage.check_away()
        outage.works()
        for task in loads:
            task.check_untouched()


def test_starts_without_the_server(shared_server):
    shared_server.end()
    driver = Driver(make())
    try:
        assert driver.connector.report_status()["connection"] == "away"
        assert driver.lookup(["a"]).done().found == [False]
        shared_server.__init__()
        await_status(driver, "up")
        view = memoryview(bytearray(4096))
        fill(view, "a")
        assert driver.store(["a"], [view]).done().ok
        assert check_loaded(driver.load(["a"], [view])) == 1
    finally:
        driver.close()
        if shared_server.process.poll() is not None:
            shared_server.__init__()


def test_closed_while_away(outage):
    outage.server.end(signal.SIGKILL)
    await_status(outage.driver, "away")


def test_large_batches(driver):
    """Of up to 128 chunks, whose buffers are used again at once."""
    count, size = 4 * BATCH, max(CHUNK // 8, 1 << 17)
    views, keys = arena_of(count, size), keys_of("l", count)
    for _ in range(ROUNDS):
        for key, view in zip(keys, views):
            fill(view, key)
        task = driver.store(keys, views).done()
        assert task.ok and task.found == [True] * count
        task.use_again()
        assert check_loaded(driver.load(keys, views)) == count
        assert driver.delete(keys).done().ok


def test_chunks_of_variable_length(store):
    driver, strict = Driver(make(variable_length=True)), Driver(make())
    try:
        lengths = [4096, 8, 131072, 1 << 20]
        keys = keys_of("v", len(lengths))
        chunks = [view[:length] for view, length in
                  zip(arena_of(len(lengths), 1 << 20), lengths)]
        for key, chunk in zip(keys, chunks):
            fill(chunk, key)
        assert driver.store(keys, chunks).done().ok
        assert driver.connector.get_object_sizes([*keys, "x"]) == [*lengths, None]
        views = arena_of(len(lengths), 1 << 20)
        loaded = driver.load(keys, views).done()
        assert loaded.ok and loaded.found == lengths
        for key, view, length in zip(keys, views, loaded.found):
            generation_of(view[:length], key)
        assert strict.load(keys, views).done().found == [False, False, False, True]
        # Never a part of a chunk.
        assert driver.load(keys[:1], [views[0][:4095]]).done().found == [0]
    finally:
        driver.close()
        strict.close()


def test_list_l2_keys(driver):
    keys = [f"m{i % 2}@00000001@0@{i:064x}" for i in range(3000)]
    view = memoryview(b"x" * 64)
    assert driver.store(keys, [view] * len(keys)).done().ok

    def listed(**options):
        found, cursor = {}, None
        while True:
            page, cursor = driver.connector.list_l2_keys(page_size=100, cursor=cursor, **options)
            assert len(page) <= 100
            found.update(page)
            if cursor is None:
                return found

    assert listed() == dict.fromkeys(keys, 64)
    assert listed(model_name="m1") == dict.fromkeys(keys[1::2], 64)
    assert listed(model_name="m") == {}


def test_what_somebody_has_to_mend(driver, store, caplog):
    """A chunk that the server does not take is an error of the batch, in the log once."""
    size = store.info()["value_max"] + 8
    keys, view = keys_of("big", 2), memoryview(bytearray(size))
    for _ in range(2):
        task = driver.store(keys, [view, memoryview(b"small")]).done()
        assert not task.ok and task.found == [False, True]
        assert "limits.max_value" in task.error
        assert driver.lookup(keys).done().ok
    assert caplog.text.count("limits.max_value") == 1
    assert driver.lookup(keys).done().found == [False, True]


def test_keys(store):
    """Keys of any length, with a prefix; chunks that expire."""
    driver = Driver(make(prefix="one:", ttl_s=1000))
    other = Driver(make(prefix="two:"))
    try:
        keys = ["k" * 1020, "k" * 1021, "k" * 5000, "k" * 4999 + "j", "é@1"]
        views = arena_of(2 * len(keys), 4096)
        for key, view in zip(keys, views):
            fill(view, key)
        assert driver.store(keys, views[:len(keys)]).done().ok
        assert check_loaded(driver.load(keys, views[len(keys):])) == len(keys)
        assert other.lookup(keys).done().found == [False] * len(keys)
        found = list(store.scan())
        assert all(entry.key.startswith(b"one:") and entry.head.expires_s for entry in found)
        assert len({entry.key for entry in found}) == len(keys)
    finally:
        driver.close()
        other.close()


class EncodedObjectKey(NamedTuple):
    """As LMCache's, and below ObjectKey, KeyEntry and KeyListPage of lmcache.v1.distributed.api."""

    chunk_hash_hex: str
    model_name: str
    kv_rank: int
    object_group_id: int
    cache_salt: str


class ObjectKey(NamedTuple):
    chunk_hash: bytes
    model_name: str
    kv_rank: int
    object_group_id: int = 0
    cache_salt: str = ""

    def to_encoded_object_key(self):
        return EncodedObjectKey(self.chunk_hash.hex(), *self[1:])


class KeyEntry(NamedTuple):
    key: EncodedObjectKey
    size_bytes: int


class KeyListPage(NamedTuple):
    entries: tuple
    next_page_token: str


def object_key_text(key):
    text = f"{key.model_name}@{key.kv_rank:08x}@{key.object_group_id:x}@{key.chunk_hash.hex()}"
    return f"{text}@{key.cache_salt}" if key.cache_salt else text


@pytest.fixture
def module(monkeypatch):
    """kvd.lmcache_adapter, with stand-ins for what it needs of LMCache."""
    api = "lmcache.v1.distributed.api"
    path = "lmcache.v1.distributed.l2_adapters.native_connector_l2_adapter"
    for name in (*(path.rsplit(".", i)[0] for i in range(path.count(".") + 1)), api):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    parent = sys.modules[path.rsplit(".", 1)[0]]
    native = parent.native_connector_l2_adapter = sys.modules[path]
    native.NativeConnectorL2Adapter = Driver
    native._object_key_to_string = object_key_text
    for kind in (ObjectKey, KeyEntry, KeyListPage):
        setattr(sys.modules[api], kind.__name__, kind)
    monkeypatch.delitem(sys.modules, "kvd.lmcache_adapter", raising=False)
    return importlib.import_module("kvd.lmcache_adapter")


def test_adapter(store, module):
    """What LMCache asks kvd's adapter itself."""
    adapter = module.Adapter({"url": URL, "prefix": "p:"})
    try:
        keys = [ObjectKey(bytes([i]), "org/m" if i % 2 else "org/n", 0x01000100, i, "s" * (i % 3))
                for i in range(9)]
        views = [memoryview(b"x" * (i + 1)) for i in range(len(keys))]
        assert adapter.store([object_key_text(key) for key in keys], views).done().ok
        store["p:no key of LMCache's"] = store["p:m@x@0@00"] = b"x"
        store["m@1@0@00"] = b"of another prefix"
        assert adapter.get_object_sizes([keys[3], keys[0]._replace(kv_rank=2)]) == [4, None]
        for model in ("org/m", None):
            found, cursor = {}, None
            while True:
                page = adapter.list_l2_keys(model_name=model, page_size=3, cursor=cursor)
                assert len(page.entries) <= 3
                found.update(page.entries)
                cursor = page.next_page_token
                if cursor is None:
                    break
            assert found == {key.to_encoded_object_key(): i + 1 for i, key in enumerate(keys)
                             if model in (None, key.model_name)}
        with pytest.raises(ValueError, match="no cursor"):
            adapter.list_l2_keys(cursor="of another adapter")
        status = adapter.report_status()
        assert status["is_healthy"] and (status["type"], status["stored"]) == ("kvd", len(keys))
        adapter.connector._shared.lose(0, kvd.Status.ERR_AWAY, "gone")
        assert not adapter.report_status()["is_healthy"]
    finally:
        adapter.close()


def test_adapter_registers_the_arena(store, module):
    """LMCache's class is the driver here; chunks are moved without copies by the library."""
    chunk = 1 << 20
    arena = mmap.mmap(-1, 8 * chunk)
    whole = memoryview(arena)
    address = kvd._buffers.writable(arena)[0]

    class L1MemoryDesc:
        ptr, size, align_bytes = address, len(arena), 4096

    params = {"url": URL, "num_workers": 1, "max_capacity_gb": 2, "timeout_ms": 60000}
    adapter = module.Adapter(params, l1_memory_desc=L1MemoryDesc())
    assert adapter.type_name == "kvd" and adapter.max_capacity_gb == 2
    with pytest.raises(kvd.InvalidError):  # all of it is registered
        store.register(whole[7 * chunk:])
    views = [whole[i * chunk:(i + 1) * chunk] for i in range(8)]
    keys = keys_of("r", 4)
    for key, view in zip(keys, views):
        fill(view, key)
    assert adapter.store(keys, views[:4]).done().ok
    assert check_loaded(adapter.load(keys, views[4:])) == 4
    # Another adapter of the same LMCache, and one in the place of the first.
    second = module.Adapter(dict(params, prefix="second:"), l1_memory_desc=L1MemoryDesc())
    adapter.close()
    assert check_loaded(second.load(keys, views[4:])) == 0
    assert second.store(keys, views[:4]).done().ok
    third = module.Adapter(params, l1_memory_desc=L1MemoryDesc())
    second.close()
    assert check_loaded(third.load(keys, views[4:])) == 4
    third.close()
    store.register(whole).release()

    class Growing(L1MemoryDesc):
        stable_registration_size = chunk

    adapter = module.Adapter({"url": URL}, l1_memory_desc=Growing())
    store.register(whole[chunk:]).release()
    adapter.close()
    module.Adapter({"url": URL}).close()
    with pytest.raises(kvd.InvalidError):
        module.Adapter({"url": URL}, l1_memory_desc=type("D", (), {"ptr": 0, "size": 0})())
    with pytest.raises(TypeError):
        module.Adapter({"url": URL, "hosts": 1})



def test_ends(url):
    """A connector that is dropped, or left at the end of the process, leaves nothing."""
    before = threading.active_count()
    connector = make()
    fd = connector.event_fd()
    del connector
    gc.collect()
    end = time.monotonic() + DEADLINE_S
    while threading.active_count() != before:  # it ends in a thread of its own
        assert time.monotonic() < end
    with pytest.raises(OSError):
        os.fstat(fd)
    # Batches are under way then.
    code = f"""
import kvd.lmcache
connector = kvd.lmcache.Connector({url!r})
view = memoryview(bytearray(1 << 18))
for i in range(50):
    connector.submit_batch_set([f"x{{i}}{{j}}" for j in range(8)], [view] * 8)
"""
    ended = subprocess.run([sys.executable, "-X", "dev", "-c", code], timeout=DEADLINE_S,
                           stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
