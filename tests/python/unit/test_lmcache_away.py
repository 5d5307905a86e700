# SPDX-License-Identifier: MIT
"""The connector for LMCache while the server is away: what one thread finds out holds for all, the
network is left alone but for one probe at a time, and no buffer is touched after its batch. By
states and counts, not by time."""

import ctypes
import threading

import kvd
import kvd.lmcache
import pytest
from kvd import Status
from test_lmcache import URL, result, until, until_up


class Gate:
    """Probes and other openings of a connection, which succeed while `open` is set. `count`
    is the number of all, `most` of those that were under way at the same time."""

    def __init__(self, fake):
        self.fake, self.opened = fake, fake.open
        self.open, self.status = True, Status.ERR_UNREACHABLE
        self.count = self.now = self.most = 0
        fake.open = self

    def __call__(self, *given):
        self.count += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return self.opened(*given) if self.open else self.status
        finally:
            self.now -= 1


@pytest.fixture
def gate(fake):
    return Gate(fake)


@pytest.fixture
def connector(gate):
    connector = kvd.lmcache.Connector(URL, num_workers=2)
    yield connector
    connector.close()


def lose(connector, gate, fake):
    """A lookup finds that the server is gone. Returns its result."""
    gate.open = False
    fake._execute = lambda op: setattr(op, "status", Status.ERR_DISCONNECTED)
    number = connector.submit_batch_exists(["a"] * 100)
    lost = result(connector, number)
    del fake._execute
    assert connector.report_status()["connection"] == "away"
    return lost


def ended(connector, number):
    """The result of a batch that has ended in submit_batch_...()."""
    ((one, *rest),) = connector.drain_completions()
    assert one == number
    return tuple(rest)


def test_each_call_ends_at_once(connector, gate, fake):
    ok, text, found = lose(connector, gate, fake)
    assert (ok, found) == (True, [False] * 100) and "connection lost" in text
    assert sum(name == "kvd_exists_many" for name, _ in fake.calls) == 1  # not for each 32 keys
    asked = ("kvd_submit", "kvd_exists_many", "kvd_scan")
    calls = [name for name, _ in fake.calls if name in asked]
    view = memoryview(bytearray(b"x" * 16))
    for submit, ok in ((lambda: connector.submit_batch_exists(["a", "b"]), True),
                       (lambda: connector.submit_batch_get(["a", "b"], [view] * 2), True),
                       (lambda: connector.submit_batch_delete(["a", "b"]), True),
                       (lambda: connector.submit_batch_set(["a", "b"], [view] * 2), False)):
        number = submit()
        done, text, found = ended(connector, number)
        assert (done, found) == (ok, [False, False]) and "is away: " in text
    assert connector.get_object_sizes(["a", "b"]) == [None, None]
    with pytest.raises(ConnectionError, match="is away"):
        connector.list_l2_keys()
    assert [name for name, _ in fake.calls if name in asked] == calls
    assert view == b"x" * 16
    with pytest.raises(kvd.InvalidError, match="1 buffers"):
        connector.submit_batch_get(["a", "b"], [view])
    status = connector.report_status()
    assert not status["is_healthy"] and status["away"] == 5 and status["failed"] == 1
    gate.open = True
    until_up(connector)
    assert result(connector, connector.submit_batch_set(["a"], [view])) == (True, "", [True])
    assert connector.report_status()["losses"] == 1


def test_one_probe_at_a_time(connector, gate, fake):
    lose(connector, gate, fake)
    before = gate.count
    until(lambda: connector.report_status()["probes"] > 6)
    status = connector.report_status()
    assert status["why"] and not status["is_healthy"] and gate.most == 1
    gate.open = True
    until_up(connector)
    probes = connector.report_status()["probes"]
    assert gate.count - before == probes and gate.most == 1
    # A thread connects again when it has something to do.
    for _ in range(2):
        result(connector, connector.submit_batch_exists(["a"]))
    assert gate.count - before == probes + 1
    assert connector.report_status()["why"] == ""


def test_a_loss_ends_what_waits(connector, gate, fake):
    """Batches that are executed, too: their connections are closed before they end."""
    fake.hold = True
    buffers = [bytearray(16) for _ in range(5)]
    numbers = [connector.submit_batch_get(["a"], [buffer]) for buffer in buffers]
    until(lambda: fake.flying and connector.report_status()["queued"] == 3)
    until(lambda: sum(name == "kvd_submit" for name, _ in fake.calls) == 2)
    lookup = None
    gate.open = False
    fake._execute = lambda op: setattr(op, "status", Status.ERR_DISCONNECTED)
    lookup = connector.submit_batch_exists(["b"])
    found = {}
    until(lambda: found.update((one[0], one[1:]) for one in connector.drain_completions()) or
          len(found) == 6)
    assert sorted(found) == [*numbers, lookup]
    assert all(ok and done == [False] and text for ok, text, done in found.values())
    assert sum(name == "kvd_submit" for name, _ in fake.calls) == 2
    assert fake.flying == [] and sum(name == "kvd_close" for name, _ in fake.calls) >= 2
    for buffer in buffers:
        buffer.extend(b"more")  # it is not exported
    fake.hold = False
    del fake._execute
    gate.open = True


def test_what_waits_needs_no_thread(fake, gate):
    """A queued batch ends though the only thread that could take it is in a call."""
    connector = kvd.lmcache.Connector(URL, num_workers=1)
    entered, go, execute = threading.Event(), threading.Event(), fake._execute

    def slowly(op):
        if op.key == b"slow":
            entered.set()
            go.wait(60)
            return execute(op)
        op.status = Status.ERR_DISCONNECTED
        return None

    fake._execute = slowly
    first = connector.submit_batch_set(["slow"], [b"v"])
    assert entered.wait(60)
    numbers = [connector.submit_batch_set(["a"], [b"v"]) for _ in range(2)]
    numbers.append(connector.submit_batch_exists(["b"]))
    found = []
    until(lambda: found.extend(connector.drain_completions()) or len(found) == 3)
    assert sorted(one[0] for one in found) == numbers
    go.set()
    assert result(connector, first)[0]
    connector.close()


def test_a_thread_that_cannot_connect(connector, gate, fake):
    """As one that has lost its connection."""
    lose(connector, gate, fake)
    gate.open = True
    until_up(connector)
    gate.open, gate.status = False, Status.ERR_BUSY
    assert result(connector, connector.submit_batch_get(["a"], [bytearray(1)]))[0]
    status = connector.report_status()
    assert (status["losses"], status["connection"]) == (2, "away")
    gate.open = True


def test_pauses(fake, monkeypatch):
    """Pauses double up to a second, until a batch has succeeded; and the server is back only when
    nothing is left to do."""
    longest, failures, left = [], [True] * 9, [True, False]

    def probe():
        if failures:
            failures.pop()
            raise kvd.UnreachableError("why")

    monkeypatch.setattr(kvd._breaker.random, "uniform", lambda _, most: longest.append(most) or 0)
    breaker = kvd._breaker.Breaker(URL, probe, lambda: not left.pop(0))
    breaker.thread.start()

    def trip():
        with breaker.changed:
            assert breaker.trip(breaker.losses, Status.ERR_AWAY, "gone")
            assert not breaker.trip(breaker.losses, Status.ERR_AWAY, "gone")
            assert not breaker.trip(0, Status.ERR_AWAY, "gone")
        until(lambda: not breaker.status)

    trip()
    assert longest == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64] + [1.0] * 4
    assert breaker.probes == 11 and not left
    left.append(False)
    trip()
    breaker.works()
    left.append(False)
    trip()
    assert longest[11:] == [1.0, 0.01] and breaker.losses == 3
    breaker.close()
    breaker.thread.join(60)
    assert not breaker.thread.is_alive()


def test_starts_without_the_server(fake, gate):
    gate.open = False
    connector = kvd.lmcache.Connector(URL)
    assert gate.count >= 1 and connector.report_status()["connection"] == "away"
    ok, text, found = ended(connector, connector.submit_batch_exists(["a"]))
    assert (ok, found) == (True, [False]) and "is away" in text
    gate.open = True
    until_up(connector)
    assert result(connector, connector.submit_batch_set(["a"], [b"v"])) == (True, "", [True])
    connector.close()
    for status, error in ((Status.ERR_AUTH, kvd.AuthError), (Status.ERR_DEVICE, kvd.DeviceError)):
        gate.open, gate.status = False, status
        with pytest.raises(error):
            kvd.lmcache.Connector(URL)


def test_somebody_must_mend_it(connector, gate, fake):
    """A client that may not connect any more is no miss."""
    lose(connector, gate, fake)
    gate.status = Status.ERR_AUTH
    until(lambda: not result(connector, connector.submit_batch_exists(["a"]))[0])
    gate.open = True


def test_arena_of_a_server_that_is_away(fake, gate):
    """A probe registers it, and the server does not count as back before that is done."""
    block = ctypes.create_string_buffer(100)
    gate.open = False
    connector = kvd.lmcache.Connector(URL)
    assert connector.register(ctypes.addressof(block), 100) is None
    with pytest.raises(kvd.InvalidError, match="already"):
        connector.register(ctypes.addressof(block), 100)
    fake.status["kvd_register"] = Status.ERR_NO_MEMORY
    gate.open = True
    until(lambda: sum(name == "kvd_register" for name, _ in fake.calls) >= 2)
    assert connector.report_status()["connection"] == "away"
    assert not ended(connector, connector.submit_batch_exists(["a"]))[0]
    del fake.status["kvd_register"]
    until_up(connector)
    assert list(fake.memory.values()) == [(ctypes.addressof(block), 100)]
    connector.close()
    assert not fake.memory
    # The server goes away between the start and register().
    connector = kvd.lmcache.Connector(URL)
    gate.open = False
    assert connector.register(ctypes.addressof(block), 100) is None
    assert connector.report_status()["losses"] == 1
    gate.open = True
    until_up(connector)
    assert fake.memory
    connector.close()


def test_arena_of_a_server_that_is_back(fake, gate, monkeypatch):
    """The server goes away and comes back during register(): the arena is registered later."""
    block = ctypes.create_string_buffer(100)
    connector = kvd.lmcache.Connector(URL)
    shared = connector._shared

    def late(*given):
        shared.lose(shared.breaker.losses, Status.ERR_DISCONNECTED, "")
        until_up(connector)
        raise kvd.TimedOutError("late")

    with monkeypatch.context() as patch:
        patch.setattr(kvd.lmcache.Arena, "of", late)
        assert connector.register(ctypes.addressof(block), 100) is None
        patch.undo()
        until(lambda: fake.memory)
    until_up(connector)
    connector.close()


def test_close_does_not_wait_for_a_probe(fake, gate):
    connector = kvd.lmcache.Connector(URL)
    entered, go = threading.Event(), threading.Event()

    def hangs(*given):
        entered.set()
        go.wait(60)
        return Status.ERR_UNREACHABLE

    fake.open = hangs
    connector._shared.lose(0, Status.ERR_AWAY, "why")
    assert entered.wait(60)
    thread = connector._shared.breaker.thread
    connector.close()
    assert thread.is_alive() and not fake.handles
    assert connector.report_status()["connection"] == "closed"
    go.set()
    thread.join(60)
    assert not thread.is_alive()


def test_queued_for_too_long(fake):
    """Such a batch ends as a miss, and nothing was sent. The server is not away."""
    connector = kvd.lmcache.Connector(URL, queue_timeout_ms=0)
    view = bytearray(b"x")
    for submit, ok in ((lambda: connector.submit_batch_get(["a"], [view]), True),
                       (lambda: connector.submit_batch_set(["a"], [view]), False),
                       (lambda: connector.submit_batch_exists(["a"]), True)):
        assert result(connector, submit()) == (ok, "it has waited for queue_timeout_ms", [False])
    assert fake.ops == [] and view == b"x"
    status = connector.report_status()
    assert status["is_healthy"] and (status["expired"], status["away"], status["failed"]) == \
        (3, 0, 1)
    connector.close()


def test_lookup_is_bounded(fake):
    """After lookup_timeout_ms no more keys are asked for."""
    connector = kvd.lmcache.Connector(URL, lookup_timeout_ms=0)
    result(connector, connector.submit_batch_set(["a"], [b"v"]))
    ok, text, found = result(connector, connector.submit_batch_exists(["a"] * 100))
    assert (ok, found) == (True, [True] * 32 + [False] * 68) and "lookup_timeout_ms" in text
    assert connector.report_status()["connection"] == "up"
    connector.close()


def test_fleet(fake):
    """Members come and go one by one: a key whose member is away is a miss, and that is all."""
    connector = kvd.lmcache.Connector("fleet://fake/name")
    fake._execute = lambda op: setattr(op, "status", Status.ERR_AWAY)
    assert result(connector, connector.submit_batch_exists(["a"]))[::2] == (True, [False])
    assert result(connector, connector.submit_batch_get(["a"], [bytearray(1)]))[::2] == \
        (True, [False])
    assert connector.report_status()["connection"] == "up"
    connector.close()


def test_report_status(fake):
    connector = kvd.lmcache.Connector(URL)
    view = bytearray(16)
    result(connector, connector.submit_batch_set(["a", "b"], [view, view]))
    result(connector, connector.submit_batch_get(["a", "c"], [view, view]))
    result(connector, connector.submit_batch_exists(["a", "b", "c"]))
    result(connector, connector.submit_batch_delete(["a"]))
    status = connector.report_status()
    assert status.pop("since")[-1] == "Z"
    assert status == {
        "is_healthy": True, "connection": "up", "why": "", "url": URL, "losses": 0, "probes": 0,
        "queued": 0, "lookups": 3, "lookup_hits": 2, "loads": 2, "load_hits": 1, "stores": 2,
        "stored": 2, "deletes": 1, "deleted": 1, "bytes_loaded": 16, "bytes_stored": 32,
        "failed": 0, "away": 0, "expired": 0,
    }
    connector.close()
    assert not connector.report_status()["is_healthy"]


def test_variable_length(fake):
    """A chunk may be shorter than its buffer, if that is wanted; never longer."""
    connector = kvd.lmcache.Connector(URL, variable_length=True)
    result(connector, connector.submit_batch_set(["a", "b"], [b"12345", b"123456789"]))
    buffers = [bytearray(8), bytearray(8), bytearray(8)]
    number = connector.submit_batch_get(["a", "b", "c"], buffers)
    assert result(connector, number) == (True, "", [5, 0, 0])
    assert buffers[0][:5] == b"12345"
    assert connector.report_status()["bytes_loaded"] == 5
    connector.close()


def test_sizes_and_keys(fake):
    connector = kvd.lmcache.Connector(URL, prefix="p:")
    keys = [f"m@1@0@{i:02x}" for i in range(5)] + ["n@1@0@00", "m@1@0@" + "f" * 2000]
    result(connector, connector.submit_batch_set(keys, [b"x" * i for i in range(1, 8)]))
    result(connector, connector.submit_batch_exists(["x"]))
    fake.items[b"other"] = fake.items[b"p:n@1@0@00"]
    assert connector.get_object_sizes([keys[1], "x", keys[5]]) == [2, None, 6]

    def listed(**options):
        found, cursor = [], None
        while True:
            page, cursor = connector.list_l2_keys(cursor=cursor, **options)
            found += page
            if cursor is None:
                return found

    assert listed() == [*zip(keys[:5], range(1, 6)), (keys[5], 6)]
    assert listed(model_name="n") == [(keys[5], 6)] and listed(model_name="o") == []
    for options, text in (({"page_size": 0}, "at least 1"), ({"cursor": "x"}, "'x' is no cursor"),
                          ({"cursor": "²"}, "is no cursor"), ({"cursor": ""}, "is no cursor")):
        with pytest.raises(kvd.InvalidError, match=text):
            connector.list_l2_keys(**options)
    with pytest.raises(TypeError, match="list of keys"):
        connector.get_object_sizes("ab")
    fake.status["kvd_scan"] = Status.ERR_NOT_ALLOWED
    with pytest.raises(kvd.NotAllowedError):
        connector.list_l2_keys()
    connector.close()
    with pytest.raises(kvd.InvalidError, match="closed"):
        connector.list_l2_keys()
