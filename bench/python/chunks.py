# SPDX-License-Identifier: MIT
"""Stores and loads batches of chunks by kvd.lmcache.Connector, as LMCache does: what
bench/micro/resp.c does with Redis, with the same output.

    chunks.py URL WORKERS CHUNKS BYTES KEYS BATCHES plain|registered
"""

import ctypes
import mmap
import select
import sys
import time
from typing import Callable

from kvd.lmcache import Connector


class Engine:
    """Runs one batch after another, and waits for each on the connector's descriptor."""

    def __init__(self, url: str, workers: int, chunks: int, size: int, keys: int,
                 registered: bool) -> None:
        self.connector = Connector(url, num_workers=workers)
        self.chunks = chunks
        self.keys = [f"model@1@0@{i:032x}" for i in range(keys)]
        arena = mmap.mmap(-1, chunks * size)
        block = (ctypes.c_ubyte * len(arena)).from_buffer(arena)
        ctypes.memset(block, 1, len(arena))
        if registered:
            self.connector.register(ctypes.addressof(block), len(arena))
        view = memoryview(block).cast("B")
        self.views = [view[i * size:(i + 1) * size] for i in range(chunks)]
        # A batch is split between the threads, as for Redis.
        self.parts = [slice(chunks * i // workers, chunks * (i + 1) // workers)
                      for i in range(workers)]
        self.poll = select.poll()
        self.poll.register(self.connector.event_fd(), select.POLLIN)

    def wait(self, batches: int) -> int:
        """How many chunks of the batches were found."""
        found = 0
        while batches:
            self.poll.poll()
            for number, ok, error, results in self.connector.drain_completions():
                if not ok:
                    raise SystemExit(f"batch {number}: {error}")
                found += sum(results) if results else 0
                batches -= 1
        return found

    def transfer(self, submit: Callable[..., int], keys: list[str]) -> int:
        for part in self.parts:
            submit(keys[part], self.views[part])
        return self.wait(len(self.parts))

    def store(self, keys: list[str]) -> int:
        self.transfer(self.connector.submit_batch_set, keys)
        return len(keys)

    def load(self, keys: list[str]) -> int:
        return self.transfer(self.connector.submit_batch_get, keys)

    def lookup(self, keys: list[str]) -> int:
        self.connector.submit_batch_exists(keys)
        return self.wait(1)

    def batch(self, number: int) -> list[str]:
        first = number * self.chunks % len(self.keys)
        keys = self.keys[first:first + self.chunks]
        return keys + self.keys[:self.chunks - len(keys)]

    def measure(self, step: Callable[[list[str]], int], batches: int) -> None:
        times, found = [], 0
        for number in range(batches):
            keys = self.batch(number)
            start = time.perf_counter()
            found += step(keys)
            times.append((time.perf_counter() - start) * 1e6)
        times.sort()
        print(f"{step.__name__} {times[len(times) // 2]:.1f} {times[len(times) * 99 // 100]:.1f} "
              f"{found / (batches * self.chunks):.3f}")


def main() -> None:
    url, *numbers, way = sys.argv[1:]
    workers, chunks, size, keys, batches = map(int, numbers)
    engine = Engine(url, workers, chunks, size, keys, way == "registered")
    for number in range((keys + chunks - 1) // chunks):
        engine.store(engine.batch(number))
    for step in (engine.store, engine.load, engine.lookup):
        engine.measure(step, batches)
    engine.connector.close()


main()
