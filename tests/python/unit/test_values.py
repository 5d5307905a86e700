# SPDX-License-Identifier: MIT
"""Values, their lengths and buffers; memory that lives as long as a view of it; results."""

import array
import ctypes
import gc
import mmap
import os
import re
import sys
import weakref

import kvd
import kvd.memory
import pytest
from kvd import Op, Status, _buffers
from kvd._operations import Operation

LENGTHS = (0, 1, 1023, 1024, 1025, 2048, 65535, 65536, 65537)


@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(both, fake, length):
    value = bytes(range(256)) * (length // 256 + 1)
    value = value[:length]
    version = both.put("k", value, flags=3)
    assert fake.items[b"k"].value == value
    assert both.get("k") == both.get_by_request("k") == both.gat("k", 5) == value
    assert both.get_item("k") == (value, version, 3, 1005)
    assert both.get_many(["k", "absent", "k"]) == [value, None, value]
    for size in (length - 1, length, length + 1):
        if size < 0:
            continue
        into, pair = bytearray(size), [bytearray(size // 2), bytearray(size - size // 2)]
        for buffer in (into, pair):
            if size < length:
                with pytest.raises(kvd.BufferTooSmallError) as caught:
                    both.get_into("k", buffer)
                assert caught.value.needed == length and str(size) in str(caught.value)
                assert both.batch_get_into(["k"], [into]) == [-Status.ERR_BUFFER]
            else:
                assert both.get_into("k", buffer) == length
                assert both.batch_get_into(["k", "absent"], [into, bytearray(9)]) == \
                    [length, -Status.NOT_FOUND]
                assert into[:length] == value and b"".join(pair)[:length] in (value, bytes(length))


@pytest.mark.parametrize("length", LENGTHS)
def test_ranges(both, fake, length):
    value = bytes(range(256)) * (length // 256 + 1)
    value = value[:length]
    both.put("k", value)
    for offset in (0, 1, length // 2, length, length + 1, 1 << 40):
        for size in (0, 1, 100, length, 1 << 20):
            want = value[offset:offset + size]
            into = bytearray(b"\xee" * size)
            assert both.get_range("k", offset, size) == want
            assert both.get_range_into("k", offset, into) == len(want)
            assert into == want + b"\xee" * (size - len(want))
            assert both.batch_get_ranges_into(["k", "absent", "k"], [offset, 0, 0], [
                into, bytearray(1), bytearray(size)]) == [len(want), -Status.NOT_FOUND,
                                                          min(size, length)]
    assert both.get_range("absent", 0, 1) is None
    with pytest.raises(kvd.NotFoundError):
        both.get_range_into("absent", 0, bytearray(1))
    for offset, size in ((-1, 1), (0, -1), (1 << 64, 1)):
        with pytest.raises(kvd.InvalidError):
            both.get_range("k", offset, size)
    with pytest.raises(TypeError):
        both.get_range("k", "0", 1)
    with pytest.raises(ValueError):
        both.batch_get_ranges_into(["k"], [0, 1], [into])


@pytest.mark.parametrize("lengths", [(70000, 90000, 80000), (70000, 69999, 69999),
                                     (70000, 5, 5), (70000, 150000, 150000)])
def test_a_value_that_changes_while_it_is_read(both, fake, lengths):
    """The first answer says how long it is, and it has another length then."""
    values = [bytes([65 + i]) * length for i, length in enumerate(lengths)]
    execute, turn = fake._execute, []

    def other_each_time(op):
        both_value = values[min(len(turn), 2)]
        turn.append(op)
        fake.items[b"k"].value, fake.items[b"k"].value_len = both_value, len(both_value)
        return execute(op)

    both.put("k", "v")
    fake._execute = other_each_time
    for call in (lambda: both.get("k"), lambda: both.get_many(["k"])[0],
                 lambda: both.get_item("k").value):
        turn.clear()
        value = call()
        assert value == values[len(turn) - 1 if len(turn) < 3 else 2] and turn


def test_no_value_of_before(both, fake):
    """Nothing of a longer value follows a shorter one, or of one key in the value of another."""
    both.put("long", b"x" * 1000)
    both.put("short", b"y")
    assert [both.get(key) for key in ("long", "short", "long")] == [b"x" * 1000, b"y", b"x" * 1000]
    assert both.get_many(["long", "short"]) == [b"x" * 1000, b"y"]


def test_defaults_and_existence(both, fake):
    assert both.get("k") is None and both.get("k", 0) == 0 and both.get_by_request("k", "") == ""
    assert both.get_item("k") is None and both.head("k") is None
    assert both.exists("k") is False and both.delete("k") is False
    version = both.put("k", "v", flags=9, ttl_s=5)
    assert both.exists("k") is True and both.head("k") == (1, version, 9, 1005)
    assert both.heads(["a", "k"]) == [None, (1, version, 9, 1005)]
    assert both.batch_exists(["k", "a"]) == [True, False]
    assert both.batch_sizes(["k", "a"]) == [1, -Status.NOT_FOUND]
    assert both.exists_prefix(["a", "k"]) == 0
    assert both.exists_prefix(["k", "k", "a", "k"]) == 2 and both.exists_prefix([]) == 0
    assert both.exists_prefix(["k"] * 63 + ["a"]) == 63 and both.exists_prefix(["k"] * 64) == 64
    assert both.exists_prefix(["k"] * 64 + ["a"]) == 64 and both.exists_prefix(["k"] * 65) == 65
    assert both.delete_many(["k", "a"]) == [True, False]


@pytest.mark.parametrize("count", [1, 1025])
def test_many(both, fake, count):
    keys = [f"k{i}" for i in range(count)]
    assert both.put_many(zip(keys, keys)) == list(range(1, count + 1))
    assert both.get_many(keys) == [key.encode() for key in keys]
    assert both.batch_exists([*keys, "a"]) == [True] * count + [False]
    assert len(both.batch_sizes([*keys, "a"])) == count + 1
    assert both.exists_prefix([*keys, "a", "k0"]) == count
    assert [head.version for head in both.heads(keys)] == list(range(1, count + 1))
    assert both.delete_many(keys) == [True] * count and not fake.items


def test_what_the_library_is_asked_for(both, fake):
    both.put("k", "1")
    for call, code in ((lambda: both.get("k"), Op.GET), (lambda: both.get_item("k"), Op.GET),
                       (lambda: both.get_by_request("k"), Op.GET_BY_REQUEST),
                       (lambda: both.gat("k", 1), Op.GET_AND_TOUCH), (lambda: both.incr("k"), 4),
                       (lambda: both.get_into("k", bytearray(9)), Op.GET),
                       (lambda: both.decr("k"), Op.DECR), (lambda: both.touch("k", 1), Op.TOUCH),
                       (lambda: both.exists("k"), Op.EXISTS), (lambda: both.delete("k"), 2)):
        call()
        assert fake.ops[-1].op == code and fake.ops[-1].key == b"k"


def test_one_of_many_fails(both, fake):
    both.put("k", "v")
    with pytest.raises(kvd.ExistsError) as caught:
        both.put_many([("new", "1"), ("k", "2"), ("other", "3")], mode=kvd.PutMode.IF_ABSENT)
    results = caught.value.results
    assert results[::2] == [2, 3] and results[1] is caught.value
    assert both.batch_put_from(["k", "l"], [b"1", b"2"]) == [0, 0]
    execute = fake._execute
    fake._execute = lambda op: execute(op) if op.key != b"k" else setattr(
        op, "status", Status.ERR_LIMIT)
    assert both.batch_put_from(["k", "l"], [b"1", b"2"]) == [-Status.ERR_LIMIT, 0]
    for call in (both.get_many, both.delete_many):
        with pytest.raises(kvd.LimitError):
            call(["l", "k"])
    fake._execute = execute
    for call in (lambda: both.batch_put_from(["k"], []), lambda: both.batch_get_into([], [b""])):
        with pytest.raises(ValueError):
            call()
    for call in (both.get_many, both.delete_many, both.heads, both.batch_exists,
                 both.exists_prefix, lambda key: both.batch_get_into(key, []),
                 lambda key: both.batch_put_from(key, [])):
        for one in ("key", b"key", bytearray(b"k"), memoryview(b"k")):
            with pytest.raises(TypeError, match="list of keys"):
                call(one)


def test_one_of_many_is_refused(both, fake):
    """The library submits all or none: what it refuses fails alone, and the rest is done."""
    long = b"v" * ((1 << 20) + 1)
    keys = [f"k{i}" for i in range(1030)]
    buffers = [long if i in (1, 1025) else b"v" for i in range(1030)]
    codes = both.batch_put_from(keys, buffers)
    assert [i for i, code in enumerate(codes) if code] == [1, 1025]
    assert codes[1] == codes[1025] == -Status.ERR_TOO_LARGE and len(fake.items) == 1028
    fake.items.clear()
    with pytest.raises(kvd.TooLargeError, match="the reason") as caught:
        both.put_many(zip(keys[:3], buffers))
    assert caught.value.results[1] is caught.value and len(fake.items) == 2
    fake.status["kvd_submit"] = Status.ERR_INVALID
    assert both.batch_get_into(["k0"], [bytearray(9)]) == [-Status.ERR_INVALID]
    with pytest.raises(kvd.InvalidError, match="the reason"):
        both.delete_many(["k0", "k1"])
    fake.status.clear()
    execute = fake._execute
    fake._execute = lambda op: execute(op) if op.key != b"k1" else setattr(
        op, "status", Status.ERR_NOT_ALLOWED)
    with pytest.raises(kvd.NotAllowedError) as caught:
        both.heads(["k0", "k1", "k2", "l"])
    results = caught.value.results
    assert results[0].value_len == 1 and results[1] is caught.value and results[2:][1] is None
    fake._execute = execute


def test_pairs(both, fake):
    """A mapping is its items; what is no pair is not taken apart, and nothing is stored."""
    for items in ({"a": "1", b"b": b"2"}, iter([("a", "1"), ["b", "2"]])):
        fake.items.clear()
        assert len(both.put_many(items)) == 2
        assert both.get_many(["a", "b"]) == [b"1", b"2"]
    fake.items.clear()
    for item in ("ab", b"ab", bytearray(b"ab"), ("a",), ("a", "b", "c"), {1, 2}, {"ab": 1}, 7):
        with pytest.raises(TypeError, match=re.escape(f"{item!r} is not a pair")):
            both.put_many([("k", "v"), item])
    for items in ("ab", b"ab"):
        with pytest.raises(TypeError, match="is not a pair"):
            both.put_many(items)
    with pytest.raises(TypeError, match=r"xxx\.\.\.xxx") as caught:  # it may be a long value
        both.put_many(["x" * 1000])
    assert len(str(caught.value)) < 200
    for one in ("vw", b"vw", bytearray(2), memoryview(b"vw")):
        with pytest.raises(TypeError, match="list of buffers, not one"):
            both.batch_put_from(["k", "l"], one)
        with pytest.raises(TypeError, match="list of buffers, not one"):
            both.batch_get_into(["k", "l"], one)
    assert not fake.items


def test_every_status_of_every_call(both, fake):
    """The class is that of the status, and the text the library's."""
    both.put("k", "1")
    execute = fake._execute
    calls = [lambda: both.get("k"), lambda: both.get_by_request("k"), lambda: both.get_item("k"),
             lambda: both.gat("k", 1), lambda: both.get_into("k", bytearray(9)),
             lambda: both.put("k", "v"), lambda: both.delete("k"), lambda: both.delete_if("k", 1),
             lambda: both.incr("k"), lambda: both.decr("k"), lambda: both.touch("k", 1),
             lambda: both.head("k"), lambda: both.heads(["k"]), lambda: both.get_many(["k"])]
    if hasattr(both, "loop"):
        calls.append(both.ping)  # it is submitted there
    for status in (Status.ERR_LIMIT, Status.ERR_INVALID, Status.ERR_TIMEOUT):
        def fail(op):
            op.status = status

        fake._execute = fail
        for call in calls:
            with pytest.raises(kvd.errors.BY_STATUS[status]) as caught:
                call()
            assert str(caught.value)
    fake._execute = execute
    for name, call in (("kvd_ping", both.ping), ("kvd_flush_all", both.flush),
                       ("kvd_flush_start", both.flush_start), ("kvd_server_stats", both.stats),
                       ("kvd_flush_done", lambda: both.flush_done(1)),
                       ("kvd_flush_cancel", both.flush_cancel),
                       ("kvd_client_kill", lambda: both.kill(1)),
                       ("kvd_revoke", lambda: both.revoke("id=1")),
                       ("kvd_config_get", both.config),
                       ("kvd_config_set", lambda: both.config_set({"a.b": "1"})),
                       ("kvd_config_rewrite", both.config_rewrite),
                       ("kvd_tenant_drop", lambda: both.tenant_drop("a")),
                       ("kvd_tenant_create", lambda: both.tenant_create("a", 1)),
                       ("kvd_tenant_resize", lambda: both.tenant_resize("a", 1)),
                       ("kvd_observe", lambda: both.observe(True)),
                       ("kvd_stats_text", both.stats_text), ("kvd_scan", lambda: [*both.scan()]),
                       ("kvd_op_stats", lambda: both.op_stats(0, 0)),
                       ("kvd_register", lambda: both.register(bytearray(9))),
                       ("kvd_alloc", lambda: both.alloc(9))):
        if name == "kvd_ping" and hasattr(both, "loop"):
            continue
        fake.status[name] = Status.ERR_NOT_ALLOWED
        with pytest.raises(kvd.NotAllowedError, match="the reason"):
            call()
        fake.status.clear()
    fake.status["kvd_flush_done"] = Status.ERR_BUSY
    assert both.flush_done(1) is False
    fake.status.clear()
    assert both.flush_done(1) is True and both.ping() is None
    assert both.flush_cancel() == 2 and both.flush_cancel(5, any_owner=True) == 3
    assert fake.named("kvd_flush_cancel")[-1][:2] == (5, True)


def test_fleets(both, fake):
    assert both.fleet_info() == kvd.FleetInfo("fleet", 5, (1 << 64) - 1, 16384, 3, 2)
    urls = ["rdma://a", "rdma+tcp://a"]
    assert both.fleet_member(0) == ("a", urls, "unused", 7, 8, 9, True, False, False)
    assert both.fleet_member(1) == ("a", urls, "unused", 7, 8, 9, False, True, False)
    assert both.fleet_shard(0) == (None, False, 4) and both.fleet_shard(1) == (1, True, 4)
    assert both.fleet_key("abc") == 3
    for call, number, name in ((both.fleet_member, 2, "member"),
                               (both.fleet_shard, 16384, "shard")):
        with pytest.raises(kvd.NotFoundError, match=f"^fleet_{name}: no {name} {number}$"):
            call(number)
    both.fleet_rebalance()
    for call in (both.fleet_drain, both.fleet_undrain):
        call("b")
        assert fake.text == b"b"
    for status, error in ((Status.NOT_FOUND, "^fleet_drain: no member 'x'$"),
                          (Status.ERR_INVALID, "the reason"), (Status.ERR_BUSY, "the reason")):
        fake.status["kvd_fleet_drain"] = status
        with pytest.raises(kvd.errors.BY_STATUS[status], match=error):
            both.fleet_drain("x")
    for name, call in (("kvd_fleet_info", both.fleet_info),
                       ("kvd_fleet_key", lambda: both.fleet_key("k")),
                       ("kvd_fleet_undrain", lambda: both.fleet_undrain("a")),
                       ("kvd_fleet_rebalance", both.fleet_rebalance)):
        fake.status[name] = Status.ERR_INVALID
        with pytest.raises(kvd.InvalidError, match="the reason"):
            call()


def test_what_is_not_there(both, fake):
    """The text of NotFoundError names the call and the key: libkvd has none."""
    key = b"k\0\xff"
    shown = re.escape(repr(key))
    for name, call in (("append", lambda: both.append(key, "v")),
                       ("prepend", lambda: both.prepend(key, "v")),
                       ("replace", lambda: both.replace(key, "v")),
                       ("cas", lambda: both.cas(key, "v", 1)),
                       ("incr", lambda: both.incr(key)), ("decr", lambda: both.decr(key)),
                       ("touch", lambda: both.touch(key, 1)),
                       ("get", lambda: both.get_into(key, bytearray(9))),
                       ("get", lambda: both.get_into(key, [bytearray(9)])),
                       ("replace", lambda: both.put_many([(key, "v")], mode=2))):
        with pytest.raises(kvd.NotFoundError, match=f"^{name}: no key {shown}$"):
            call()
    for name, call, thing in (("client_kill", lambda: both.kill(7), "kill: no connection 7"),
                              ("revoke", lambda: both.revoke("id=1"),
                               "revoke: no connection 'id=1'"),
                              ("tenant_drop", lambda: both.tenant_drop("a"),
                               "tenant_drop: no tenant 'a'"),
                              ("tenant_resize", lambda: both.tenant_resize("a", 1),
                               "tenant_resize: no tenant 'a'")):
        fake.status[f"kvd_{name}"] = Status.NOT_FOUND
        with pytest.raises(kvd.NotFoundError, match=f"^{thing}$"):
            call()


def test_dict(store, fake):
    store["k"] = "v"
    assert "k" in store and store["k"] == b"v" and "l" not in store
    del store["k"]
    for call in (lambda: store["k"], lambda: store.__delitem__("k")):
        with pytest.raises(KeyError, match="no key 'k'"):
            call()


def test_setdefault_and_pop(both, fake):
    assert both.setdefault("k", "é", ttl_s=5) == "é".encode() and fake.ops[-1].ttl_s == 5
    assert both.setdefault("k", b"w") == "é".encode()
    assert both.pop("k") == "é".encode() and both.pop("k") is None and both.pop("k", 0) == 0
    assert both.setdefault("k", bytearray(b"x")) == b"x"
    # Others change the key each time.
    fake.status["kvd_put"] = Status.ERR_EXISTS
    del fake.items[b"k"]
    with pytest.raises(kvd.BusyError, match="100 times"):
        both.setdefault("k", "v")
    assert len(fake.named("kvd_put")) >= 100
    fake.status = {"kvd_delete_if": Status.ERR_EXISTS}
    both.put("k", "v")
    with pytest.raises(kvd.BusyError, match="100 times"):
        both.pop("k")
    assert len(fake.named("kvd_delete_if")) == 101


def test_scan(both, fake):
    keys = [b"a0", b"a1", b"a2", b"a3", b"a4", b"b"]
    both.put_many((key, key) for key in keys)
    found = list(both.scan("a", values=True, count=9))
    assert [entry[:2] for entry in found] == [(key, key) for key in keys[:5]]
    assert found[1].head == both.head("a1") and found[0].value == b"a0"
    assert [entry.key for entry in both.scan()] == keys
    assert [used for used in both.scan_uses(b"x")] == [
        (b"used", (1, 2, 3, 4), 5, 6, 7), (b"used", (1, 2, 3, 4), 6, 6, 7)]


def test_scan_part(store, fake, monkeypatch):
    store.put_many((f"a{i}", str(i)) for i in range(5))
    part, cursor = store.scan_part(0, "a", count=7)
    assert [entry.key for entry in part] == [b"a0", b"a1"] and cursor == 2
    assert store.scan_part(4, b"a")[1] == 0
    for prefix in (5, None, ["a"]):
        with pytest.raises(TypeError, match=f"not {type(prefix).__name__}"):
            store.scan_part(0, prefix)

    def fail(entry):
        raise MemoryError

    monkeypatch.setattr(kvd.client, "_entry", fail)  # can't pass through the library
    with pytest.raises(MemoryError):
        store.scan_part(0)


def test_what_the_server_says(both, fake, monkeypatch):
    fake.text = b"items 5\nversion 0.3 x\nempty \n\xff 1"
    assert both.stats() == {"items": 5, "version": "0.3 x", "empty": "", "\ufffd": 1}
    fake.text = b"id=5 addr=a=b x\nid=6\n"
    assert both.clients() == both.tenants() == [{"id": "5", "addr": "a=b"}, {"id": "6"}]
    fake.text = b"a=" + b"x" * (1 << 17)  # the first buffer is too short
    assert len(both.clients()[0]["a"]) == 1 << 17
    monkeypatch.setattr(kvd.client, "_TEXT_MAX", 1 << 16)
    with pytest.raises(kvd.BufferTooSmallError):
        both.clients()
    info = both.info()
    assert info["device_kind"] == "soft\ufffd" and info["value_max"] == 1 << 40
    assert info["reconnects"] == 3 and info["tenant"] is None
    assert list(both.client_stats().items())[:2] == [("gets", 1), ("hits", 2)]
    assert list(kvd.process_stats().values()) == list(range(1, 34))
    fake.text = "é 1".encode()
    assert both.stats_text() == "é 1" and fake.named("kvd_stats_text")[-1][0] == 0
    assert both.stats_text(True) == kvd.stats_text() == "é 1"
    assert fake.calls[-1][1][:2] == (None, 1)
    stats = both.op_stats(3, 4)
    assert (stats["count"], stats["errors"]) == (4, 5)
    assert stats["queue"] == dict(zip(stats["queue"], range(10, 18)))
    assert stats["service"]["p999_ns"] == 27 and stats["service"]["count"] == 20
    for on in (True, False, 5):
        both.observe(on)
        assert fake.named("kvd_observe")[-1] == (int(bool(on)),)
    assert both.clock_ns() is None
    both.put("k", "v")
    assert both.clock_ns() == 1


# Buffers.

def test_keys(both, fake):
    for key in ("k", b"k", bytearray(b"k"), memoryview(b"k"), array.array("B", b"k")):
        both.put(key, "v")
        assert fake.ops[-1].key == b"k"
    for key in ("k" * 1024, "é" * 512):
        both.put(key, "v")
    for key in ("", b"", "k" * 1025, "é" * 513, bytearray()):
        with pytest.raises(kvd.InvalidError, match="1 to 1024 bytes, not"):
            both.get(key)
    for key in (5, None, ["k"]):
        with pytest.raises(TypeError, match=f"str or bytes, not {type(key).__name__}"):
            both.get(key)


def kinds():
    page = mmap.mmap(-1, 4096)
    page[:4] = b"abcd"
    frozen = memoryview(bytearray(b"abcd")).toreadonly()
    return [b"abcd", "abcd", bytearray(b"abcd"), memoryview(b"abcd"), frozen,
            array.array("H", b"abcd"), memoryview(page)[:4], (ctypes.c_char * 4)(*b"abcd"),
            [b"ab", "", bytearray(b"c"), frozen[3:]], [b"", b"abcd"], [b"abcd"]]


@pytest.mark.parametrize("value", kinds(), ids=lambda value: type(value).__name__)
def test_values_of_each_kind(both, fake, value):
    both.put("k", value)
    assert fake.items[b"k"].value == b"abcd"
    both.put_many([("l", value)])
    assert fake.items[b"l"].value == b"abcd"
    assert both.batch_put_from(["m"], [value]) == [0] and both.get("m") == b"abcd"


@pytest.mark.parametrize("empty", [b"", "", bytearray(), memoryview(b""), memoryview(bytearray())])
def test_empty_values(both, fake, empty):
    both.put("k", "v")
    both.put("k", empty)
    assert both.get("k") == b"" and both.get_into("k", bytearray()) == 0


STRIDED = memoryview(bytearray(10))[::2]
OBJECTS = memoryview((ctypes.py_object * 2)(1, 2))


def test_what_is_no_buffer(both, fake):
    for bad in (STRIDED, OBJECTS, 5, None, 1.5, {}, (1, 2, 3), ("a", 5), (1, "b"), (1,)):
        for call in (lambda: both.put("k", bad), lambda: both.put("k", [bad]),
                     lambda: both.put_many([("k", bad)]), lambda: both.get_into("k", bad),
                     lambda: both.get_into("k", [b"", bad][1:]),
                     lambda: both.batch_get_into(["k"], [bad]),
                     lambda: both.batch_put_from(["k"], [bad])):
            with pytest.raises(TypeError):
                call()
    for bad in (b"read-only", "text", memoryview(b"x"), b""):
        with pytest.raises(TypeError, match=f"written to .*{type(bad).__name__}"):
            both.get_into("k", bad)
    for number in (0, 65):
        with pytest.raises(kvd.InvalidError, match=f"1 to 64 pieces, not {number}"):
            both.put("k", [b"a"] * number)
        with pytest.raises(kvd.InvalidError):
            both.get_into("k", [bytearray(1)] * number)
    assert both.put("k", [b"a"] * 64) and fake.items[b"k"].value == b"a" * 64


def test_exports_end(both, fake):
    """A buffer is the caller's again after each call, whether that succeeds or is refused."""
    buffer, frozen = bytearray(b"x" * 100), bytearray(b"y" * 100)
    read_only = memoryview(frozen).toreadonly()
    both.put("k", buffer)
    both.put("k", [buffer, read_only])
    both.put("k", read_only)
    both.get_into("k", buffer)
    both.batch_get_into(["k", "absent"], [buffer, [buffer]])
    both.batch_put_from(["k"], [buffer])
    for call in (lambda: both.put("k", [buffer, 5]), lambda: both.get_into("absent", buffer),
                 lambda: both.get_into("k", [buffer, read_only]),
                 lambda: both.batch_get_into(["k", ""], [buffer, buffer])):
        with pytest.raises((TypeError, kvd.Error)):
            call()
    with pytest.raises(TypeError):
        both.put("k", memoryview(frozen)[::2].toreadonly())
    read_only.release()
    gc.collect()
    buffer.extend(b"more")
    frozen.extend(b"more")


def test_no_type_for_each_length(both, fake):
    """ctypes keeps a type for ever; of each buffer's length there would be one."""
    def types():
        return len(ctypes.c_char.__subclasses__()) + len(ctypes.Array.__subclasses__())

    both.put("k", bytearray(5000))
    both.get_into("k", bytearray(5000))
    both.get_many(["k"])
    before = types()
    for length in range(6000, 6020):
        both.put("k", bytearray(length))
        both.get_into("k", bytearray(length))
        both.get_many(["k"])
    gc.collect()
    assert types() <= before


def test_exports_are_held(fake):
    """As long as the holder lives, and not longer."""
    for address in (_buffers.readable, _buffers.writable):
        buffer = bytearray(b"x")
        at, size, holder = address(buffer)
        assert ctypes.string_at(at, size) == b"x"
        with pytest.raises(BufferError):
            buffer.extend(b"y")
        del holder
        buffer.extend(b"y")
    buffer = bytearray(b"x")
    at, size, holder = _buffers.readable(memoryview(buffer).toreadonly())
    with pytest.raises(BufferError):
        buffer.extend(b"y")
    assert ctypes.string_at(at, size) == b"x"
    del holder
    buffer.extend(b"y")


# Registered memory.

def test_alloc_lives_as_long_as_a_view(both, fake):
    memory = both.alloc(100)
    assert len(memory) == memory.nbytes == 100 and not memory.released
    assert memory.info()[1:] == (100, 3, 4) and memory.info().address == memory.address
    part, gone = memory[10:20], weakref.ref(memory)
    part[:] = b"0123456789"
    assert ctypes.string_at(memory.address + 10, 10) == b"0123456789"
    whole = memory.view
    assert whole[10:20] == part and whole.format == "B"
    with pytest.raises(kvd.BusyError, match="views"):
        memory.release()
    assert not memory.released and "at 0x" in repr(memory)
    del memory, whole
    gc.collect()
    assert gone() is not None and len(fake.memory) == 1 and part == b"0123456789"
    del part
    gc.collect()
    assert gone() is None and not fake.memory
    assert fake.calls[-1][0] == "kvd_free"


def test_release(both, fake):
    buffer = bytearray(100)
    with both.register(buffer) as memory:
        view = memory[10:20]
        view[:] = b"0123456789"
        assert buffer[10:20] == view and memory.address == fake.memory[0x100][0]
        del view
        with pytest.raises(BufferError):
            buffer.extend(b"more")
        fake.status["kvd_deregister"] = Status.ERR_BUSY
        with pytest.raises(kvd.BusyError, match="the reason"):
            memory.release()
        assert not memory.released and both.put("k", (memory.address, 5))
        fake.status.clear()
    assert memory.released and not fake.memory and "released" in repr(memory)
    buffer.extend(b"more")
    memory.release()
    assert len(fake.named("kvd_deregister")) == 2
    for call in (lambda: memory.view, lambda: memory[1:2], memory.info,
                 lambda: both.put("k", memory), lambda: both.get_into("k", memory)):
        with pytest.raises(kvd.InvalidError):
            call()
    memory = both.alloc(9)
    view = memory.view
    del view
    memory.release()
    assert fake.calls[-1][0] == "kvd_free" and not fake.memory


def test_parts_of_memory(both, fake):
    memory = both.register(bytearray(b"0123456789"))
    at = memory.address
    for begin, size in ((0, 10), (0, 0), (10, 0), (3, 4)):
        both.put("k", (at + begin, size))
        assert fake.items[b"k"].value == b"0123456789"[begin:begin + size]
        assert both.get_into("k", (at + begin, size)) == size
    both.put("k", memory)
    assert both.get_into("k", memory) == 10
    for begin, size in ((-1, 5), (0, 11), (1, 10), (11, 0), (0, -1), (10, 1)):
        for call in (lambda: both.put("k", (at + begin, size)),
                     lambda: both.get_into("k", (at + begin, size))):
            with pytest.raises(kvd.InvalidError, match="not in registered memory"):
                call()
    for part in (5, slice(None, None, 2), "a", slice(0, 5, -1)):
        with pytest.raises(TypeError):
            memory[part]
    assert memory[2:4:1] == b"23" and memory[:] == b"0123456789"
    memory.release()
    for bad, error in (((at, 5), TypeError), (b"abc", TypeError), (bytearray(), kvd.InvalidError)):
        with pytest.raises(error):
            both.register(bad)


def test_memory_that_is_dropped_in_use(store, fake):
    """Memory in use can't go before its operations have ended; it goes with the next release."""
    buffer = bytearray(100)
    memory, next_one = store.register(buffer), store.register(bytearray(9))
    fake.status["kvd_deregister"] = Status.ERR_BUSY
    del memory
    gc.collect()
    assert len(kvd.memory._abandoned) == 1 and len(fake.memory) == 2
    with pytest.raises(BufferError):
        buffer.extend(b"more")  # the library writes there
    fake.status.clear()
    next_one.release()
    assert not kvd.memory._abandoned and not fake.memory
    buffer.extend(b"more")


def test_memory_in_a_child(store, fake, monkeypatch):
    allocated, registered = store.alloc(9), store.register(bytearray(9))
    pid = os.getpid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: pid + 1)
        for call in (lambda: allocated.view, allocated.info):
            with pytest.raises(kvd.InvalidError, match="child"):
                call()
        assert registered.view.nbytes == 9
        allocated._finalizer()  # as when it is dropped there: it is the parent's
        assert len(fake.memory) == 2
    registered.release()
    fake.memory.clear()


def test_operations_keep_what_they_point_to(fake):
    operation = Operation()
    operation.prepare_get("key", 5000, lambda o: o.value())
    assert operation.op.value_len == 5000
    assert sys.getrefcount(operation.into) >= 3  # its own, the struct's
    operation.room(1024)
    assert operation.into is None and operation.op.value_len == 1024
    operation.room(1025)
    assert len(operation.into) == 1025
