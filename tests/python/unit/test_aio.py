# SPDX-License-Identifier: MIT
"""The asyncio client where a test decides when operations end: order, places, cancellation,
closing. Each future is woken, once; each buffer is the caller's when its call has ended."""

import asyncio
import gc
import os
import threading

import kvd
import kvd.aio
import pytest
from kvd import Status
from kvd._operations import Operation

URL = "softnic:///fake"


def run(body, **options):
    async def main():
        async with kvd.aio.Client(URL, **options) as client:
            await body(client)
            assert client.outstanding == 0 and not client._waiting and not client._flying
            assert client._free == options.get("max_outstanding", kvd.aio.MAX_OUTSTANDING)

    asyncio.run(main())


async def turns(count=3):
    for _ in range(count):
        await asyncio.sleep(0)


def begin(*coroutines):
    return [asyncio.ensure_future(coroutine) for coroutine in coroutines]


def keys(fake):
    return [op.key for op in fake.ops]


def test_one_submission_a_turn_in_order(fake):
    async def body(c):
        tasks = begin(*(c.put(f"k{i}", "v") for i in range(9)))
        await asyncio.gather(*tasks)
        assert [given[1] for given in fake.named("kvd_submit")] == [9]
        assert keys(fake) == [f"k{i}".encode() for i in range(9)]

    run(body)


@pytest.mark.parametrize("places", [1, 2, 5])
def test_places(fake, places):
    """At most @places are outstanding, the others follow in their order, and all end."""
    async def body(c):
        fake.hold = True
        tasks = begin(*(c.put(f"k{i}", "v") for i in range(12)))
        many = asyncio.ensure_future(c.get_many(f"k{i}" for i in range(7)))
        for _ in range(19):
            await turns(4)
            assert len(fake.flying) <= places and c.outstanding <= places
            assert fake.flying
            fake.end(1)
            await turns(4)
        assert await asyncio.gather(*tasks) == list(range(1, 13)) and await many == [b"v"] * 7
        assert keys(fake) == [f"k{i}".encode() for i in (*range(12), *range(7))]

    run(body, max_outstanding=places)


def test_cancelled_while_it_waits_for_a_place(fake):
    async def body(c):
        fake.hold = True
        tasks = begin(*(c.put(f"k{i}", "v") for i in range(6)))
        await turns()
        tasks[3].cancel()
        await turns()
        assert tasks[3].cancelled() and len(fake.flying) == 2
        # One whose place has just come, but that did not run yet, gives it to the next.
        fake.end(1)
        c._drive()
        tasks[2].cancel()
        await turns(5)
        assert tasks[2].cancelled()
        while not all(task.done() for task in tasks):
            fake.end()
            await turns()
        assert keys(fake) == [b"k0", b"k1", b"k4", b"k5"]

    run(body, max_outstanding=2)


def test_cancelled_before_it_is_submitted(fake):
    async def body(c):
        c._scheduled = True  # as when another thread's call has it wait
        first, second = begin(c.put("a", bytearray(9999)), c.put("b", "v"))
        await asyncio.sleep(0)
        assert c.outstanding == 2
        first.cancel()
        await turns()
        assert first.cancelled() and c.outstanding == 1 and not fake.named("kvd_submit")
        c._drive()
        assert await second == 1 and keys(fake) == [b"b"]
        assert not fake.named("kvd_cancel")

    run(body)


@pytest.mark.parametrize("sent", [False, True])
def test_cancelled_with_a_buffer(fake, sent):
    """The call ends when the buffer is not used any more, however often it is cancelled."""
    async def body(c):
        fake.hold, fake.sent = True, sent
        buffers = [bytearray(5000), bytearray(9), bytearray(9)]
        tasks = begin(c.put("a", buffers[0]), c.get_into("b", buffers[1]),
                      c.batch_get_into(["c", "d"], [buffers[2], bytearray(9)]))
        await turns()
        for _ in range(2):
            for task in tasks:
                task.cancel()
            await turns()
        assert len(fake.named("kvd_cancel")) == 4
        if sent:
            assert not any(task.done() for task in tasks)
            for buffer in buffers:
                with pytest.raises(BufferError):
                    buffer.extend(b"more")
            fake.end()
        await asyncio.wait(tasks)
        assert all(task.cancelled() for task in tasks)
        for buffer in buffers:
            buffer.extend(b"more")

    run(body)


def test_cancelled_without_a_buffer(fake):
    """A PUT or GET ends at once; its memory stays until the library hands the operation back."""
    async def body(c):
        fake.hold = fake.sent = True
        values = [bytearray(4096), memoryview(bytearray(b"xy")), "text", b"x" * 9999]
        tasks = begin(*(c.put(f"k{i}", value) for i, value in enumerate(values)), c.get("k"),
                      c.put_many([("m", bytearray(b"copy"))]))
        await turns()
        values[0].extend(b"changed")
        for task in tasks:
            task.cancel()
        await turns()
        assert all(task.cancelled() for task in tasks)
        del values
        gc.collect()
        assert c.outstanding == 6 and len(c._flying) == 6
        fake.end()
        while c.outstanding:
            await turns()
        assert fake.items[b"k0"].value == bytes(4096) and fake.items[b"k3"].value == b"x" * 9999
        assert fake.items[b"m"].value == b"copy"

    run(body)


def test_long_buffers_are_not_copied(fake):
    async def body(c):
        fake.hold = True
        for value in (bytearray(4097), memoryview(bytearray(4097))):
            (task,) = begin(c.put("k", value))
            await turns()
            value[0] = 7  # seen by the library, which reads it where it is
            fake.end()
            await task
            assert fake.items[b"k"].value[0] == 7

    run(body)


def test_a_value_of_another_length_after_its_cancel(fake):
    """What was cancelled is not asked for again."""
    async def body(c):
        await c.put("k", bytes(5000))
        fake.hold = fake.sent = True
        (task,) = begin(c.get("k"))
        await turns()
        task.cancel()
        await turns()
        fake.end()
        while c.outstanding:
            await turns()
        assert len(fake.named("kvd_submit")) == 2 and c._expect == 1024

    run(body)


def test_expected_length(fake):
    """The buffer of a GET has the length of the last long value, at most 1 MiB, until a short one
    comes."""
    async def body(c):
        for length, expect in ((1024, 1024), (1025, 1025), (5000, 5000), (4000, 5000),
                               (1024, 1024), (1025, 1025), (5, 1024)):
            await c.put("k", bytes(length))
            assert await c.get("k") == bytes(length) and c._expect == expect
        fake.items[b"k"].value = b"x" * ((1 << 20) + 1)
        fake.items[b"k"].value_len = (1 << 20) + 1
        assert len(await c.get("k")) == (1 << 20) + 1 and c._expect == 1 << 20

    run(body)


def test_those_at_fault_are_found(fake):
    async def body(c):
        results = await asyncio.gather(
            c.put("a", "1"), c.put("b", bytes((1 << 20) + 1)), c.put("c", "3"),
            return_exceptions=True)
        assert results[::2] == [1, 2] and isinstance(results[1], kvd.TooLargeError)
        assert str(results[1]) == "the reason" and keys(fake) == [b"a", b"c"]

    run(body)


def test_more_than_a_submission_takes(fake):
    async def body(c):
        many = [(f"k{i}", b"") for i in range(1025)]
        assert await c.put_many(many) == list(range(1, 1026))
        assert [given[1] for given in fake.named("kvd_submit")] == [1024, 1]
        assert await c.get_many([]) == [] and await c.put_many([]) == []

    run(body, max_outstanding=3000)


@pytest.mark.parametrize("sent", [False, True])
def test_close_ends_all(fake, sent):
    async def main():
        c = await kvd.aio.Client(URL, max_outstanding=4)
        fake.hold, fake.sent = True, sent
        buffer = bytearray(9999)
        calls = begin(c.put("a", buffer), c.get("b"), c.touch("c", 1), c.delete("d"),
                      c.put("e", "no place"))
        await turns()
        fd = c._fd
        await c.close()
        done, _ = await asyncio.wait(calls, timeout=60)
        assert len(done) == 5
        change = kvd.UnknownOutcomeError if sent else kvd.CanceledError
        assert [type(call.exception()) for call in calls] == [
            change, kvd.CanceledError, change, change, kvd.InvalidError]
        assert "closed" in str(calls[0].exception()) and "closed" in str(calls[1].exception())
        assert not asyncio.get_running_loop().remove_reader(fd)
        buffer.extend(b"more")
        await c.close()
        assert c.closed
        for call in (lambda: c.get("k"), c.stats, c.info, c.ping):
            with pytest.raises(kvd.InvalidError, match="closed"):
                await call()

    asyncio.run(main())


def test_close_ends_what_is_not_submitted(fake):
    async def main():
        c = await kvd.aio.Client(URL)
        (task,) = begin(c.put("k", bytearray(9999)))
        await asyncio.sleep(0)
        await c.close()
        with pytest.raises(kvd.CanceledError):
            await task
        assert not fake.ops

    asyncio.run(main())


def test_close_after_its_loop(fake):
    c = kvd.aio.Client(URL)
    loop = asyncio.new_event_loop()

    async def leave():
        await c
        await c.stats()

    loop.run_until_complete(leave())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    assert len(fake.handles) == 2
    asyncio.run(c.close())
    assert c.closed and not fake.handles


def test_the_second_connection_ends(fake):
    """With the client, after the call that is under way there; and its thread."""
    async def main():
        before = threading.active_count()
        async with kvd.aio.Client(URL, timeout_ms=77, tenant="a") as c:
            assert len(fake.handles) == 1 and await c.info() and c._side is None
            await c.stats()
            assert len(fake.handles) == 2 and fake.options.timeout_ms == 77
            assert fake.options.tenant == b"a" and await c.clients() == []
            assert len(fake.handles) == 2
            entered, go = threading.Event(), threading.Event()

            def flush(handle):
                entered.set()
                go.wait(60)

            fake.flush_all = flush
            (task,) = begin(c.flush())
            while not entered.is_set():
                await asyncio.sleep(0)
            (later,) = begin(c.flush())
            await turns()
            (closing,) = begin(c.close())
            await turns()
            assert not closing.done()
            go.set()
            await task
            await closing
            with pytest.raises(kvd.InvalidError, match="closed"):
                await later
            assert not fake.handles
        await asyncio.get_running_loop().shutdown_default_executor()
        while threading.active_count() > before:  # it ends by itself
            await asyncio.sleep(0)

    asyncio.run(main())


def test_opening_fails(fake):
    async def main():
        fake.status["kvd_open"] = Status.ERR_UNREACHABLE
        with pytest.raises(kvd.UnreachableError, match="the reason"):
            await kvd.aio.Client(URL)
        fake.status = {"kvd_fd": -1}
        with pytest.raises(kvd.NoMemoryError, match="the reason"):
            await kvd.aio.Client(URL)
        assert not fake.handles
        fake.status = {}
        c = kvd.aio.Client(URL)
        with pytest.raises(kvd.InvalidError, match="not connected"):
            await c.get("k")
        async with c:
            with pytest.raises(kvd.InvalidError, match="opened before"):
                await c
        with pytest.raises(kvd.InvalidError, match="opened before"):
            await c

    asyncio.run(main())


@pytest.mark.parametrize("fails", [False, True])
def test_cancelled_while_it_opens(fake, fails):
    """What is opened then is closed."""
    async def main():
        go, fake_open = threading.Event(), fake.open

        def slowly(*given):
            go.wait(60)
            return Status.ERR_REFUSED if fails else fake_open(*given)

        fake.open = slowly
        (task,) = begin(kvd.aio.Client(URL)._connect())
        await turns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        await asyncio.get_running_loop().shutdown_default_executor()
        await turns()
        assert not fake.handles and len(fake.named("kvd_close")) == int(not fails)

    asyncio.run(main())


def test_waits_again_when_something_came_meanwhile(fake):
    """kvd_arm() that finds something has the loop take that, and not wait for the descriptor."""
    async def body(c):
        fake.hold = True
        arm = fake.arm

        def late(handle):
            if fake.flying:
                flying, fake.flying = fake.flying, []
                for address in flying:
                    fake._end_one(address, None)
            return arm(handle)

        fake.arm = late
        assert await c.put("k", "v") == 1

    run(body)


def test_a_connection_that_is_lost_for_good(fake):
    """The descriptor, which stays readable then, is not waited for any more."""
    async def body(c):
        fake.status["kvd_arm"] = Status.ERR_DISCONNECTED
        await c.ping()
        assert not asyncio.get_running_loop().remove_reader(c._fd)

    run(body)


def test_another_thread_in_a_call(fake):
    """The loop tries again when that has ended: no operation is left."""
    async def body(c):
        entered, go = threading.Event(), threading.Event()
        stats = fake.stats

        def slowly(*given):
            entered.set()
            go.wait(60)
            return stats(*given)

        fake.stats = slowly
        c._check_loop, check = lambda: None, c._check_loop  # lets the other thread in
        thread = threading.Thread(target=c.client_stats)
        thread.start()
        while not entered.is_set():
            await asyncio.sleep(0)
        c._check_loop = check
        (task,) = begin(c.put("k", "v"))
        await turns()
        assert not fake.ops
        with pytest.raises(kvd.ThreadError):
            c.client_stats()
        go.set()
        thread.join()
        assert await task == 1
        del c._check_loop

    run(body)


def test_another_loop(fake):
    async def body(c):
        def other():
            with pytest.raises(kvd.ThreadError, match="another event loop"):
                asyncio.run(c.get("k"))
            for call in (lambda: c.register(bytearray(9)), lambda: c.alloc(9), c.client_stats,
                         c.clock_ns, lambda: c.observe(True), lambda: c.stats_text(),
                         lambda: c.latency_ns(0, 0.5), lambda: c.op_stats(0, 0)):
                with pytest.raises(kvd.ThreadError):
                    call()

        count = len(fake.calls)
        await asyncio.to_thread(other)
        assert len(fake.calls) == count

    run(body)


def test_fork(fake):
    async def body(c):
        (task,) = begin(c.ping())
        await task
        c._guard.forked = True
        for call in (lambda: c.get("k"), c.stats):
            with pytest.raises(kvd.DisconnectedError, match="fork"):
                await call()
        with pytest.raises(kvd.DisconnectedError):
            c.alloc(9)
        c._guard.forked = False

    run(body)


def test_values_go_with_their_last_reference(fake):
    """Nothing that a call leaves waits for the garbage collector, which runs seldom."""
    async def body(c):
        await c.put("k", bytes(1 << 16))
        await c.get("k")
        gc.collect()
        gc.disable()
        try:
            await asyncio.gather(c.get("k"), c.exists("k"), c.get_many(["k", "l"]), c.put("s", "1"))
            (task,) = begin(c.get("k"))
            await asyncio.sleep(0)
            task.cancel()
            await turns()
            del task
            assert not [o for o in gc.get_objects() if isinstance(o, Operation)]
        finally:
            gc.enable()

    run(body)


def test_dropped_with_operations(fake):
    """A coroutine that is dropped can't wait; the handle is closed before its memory goes."""
    async def main():
        c = await kvd.aio.Client(URL)
        fake.hold = fake.sent = True
        coroutine = c.put("k", bytearray(9999))
        coroutine.send(None)
        await turns()
        coroutine.close()
        assert len(fake.named("kvd_cancel")) == 1 and c.outstanding == 1
        await c.close()

    asyncio.run(main())


def test_descriptors(fake):
    before = len(os.listdir("/proc/self/fd"))

    async def body(c):
        await c.ping()

    run(body)
    assert len(os.listdir("/proc/self/fd")) == before
