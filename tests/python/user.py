# SPDX-License-Identifier: MIT
"""A program of a user, for mypy --strict in `make lint`: what the package's type hints say, and,
by the comments that ignore an error, which mistakes they find. It is not run."""

from __future__ import annotations

from typing import assert_type

import kvd
import kvd.aio
import kvd.lmcache
import kvd.mooncake


def synchronous() -> None:
    with kvd.Client("rdma://HOST:7471", timeout_ms=500, tenant="a") as store:
        assert_type(store, kvd.Client)
        assert_type(store.get("k"), bytes | None)
        assert_type(store.get("k", 7), bytes | int)
        assert_type(store["k"], bytes)
        assert_type(store.pop("k", ""), bytes | str)
        assert_type(store.gat("k", 60), bytes | None)
        assert_type(store.get_many(["k", b"k"]), list[bytes | None])
        assert_type(store.put("k", [b"a", bytearray(2)], ttl_s=60), int)
        assert_type(store.get_many(["k", "l"], as_dict=True), dict[str, bytes])
        assert_type(store.put_many({"k": "v"}), list[int])
        assert_type(store.set("k", "v", ttl_s=60) + store.expire("k", 0), int)
        assert_type(store.ttl("k"), int | None)
        value, version = store.gets("k")
        if value is not None and version is not None:
            store.cas("k", value, version)
        assert_type([key for key in store], list[bytes])
        assert_type(dict(store.items("k")), dict[bytes, bytes])
        with kvd.ClientPool(size=4) as pool, pool.client() as lent:
            assert_type(lent, kvd.Client)
        assert_type(store.incr("k").version, int)
        assert_type([entry.head for entry in store.scan("k")], list[kvd.Head])
        with store.register(bytearray(4096)) as memory:
            assert_type(store.get_into("k", memory[:100]), int)
            assert_type(store.batch_put_from(["k"], [(memory.address, 10)]), list[int])
        try:
            store.get_into("k", memory)
        except kvd.BufferTooSmallError as error:
            assert_type(error.needed, int)
        store.put(5, "v")  # type: ignore[arg-type]
        store.put("k", "v", ttl=60)  # type: ignore[call-arg]
        kvd.Client(timeout=500)  # type: ignore[call-arg]
        kvd.ClientPool(size="8")  # type: ignore[arg-type]


async def asynchronous() -> None:
    async with kvd.aio.Client(max_outstanding=10) as store:
        assert_type(store, kvd.aio.Client)
        assert_type(await store.get("k"), bytes | None)
        assert_type(await store.get("k", 7, timeout_ms=10), bytes | int)
        assert_type(await store.put("k", "v"), int)
        assert_type([entry async for entry in store.scan()], list[kvd.Entry])
        assert_type([key async for key in store], list[bytes])
        assert_type(await store.get_many([b"k"], as_dict=True), dict[bytes, bytes])
    assert_type(await kvd.aio.Client(), kvd.aio.Client)


def connector() -> None:
    assert_type(kvd.lmcache.Connector(num_workers=4).submit_batch_exists(["k"]), int)


def mooncake() -> None:
    store = kvd.mooncake.MooncakeDistributedStore()
    assert_type(store.setup("localhost", "P2PHANDSHAKE", 0, 0, "rdma", "", "rdma://HOST:7471"), int)
    assert_type(store.setup({"master_server_addr": "rdma://HOST:7471"}), int)
    config = kvd.mooncake.ReplicateConfig()
    config.soft_pin_ttl_ms = 1000
    assert_type(store.batch_put_from(["k"], [4096], [10], config), list[int])
    assert_type(store.get_buffer("k"), kvd.mooncake.BufferHandle | None)
    config.with_hard_pin = True  # type: ignore[attr-defined]
