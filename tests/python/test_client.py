# SPDX-License-Identifier: MIT
"""Every operation of kvd.Client, and every way in which it refuses."""

import asyncio
import mmap
import os
import signal
import subprocess
import sys
import threading
import time

import kvd
import kvd.aio
import pytest
from conftest import CONFIG_2, DEADLINE_S, PATIENT, URL_2, Server, Stopped

numpy = pytest.importorskip("numpy")


@pytest.mark.extension
def test_dict(store):
    store["a"] = "1"
    store[b"b"] = bytearray(b"2")
    assert store["a"] == b"1" and store[b"b"] == b"2"
    assert "a" in store and "c" not in store
    del store["a"]
    with pytest.raises(KeyError):
        store["a"]
    with pytest.raises(kvd.NotFoundError):
        del store["a"]
    assert store.get("a") is None and store.get("a", 7) == 7
    assert len(store) == 1 and list(store) == [b"b"] and dict(store.items()) == {b"b": b"2"}


@pytest.mark.extension
@pytest.mark.parametrize("size", [0, 100, 16384, 16385, 65536, 65537, 1 << 20])
def test_lengths(store, size):
    value = os.urandom(size)
    store["k"] = value
    assert store["k"] == value
    assert store.get_by_request("k") == value
    assert store.gat("k", 100) == value
    assert store.get_many(["k", "absent", "k"]) == [value, None, value]


@pytest.mark.extension
def test_simple_calls(store):
    """What the extension does, or leaves to ctypes: both do the same (python.sh runs both)."""
    assert kvd._fast.extension == bool(os.environ.get("KVD_PYTHON_HOT"))

    class Bytes(bytes):
        pass

    class Text(str):
        pass

    names = ["k", b"k", bytearray(b"k"), memoryview(b"k"), Bytes(b"k"), Text("k")]
    values = [b"v", "v", bytearray(b"v"), memoryview(b"v"), Bytes(b"v"), Text("v"), [b"", b"v"]]
    last = 0
    for name in names:
        for value in values:
            store.delete("k")
            version = store.put(name, value)
            assert version > last and store.get(name) == store[name] == b"v"
            last = version
    for key, value in (("é", "ü"), ("k" * 1024, b""), (b"\0", b"\0" * 20000)):
        store[key] = value
        assert store.get(key) == (value.encode() if isinstance(value, str) else value)
        assert type(store.get(key)) is bytes
    sizes = {"k": 1, "é": 2, "k" * 1024: 0, b"\0": 20000, "absent": -kvd.Status.NOT_FOUND}
    for count in (0, 1, 255, 256, 257, 600):
        keys = (list(sizes) * 200)[:count]
        assert store.batch_sizes(keys) == [sizes[key] for key in keys]
        assert store.batch_sizes(iter(keys)) == [sizes[key] for key in keys]
    assert store.batch_sizes([*names, "absent"]) == [1] * len(names) + [-kvd.Status.NOT_FOUND]
    assert store.batch_exists(["k", "absent"]) == [True, False]
    for keys in ([""], ["k", "k" * 1025], [7], ["\ud800"]):
        with pytest.raises((ValueError, TypeError)):
            store.batch_sizes(keys)
    assert store.get("absent", 5) == 5 and store.get("absent", default=None) is None
    for key in ("", "k" * 1025, b"k" * 1025, "é" * 513):
        with pytest.raises(kvd.InvalidError):
            store.get(key)
        with pytest.raises(kvd.InvalidError):
            store.put(key, "v")
    for key, value in ((7, "v"), (None, "v"), ("k", 7), ("k", None)):
        with pytest.raises(TypeError):
            store.put(key, value)
    for call in (lambda: store.get("\udc80"), lambda: store.put("\udc80", "v"),
                 lambda: store.put("k", "\udc80")):
        with pytest.raises(UnicodeEncodeError):
            call()
    with pytest.raises(kvd.TooLargeError, match="limits.max_value"):
        store.put("k", bytes(store.info()["value_max"] + 1))


@pytest.mark.extension
def test_other_threads_run_during_a_call(shared_server, store):
    """A call waits for a server that is stopped until another thread has it go on, which can run
    only when the call lets it: Python by itself would not switch before that ends."""
    called = threading.Event()

    def go_on():
        called.wait()
        os.kill(shared_server.process.pid, signal.SIGCONT)

    calls = [lambda: store.put("k", "v"), lambda: store.get_by_request("k"),
             lambda: store.put_many([("k", "v")]), store.ping]
    interval = sys.getswitchinterval()
    for call in calls:
        called.clear()
        thread = threading.Thread(target=go_on)
        with Stopped(shared_server):
            thread.start()
            try:
                sys.setswitchinterval(1000)
                called.set()
                call()
            finally:
                sys.setswitchinterval(interval)
        thread.join()


@pytest.mark.extension
def test_timeouts(shared_server, store):
    with kvd.Client(store.url, timeout_ms=50) as client, Stopped(shared_server):
        for call in (lambda: client.put("late", "v"), lambda: client.get_by_request("k"),
                     lambda: client.put_many([("late", "v")])):
            with pytest.raises(kvd.TimedOutError) as caught:
                call()
            assert str(caught.value)


@pytest.mark.device
def test_put_modes(store):
    with pytest.raises(kvd.NotFoundError):
        store.replace("k", "v")
    with pytest.raises(kvd.NotFoundError):
        store.append("k", "v")
    first = store.add("k", "1", flags=5)
    with pytest.raises(kvd.ExistsError):
        store.add("k", "2")
    assert store.append("k", "2") > first and store.prepend("k", "0") > first
    item = store.get_item("k")
    assert item.value == b"012" and item.flags == 5 and item.expires_s == 0
    with pytest.raises(kvd.ExistsError):
        store.cas("k", "x", first)
    version = store.cas("k", "x", item.version)
    assert store.replace("k", "y", ttl_s=100, pin_s=1, priority=kvd.Priority.NORMAL) > version
    assert store.head("k").expires_s > 0
    with pytest.raises(kvd.ExistsError):
        store.delete_if("k", version)
    assert store.delete_if("k", store.head("k").version) is True
    assert store.delete_if("k", version) is False and store.delete("k") is False


def test_numbers(store):
    with pytest.raises(kvd.NotFoundError):
        store.incr("n")
    assert store.incr("n", initial=7, ttl_s=50, flags=3) == 7
    number = store.incr("n", 5)
    assert number == 12 and number.version == store.head("n").version
    assert store.head("n").flags == 3 and store.head("n").expires_s
    assert store.decr("n", 100) == 0
    store["n"] = str(2**64 - 1)
    assert store.incr("n", 2) == 1
    store["n"] = "x"
    with pytest.raises(kvd.NotANumberError):
        store.decr("n")


def test_touch(store):
    version = store.put("k", "v")
    assert store.touch("k", 1000) == version and store.head("k").expires_s
    assert store.touch("k", 0) == version and not store.head("k").expires_s
    with pytest.raises(kvd.NotFoundError):
        store.touch("absent", 1)


def test_setdefault_and_pop(store):
    assert store.setdefault("k", "a") == b"a" and store.setdefault("k", "b") == b"a"
    assert store.pop("k") == b"a" and store.pop("k", 3) == 3


@pytest.mark.device
def test_existence(store):
    keys = [f"key-{i}" for i in range(1500)]
    store.put_many((key, "x" * (i % 200)) for i, key in enumerate(keys[:1100]))
    assert store.batch_exists(keys) == [i < 1100 for i in range(1500)]
    assert store.exists_prefix(keys) == 1100 and store.exists_prefix([]) == 0
    assert store.exists_prefix(["absent", *keys]) == 0
    assert [h and h.value_len for h in store.heads(keys[1098:1102])] == [98, 99, None, None]


def test_many(store):
    pairs = [(f"key-{i}", os.urandom(i)) for i in range(2500)]
    versions = store.put_many(pairs)
    assert versions == sorted(versions) and len(set(versions)) == 2500
    assert store.get_many(key for key, _ in pairs) == [value for _, value in pairs]
    with pytest.raises(kvd.ExistsError) as caught:
        store.put_many([("new", "1"), ("key-1", "2")], mode=kvd.PutMode.IF_ABSENT)
    assert caught.value.results[0] > 0 and isinstance(caught.value.results[1], kvd.ExistsError)
    assert store.delete_many(["key-1", "absent", "key-2"]) == [True, False, True]


def test_scan(store):
    store.put_many((f"a{i}", str(i)) for i in range(300))
    store.put_many((f"b{i}", "other") for i in range(300))
    assert {entry.key: entry.value for entry in store.scan("a", values=True)} == \
        {f"a{i}".encode(): str(i).encode() for i in range(300)}
    found = list(store.scan(count=7))
    assert len({entry.key for entry in found}) == 600 and found[0].value is None
    for prefix in (5, None, ["a"]):
        with pytest.raises(TypeError):
            store.scan_part(0, prefix)
    scan = store.scan("a")
    next(scan)
    assert store["b1"] == b"other"  # between two entries


def test_scan_uses(store):
    store.put_many((f"a{i}", str(i)) for i in range(300))
    store.put("b", "other", priority=kvd.Priority.LOW)
    store.put("c", "other", pin_s=100)
    used = {entry.key: entry for entry in store.scan_uses(count=7)}
    assert len(used) == 302 and used[b"a7"].use == kvd.Use.NORMAL
    assert used[b"b"].use == kvd.Use.LOW and used[b"c"].use == kvd.Use.PINNED
    assert used[b"c"].head == store.head("c")
    assert [entry.key for entry in store.scan_uses("b")] == [b"b"]


@pytest.mark.device
def test_server(store):
    store.ping()
    stats = store.stats()
    assert stats["items"] == 0 and all(isinstance(name, str) for name in stats)
    info = store.info()
    assert info["connection"] == "up" and info["value_max"] >= 1 << 20
    before = store.clock_ns()
    store.put("lives", "x", ttl_s=1000)
    store.ping()
    assert before // 10 ** 9 + 999 <= store.get_item("lives").expires_s \
        <= store.clock_ns() // 10 ** 9 + 1002
    store.delete("lives")
    ids = [int(client["id"]) for client in store.clients()]
    other = kvd.Client(store.url, reconnect=0, **PATIENT)
    (new,) = {int(client["id"]) for client in store.clients()} - set(ids)
    store.kill(new)
    deadline = time.monotonic() + DEADLINE_S
    with pytest.raises(kvd.DisconnectedError):  # the server answers before the client notices
        while time.monotonic() < deadline:
            other.ping()
    other.close()
    with pytest.raises(kvd.NotFoundError):  # until it has closed, over RDMA
        while time.monotonic() < deadline:
            store.kill(new)
    with pytest.raises(kvd.NotFoundError):
        store.revoke("id=123456789")
    store["k"] = "v"
    ticket = store.flush_start()
    while not store.flush_done(ticket):
        pass
    assert "k" not in store


@pytest.mark.device
def test_into(store):
    store["k"] = b"0123456789"
    buffer = bytearray(12)
    assert store.get_into("k", buffer) == 10 and buffer[:10] == b"0123456789"
    array = numpy.zeros(5, dtype=numpy.uint16)
    assert store.get_into("k", array) == 10 and array.tobytes() == b"0123456789"
    with pytest.raises(kvd.BufferTooSmallError) as caught:
        store.get_into("k", memoryview(buffer)[:4])
    assert caught.value.needed == 10
    with pytest.raises(kvd.NotFoundError):
        store.get_into("absent", buffer)
    first, second = bytearray(4), bytearray(8)
    assert store.get_into("k", [first, second]) == 10
    assert first == b"0123" and second[:6] == b"456789"
    store.put_from("k", [b"ab", bytearray(b"cd"), memoryview(b"ef")])
    assert store["k"] == b"abcdef"
    store.put_from("k", numpy.arange(4, dtype=numpy.uint8))
    assert store["k"] == bytes(range(4))
    whole = numpy.zeros((2, 4), dtype=numpy.uint16)
    assert store.get_into("k", whole) == 4 and whole.tobytes()[:4] == bytes(range(4))
    objects = numpy.array([None] * 4)
    dated = numpy.zeros(4, [("a", "M8[s]"), ("b", "O")])
    for bad in (b"read-only", memoryview(bytearray(10))[::2], 5, None, "text", whole[:, ::2],
                whole.T, objects, memoryview(objects), dated,
                numpy.zeros(4, [("a", "u1"), ("b", "O")]), (1, 2, 3), ("address", 5)):
        with pytest.raises(TypeError):
            store.get_into("k", bad)
        with pytest.raises(TypeError):
            store.batch_get_into(["k"], [bad])
    assert list(objects) == [None] * 4
    frozen = numpy.array([None])
    frozen.flags.writeable = False
    for bad in (memoryview(bytearray(10))[::2], whole[:, ::2], whole.T, objects, dated, frozen, 5,
                None):
        with pytest.raises(TypeError):
            store.put("k", bad)
        with pytest.raises(TypeError):
            store.put_many([("k", bad)])


def test_kinds_of_buffers(store):
    """Every kind of elements and shape, also what has no format in the buffer protocol."""
    for dtype in ("u1", "f8", "?", "M8[s]", "S5", "c16", [("Often", "u1"), ("b", "f4")]):
        array = numpy.zeros((3, 2), dtype)
        array.view("u1")[:] = numpy.arange(array.nbytes, dtype="u1").reshape(3, -1)
        store["k"] = array
        assert store["k"] == array.tobytes()
        into = numpy.zeros((3, 2), dtype)
        assert store.get_into("k", into) == array.nbytes and into.tobytes() == array.tobytes()
        array.flags.writeable = False
        store["k"] = array
        assert store.get_into("k", [into]) == array.nbytes
    store["k"] = numpy.float64(1)
    assert store.get_into("k", memoryview(bytearray(16)).cast("I")) == 8
    for empty in (b"", bytearray(), memoryview(b""), numpy.zeros(0), ""):
        store["k"] = empty
        assert store["k"] == b"" and store.get_into("k", bytearray()) == 0
    with pytest.raises(kvd.BufferTooSmallError):
        store["k"] = "v"
        store.get_into("k", bytearray())


def backing(kind, size):
    if kind == "bytearray":
        return bytearray(size)
    if kind == "numpy":
        return numpy.zeros(size, dtype=numpy.uint8)
    return mmap.mmap(-1, size)


@pytest.mark.device
@pytest.mark.parametrize("kind", ["bytearray", "numpy", "mmap"])
def test_register(store, kind):
    buffer = backing(kind, 1 << 20)
    with store.register(buffer) as memory:
        value = os.urandom(300000)
        memory.view[:300000] = value
        direct = store.client_stats()["direct_bytes"]
        assert store.put_from("k", memory[:300000])
        assert store.get_into("k", memory[400000:800000]) == 300000
        assert bytes(memory[400000:700000]) == value
        assert store.get_into("k", (memory.address + 8, 300000)) == 300000
        assert bytes(memory[8:300008]) == value
        assert store.get_into("k", memory) == 300000 and memory[:300000] == value
        assert store.client_stats()["direct_bytes"] >= direct + 900000
        assert memory.info().bytes == len(memory) == 1 << 20
        with pytest.raises(kvd.InvalidError):
            store.register(buffer)
        with pytest.raises(kvd.InvalidError):
            store.get_into("k", (memory.address + 8, 1 << 20))
        if kind == "bytearray":
            with pytest.raises(BufferError):
                buffer.extend(b"more")
    with pytest.raises(kvd.InvalidError):
        memory.view
    if kind == "bytearray":
        buffer.extend(b"more")


@pytest.mark.device
def test_ranges(store):
    value = bytes(numpy.arange(1 << 18, dtype=numpy.uint32).tobytes())
    store["k"] = value
    for offset, size in ((0, 10), (65535, 2), (100000, 300000), (len(value) - 5, 10), (1 << 30, 1)):
        want = value[offset:offset + size]
        assert store.get_range("k", offset, size) == want
        into = bytearray(size)
        assert store.get_range_into("k", offset, into) == len(want)
        assert into[:len(want)] == want
    assert store.get_range("absent", 0, 10) is None
    with store.alloc(1 << 20) as memory:
        assert store.batch_get_ranges_into(["k", "k", "absent"], [70000, 5, 0], [
            memory[:200000], memory[200000:200010], memory[300000:300001],
        ]) == [200000, 10, -kvd.Status.NOT_FOUND]
        assert bytes(memory.view[:200000]) == value[70000:270000]
        assert bytes(memory.view[200000:200010]) == value[5:15]


@pytest.mark.device
def test_alloc(store):
    memory = store.alloc(1 << 20)
    view = numpy.frombuffer(memory.view, dtype=numpy.uint8)
    view[:] = 7
    assert store.batch_put_from(["a", "b"], [memory[:100000], memory[100000:300000]]) == [0, 0]
    view[:] = 0
    assert store.batch_get_into(["a", "absent", "b", "b"], [
        memory[:100000], memory[100000:200000], memory[200000:400000], memory[500000:500010],
    ]) == [100000, -kvd.Status.NOT_FOUND, 200000, -kvd.Status.ERR_BUFFER]
    assert (view[:100000] == 7).all() and (view[200000:400000] == 7).all()
    with pytest.raises(kvd.BusyError):
        memory.release()
    del view
    memory.release()
    memory.release()
    assert memory.released





@pytest.mark.device
def test_threads_are_refused(store, shared_server):
    """A second thread is refused while a call waits for a server that is stopped."""
    errors = []

    def wait():
        try:
            store.ping()
        except kvd.Error as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    with Stopped(shared_server):
        thread.start()
        with pytest.raises(kvd.ThreadError, match="client for each thread"):
            while thread.is_alive():  # until it is in its call
                store.info()
    thread.join()
    assert not errors


class Interrupt(Exception):
    """What a signal handler raises, as Python's own raises KeyboardInterrupt."""


@pytest.fixture
def interrupt():
    """Called with @seconds: after these a signal handler raises Interrupt; 0: no more."""
    armed = [False]

    def handler(*_):
        if armed[0]:
            raise Interrupt

    def arm(seconds):
        armed[0] = seconds > 0
        signal.setitimer(signal.ITIMER_REAL, seconds)

    before = signal.signal(signal.SIGALRM, handler)
    yield arm
    arm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.extension
def test_interrupts_leave_it_usable(store, interrupt):
    """Wherever in a call a handler raises, the next call is not refused, and batches are right."""
    store["k"] = "v"
    calls = [lambda: store.get("k"), lambda: store.put("k", "v"), store.info,
             lambda: store.head("k"), lambda: store.get_many(["k"] * 3)]
    for call in calls:
        for _ in range(8):
            try:
                interrupt(0.0003)
                while True:
                    call()
            except Interrupt:
                interrupt(0)
            assert store.get_many(["k", "absent"]) == [b"v", None]
            assert store.get("k") == b"v" and not store._pins
    store._guard.acquire(False)
    assert store.get("k") == b"v" and store.info()
    assert store._guard.acquire(False)  # it was released
    store._guard.release()



def test_interrupted_batch(shared_server, store, interrupt):
    """Changes that were sent are waited for, until their deadline; the next batch has its own."""
    client = kvd.Client(store.url, timeout_ms=100)
    buffer = bytearray(b"x" * 100)
    with Stopped(shared_server):
        interrupt(0.05)
        with pytest.raises(Interrupt):
            client.put_many((f"k{i}", buffer) for i in range(100))
    interrupt(0)
    buffer.extend(b"released")
    for tries in range(300):
        try:
            client.put_many([("a", "1"), ("b", "2")])
            assert client.get_many(["a", "b"]) == [b"1", b"2"]
            break
        except kvd.TimedOutError:  # a process without CPU may not keep the 100 ms
            assert tries < 299
    client.close()


@pytest.mark.extension
def test_restart():
    """A call waits for the next server, which has nothing; registered memory stays usable."""
    server = Server(CONFIG_2, URL_2)
    client = kvd.Client(URL_2, **PATIENT)
    once = kvd.Client(URL_2, reconnect=0, **PATIENT)
    memory = client.alloc(1 << 20)
    started = []
    try:
        client.put_from("k", memory[:300000])
        once["k"]
        server.end(signal.SIGKILL)
        thread = threading.Thread(target=lambda: started.append(Server(CONFIG_2, URL_2)))
        thread.start()
        assert client.get("k") is None
        thread.join()
        server = started[0]
        client["k"] = "w"
        assert client["k"] == b"w" and client.client_stats()["reconnects"] == 1
        memory.view[:300000] = b"x" * 300000
        client.put_from("long", memory[:300000])
        assert client.get_into("long", memory[500000:]) == 300000
        assert memory[500000:800000] == memory[:300000]
        with pytest.raises(kvd.DisconnectedError):
            once.get_by_request("k")
        once.close()
        client.close()
        memory.release()
    finally:
        server.end(signal.SIGKILL)


@pytest.mark.skipif(not URL_2.startswith("softnic"), reason="the URL of the fleet is softnic's")
def test_fleet(tmp_path):
    """A fleet of one member, by a file."""
    config, fleet = tmp_path / "kvd.ini", tmp_path / "fleet"
    fleet.write_text("[fleet]\nname = demo\nseed = 0x1234567890abcdef\nepoch = 7\n"
                     f"[member a]\nurl = {URL_2},rdma://127.0.0.1:1\nweight = 3\n")
    with open(CONFIG_2, encoding="ascii") as file:
        config.write_text(file.read() + f"[fleet]\nfile = {fleet}\nmember = a\n")
    server = Server(config, URL_2)
    try:
        with kvd.Client(f"fleet+{URL_2}/demo", **PATIENT) as store:
            store["k"] = "v"
            assert store["k"] == b"v"
            assert list(store) == [b"k"] and len(store) == 1 and store.ttl("k") == 0
            assert store.expire("k", 100000) and store.ttl("k") >= 100000 - 3 * DEADLINE_S
            info = store.fleet_info()
            assert info == ("demo", 7, info.generation, 16384, 0, 1) and info.generation
            assert store.fleet_member(0) == \
                ("a", [URL_2, "rdma://127.0.0.1:1"], "up", 3, 16384, 16384, False, False, False)
            shard = store.fleet_shard(store.fleet_key("k"))
            assert shard.member == 0 and shard.open and shard.since <= 7
            for call in (lambda: store.fleet_member(1), lambda: store.fleet_shard(16384)):
                with pytest.raises(kvd.NotFoundError):
                    call()
            for call in (lambda: store.fleet_drain("a"), lambda: store.fleet_undrain("a"),
                         store.fleet_rebalance):
                with pytest.raises(kvd.InvalidError, match="fleet.file"):
                    call()
        with kvd.Client(URL_2, **PATIENT) as member:
            for call in (member.fleet_info, lambda: member.fleet_member(0),
                         lambda: member.fleet_shard(0), lambda: member.fleet_key("k"),
                         member.fleet_rebalance):
                with pytest.raises(kvd.InvalidError):
                    call()
    finally:
        server.end(signal.SIGKILL)


@pytest.mark.skipif(not URL_2.startswith("softnic"), reason="administrators are on this host")
def test_tenants(tmp_path):
    config = tmp_path / "kvd.ini"
    with open(CONFIG_2, encoding="ascii") as file:
        config.write_text(file.read() + "[tenants]\nmemory = 64m\n")
    server = Server(config, URL_2)
    try:
        with kvd.Client(URL_2, **PATIENT) as admin:
            admin.tenant_create("alpha", 16 << 20)
            with pytest.raises(kvd.ExistsError):
                admin.tenant_create("alpha", 16 << 20)
            with pytest.raises(kvd.NoSpaceError):
                admin.tenant_create("large", 128 << 20)
            with pytest.raises(kvd.InvalidError):
                admin.tenant_create("a b", 16 << 20)
            admin.config_set({"log.level": "info", "server.drain_timeout": "7s"})
            assert admin.config()["server.drain_timeout"] == "7s"
            with pytest.raises(kvd.InvalidError, match="memory.size needs a restart"):
                admin.config_set({"log.level": "debug", "memory.size": "1g"})
            assert admin.config()["log.level"] == "info"
            assert admin.config_rewrite().endswith(": 2 options written\n")
            with kvd.Client(URL_2, tenant="alpha", **PATIENT) as alpha:
                alpha["k"], admin["k"] = "a", "d"
                assert alpha["k"] == b"a" and admin["k"] == b"d"
                assert alpha.info()["tenant"] == "alpha"
            tenants = {tenant["name"]: tenant for tenant in admin.tenants()}
            assert set(tenants) == {"default", "alpha"}
            assert int(tenants["alpha"]["bytes"]) == 16 << 20 and tenants["alpha"]["items"] == "1"
            admin.tenant_resize("alpha", 32 << 20)
            tenants = {tenant["name"]: tenant for tenant in admin.tenants()}
            assert int(tenants["alpha"]["bytes"]) == 32 << 20
            with pytest.raises(kvd.NotFoundError):
                admin.tenant_resize("nobody", 16 << 20)
            admin.tenant_drop("alpha")
            with pytest.raises(kvd.NotFoundError):
                admin.tenant_drop("alpha")
            with pytest.raises(kvd.RefusedError, match="alpha"):
                kvd.Client(URL_2, tenant="alpha", **PATIENT)

        async def main():
            async with kvd.aio.Client(URL_2, **PATIENT) as admin:
                await admin.tenant_create("beta", 16 << 20)
                await admin.tenant_resize("beta", 32 << 20)
                assert {t["name"]: t["bytes"] for t in await admin.tenants()}["beta"] == \
                    str(32 << 20)
                await admin.tenant_drop("beta")
                assert len(await admin.tenants()) == 1

        asyncio.run(main())
    finally:
        server.end()


@pytest.mark.extension
def test_observe(store):
    store.observe(True)
    store["k"] = "v"
    assert store["k"] == b"v"
    assert store.op_stats(kvd.Op.PUT, kvd.Path.REQUEST)["count"] == 1
    assert store.latency_ns(kvd.Op.PUT, 0.5) > 0
    assert store.client_stats()["puts"] >= 1 and "hits 1" in store.stats_text()
    assert 'kvd_client_operations_total{op="put"' in kvd.stats_text()
    assert kvd.process_stats()["puts"] >= 1
    store.observe(False)


@pytest.mark.extension
def test_fork(store):
    store["k"] = "parent"
    memory = store.alloc(4096)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            try:
                store.get("k")
            except kvd.DisconnectedError:
                try:
                    memory.view
                except kvd.InvalidError:
                    with kvd.Client(store.url, **PATIENT) as own:
                        own["k"] = own["k"] + b" and child"
                    store.close()
                    status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert store["k"] == b"parent and child"
    memory.release()


def test_exit_without_close(url):
    code = ("import kvd, sys; c = kvd.Client(sys.argv[1]); m = c.register(bytearray(99999)); "
            "a = c.alloc(99999); v = a.view; c['k'] = 'v'; print(c['k'])")
    done = subprocess.run([sys.executable, "-X", "dev", "-W", "ignore::ResourceWarning", "-c",
                           code, url], capture_output=True, timeout=DEADLINE_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"b'v'\n", b"")


def test_library_is_checked(tmp_path):
    def run(path):
        done = subprocess.run([sys.executable, "-c", "import kvd"], capture_output=True, text=True,
                              env={**os.environ, "KVD_LIBRARY": str(path)})
        assert done.returncode == 1
        return done.stderr.splitlines()[-1]

    assert "libkvd.so.0.4" in run(tmp_path / "absent.so")
    source = tmp_path / "old.c"
    source.write_text('const char *kvd_version(void) { return "0.2.0"; }\n')
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "old.so", source], check=True)
    assert "is libkvd 0.2.0, but this package needs 0.4" in run(tmp_path / "old.so")
    source.write_text('const char *kvd_version(void) { return "0.4.0"; }\n')
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "old.so", source], check=True)
    assert "has no function kvd_" in run(tmp_path / "old.so")
