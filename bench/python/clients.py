# SPDX-License-Identifier: MIT
"""The loops of bench/python.sh: kvd's Python clients, redis-py, pymemcache and pylibmc at the same
work, in turn, in one process. Prints operations (keys) per second, medians over the rounds."""

import asyncio
import itertools
import os
import statistics
import sys
import time

import kvd
import kvd.aio
import pylibmc
import pymemcache
import redis
import redis.asyncio

SIZES = (100, 4096, 128 << 10, 4 << 20)
OUTSTANDING = 64  # of asyncio
BATCH = 32
UNDER_WAY_MAX = 16 << 20  # bytes of a batch, or outstanding
KEYS_MAX = 64
CLIENTS = ("kvd", "redis-py", "pymemcache", "pylibmc")


class Store:
    """One client with the calls that are measured."""

    def __init__(self, get, put, get_many, put_many):
        self.get, self.put, self.get_many, self.put_many = get, put, get_many, put_many


def stores(redis_path, memcached_path, kvd_client):
    def redis_put_many(pairs):
        if not server.mset(pairs):
            raise RuntimeError("mset failed")

    def pymemcache_put_many(pairs):
        if plain.set_many(pairs, noreply=False):
            raise RuntimeError("set_many failed")

    def pylibmc_put_many(pairs):
        if native.set_multi(pairs):
            raise RuntimeError("set_multi failed")

    server = redis.Redis(unix_socket_path=redis_path)
    plain = pymemcache.Client(memcached_path, default_noreply=False)
    native = pylibmc.Client([memcached_path], binary=True)
    return {
        "kvd": Store(kvd_client.get, kvd_client.put, kvd_client.get_many,
                     lambda pairs: kvd_client.put_many(pairs.items())),
        "redis-py": Store(server.get, server.set, server.mget, redis_put_many),
        "pymemcache": Store(plain.get, plain.set,
                            lambda keys: list(plain.get_many(keys).values()),
                            pymemcache_put_many),
        "pylibmc": Store(native.get, native.set,
                         lambda keys: list(native.get_multi(keys).values()), pylibmc_put_many),
    }


def rate(seconds, once, count):
    """Operations per second of calls of once(), which does @count."""
    once()
    done, begin = 0, time.perf_counter()
    while True:
        once()
        done += count
        spent = time.perf_counter() - begin
        if spent >= seconds:
            return done / spent


async def async_rate(seconds, once, count):
    await once()
    done, begin = 0, time.perf_counter()
    while True:
        await once()
        done += count
        spent = time.perf_counter() - begin
        if spent >= seconds:
            return done / spent


def measure(store, size, seconds):
    """Yields (operation, rate) of the calls that block."""
    value = os.urandom(size)
    count = max(1, min(BATCH, UNDER_WAY_MAX // size))
    keys = [f"{size}-{i}" for i in range(max(count, min(KEYS_MAX, UNDER_WAY_MAX // size)))]
    pairs = dict.fromkeys(keys[:count], value)
    some = itertools.cycle(keys)
    yield "put", rate(seconds, lambda: store.put(next(some), value), 1)
    for key in keys:
        store.put(key, value)
    yield "get", rate(seconds, lambda: store.get(next(some)), 1)
    yield "batch put", rate(seconds, lambda: store.put_many(pairs), count)
    yield "batch get", rate(seconds, lambda: store.get_many(keys[:count]), count)
    if store.get(keys[0]) != value or store.get_many(keys[:count]) != [value] * count:
        raise RuntimeError("a client returned another value")


def measure_memory(client, arena, size, seconds):
    """Yields (operation, rate) of values in registered memory, which only kvd has."""
    part, keys = arena[:size], itertools.cycle([f"{size}-{i}" for i in range(4)])
    yield "put_from", rate(seconds, lambda: client.put_from(next(keys), part), 1)
    yield "get_into", rate(seconds, lambda: client.get_into(next(keys), part), 1)


async def measure_async(client, put, size, seconds):
    value = os.urandom(size)
    count = max(1, min(OUTSTANDING, UNDER_WAY_MAX // size))
    keys = [f"async-{size}-{i}" for i in range(count)]
    found = []

    async def puts():
        await asyncio.gather(*(put(key, value) for key in keys))

    async def gets():
        found[:] = await asyncio.gather(*(client.get(key) for key in keys))

    results = [("asyncio put", await async_rate(seconds, puts, count)),
               ("asyncio get", await async_rate(seconds, gets, count))]
    if found != [value] * count:
        raise RuntimeError("a client returned another value")
    return results


async def all_async(url, redis_path, seconds, note):
    async with kvd.aio.Client(url, timeout_ms=20000) as client:
        for size in SIZES:
            for what, figure in await measure_async(client, client.put, size, seconds):
                note(what, size, "kvd", figure)
    server = redis.asyncio.Redis(unix_socket_path=redis_path)
    for size in SIZES:
        for what, figure in await measure_async(server, server.set, size, seconds):
            note(what, size, "redis-py", figure)
    await server.close()


def size_text(size):
    return f"{size} B" if size < 1024 else \
        f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"


def print_table(figures):
    print(f"{'value':<8} {'':<12}" + "".join(f"{name:>12}" for name in CLIENTS) +
          f"{'kvd/best':>10}")
    rows = dict.fromkeys((what, size) for what, size, _ in figures)
    order = list(dict.fromkeys(what for what, _ in rows))
    for what, size in sorted(rows, key=lambda row: (order.index(row[0]), row[1])):
        cells = {name: statistics.median(figures[what, size, name])
                 for name in CLIENTS if (what, size, name) in figures}
        best = max((cells[name] for name in cells if name != "kvd"), default=None)
        print(f"{size_text(size):<8} {what:<12}" +
              "".join(f"{cells[name]:>12,.0f}" if name in cells else f"{'-':>12}"
                      for name in CLIENTS) +
              (f"{cells['kvd'] / best:>10.2f}" if best else f"{'-':>10}"))


def main():
    url, redis_path, memcached_path, rounds, ms = sys.argv[1:]
    seconds = int(ms) / 1000
    figures = {}

    def note(what, size, client, figure):
        figures.setdefault((what, size, client), []).append(figure)

    with kvd.Client(url, timeout_ms=20000) as client, client.alloc(max(SIZES)) as arena:
        all_stores = stores(redis_path, memcached_path, client)
        for _ in range(int(rounds)):
            for size in SIZES:
                for name, store in all_stores.items():
                    for what, figure in measure(store, size, seconds):
                        note(what, size, name, figure)
                for what, figure in measure_memory(client, arena, size, seconds):
                    note(what, size, "kvd", figure)
            asyncio.run(all_async(url, redis_path, seconds, note))
    print_table(figures)


main()
