# SPDX-License-Identifier: MIT
"""The connector for LMCache: what of a batch is a miss and what an error, for each status; that
each batch ends once; and that nothing of a connector stays."""

import ctypes
import gc
import inspect
import logging
import os
import select
import threading
import time
import weakref

import kvd
import kvd.lmcache
import pytest
from kvd import Status

URL = "softnic:///fake"
MISSES = {"NOT_FOUND", "ERR_BUFFER", "ERR_TIMEOUT", "ERR_DISCONNECTED", "ERR_UNREACHABLE",
          "ERR_REFUSED", "ERR_BUSY", "ERR_CANCELED", "ERR_UNKNOWN", "ERR_LIMIT",
          "ERR_AWAY", "ERR_MOVED"}
LOSSES = {"ERR_DISCONNECTED", "ERR_UNREACHABLE", "ERR_REFUSED", "ERR_AWAY", "ERR_AUTH"}
# What LMCache calls, with its arguments by position: LMCache/LMCache at 0b43a45563fe, read on
# 2026-12-01 (lmcache/v1/distributed/l2_adapters/native_connector_l2_adapter.py).
CALLS = {
    "event_fd": [],
    "submit_batch_get": ["keys", "memoryviews"],
    "submit_batch_set": ["keys", "memoryviews"],
    "submit_batch_exists": ["keys"],
    "submit_batch_delete": ["keys"],
    "drain_completions": [],
    "close": [],
}


@pytest.fixture
def connector(fake):
    connector = kvd.lmcache.Connector(URL, num_workers=1, ttl_s=7)
    yield connector
    connector.close()


def result(connector, number):
    """The result of the batch that was submitted last."""
    poller = select.poll()
    poller.register(connector.event_fd(), select.POLLIN)
    assert poller.poll(60000)
    ((ended, *rest),) = connector.drain_completions()
    assert ended == number and not poller.poll(0) and connector.drain_completions() == []
    return tuple(rest)


def until(condition):
    """Waits for what other threads are about to do."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def until_up(connector):
    until(lambda: connector.report_status()["connection"] == "up")


def test_batches(connector, fake):
    keys, size = ["a", "b", "c"], 16
    views = [memoryview(bytes([i]) * size) for i in range(3)]
    number = connector.submit_batch_set(keys, views)
    assert result(connector, number) == (True, "", [True] * 3)
    assert [op.ttl_s for op in fake.ops] == [7] * 3
    into = [memoryview(bytearray(size)) for _ in range(3)]
    number = connector.submit_batch_get(["c", "x", "a"], into)
    assert result(connector, number) == (True, "", [True, False, True])
    assert into[0] == views[2] and into[2] == views[0]
    number = connector.submit_batch_exists(["x", "a"])
    assert result(connector, number) == (True, "", [False, True])
    number = connector.submit_batch_delete(["x", "a"])
    assert result(connector, number) == (True, "", [True, True])
    assert sorted(fake.items) == [b"b", b"c"]
    for length in (size - 1, size + 1):  # a chunk of another length is a miss
        number = connector.submit_batch_get(["b", "c"], [bytearray(length), into[0]])
        assert result(connector, number) == (True, "", [False, True])


@pytest.mark.parametrize("status", [status for status in Status if status])
def test_each_status(connector, fake, status, caplog):
    """A miss, unless somebody has to mend something; a store has no misses. After a loss a probe
    finds that the server is there."""
    execute = fake._execute

    def fails(op):
        if op.key == b"a":
            op.status = status
            return None
        return execute(op)

    def ended(number):
        found = result(connector, number)
        assert connector.report_status()["losses"] == losses + loss
        until_up(connector)
        return found

    view, losses = memoryview(bytearray(16)), 0
    assert result(connector, connector.submit_batch_set(["b"], [view]))[0]
    fake._execute = fails
    miss, absent = status.name in MISSES, status.name in ("NOT_FOUND", "ERR_BUFFER")
    loss = status.name in LOSSES
    ok, text, found = ended(connector.submit_batch_get(["b", "a"], [view] * 2))
    assert (ok, bool(text), found) == (miss, not absent, [True, False])
    assert absent or kvd._lib.status_text(status) in text and (loss or "(key a)" in text)
    losses += loss
    ok, text, found = ended(connector.submit_batch_set(["b", "a"], [view] * 2))
    assert (ok, found) == (False, [True, False]) and (loss or "(key a)" in text)
    losses += loss
    ok, text, found = ended(connector.submit_batch_delete(["b", "a"]))
    losses += loss
    if status == Status.NOT_FOUND:
        assert (ok, text, found) == (True, "", [True, True])
    else:
        assert (ok, bool(text), found) == (miss, True, [True, False])
    result(connector, connector.submit_batch_set(["b"], [view]))
    if status != Status.NOT_FOUND:
        ok, text, found = ended(connector.submit_batch_exists(["b", "a"]))
        assert (ok, bool(text), found) == (miss, True, [True, False])
        losses += loss
    until(lambda: caplog.text.count("is back after ") == losses)
    logged = caplog.text
    assert ("load fails: " in logged) == (not absent and not loss)
    assert ("store fails: " in logged) == (not loss)
    assert logged.count("is away: ") == losses


@pytest.mark.parametrize("status", [Status.ERR_TIMEOUT, Status.ERR_UNKNOWN])
def test_doubts(connector, fake, status):
    """A deadline that passes is a loss if the connection is gone."""
    fake._execute = lambda op: setattr(op, "status", status)
    for connection, losses in ((b"up", 0), (b"connecting", 1)):
        fake.connection = connection
        ok, _, found = result(connector, connector.submit_batch_get(["a"], [bytearray(1)]))
        assert (ok, found) == (True, [False])
        assert connector.report_status()["losses"] == losses


def test_log(connector, fake, caplog):
    """When batches of a kind begin to fail, or for another reason, and when they work again."""
    view = memoryview(bytearray(16))

    caplog.set_level(logging.WARNING, "kvd.lmcache")
    for status in (0, 7, 13, 16, 20, 19, 19, 3, 0, 0, 7):
        if status:
            fake._execute = lambda op, status=status: setattr(op, "status", status)
        else:
            fake.__dict__.pop("_execute", None)
        result(connector, connector.submit_batch_set(["a"], [view]))
    timeout = "store fails: timed out (key a)"
    until(lambda: len(caplog.messages) > 1 and caplog.messages[-1] == timeout)
    assert [record.name for record in caplog.records] == ["kvd.lmcache"] * 5
    assert caplog.messages == [
        timeout, "store fails: not allowed (key a)", "store fails: value too large: raise "
        "limits.max_value of the server (key a)", "store works again", timeout]


def test_a_log_that_fails(connector, fake, monkeypatch):
    """A line comes after the end of the batch, and ends no thread: that of probes neither."""
    ended, lines = [], []

    def broken(record):
        ended.extend(connector.drain_completions())
        lines.append(record.getMessage())
        return 1 // 0

    monkeypatch.setattr(logging.getLogger("kvd.lmcache"), "filters", [broken])
    for status, line in ((Status.ERR_NO_SPACE, "delete fails: "), (0, "delete works again")):
        fake._execute = lambda op, status=status: setattr(op, "status", status)
        number = connector.submit_batch_delete(["a"])
        until(lambda line=line: lines)
        assert lines.pop().startswith(line) and ended.pop()[0] == number
    fake._execute = lambda op: setattr(op, "status", Status.ERR_DISCONNECTED)
    connector.submit_batch_delete(["a"])
    until(lambda: len(lines) == 2)
    until_up(connector)
    assert "is away" in lines[0] and "is back" in lines[1]
    del fake._execute
    until(lambda: ended or ended.extend(connector.drain_completions()))
    assert result(connector, connector.submit_batch_exists(["a"]))[0]


def test_unexpected_errors_end_the_batch(connector, fake, monkeypatch):
    """The thread lives on."""
    def fails(*_, **named):
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(kvd._batches.Link, "run", fails)
        view = memoryview(bytearray(16))
        number = connector.submit_batch_get(["a", "b"], [view] * 2)
        assert result(connector, number) == (False, "ZeroDivisionError()", [False, False])
        number = connector.submit_batch_set(["a"], [view])
        assert result(connector, number) == (False, "ZeroDivisionError()", [False])
        number = connector.submit_batch_delete(["a"])
        assert result(connector, number) == (False, "ZeroDivisionError()", [False])
    assert result(connector, connector.submit_batch_delete(["a"])) == (True, "", [True])


def test_buffers_are_the_callers_again(connector, fake):
    buffer = bytearray(16)
    for submit in (connector.submit_batch_set, connector.submit_batch_get):
        result(connector, submit(["a"], [buffer]))
        gc.collect()
        buffer.extend(b"more")


def test_keys(fake):
    connector = kvd.lmcache.Connector(URL, prefix="é:")
    keys = ["k" * 1020, "k" * 1021, "k" * 1022, "k" * 1021 + "j"]
    for key in ["short", *keys]:
        result(connector, connector.submit_batch_set([key], [b"v"]))
    stored = list(fake.items)
    assert stored[0] == "é:short".encode() and stored[1] == f"é:{keys[0]}".encode()
    assert stored[2] == f"é:{keys[1]}".encode() and len(stored[2]) == 1024 and len(set(stored)) == 5
    assert all(len(key) == 1024 and key[:960] == f"é:{'k' * 957}".encode() for key in stored[3:])
    connector.close()


def test_misuse(connector, fake):
    view = memoryview(bytearray(16))
    for call, error, text in (
            (lambda: connector.submit_batch_exists([]), kvd.InvalidError, "at least one key"),
            (lambda: connector.submit_batch_get(["a", "b"], [view]), kvd.InvalidError, "2 keys"),
            (lambda: connector.submit_batch_set(["a"], []), kvd.InvalidError, "0 buffers"),
            (lambda: connector.submit_batch_exists("ab"), TypeError, "list of keys"),
            (lambda: connector.submit_batch_get(["a"], [b"x"]), TypeError, "read-only"),
            (lambda: connector.submit_batch_set(["a"], [view[::2]]), TypeError, "contiguous"),
            (lambda: connector.register(1, 0), kvd.InvalidError, "not 0"),
            (lambda: connector.register(1, -1), kvd.InvalidError, "not -1")):
        with pytest.raises(error, match=text):
            call()
    with pytest.raises(kvd.InvalidError, match="num_workers is at least 1, not 0"):
        kvd.lmcache.Connector(URL, num_workers=0)
    with pytest.raises(kvd.InvalidError, match="240000 at most together, not 240001: LMCache"):
        kvd.lmcache.Connector(URL, queue_timeout_ms=200000, timeout_ms=40001)


def test_options(fake):
    seen, fake_open = [], fake.open

    def opened(*given):
        fake_open(*given)
        seen.append(fake.options.timeout_ms)
        if len(seen) == 6:
            return Status.ERR_DEVICE

    fake.open = opened
    kvd.lmcache.Connector(URL, num_workers=3, timeout_ms=5, lookup_timeout_ms=6, depth=9).close()
    assert seen == [6, 5, 5, 5] and fake.options.depth == 9
    fake.handles.clear()
    with pytest.raises(kvd.DeviceError):  # the second of three: the first is closed
        kvd.lmcache.Connector(URL, num_workers=2)
    assert seen == [6, 5, 5, 5, 500, 5000] and len(fake.handles) == 1
    fake.handles.clear()


def test_close(fake):
    """The batch that is executed ends, those that wait are dropped; then all is refused."""
    connector = kvd.lmcache.Connector(URL, num_workers=1)
    entered, go, execute = threading.Event(), threading.Event(), fake._execute

    def slowly(op):
        entered.set()
        go.wait(60)
        return execute(op)

    fake._execute = slowly
    fd = connector.event_fd()
    first = connector.submit_batch_set(["a"], [b"v"])
    connector.submit_batch_set(["b"], [b"v"])
    assert entered.wait(60)
    closing = threading.Thread(target=connector.close)
    closing.start()
    while not connector._shared.breaker.closing:
        pass
    go.set()
    closing.join()
    assert connector.drain_completions() == [(first, True, "", [True])]
    assert list(fake.items) == [b"a"]
    connector.close()
    assert not fake.handles and connector.drain_completions() == []
    with pytest.raises(OSError):
        os.fstat(fd)
    for call in (connector.event_fd, lambda: connector.register(1, 1),
                 lambda: connector.submit_batch_exists(["a"])):
        with pytest.raises(kvd.InvalidError, match="closed"):
            call()


def test_dropped(fake):
    threads = threading.active_count()
    connector = kvd.lmcache.Connector(URL)
    gone = weakref.ref(connector)
    fd = connector.event_fd()
    del connector
    gc.collect()
    assert gone() is None
    until(lambda: threading.active_count() == threads and not fake.handles)
    with pytest.raises(OSError):
        os.fstat(fd)


def test_dropped_where_it_logs(fake):
    """The collector may run in a thread that has the lock of a log's handler, for which a worker
    waits: it does not wait for the worker."""
    handler, logs = logging.Handler(), threading.Event()
    handler.emit = lambda record: None
    handler.filter = lambda record: logs.set() or True  # before it takes the lock
    connectors = [kvd.lmcache.Connector(URL, num_workers=1)]
    fake._execute = lambda op: setattr(op, "status", Status.ERR_NO_SPACE)

    def collect():
        with handler.lock:
            connectors[0].submit_batch_set(["a"], [b"v"])
            logs.wait(60)
            connectors.clear()

    logging.getLogger("kvd.lmcache").addHandler(handler)
    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(60)
    logging.getLogger("kvd.lmcache").removeHandler(handler)
    assert not thread.is_alive()
    until(lambda: not fake.handles)


def test_dropped_while_memory_is_registered(fake):
    """The collector may run in the middle of register() of another connector."""
    block = ctypes.create_string_buffer(200)
    address = ctypes.addressof(block)
    connectors = [kvd.lmcache.Connector(URL, num_workers=1)]
    other = kvd.lmcache.Connector(URL, num_workers=1)
    connectors[0].register(address, 100)
    opened = fake.open

    def drop(*given):
        connectors.clear()
        return opened(*given)

    fake.open = drop
    thread = threading.Thread(target=other.register, args=(address + 100, 100), daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    until(lambda: list(fake.memory.values()) == [(address + 100, 100)])
    other.close()


def test_arena_of_the_parent(fake):
    """A child has none, whatever a thread of the parent did at fork(2)."""
    block = ctypes.create_string_buffer(100)
    arena = kvd._engine.Arena.of(URL, {}, ctypes.addressof(block), 100)
    held, go = threading.Event(), threading.Event()

    def hold():
        with kvd._engine.Arena._lock:
            held.set()
            go.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    child = os.fork()
    if not child:
        free = kvd._engine.Arena._lock.acquire(False)
        os._exit(0 if free and not kvd._engine.Arena._all else 1)
    assert os.waitpid(child, 0)[1] == 0
    go.set()
    thread.join()
    arena.leave()


def test_dropped_in_a_worker(fake):
    """Where garbage happens to be collected; it can't wait for itself."""
    connectors = [kvd.lmcache.Connector(URL, num_workers=1)]
    execute = fake._execute

    def drop(op):
        connectors.clear()
        return execute(op)

    threads = threading.enumerate()
    fake._execute = drop
    connectors[0].submit_batch_set(["a"], [b"v"])
    for thread in threads:
        if thread.name.startswith("kvd-lmcache"):
            thread.join(60)
            assert not thread.is_alive()
    while fake.handles:  # its last step, in a thread of its own
        pass


def test_in_a_child(connector, fake, monkeypatch):
    pid = os.getpid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: pid + 1)
        for call in (lambda: connector.submit_batch_exists(["a"]), connector.event_fd):
            with pytest.raises(kvd.InvalidError, match="parent"):
                call()
        kvd._workers.stop(connector._shared, [], pid)  # does nothing
    assert not connector._shared.breaker.closing
    assert result(connector, connector.submit_batch_exists(["a"])) == (True, "", [False])


def test_arena(fake):
    """One registration for all connectors that name it, until the last of them is closed."""
    block = ctypes.create_string_buffer(100)
    address = ctypes.addressof(block)
    connectors = [kvd.lmcache.Connector(URL, num_workers=1) for _ in range(2)]
    for connector in connectors:
        assert connector.register(address, 100) == (address, 100, 3, 4)
        with pytest.raises(kvd.InvalidError, match="already"):
            connector.register(address, 100)
    assert list(fake.memory.values()) == [(address, 100)]
    other = kvd.lmcache.Connector(URL, num_workers=1)
    other.register(address, 50)
    assert len(fake.memory) == 2
    handles = len(fake.handles)
    other.close()
    connectors[0].close()
    connectors[0].close()
    assert len(fake.memory) == 1 and len(fake.handles) == handles - 4
    connectors[1].close()
    assert not fake.memory and not kvd._engine.Arena._all


def test_what_lmcache_calls(connector):
    for name, arguments in CALLS.items():
        parameters = inspect.signature(getattr(connector, name)).parameters
        assert list(parameters) == arguments, name
    number = connector.submit_batch_set(["a", "b"], [bytearray(3), bytearray(3)])
    assert isinstance(number, int) and isinstance(connector.event_fd(), int)
    assert result(connector, number) == (True, "", [True, True])
