# SPDX-License-Identifier: MIT
"""Unit tests of the Python package: no server, and a library in the place of libkvd's calls.

`python3 -m pytest tests/python/unit`, with build/libkvd.so.0.4 or $KVD_BUILD's; no root needed."""

import asyncio
import gc
import inspect
import os
import pathlib
import sys

TREE = pathlib.Path(__file__).resolve().parents[3]
os.environ.setdefault("KVD_LIBRARY", str(
    pathlib.Path(os.environ.get("KVD_BUILD", TREE / "build")) / "libkvd.so.0.4"))
os.environ["KVD_PYTHON_CTYPES"] = "1"  # the extension would call libkvd
try:
    import kvd
except ImportError:
    sys.path.insert(0, str(TREE / "client" / "python"))
    import kvd

import kvd._jobs  # noqa: E402
import kvd.aio  # noqa: E402
import kvd.lmcache  # noqa: E402
import pytest  # noqa: E402
from fake import Fake  # noqa: E402


@pytest.fixture(scope="session")
def frozen():
    """What is there before the first test needs no look at the end of each."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def fake(frozen, monkeypatch):
    """The library of all modules. What was opened or registered with it is given back at the end,
    and no call of it failed."""
    library = Fake()
    for module in (kvd._handle, kvd._jobs, kvd._batches, kvd.client, kvd.aio, kvd.fleet,
                   kvd.memory, kvd.observe):
        monkeypatch.setattr(module, "lib", library)
    for module in (kvd._lib, kvd.client):
        monkeypatch.setattr(module, "quick", library.quick)
    yield library
    gc.collect()
    assert library.failures == []
    assert library.handles == [] and library.memory == {} and library.fds == {}


@pytest.fixture
def store(fake):
    with kvd.Client("softnic:///fake") as client:
        yield client


class Blocking:
    """The asyncio client with the methods of the other one: each runs the loop until it ends."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.client = self.loop.run_until_complete(kvd.aio.Client("softnic:///fake")._connect())

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    def __getattr__(self, name):
        method = getattr(self.client, name)
        if inspect.iscoroutinefunction(method):
            return lambda *given, **named: self.run(method(*given, **named))
        if inspect.isasyncgenfunction(method):
            async def all_of(*given, **named):
                return [one async for one in method(*given, **named)]

            return lambda *given, **named: self.run(all_of(*given, **named))
        if not callable(method):
            return method

        async def inside(*given, **named):
            return method(*given, **named)

        return lambda *given, **named: self.run(inside(*given, **named))

    def close(self):
        self.run(self.client.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


@pytest.fixture(params=["sync", "aio"])
def both(fake, request):
    """Each of the two clients, called in the same way."""
    client = kvd.Client("softnic:///fake") if request.param == "sync" else Blocking()
    yield client
    client.close()
