# SPDX-License-Identifier: MIT
"""The names that users of dict, redis-py and pymemcache know, and the pool, with a real server."""

import asyncio
import os
import signal
import threading

import kvd
import kvd.aio
import pytest
from conftest import CONFIG_2, DEADLINE_S, PATIENT, URL_2, Server

THREADS = 8


@pytest.mark.extension
def test_set(store):
    assert kvd._fast.extension == bool(os.environ.get("KVD_PYTHON_HOT"))
    first = store.set("k", "1")
    assert store.set(b"k", bytearray(b"2"), flags=3) > first
    assert store.get_item("k").flags == 3
    assert len(set(store.set_many({"a": "1", "b": b"2"}))) == 2
    assert store.get_many(["a", "absent", b"b"], as_dict=True) == {"a": b"1", b"b": b"2"}


@pytest.mark.extension
def test_gets_and_cas(store):
    assert store.gets("k") == (None, None)
    version = store.set("k", "1")
    assert store.gets("k") == (b"1", version)
    assert store.cas("k", b"x" * 100000, version) > version  # longer than the first buffer
    value, version = store.gets("k")
    store.set("k", "2")
    with pytest.raises(kvd.ExistsError):
        store.cas("k", value, version)


def test_expiry(store):
    assert store.ttl("k") is None
    store.set("k", "v")
    assert store.ttl("k") == 0
    version = store.set("k", "v", ttl_s=100000)
    # Not below: the test took less time than that.
    assert 100000 - 3 * DEADLINE_S < store.ttl("k") <= 100001
    assert store.expire("k", 200000) == version and store.ttl("k") > 100001
    assert store.expire("k", 0) == version and store.ttl("k") == 0
    with pytest.raises(kvd.NotFoundError):
        store.expire("absent", 1)


@pytest.mark.extension
def test_iteration(store):
    """Each key once, those whose value is too long for a scan, too."""
    pairs = {f"k{i}".encode(): os.urandom(i % 300) for i in range(3000)}
    pairs |= {f"long{i}".encode(): os.urandom(200000) for i in range(3)}
    store.set_many(pairs)
    assert len(store) == 3003 == store.stats()["items"]
    assert sorted(store) == sorted(pairs) == sorted(store.keys())
    assert sorted(store.keys("long")) == [b"long0", b"long1", b"long2"]
    found = list(store.items())
    assert len(found) == 3003 and dict(found) == pairs
    for key in store:  # other calls are allowed meanwhile
        del store[key]
    assert len(store) == 0 and store and list(store.items()) == []


def test_asyncio(store):
    async def main():
        async with kvd.aio.Client(store.url, **PATIENT) as c:
            assert await c.gets("k0") == (None, None) and await c.ttl("k0") is None
            pairs = {f"k{i}": b"x" * (i % 2 * 100000) for i in range(10)}
            versions = await c.set_many(pairs)
            assert await c.gets("k1") == (pairs["k1"], versions[1])
            assert await c.get_many(["k1", "absent"], as_dict=True) == {"k1": pairs["k1"]}
            assert await c.ttl("k0") == 0
            await c.set("k0", "", ttl_s=100000)
            assert 100000 - 3 * DEADLINE_S < await c.ttl("k0") <= 100001
            await c.expire("k0", 0)
            assert await c.ttl("k0") == 0
            assert {key async for key in c} == {key.encode() for key in pairs}
            assert [key async for key in c.keys("k9")] == [b"k9"]
            assert {k.decode(): v async for k, v in c.items()} == pairs

    asyncio.run(asyncio.wait_for(main(), DEADLINE_S))


@pytest.mark.extension
@pytest.mark.device
def test_pool(store):
    """Threads count together by compare and set: no client is used by two at a time."""
    store["n"] = "0"
    failed = []

    def count(pool):
        try:
            for _ in range(20):
                changed = False
                while not changed:
                    with pool.client() as own:
                        value, version = own.gets("n")
                        try:
                            changed = bool(own.cas("n", str(int(value) + 1), version))
                        except kvd.ExistsError:
                            pass
        except BaseException as error:
            failed.append(error)

    with kvd.ClientPool(store.url, size=3, wait_ms=DEADLINE_S * 1000, **PATIENT) as pool:
        threads = [threading.Thread(target=count, args=(pool,)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
        assert not failed and store["n"] == str(20 * THREADS).encode()


def test_lost_server():
    """A client whose server went stays in the pool, and connects again."""
    server = Server(CONFIG_2, URL_2)
    try:
        with kvd.ClientPool(URL_2, size=1, **PATIENT) as pool:
            with pool.client() as first:
                first["k"] = "v"
            server.end(signal.SIGKILL)
            server = Server(CONFIG_2, URL_2)
            with pool.client() as again:
                assert again is first and again.get("k") is None
                again.set("k", "w")
                assert again["k"] == b"w" and again.client_stats()["reconnects"] == 1
    finally:
        server.end(signal.SIGKILL)


def test_fork(store):
    """The child finds one of the parent's clients idle and one lent, and uses neither."""
    with kvd.ClientPool(store.url, size=2, **PATIENT) as pool:
        with pool.client(), pool.client():
            pass  # both are open
        with pool.client() as lent:
            lent["k"] = "parent"
            pid = os.fork()
            if pid == 0:
                status = 1
                signal.alarm(DEADLINE_S)
                try:
                    with pool.client() as own, pool.client() as other:
                        own["k"] = own["k"] + b" and child"
                        other.ping()
                    pool.close()
                    status = 0
                finally:
                    os._exit(status)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            assert lent["k"] == b"parent and child"
        with pool.client() as one, pool.client() as two:
            one.ping()
            two.ping()
