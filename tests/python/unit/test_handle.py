# SPDX-License-Identifier: MIT
"""The handle: who may use it, and when it is closed; batches that a signal handler interrupts."""

import copy
import gc
import os
import pickle
import threading
import warnings

import kvd
import kvd._handle
import kvd.aio
import kvd.lmcache
import pytest

URL = "softnic:///fake"


def test_closed(fake):
    client = kvd.Client(URL)
    assert not client.closed and repr(client) == f"<kvd.Client of {URL}>"
    client.close()
    client.close()
    assert client.closed and repr(client) == f"<kvd.Client of {URL}, closed>"
    assert len(fake.named("kvd_close")) == 1
    calls = [client.ping, lambda: client.alloc(9), lambda: client.register(bytearray(9)),
             client.info, client.clock_ns, client.client_stats, lambda: client.latency_ns(0, 0.5),
             lambda: client.observe(True), lambda: client.op_stats(0, 0), client.stats_text]
    fake.status["kvd_ping"] = 2
    for call in calls:
        with pytest.raises(kvd.InvalidError, match="the client is closed"):
            call()


def copies_of(thing):
    yield lambda: copy.copy(thing)
    yield lambda: copy.deepcopy([thing])
    yield from (lambda protocol=protocol: pickle.dumps(thing, protocol)
                for protocol in range(pickle.HIGHEST_PROTOCOL + 1))
    yield lambda: pickle._dumps(thing)  # the pickler in Python
    yield thing.__reduce__
    yield lambda: thing.__reduce_ex__(4)


def test_no_copies(store, fake):
    """What ends something of the library exists once; the error says what to do."""

    class Mine(kvd.Client):
        pass

    memory = store.alloc(16)
    view = memory.view
    with Mine(URL) as mine:
        connector = kvd.lmcache.Connector(URL, num_workers=1)
        for thing, name, instead in (
                (store, "kvd.client.Client", "open another one"), (mine, "Mine", "open another"),
                (kvd.aio.Client(URL), "kvd.aio.Client", "open another one"),
                (memory, "kvd.memory.Memory", "register"),
                (connector, "kvd.lmcache.Connector", "make another one")):
            for copied in copies_of(thing):
                with pytest.raises(TypeError, match=f"{name} can't be copied or .*: {instead}"):
                    copied()
        connector.close()
    assert bytes(view) == bytes(16)
    del view
    memory.release()


def test_default_url(fake, monkeypatch):
    monkeypatch.setenv("KVD_URL", "softnic:///other")
    with kvd.Client() as client:
        assert client.url == "softnic:///other" and fake.url == b"softnic:///other"


def test_opening_fails(fake):
    fake.status["kvd_open"] = 10
    with pytest.raises(kvd.RefusedError, match="the reason"):
        kvd.Client(URL)


@pytest.mark.parametrize("kind", [kvd.Client, kvd.aio.Client])
def test_unclosed(fake, kind):
    """A client that was not closed warns, and is closed."""
    client = kind(URL)
    if kind is kvd.aio.Client:
        client._open()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del client
        gc.collect()
    assert [warning.category for warning in caught] == [ResourceWarning]
    assert "unclosed <kvd." in str(caught.pop().message)  # which has the client
    gc.collect()
    assert fake.handles == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client = kind(URL)
        client._open() if kind is kvd.aio.Client else None
        client._close()
        del client
        gc.collect()


def test_end_of_the_process(store, fake):
    """What closes handles then leaves one that is in a call, and clients that know they are
    closed."""
    finish = store._finalizer
    other = kvd.Client(URL)
    assert other._guard.acquire(False)
    pins = [object()]
    kvd._handle._finish(lambda: other, other._pointer, other._guard, pins)
    assert len(fake.handles) == 2 and pins
    other._guard.release()
    kvd._handle._finish(lambda: other, other._pointer, other._guard, pins)
    assert len(fake.handles) == 1 and other.closed and not pins
    other._finalizer.detach()
    assert finish.alive and finish.atexit
    assert other._guard.acquire(False)
    other._guard.release()


def test_guards_end(fake):
    """A client that is gone leaves nothing in the package."""
    with kvd.Client(URL):
        count = len(kvd._handle._guards)
        kvd.Client(URL).close()
        gc.collect()
        assert len(kvd._handle._guards) == count


def test_fork(fake):
    with kvd.Client(URL) as client:
        assert client._guard.acquire(False)  # another thread is in a call
        child = os.fork()
        if child == 0:
            taken = client._guard.acquire(False)
            os._exit(0 if taken and client._guard.forked and not fake.failures else 1)
        assert os.waitpid(child, 0)[1] == 0
        client._guard.release()
        assert not client._guard.forked


def test_second_thread(store, fake):
    """Every method is refused while a call is under way, and none afterwards."""
    entered, go = threading.Event(), threading.Event()

    def slowly(handle):
        entered.set()
        go.wait(60)

    fake.ping = slowly
    store.put("k", "1")
    calls = [lambda: store.get("k"), lambda: store.put("k", "1"), lambda: store.put("k", [b"1"]),
             lambda: store.put("k", "1", flags=1), lambda: store.get_item("k"),
             lambda: store.get_into("k", bytearray(9)), lambda: store.get_into("k", [bytearray(9)]),
             lambda: store.gat("k", 1), lambda: store.heads(["k"]), lambda: store.delete("l"),
             lambda: store.delete_if("l", 1), lambda: store.incr("k"), lambda: store.touch("k", 1),
             lambda: store.exists_prefix(["k"]), lambda: store.get_many(["k"]), store.info,
             lambda: store.scan_part(0), store.flush, store.flush_start, store.client_stats,
             lambda: store.flush_done(1), store.stats, lambda: store.kill(1), store.clock_ns,
             lambda: store.revoke("a"), lambda: store.tenant_create("a", 1), lambda: store.alloc(9),
             lambda: store.tenant_resize("a", 1), lambda: store.tenant_drop("a"),
             lambda: store.register(bytearray(9)), lambda: store.latency_ns(1, 0.5),
             lambda: store.observe(True), lambda: store.op_stats(0, 0), store.stats_text,
             store.close]
    thread = threading.Thread(target=store.ping)
    thread.start()
    assert entered.wait(60)
    count = len(fake.calls)
    for call in calls:
        with pytest.raises(kvd.ThreadError, match="client for each thread"):
            call()
    assert len(fake.calls) == count
    go.set()
    thread.join()
    for call in calls:
        call()
        assert store._guard.acquire(False)
        store._guard.release()


def test_a_handler_in_a_call(store, fake):
    """What a signal handler calls in the midst of a call is a second use."""
    refused = []

    def handler(handle):
        try:
            store.get("k")
        except kvd.ThreadError as error:
            refused.append(error)

    fake.ping = handler
    store.ping()
    assert refused and store.get("k") is None


def test_a_guard_that_was_left_taken(store, fake):
    """A handler raised before the statement that would have released the guard."""
    for call in (lambda: store.get("k"), lambda: store.put("k", "v"), store.info, store.ping,
                 lambda: store.put("k", [b"v"]), lambda: store.gat("k", 1)):
        assert store._guard.acquire(False)
        call()
        assert store._guard.acquire(False)
        store._guard.release()


class Interrupt(Exception):
    pass


@pytest.mark.parametrize("sent", [False, True])
def test_interrupted_batch(store, fake, sent):
    """All that it has begun is ended, and nothing freed before; the next has its own results."""
    buffer = bytearray(9999)
    fake.hold, fake.sent = True, sent
    waits = []

    def interrupted(handle, done, count, least, timeout_ms):
        waits.append((count, least, timeout_ms))
        if len(waits) == 1:
            raise Interrupt
        with pytest.raises(BufferError):
            buffer.extend(b"more")
        fake.end()
        return fake.wait(handle, done, count)

    real, fake.kvd_wait = fake.kvd_wait, interrupted
    fake.wait = lambda handle, done, count: fake.poll(handle, ctypes_address(done), count)
    with pytest.raises(Interrupt):
        store.put_many((f"k{i}", buffer) for i in range(3))
    assert len(fake.named("kvd_cancel")) == 3 and not fake.flying and not fake.ended
    assert not store._pins and waits[0][1] == 3 and len(waits) == 2
    fake.kvd_wait, fake.hold = real, False
    del fake.wait
    buffer.extend(b"more")
    assert store.get_many(["k0", "k1", "a"]) == [buffer[:9999] if sent else None] * 2 + [None]


def ctypes_address(array):
    import ctypes
    return ctypes.addressof(array)


def test_what_an_interrupted_batch_left(store, fake):
    """The next batch ends it, if the handler raised before the interrupted one could."""
    fake.hold = True
    operation = kvd._operations.Operation()
    operation.prepare_get("k", 0, lambda o: None)
    store._pins.append([operation])
    store._check(fake.kvd_submit(store._pointer, kvd._handle.POINTERS(operation.address), 1))
    fake.hold = False
    assert store.get_many(["k"]) == [None]
    assert not store._pins and fake.named("kvd_cancel") == [(operation.address,)]


def test_batches_are_whole(store, fake):
    """Waits for as many as are left, and again when a call of kvd_wait() brought only some."""
    real, left = fake.wait, []

    def some(handle, done, count, least, timeout_ms):
        left.append(least)
        return fake.poll(handle, done, min(count, 2))

    fake.wait = some
    assert store.put_many((f"k{i}", "v") for i in range(5)) == [1, 2, 3, 4, 5]
    assert left == [5, 3, 1] and real
    fake.status["kvd_submit"] = 13
    with pytest.raises(kvd.BusyError, match="the reason"):
        store.put_many([("k", "v")])
    fake.status.clear()
    assert store.get_many(["k0"]) == [b"v"]
