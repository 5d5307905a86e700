# SPDX-License-Identifier: MIT
"""The asyncio client: every operation, cancellation, deadlines, and the end with work under way."""

import asyncio
import os
import random
import signal
import subprocess
import sys

import kvd
import kvd.aio
import pytest
from conftest import DEADLINE_S, PATIENT, Stopped

pytestmark = pytest.mark.usefixtures("store")  # the store is empty


def run(url, body, **options):
    async def main():
        async with kvd.aio.Client(url, **PATIENT, **options) as client:
            return await body(client)

    return asyncio.run(asyncio.wait_for(main(), DEADLINE_S))


@pytest.mark.device
def test_operations(url):
    async def body(c):
        assert await c.get("k") is None and await c.get("k", 3) == 3
        version = await c.put("k", "1", flags=7)
        assert await c.get("k") == b"1" and await c.get_by_request("k") == b"1"
        item = await c.get_item("k")
        assert item == kvd.Item(b"1", version, 7, 0)
        with pytest.raises(kvd.ExistsError):
            await c.add("k", "2")
        await c.append("k", "2")
        await c.prepend("k", "0")
        assert await c.gat("k", 100) == b"012"
        head = await c.head("k")
        assert head.value_len == 3 and head.expires_s
        with pytest.raises(kvd.ExistsError):
            await c.cas("k", "x", version)
        await c.cas("k", "x", head.version)
        await c.replace("k", bytearray(b"y"))
        assert await c.touch("k", 0) and await c.exists("k")
        with pytest.raises(kvd.ExistsError):
            await c.delete_if("k", version)
        assert await c.delete_if("k", (await c.head("k")).version) is True
        assert await c.delete("k") is False
        with pytest.raises(kvd.NotFoundError):
            await c.incr("n")
        assert await c.incr("n", initial=5) == 5 and await c.incr("n", 2) == 7
        assert (await c.decr("n")).version == (await c.head("n")).version
        assert await c.setdefault("d", "a") == b"a" and await c.pop("d") == b"a"
        await c.ping()
        stats, info = await c.stats(), await c.info()
        assert stats["items"] == 1 and info["connection"] == "up" and await c.clients()
        with pytest.raises(kvd.NotFoundError):
            await c.kill(123456789)
        with pytest.raises(kvd.NotFoundError):
            await c.revoke("id=123456789")
        await c.flush()
        assert not await c.exists("n")
        ticket = await c.flush_start()
        while not await c.flush_done(ticket):
            pass

    run(url, body)


def test_many(url):
    async def body(c):
        pairs = [(f"key-{i}", os.urandom(i % 400)) for i in range(1500)]
        assert len(set(await c.put_many(pairs))) == 1500
        assert await c.get_many(k for k, _ in pairs) == [v for _, v in pairs]
        assert await c.exists_prefix([k for k, _ in pairs] + ["absent"]) == 1500
        assert await c.batch_exists(["key-1", "absent"]) == [True, False]
        found = {e.key: e.value async for e in c.scan("key-1", values=True)}
        assert found == {k.encode(): v for k, v in pairs if k.startswith("key-1")}
        with pytest.raises(kvd.ExistsError) as caught:
            await c.put_many([("new", "1"), ("key-1", "2")], mode=kvd.PutMode.IF_ABSENT)
        assert isinstance(caught.value.results[1], kvd.ExistsError)
        assert await c.delete_many(["key-1", "absent"]) == [True, False]

    run(url, body, max_outstanding=100)


@pytest.mark.device
@pytest.mark.parametrize("size", [0, 1, 1024, 1025, 70000, 1 << 20])
def test_lengths(url, size):
    async def body(c):
        value = os.urandom(size)
        await c.put("k", value)
        await c.put("small", "s")
        assert [await c.get("k"), await c.get("small"), await c.get("k")] == [value, b"s", value]
        with pytest.raises(kvd.TooLargeError):
            await c.put("k", bytes((1 << 20) + 1))
        results = await asyncio.gather(
            c.put("a", "1"), c.put("b", bytes((1 << 20) + 1)), c.put("c", "3"),
            return_exceptions=True)
        assert isinstance(results[1], kvd.TooLargeError) and await c.get("c") == b"3"

    run(url, body)


def test_order(url):
    """Changes take effect in the order in which they were begun, also beyond the places."""
    async def body(c):
        await asyncio.gather(c.put("k", ""), *(c.append("k", f"{i},") for i in range(500)))
        assert await c.get("k") == "".join(f"{i}," for i in range(500)).encode()

    run(url, body, max_outstanding=7)



@pytest.mark.device
def test_stress(url, shared_server):
    """1,000 outstanding operations, some cancelled, and every value is checked."""
    rounds = 10 if os.environ.get("KVD_TEST_LONG") == "1" else 2
    many = int(os.environ.get("KVD_PYTHON_OUTSTANDING", "1000"))

    async def body(c):
        rand = random.Random(1)

        async def work(i):
            key = f"key-{i}"
            for turn in range(rounds):
                value = f"{i}:{turn}:".encode() * rand.choice((1, 10, 100, 1000))
                await c.put(key, value)
                if rand.random() < 0.2:
                    task = asyncio.ensure_future(c.get(key))
                    await asyncio.sleep(0)
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                assert await c.get(key) == value
                assert await c.get_into(key, buffer := bytearray(len(value))) == len(value)
                assert buffer == value

        with Stopped(shared_server):
            tasks = [asyncio.ensure_future(work(i)) for i in range(many)]
            await asyncio.sleep(0)
            assert c.outstanding == many  # none ends before all have begun
        await asyncio.gather(*tasks)
        assert c.outstanding == 0 and c._free == many and not c._flying and not c._waiting

    run(url, body, max_outstanding=many)


def test_cancel_keeps_buffers(url, shared_server):
    """A cancelled operation's buffer is held until libkvd has handed it back."""
    async def body(c):
        memory = c.alloc(300000)
        plain = bytearray(b"x" * 300000)
        with Stopped(shared_server):
            tasks = [asyncio.ensure_future(c.put("a", (memory.address, 300000))),
                     asyncio.ensure_future(c.put("b", plain))]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            for _ in range(5):
                await asyncio.sleep(0)
            assert not any(task.done() for task in tasks)  # they were sent
            with pytest.raises(BufferError):
                plain.extend(b"more")
            with pytest.raises(kvd.BusyError):
                memory.release()
        for task in tasks:
            with pytest.raises(asyncio.CancelledError):
                await task
        plain.extend(b"more")
        memory.release()
        assert c.outstanding == 0 and c._free == kvd.aio.MAX_OUTSTANDING

    run(url, body)


@pytest.mark.device
def test_release_in_flight_is_refused(url, shared_server):
    async def body(c):
        memory = c.alloc(300000)
        with Stopped(shared_server):
            task = asyncio.ensure_future(c.put("k", (memory.address, 300000)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            with pytest.raises(kvd.BusyError):
                memory.release()
            assert not memory.released
        await task
        memory.release()

    run(url, body)


@pytest.mark.device
def test_timeouts(url, shared_server):
    async def body(c):
        await c.put("k", "v")
        with Stopped(shared_server):
            with pytest.raises(kvd.TimedOutError):
                await c.put("k", "w", timeout_ms=50)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await c.ping()
        await c.ping()
        assert await c.get("k") in (b"v", b"w")

    run(url, body)


def test_close_with_outstanding(url, shared_server):
    async def main():
        c = await kvd.aio.Client(url, max_outstanding=2, **PATIENT)
        with Stopped(shared_server):
            tasks = [asyncio.ensure_future(c.put(f"k{i}", bytearray(100))) for i in range(3)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await c.close()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(r) for r in results] == [kvd.UnknownOutcomeError] * 2 + [kvd.InvalidError]
        await c.close()
        with pytest.raises(kvd.InvalidError, match="closed"):
            await c.get("k")

    asyncio.run(asyncio.wait_for(main(), 60))


def test_restart():
    """1,000 operations are outstanding when the server is killed: each ends, with what it was to
    have, or as a change of which nobody knows; what is begun then waits for the next server."""
    from conftest import Server
    import conftest
    config, url = os.environ["KVD_PYTHON_CONFIG_2"], os.environ["KVD_PYTHON_URL_2"]

    async def work(c, i):
        """Returns how many of its changes are unknown: at most the one that was under way."""
        unknown = 0
        for turn in range(2):
            value = f"{i}:{turn}".encode()
            before = None if turn == 0 else f"{i}:{turn - 1}".encode()
            try:
                await c.put(f"k{i}", value)
                allowed = {value, None}  # the next server has nothing
            except kvd.UnknownOutcomeError:
                unknown += 1
                allowed = {value, before, None}
            assert await c.get(f"k{i}") in allowed
        return unknown

    async def main(server):
        async with kvd.aio.Client(url, **PATIENT) as c:
            await c.put("k", "v")
            load = [asyncio.ensure_future(work(c, i)) for i in range(1000)]
            with Stopped(server):
                await asyncio.sleep(0)
                assert c.outstanding == 1000
                server.process.kill()
            await asyncio.to_thread(server.end, signal.SIGKILL)
            waiting = [asyncio.ensure_future(c.get("k")) for _ in range(100)]
            again = await asyncio.to_thread(Server, config=config, url=url)
            try:
                assert max(await asyncio.gather(*load)) <= 1
                assert await asyncio.gather(*waiting) == [None] * 100
                await c.put("k", "w")
                assert await c.get("k") == b"w"
            finally:
                await asyncio.to_thread(again.end)

    assert conftest.CONFIG != config
    server = Server(config=config, url=url)
    try:
        asyncio.run(asyncio.wait_for(main(server), 60))
    finally:
        server.end(signal.SIGKILL)





def test_fork(url):
    """In a child every call is refused but close(), which leaves the parent's loop alone."""
    async def body(c):
        await c.put("k", "v")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for call in (lambda: c.register(bytearray(9)), lambda: c.get("k").send(None)):
                    try:
                        call()
                    except kvd.DisconnectedError:
                        status += 1
                try:
                    c.close().send(None)
                except StopIteration:
                    status += c.closed
            finally:
                os._exit(status)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 4
        await asyncio.sleep(0.01)
        assert await c.get("k") == b"v" and await c.get_by_request("k") == b"v"

    run(url, body)



def test_statistics(url):
    async def body(c):
        c.observe(True)
        await c.put("k", "v")
        assert await c.get("k") == b"v"
        assert c.op_stats(kvd.Op.PUT, kvd.Path.REQUEST)["count"] == 1
        assert c.client_stats()["puts"] == 1 and "hits 1" in c.stats_text()
        assert c.latency_ns(kvd.Op.PUT, 0.5) > 0
        await c.ping()
        assert c.clock_ns() > 1 << 60
        assert (await c.info())["connection"] == "up" and c._side is None
        used = [used async for used in c.scan_uses("k")]
        assert [u.key for u in used] == [b"k"] and used[0].head.value_len == 1

    run(url, body)



def test_exit_with_outstanding(url, shared_server):
    """The interpreter ends while operations are outstanding: no crash, no hang."""
    code = """if True:
        import asyncio, os, signal, sys, kvd.aio
        async def main():
            c = await kvd.aio.Client(sys.argv[1], timeout_ms=300000, connect_timeout_ms=300000)
            os.kill(int(sys.argv[2]), signal.SIGSTOP)
            m = c.alloc(300000)
            for i in range(50):
                asyncio.ensure_future(c.put(f"k{i}", m[:])).add_done_callback(lambda t: None)
                asyncio.ensure_future(c.get_into(f"k{i}", bytearray(99999)))
            await asyncio.sleep(0.01)
            print(c.outstanding >= 50)
            sys.stdout.flush()
            sys.exit(5)
        loop = asyncio.new_event_loop()
        loop.run_until_complete(main())
        """
    pid = shared_server.process.pid
    try:
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code, url, str(pid)],
                              capture_output=True, timeout=DEADLINE_S)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (done.returncode, done.stdout) == (5, b"True\n"), done.stderr
    assert b"Fatal" not in done.stderr and b"Segmentation" not in done.stderr
