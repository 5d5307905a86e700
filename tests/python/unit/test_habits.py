# SPDX-License-Identifier: MIT
"""The names that users of dict, redis-py and pymemcache know, on both clients."""

import asyncio
import ctypes

import kvd
import kvd.aio
import pytest
from fake import TIME_S
from kvd import _abi


def test_same_calls():
    for client in (kvd.Client, kvd.aio.Client):
        assert client.set is client.put and client.set_many is client.put_many
        assert client.expire is client.touch


def test_gets(both):
    assert both.gets("k") == (None, None)
    version = both.set("k", "1")
    value, found = both.gets("k")
    assert (value, found) == (b"1", version)
    assert both.cas("k", "2", found) > version
    with pytest.raises(kvd.ExistsError):
        both.cas("k", "3", found)
    with pytest.raises(TypeError):  # of a key that was absent
        both.cas("k", "3", both.gets("absent")[1])


def test_ttl(both, fake):
    now_ns = [TIME_S * 1000000000]
    fake.clock_ns = lambda handle: now_ns[0]
    assert both.ttl("k") is None
    both.set("k", "v")
    assert both.ttl("k") == 0
    version = both.set("k", "v", ttl_s=60)
    assert both.ttl("k") == 60
    assert both.expire("k", 100) == version and both.ttl("k") == 100
    now_ns[0] += 1
    assert both.ttl("k") == 99
    now_ns[0] += 99 * 1000000000  # less than a second is left, and then none
    assert both.ttl("k") == 1
    now_ns[0] += 9 * 1000000000
    assert both.ttl("k") == 1
    assert both.expire("k", 0) == version and both.ttl("k") == 0
    with pytest.raises(kvd.NotFoundError, match="touch: no key b'absent'"):
        both.expire("absent", 1)
    with pytest.raises(kvd.InvalidError, match="ttl_s"):
        both.expire("k", -1)


def test_unknown_clock(both, fake):
    told = [0, 0, TIME_S * 1000000000]  # the second one after a ping
    fake.clock_ns = lambda handle: told.pop(0)
    both.set("k", "v", ttl_s=60)
    with pytest.raises(kvd.BusyError, match="clock"):
        both.ttl("k")
    assert both.ttl("k") == 60
    told = [0, TIME_S * 1000000000]
    assert both.ttl("k") == 60 and not told


def test_get_many_as_dict(both):
    both.set_many({"a": "1", "b": "2"})
    assert both.get_many(["a", b"b", "absent", "a"], as_dict=True) == {"a": b"1", b"b": b"2"}
    assert both.get_many(iter(["absent"]), as_dict=True) == {}
    assert both.get_many(["a", "absent"], as_dict=False) == [b"1", None]
    with pytest.raises(TypeError, match="not one key"):
        both.get_many("ab", as_dict=True)


def test_iteration(both, fake):
    keys = [b"a0", b"a1", b"a2", b"b0", b"b1"]
    both.set_many((key, key * 2) for key in keys)
    once, again = fake.scan, [2]

    def twice(handle, cursor, *given):
        """The second part is delivered again."""
        status = once(handle, cursor, *given)
        place = ctypes.c_uint64.from_address(cursor)
        if place.value == 4 and again:
            place.value = again.pop()
        return status

    fake.scan = twice
    assert list(both.keys()) == keys and len(fake.named("kvd_scan")) == 4
    again.append(2)
    assert dict(both.items()) == {key: key * 2 for key in keys}
    again.append(2)
    assert len(list(both.items())) == 5 and len(fake.named("kvd_scan")) == 12
    assert list(both.keys("a")) == keys[:3]
    assert list(both.items("b")) == [(b"b0", b"b0b0"), (b"b1", b"b1b1")]


def test_long_items(both, fake):
    """A scan gives no values that are too long: they are read; a key that went is left out."""
    both.set_many({"a": "1", "b": "2"})
    scan = fake.scan

    def without_values(handle, cursor, args, function, arg):
        _abi.CScanArgs.from_address(args).values = 0
        status = scan(handle, cursor, args, function, arg)
        fake.items.pop(b"b", None)
        return status

    fake.scan = without_values
    assert list(both.items()) == [(b"a", b"1")]


def test_as_a_collection(store, fake):
    assert len(store) == 0 and store and list(store) == []
    assert not fake.named("kvd_server_stats")
    store.set_many((f"k{i}", "v") for i in range(5))
    assert len(store) == 5 and store
    assert list(store) == [b"k0", b"k1", b"k2", b"k3", b"k4"] == list(store.keys())
    assert {key: store[key] for key in store} == dict(store) == dict(store.items())


def test_async_iteration(fake):
    async def main():
        async with kvd.aio.Client("softnic:///fake") as store:
            await store.set_many((f"k{i}", "v") for i in range(3))
            assert [key async for key in store] == [b"k0", b"k1", b"k2"]

    asyncio.run(main())
