# SPDX-License-Identifier: MIT
"""kvd.mooncake under a driver that behaves like SGLang's cache (driver.py), and its calls against a
real kvd. KVD_MOONCAKE_CHUNK is the bytes of a page, KVD_MOONCAKE_BATCH the pages of a batch."""

import ctypes
import gc
import logging
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import kvd
import kvd.mooncake
import pytest
from conftest import URL, Server

NAMES = subprocess.run([sys.executable, "-m", "kvd.mooncake"], check=True, text=True,
                       stdout=subprocess.PIPE).stdout.strip()
sys.path.insert(0, NAMES)

from driver import DEADLINE_S, Engine  # noqa: E402
from mooncake.store import (  # noqa: E402
    BufferHandle, MooncakeDistributedStore, ReplicateConfig, SoftPinAction,
)

CHUNK = int(os.environ["KVD_MOONCAKE_CHUNK"])
BATCH = int(os.environ["KVD_MOONCAKE_BATCH"])
ROUNDS = int(os.environ.get("KVD_MOONCAKE_ROUNDS", "1"))
# In which a batch can be stored here, and for which those that wait for a server that is gone do.
TIMEOUT_MS = int(os.environ.get("KVD_MOONCAKE_TIMEOUT_MS", "500"))
PATIENT = {"timeout_ms": 60000, "lookup_timeout_ms": 60000}
NOT_FOUND, INVALID, FAILED = -704, -600, (-900, -901)


def names_of(name, count=BATCH):
    return [f"meta-llama-Llama-3.1-8B_{name}{i:060x}" for i in range(count)]


@pytest.fixture(params=[2, 1], ids=["keys_and_values", "pieces"])
def engine(store, request):
    store.flush()
    engine = Engine(URL, CHUNK, 3 * BATCH, request.param, **PATIENT)
    yield engine
    engine.close()


@pytest.fixture
def mooncake(store):
    mooncake = Engine.set_up(URL, PATIENT)
    mooncake.remove_all()
    yield mooncake
    mooncake.close()


@pytest.fixture
def block(mooncake):
    """4 KiB of registered memory, and its address."""
    block = ctypes.create_string_buffer(4096)
    assert mooncake.register_buffer(ctypes.addressof(block), 4096) == 0
    yield block, ctypes.addressof(block)
    assert mooncake.unregister_buffer(ctypes.addressof(block)) == 0


def test_batches(engine):
    names = names_of("a")
    assert engine.lookup(names) == 0
    assert engine.store_batch(names) == [True] * BATCH
    assert engine.lookup(names + names_of("absent")) == BATCH
    assert engine.store_batch(names) == [True] * BATCH  # they exist
    mixed = names[::-1][:BATCH - 2] + names_of("absent", 2)
    assert engine.load_batch(mixed) == [True] * (BATCH - 2) + [False] * 2


def test_threads(engine):
    """Batches that are stored, loaded and looked up at the same time, through one store. All of
    them take less than half of the server's memory, so that nothing is evicted."""
    failures = []

    def drive(number):
        try:
            for i in range(2 * ROUNDS):
                names = names_of(f"t{number}-{i % 2}-", BATCH // 32)
                assert all(engine.store_batch(names))
                assert engine.lookup(names) == len(names)
                assert all(engine.load_batch(names))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=drive, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_eviction_under_the_readers_hands(engine, store):
    """A writer keeps the store full while a reader loads what was stored lately and long ago."""
    batches = max(4 * ROUNDS, 3 * store.stats()["region_bytes"] // (2 * BATCH * CHUNK))
    written, over, failures = [], threading.Event(), []

    def write():
        try:
            for i in range(batches):
                names = names_of(f"e{i}-")
                assert all(engine.store_batch(names))
                written.append(names)
        except BaseException as error:
            failures.append(error)
        finally:
            over.set()

    writer = threading.Thread(target=write)
    writer.start()
    hits, misses, last = 0, 0, False
    while not last:
        last = over.is_set()
        for names in (*written[-1:], *written[:1]):
            loaded = sum(engine.load_batch(names))
            hits, misses = hits + loaded, misses + BATCH - loaded
    writer.join()
    assert not failures, failures
    assert hits and misses and store.stats()["evictions"] > 0


@pytest.mark.parametrize("objects", [2, 1])
def test_server_is_killed_in_mid_batch(shared_server, caplog, objects):
    """Every batch ends; what is said to be loaded is right; afterwards all goes on by itself."""
    shared_server.end()
    server = Server()
    caplog.set_level(logging.WARNING, "kvd.mooncake")
    engine = Engine(URL, CHUNK, 3 * BATCH, objects, timeout_ms=TIMEOUT_MS, lookup_timeout_ms=300)
    try:
        names, fresh = names_of("k"), names_of("n")
        while not all(engine.store_batch(names)):
            pass  # a slow machine
        caplog.clear()
        engine.store._session.notes._statuses.clear()
        load, save = engine.take(BATCH), engine.take(BATCH)
        engine.fill(fresh, save)
        tasks = [engine.prefetch(names, load), engine.back_up(fresh, save)]
        server.end(signal.SIGKILL)
        for name, page, loaded in zip(names, load, tasks[0].done()):
            if loaded:
                engine.check([name], [page])
        tasks[1].done()
        engine.scribble(load + save)
        engine.give(load + save)

        # While it is gone.
        for _ in range(3):
            assert engine.lookup(names) == 0
            assert not any(engine.load_batch(names)) and not any(engine.store_batch(names))
        store = engine.store
        assert store.get("warmup") == b"" and store.get_buffer("warmup") is None
        assert store.put("warmup", b"x") in FAILED and store.is_exist("warmup") in FAILED
        assert store.get_size("warmup") in FAILED and store.remove("warmup") in FAILED
        assert store.remove_all() in FAILED and store.health_check() == 2
        # Not a line for each, though timeouts and losses take turns.
        for kind in ("put", "get", "is_exist"):
            assert caplog.text.count(f"{kind} fails: ") == 1

        server = Server()  # which has nothing
        while not all(engine.store_batch(names)):
            pass  # the clients connect again
        while store.put("again", b"x"):
            pass
        assert "put works again" in caplog.text
        while not all(engine.load_batch(names)):
            pass
        while store.health_check():
            pass
    finally:
        engine.close()
        server.end()
        shared_server.__init__()


def test_results(mooncake, block):
    """What each call returns."""
    memory, address = block
    assert mooncake.get_hostname() == "host" and mooncake.health_check() == 0
    assert mooncake.put("k", b"first") == 0
    assert mooncake.put("k", b"second") == 0 and mooncake.get("k") == b"first"
    assert mooncake.upsert("k", b"second") == 0 and mooncake.get("k") == b"second"
    assert (mooncake.is_exist("k"), mooncake.is_exist("x")) == (1, 0)
    assert mooncake.batch_is_exist(["k", "x"]) == [1, 0] and mooncake.batch_is_exist([]) == []
    assert (mooncake.get_size("k"), mooncake.get_size("x")) == (6, NOT_FOUND)
    assert mooncake.put_parts("parts", b"a", bytearray(b"bc"), config=ReplicateConfig()) == 0
    assert mooncake.upsert_parts("parts", b"d", memoryview(b"ef")) == 0
    assert mooncake.put_batch(["1", "2"], [b"one", b"two"]) == 0
    assert mooncake.upsert_batch(["2", "3"], [b"zwei", b"drei"]) == 0
    assert mooncake.get_batch(["parts", "1", "2", "3", "x"]) == \
        [b"def", b"one", b"zwei", b"drei", b""]

    handles = mooncake.batch_get_buffer(["k", "x"])
    assert isinstance(handles[0], BufferHandle) and handles[1] is None
    assert handles[0].size() == len(handles[0]) == 6 and bytes(handles[0]) == b"second"
    assert ctypes.string_at(handles[0].ptr(), 6) == b"second"
    assert bytes(mooncake.get_buffer("1")) == b"one" and mooncake.get_buffer("x") is None

    memory[:8] = b"abcdefgh"
    assert mooncake.put_from("from", address, 8) == 0
    assert mooncake.put_from("from", address, 4) == 0 and mooncake.get_size("from") == 8
    assert mooncake.batch_put_from(["from"], [address], [4]) == [0]
    assert mooncake.get("from") == b"abcdefgh"
    assert mooncake.upsert_from("from", address, 4) == 0 and mooncake.get_size("from") == 4
    assert mooncake.batch_upsert_from(["from"], [address], [8]) == [0]
    assert mooncake.put_from_with_metadata("meta", address + 2, address, 3, 2) == 0
    assert mooncake.get("meta") == b"abcde"
    assert mooncake.get_into("from", address + 100, 3996) == 8
    assert memory[100:108] == b"abcdefgh"
    assert mooncake.get_into("from", address, 7) == INVALID  # it is longer
    assert mooncake.batch_get_into(["x", "k"], [address, address + 9], [9, 9]) == [NOT_FOUND, 6]
    pieces = [[address + 200, address + 300], [address]]
    assert mooncake.batch_get_into_multi_buffers(["k", "x"], pieces, [[2, 9], [9]]) == \
        [6, NOT_FOUND]
    assert memory[200:202] + memory[300:304] == b"second"

    assert mooncake.batch_remove(["1", "x"]) == [0, NOT_FOUND]
    assert mooncake.remove("2", force=True) == 0 and mooncake.remove("2") == NOT_FOUND
    assert mooncake.remove_by_regex("^(fr|me)") == 2 and mooncake.remove_by_regex("nothing") == 0
    assert mooncake.remove_by_regex("(") == INVALID
    assert mooncake.remove_all() == 3 and mooncake.remove_all() == 0


def test_keys(mooncake, store):
    """Keys of any length, also as bytes, and those of other programs."""
    keys = ["k" * 1024, "k" * 1025, "k" * 5000, "k" * 4999 + "j", "é@1"]
    assert mooncake.put_batch(keys, [key.encode() for key in keys]) == 0
    assert mooncake.get_batch(keys) == [key.encode() for key in keys]
    assert mooncake.get("é@1".encode()) == "é@1".encode()
    store.put(b"\xff\xfe", "not UTF-8")
    assert mooncake.remove_by_regex("^k+[0-9a-f]{64}$") == 3
    assert mooncake.remove_all() == 3
    assert mooncake.put("", b"x") == INVALID and mooncake.is_exist("") == INVALID


def test_many_keys(mooncake):
    """More than a part of a removal has."""
    keys = [f"many:{i}" for i in range(3000)]
    assert mooncake.put_batch(keys, [b"x"] * 3000) == 0 and mooncake.put("other", b"x") == 0
    assert mooncake.batch_is_exist(keys) == [1] * 3000
    assert mooncake.remove_by_regex("^many:") == 3000 and mooncake.is_exist("other") == 1


def test_memory_that_is_not_registered(mooncake, block, caplog):
    memory, address = block
    other = ctypes.addressof(loose := ctypes.create_string_buffer(64))
    assert mooncake.put_from("k", other, 64) == INVALID and "not in registered" in caplog.text
    assert mooncake.get_into("k", other, 64) == INVALID
    assert mooncake.batch_put_from(["a", "b"], [address, other], [8, 8]) == [INVALID] * 2
    assert mooncake.get_into("k", address + 1, 4096) == INVALID  # past its end
    assert mooncake.register_buffer(address, 8) == INVALID
    assert mooncake.register_buffer(other, 0) == INVALID
    assert mooncake.register_buffer(4096, 4096) == INVALID and "not host memory" in caplog.text
    assert mooncake.unregister_buffer(other) == INVALID
    for keys, addresses, sizes in (["a"], [address], [8, 8]), (["a", "b"], [address], [8]):
        assert mooncake.batch_get_into(keys, addresses, sizes) == [INVALID] * len(keys)
        assert mooncake.batch_put_from(keys, addresses, sizes) == [INVALID] * len(keys)
        assert mooncake.batch_put_from_multi_buffers(keys, [addresses], [sizes]) == \
            [INVALID] * len(keys)
    assert mooncake.put_batch(["a"], []) == INVALID and mooncake.is_exist("a") == 0
    del loose


def test_soft_pins(store, caplog):
    """Pinned values stay while the store is filled again and again."""
    mooncake = Engine.set_up(URL, PATIENT)
    config = ReplicateConfig()
    config.soft_pin_action, config.soft_pin_ttl_ms = SoftPinAction.ENABLE, 599_001
    value = bytes(min(CHUNK, store.info()["value_max"]))
    assert mooncake.put("pinned", value, config) == 0
    old = ReplicateConfig()
    old.with_soft_pin = True
    assert mooncake.put_batch(["old", "old2"], [value, value], old) == 0
    assert mooncake.put("not", value) == 0
    for i in range(3 * store.stats()["region_bytes"] // len(value)):
        assert mooncake.put(f"fill:{i}", value) == 0
    assert mooncake.is_exist("not") == 0
    assert mooncake.batch_is_exist(["pinned", "old", "old2"]) == [1] * 3
    config.soft_pin_ttl_ms = 3600 * 1000 + 1
    assert mooncake.put("longer", b"x", config) == INVALID
    assert "memory.pin_time_max" in caplog.text
    config.soft_pin_action = SoftPinAction.PRESERVE
    assert mooncake.upsert("k", b"x", config) == INVALID and mooncake.is_exist("k") == 0
    with pytest.raises(AttributeError):
        config.with_hard_pin = True
    mooncake.close()


def test_a_value_that_is_too_long(mooncake, store, caplog):
    value = bytes(store.info()["value_max"] + 8)
    for _ in range(2):
        assert mooncake.put_batch(["big", "small"], [value, b"x"]) == INVALID
        assert mooncake.batch_is_exist(["big", "small"]) == [0, 1]
    assert caplog.text.count("limits.max_value") == 1


def test_stores_that_share_a_buffer(store, block):
    """One registration for all stores that name it, until the last of them is closed."""
    memory, address = block
    stores = [Engine.set_up(URL, PATIENT) for _ in range(2)]
    for each in stores:
        assert each.register_buffer(address, 4096) == 0
    memory[:3] = b"abc"
    assert stores[0].put_from("shared", address, 3) == 0 and stores[0].close() == 0
    assert stores[1].get_into("shared", address + 8, 8) == 3 and memory[8:11] == b"abc"
    assert stores[0].get("shared") == b"" and stores[0].close() == 0
    assert stores[0].put_from("shared", address, 3) == INVALID
    assert stores[0].setup("again", "", master_server_addr=URL) == 0
    assert stores[0].get("shared") == b"abc" and stores[0].get_hostname() == "again"
    for each in stores:
        each.close()


def test_ranges(mooncake, block):
    """Parts of values to parts of buffers, and what is not within them."""
    memory, address = block
    values = {"one": bytes(range(100)), "two": bytes(range(100, 200))}
    assert mooncake.put_batch(list(values), list(values.values())) == 0
    second = address + 2048
    assert mooncake.get_into_ranges(
        [address, second], [["one", "two"], ["two", "one", "absent"]],
        [[[0, 20], [8]], [[4], [16, 30, 40], [0, 1]]],
        [[[1, 30], [2]], [[0], [90, 98, 0], [0, 0]]],
        [[[4, 3], [5]], [[6], [10, 3, 100], [1, 1]]],
    ) == [[[4, 3], [5]], [[6], [10, INVALID, 100], [NOT_FOUND] * 2]]
    assert memory[:4] == values["one"][1:5] and memory[20:23] == values["one"][30:33]
    assert memory[8:13] == values["two"][2:7] and memory[2052:2058] == values["two"][:6]
    assert memory[2064:2074] == values["one"][90:] and memory[2088:2188] == values["one"]
    # Lists of different lengths, and a place past the end of the buffer.
    assert mooncake.get_into_ranges([address], [["one", "two"]], [[[0], []]], [[[0, 1], []]],
                                    [[[], []]]) == [[[INVALID], []]]
    assert mooncake.get_into_ranges([address], [["one"]], [[[4095]]], [[[0]]], [[[4]]]) == \
        [[[INVALID]]]
    assert mooncake.get_into_ranges([address], [], [[[0]]], [[[0]]], [[[4]]]) == [[[INVALID]]]


def test_setup(url, caplog, monkeypatch):
    """Where the URL comes from, and what has no meaning."""
    caplog.set_level(logging.INFO, "kvd.mooncake")
    monkeypatch.delenv("KVD_URL", raising=False)
    mooncake = MooncakeDistributedStore()
    given = ("host", "P2PHANDSHAKE", 1 << 30, 1 << 24, "rdma", "mlx5_0")
    assert mooncake.setup(*given, "127.0.0.1:50051") == INVALID
    assert "127.0.0.1:50051" in caplog.text and mooncake.put("k", b"") == INVALID
    assert mooncake.health_check() == 1 and mooncake.get("k") == b""
    assert mooncake.setup(*given, URL + "-absent") in FAILED or "rdma" in URL
    assert mooncake.setup(*given, URL, None, enable_client_http_server=True) == 0
    assert "protocol" in caplog.text and "rdma_devices" in caplog.text
    assert mooncake.setup("host", URL, 0, 0, "tcp", "", "127.0.0.1:50051") == 0
    assert mooncake.setup(config={"master_server_addr": URL, "timeout_ms": 700}) == 0
    assert mooncake.setup({"master_server_address": URL, "num_clients": 0}) == INVALID
    assert mooncake.setup({"master_server_addr": URL, "tenant_id": "absent"}) < 0
    monkeypatch.setenv("KVD_URL", URL)
    assert mooncake.setup(*given, "127.0.0.1:50051") == 0
    assert mooncake.put("k", b"v") == 0 and mooncake.health_check() == 0
    mooncake.close()


def test_ends(url):
    """A store that is dropped, or left at the end of the process, leaves nothing."""
    mooncake = Engine.set_up(URL, {})
    with kvd.Client(url) as store:
        before = len(store.clients())
        del mooncake
        gc.collect()
        end = time.monotonic() + DEADLINE_S
        while len(store.clients()) != before - 5:  # it ends in a thread of its own
            assert time.monotonic() < end
    code = f"""
import threading
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup("host", "", 0, 0, "", "", {url!r}) == 0
def fill():
    for i in range(10000):
        store.put(str(i), bytes(1 << 18))
threading.Thread(target=fill, daemon=True).start()
"""
    ended = subprocess.run([sys.executable, "-X", "dev", "-c", code], timeout=DEADLINE_S,
                           env={**os.environ, "PYTHONPATH": f"{NAMES}:{os.environ['PYTHONPATH']}"},
                           stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_names_beside_an_installed_mooncake(tmp_path):
    """`mooncake.store` is kvd's only if its folder comes first; other modules stay Mooncake's."""
    installed = tmp_path / "mooncake"
    installed.mkdir()
    for name, text in (("__init__", ""), ("store", "real = True"), ("engine", "real = True")):
        (installed / f"{name}.py").write_text(text)
    package = pathlib.Path(kvd.__file__).parents[1]
    code = "import mooncake.store, mooncake.engine; " \
        "print(hasattr(mooncake.store, 'real'), hasattr(mooncake.engine, 'real'))"

    def imported(*path):
        return subprocess.run([sys.executable, "-c", code], check=True, text=True,
                              env={**os.environ, "PYTHONPATH": ":".join(map(str, path))},
                              stdout=subprocess.PIPE).stdout

    assert imported(NAMES, package, tmp_path) == "False True\n"
    assert imported(package, tmp_path) == "True True\n"
