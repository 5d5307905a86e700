# SPDX-License-Identifier: MIT
"""kvd.vllm under a driver that behaves like vLLM's scheduler, for both interfaces: batches of
blocks, eviction between lookup and load, a server that is killed in mid-batch. KVD_ENGINES_CHUNK is
the bytes of a block, KVD_ENGINES_BATCH how many a batch has."""

import os
import signal
import subprocess
import sys

import kvd
import kvd.vllm
import pytest
import standins
from conftest import DEADLINE_S, URL, Server, Stopped
from tiering import Scheduler, spec

CHUNK = int(os.environ["KVD_ENGINES_CHUNK"])
BATCH = int(os.environ["KVD_ENGINES_BATCH"])
TIMEOUT_MS = int(os.environ.get("KVD_ENGINES_TIMEOUT_MS", "500"))


@pytest.fixture(params=["blocks", "chunks"])
def tiering(request, monkeypatch):
    return standins.vllm(monkeypatch, request.param)


def make(tiering, rows=2 * BATCH, row=CHUNK, **options):
    options = {"url": URL, "timeout_ms": 60000, "lookup_timeout_ms": 60000, **options}
    kind = kvd.vllm.KvdTierManager
    assert issubclass(kind, tiering.SecondaryTierManager)
    return Scheduler(kind, tiering, rows, row, **options)


def keys_of(name, count=BATCH):
    """vLLM's keys: the hash of the tokens, and the number of a group."""
    return [f"{name}{i:029x}".encode() + b"\0\0\0\0" for i in range(count)]


def test_batches(tiering, store):
    scheduler = make(tiering)
    with pytest.raises(kvd.InvalidError):  # all of the primary tier is registered
        store.register(memoryview(scheduler.mapping)[:4096])
    keys = keys_of("abc")
    number = scheduler.store(keys)
    scheduler.run()
    assert scheduler.stored == {number: True} and len(scheduler.free) == 2 * BATCH
    request = scheduler.want(keys + keys_of("def", 3))
    scheduler.run(request)
    assert request.hits == BATCH and list(request.found.values())[-3:] == [False] * 3
    # Another instance of the same model; then one of another model.
    other, stranger = make(tiering), make(tiering, offloading_spec=spec("other"))
    request = other.want(keys)
    other.run(request)
    assert request.hits == BATCH
    request = stranger.want(keys)
    stranger.run(request)
    assert request.hits == 0
    # What is there is not stored again.
    before = {entry.key: entry.head.version for entry in store.scan()}
    other.store(keys)
    other.run()
    assert {entry.key: entry.head.version for entry in store.scan()} == before
    for each in (scheduler, other, stranger):
        each.close()
    with pytest.raises(kvd.InvalidError):
        kvd.memory.holder_of(kvd._buffers.writable(scheduler.mapping)[0], 1)


def test_eviction_between_lookup_and_load(tiering, store):
    """A block that was found and is gone when it is loaded is a miss, and is not asked for again
    and again; the others of its job are there."""
    scheduler = make(tiering, 16, 4096)
    keys = keys_of("abc", 8)
    scheduler.store(keys)
    scheduler.run()
    request = scheduler.want(keys)
    assert scheduler.tier.lookup(keys[0], None) is scheduler.results.HIT  # from the store
    names = {entry.key for entry in store.scan()}
    store.delete_many([name for name in names if keys[3].hex().encode() in name])
    scheduler.run(request)
    partial = scheduler.interface.name == "chunks"
    assert [request.found[key] for key in keys] == [partial and i != 3 for i in range(8)]
    request = scheduler.want(keys)
    scheduler.run(request)
    assert [request.found[key] for key in keys] == [i != 3 for i in range(8)]
    scheduler.close()


def test_store_that_stays_full(tiering, store):
    """Blocks are stored while others are loaded, and kvd evicts."""
    scheduler = make(tiering)
    rounds = max(4, 3 * store.stats()["region_bytes"] // (2 * BATCH * CHUNK))
    written, hits, misses = [], 0, 0
    for i in range(rounds):
        keys = keys_of(f"{i:03x}")
        scheduler.store(keys)
        for known in (*written[-1:], *written[:1]):
            request = scheduler.want(known[:BATCH // 2])
            scheduler.run(request)
            hits, misses = hits + request.hits, misses + BATCH // 2 - request.hits
        scheduler.run()
        written.append(keys)
    for known in written:  # what is there at the end, when nothing is stored any more
        request = scheduler.want(known)
        scheduler.run(request)
        hits, misses = hits + request.hits, misses + BATCH - request.hits
    assert hits and misses and store.stats()["evictions"] > 0
    assert all(scheduler.stored.values())
    scheduler.close()


def test_length_of_another_block_is_a_miss(tiering, store):
    scheduler = make(tiering, 4, 4096, namespace="x")
    keys = keys_of("abc", 2)
    scheduler.store(keys)
    scheduler.run()
    for row in (2048, 8192):
        other = make(tiering, 4, row, namespace="x")
        request = other.want(keys)
        other.run(request)
        assert request.hits == 0
        other.close()
    scheduler.close()


def test_server_is_killed_in_mid_batch(tiering, shared_server, caplog):
    """Every job ends; what is said to be loaded is right; while the server is away all is a miss,
    and afterwards all goes on by itself."""
    shared_server.end()
    server = Server()
    scheduler = make(tiering, timeout_ms=TIMEOUT_MS, lookup_timeout_ms=300)
    try:
        keys = keys_of("abc")

        def store_all():
            while True:
                number = scheduler.store(keys)
                scheduler.run()
                if scheduler.stored[number]:
                    return

        store_all()
        caplog.clear()
        scheduler.tier._health.statuses.clear()
        request = scheduler.want(keys[:BATCH // 2])
        scheduler.step()
        lost = scheduler.store(keys_of("def", BATCH // 4))
        server.end(signal.SIGKILL)
        scheduler.run(request)
        scheduler.run()
        assert lost in scheduler.stored
        for _ in range(3):
            request = scheduler.want(keys_of("123", 8))
            scheduler.run(request)
            assert request.hits == 0
        failed = scheduler.store(keys[:2])
        scheduler.run()
        assert not scheduler.stored[failed]
        assert caplog.text.count("lookup fails: ") == caplog.text.count("store fails: ") == 1

        server = Server()  # which has nothing
        store_all()
        request = scheduler.want(keys)
        scheduler.run(request)
        while request.hits < BATCH:
            request = scheduler.want(keys)
            scheduler.run(request)
    finally:
        scheduler.close()
        server.end()
        shared_server.__init__()


def test_server_that_hangs(tiering, shared_server, store):
    """Steps go on while lookups and jobs have no answer; drain_jobs() and shutdown() end them."""
    scheduler = make(tiering, 16, 4096, timeout_ms=TIMEOUT_MS, lookup_timeout_ms=TIMEOUT_MS)
    keys = keys_of("abc", 8)
    with Stopped(shared_server):
        scheduler.store(keys)
        request = scheduler.want(keys_of("def", 8))
        scheduler.step()
        scheduler.tier.drain_jobs()
        scheduler.step()
        assert not any(scheduler.stored.values()) and not scheduler.jobs
        scheduler.run(request)
        assert request.hits == 0
        scheduler.store(keys)
        scheduler.close()


def test_what_somebody_has_to_mend(tiering, store):
    longest = store.info()["value_max"]
    with pytest.raises(kvd.InvalidError, match="limits.max_value"):
        make(tiering, 1, longest + 4096)
    with pytest.raises(kvd.InvalidError, match="namespace"):
        make(tiering, 1, 4096, offloading_spec=None)
    with pytest.raises(TypeError):
        make(tiering, 1, 4096, hosts=1)
    scheduler = make(tiering, 4, 4096)
    job = scheduler._job(**{"job_id": 1, "keys": keys_of("abc", 1), scheduler.interface.slots: [4],
                            "is_promotion": False, "req_context": None})
    with pytest.raises(kvd.InvalidError, match="a primary tier of 4"):
        scheduler.tier.submit_store(job)
    scheduler.close()


def test_ends(url):
    """A tier that is left at the end of the process leaves nothing. Jobs are under way then."""
    code = f"""
import pytest, standins, tiering
module = standins.vllm(pytest.MonkeyPatch(), "chunks")
import kvd.vllm
scheduler = tiering.Scheduler(kvd.vllm.KvdTierManager, module, 64, 1 << 18, url={url!r})
for i in range(8):
    scheduler.store([f"{{i}}{{j}}".encode() * 8 for j in range(8)])
"""
    path = os.pathsep.join([os.environ["PYTHONPATH"], *sys.path])
    ended = subprocess.run([sys.executable, "-X", "dev", "-c", code], timeout=DEADLINE_S,
                           stderr=subprocess.PIPE, check=False, env={**os.environ,
                                                                     "PYTHONPATH": path})
    assert (ended.returncode, ended.stderr) == (0, b"")
