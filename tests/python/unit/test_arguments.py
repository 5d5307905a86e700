# SPDX-License-Identifier: MIT
"""What the caller gives reaches the library as it is, each option by itself, or is refused with a
text that says which and what the limit is; nothing wraps, is cut, or counts as not given."""

import inspect

import kvd
import kvd.aio
import kvd.lmcache
import pytest
from kvd import TTL_MAX

U32, U64 = (1 << 32) - 1, (1 << 64) - 1
FIELDS = ("mode", "flags", "ttl_s", "if_version", "pin_s", "priority")
PUT = {"flags": U32, "ttl_s": TTL_MAX, "pin_s": TTL_MAX, "priority": U32}
PUT_ONE = {**PUT, "mode": U32, "if_version": U64}
ARITH = {"flags": U32, "ttl_s": TTL_MAX, "initial": U64, "delta": U64}


def refuses(fake, call, name, limit):
    """@call with a number: 0 to @limit, and nothing reaches the library of others."""
    count = len(fake.calls)
    for number in (-1, limit + 1, (1 << 32) * (limit + 1), 1 << 64, (1 << 64) + 1):
        with pytest.raises(kvd.InvalidError, match=rf"^{name} is 0 to {limit}, not {number}$"):
            call(number)
    for other in ("1", 1.5):
        with pytest.raises(TypeError, match=f"^{name} is an int, not {type(other).__name__}$"):
            call(other)
    assert len(fake.calls) == count


def puts_of(store):
    return {
        "put": (PUT_ONE, lambda **named: store.put("k", "v", **named)),
        "put_from": (PUT_ONE, lambda **named: store.put_from("k", [b"v"], **named)),
        "put_many": ({**PUT, "mode": U32}, lambda **named: store.put_many([("k", "v")], **named)),
        "batch_put_from": (PUT, lambda **named: store.batch_put_from(["k"], [b"v"], **named)),
        "add": (PUT, lambda **named: store.add("k", "v", **named)),
    }


@pytest.mark.parametrize("form", ["put", "put_from", "put_many", "batch_put_from", "add"])
def test_each_option_of_a_put_alone(both, fake, form):
    limits, call = puts_of(both)[form]
    default = dict.fromkeys(FIELDS, 0)
    if form == "add":
        default["mode"] = kvd.PutMode.IF_ABSENT
    for name in limits:
        if name in ("mode", "if_version"):
            continue
        for number in (0, 1, limits[name]):
            fake.items.clear()
            call(**{name: number})
            seen = fake.ops[-1]
            assert {field: getattr(seen, field) for field in FIELDS} == {**default, name: number}
        refuses(fake, lambda number: call(**{name: number}), name, limits[name])
    for name in ("mode", "if_version"):
        if name in limits:
            refuses(fake, lambda number: call(**{name: number}), name, limits[name])
            call(**{name: limits[name]})
            assert getattr(fake.ops[-1], name) == limits[name]


def test_modes(both, fake):
    for call, mode in ((both.add, 1), (both.replace, 2), (both.append, 4), (both.prepend, 5)):
        fake.items.clear()
        if mode != 1:
            with pytest.raises(kvd.NotFoundError):
                call("k", "v")
            both.put("k", "w")
        call("k", "v")
        assert fake.ops[-1].mode == mode
    version = both.put("k", "w")
    for wrong in (0, version + 1, U64):
        with pytest.raises(kvd.ExistsError):
            both.cas("k", "v", wrong)
        assert (fake.ops[-1].mode, fake.ops[-1].if_version) == (3, wrong)
        with pytest.raises(kvd.ExistsError):
            both.delete_if("k", wrong)
    assert both.cas("k", "v", version) == version + 1 and both.delete_if("k", version + 1) is True
    assert both.delete_if("k", version) is False
    refuses(fake, lambda number: both.delete_if("k", number), "version", U64)


@pytest.mark.parametrize("name", ["incr", "decr"])
def test_each_option_of_a_number_alone(both, fake, name):
    call = getattr(both, name)
    with pytest.raises(kvd.NotFoundError):
        call("n")
    assert call("n", initial=0) == 0 and fake.ops[-1].create == 1  # 0 is no "not given"
    default = {"delta": 1, "create": 0, "initial": 0, "flags": 0, "ttl_s": 0}
    for option, limit in ARITH.items():
        for number in (0, 1, limit):
            both.put("n", "7")
            call("n", **{option: number})
            seen = {field: getattr(fake.ops[-1], field) for field in default}
            assert seen == {**default, option: number, "create": int(option == "initial")}
        refuses(fake, lambda number: call("n", **{option: number}), option, limit)
    both.put("n", "7")
    result = call("n", 5)
    assert result == (12 if name == "incr" else 2) and result.version == fake.version


def test_times_to_live(both, fake):
    version = both.put("k", "v", ttl_s=7)
    for number in (0, 1, TTL_MAX):
        assert both.touch("k", number) == version and fake.ops[-1].ttl_s == number
        expires_s = number and 1000 + number
        assert both.get_item("k") == (b"v", version, 0, expires_s)
        assert both.head("k") == (1, version, 0, expires_s)
        fake.items[b"k"].expires_s = 5
        assert both.gat("k", number) == b"v" and fake.items[b"k"].expires_s == expires_s
    refuses(fake, lambda number: both.touch("k", number), "ttl_s", TTL_MAX)
    refuses(fake, lambda number: both.get_and_touch("k", number), "ttl_s", TTL_MAX)
    with pytest.raises(kvd.NotFoundError):
        both.touch("absent", 0)
    assert both.get_and_touch("absent", 0, 3) == 3 and both.gat("absent", 9) is None


def test_numbers_of_other_calls(both, fake):
    for number in (0, 1, TTL_MAX):
        assert both.flush_start(number) == 1 << 40
        assert fake.named("kvd_flush_start")[-1][0] == number
    refuses(fake, both.flush_start, "delay_s", TTL_MAX)
    for call, name, function in ((both.kill, "id", "kvd_client_kill"),
                                 (both.flush_done, "ticket", "kvd_flush_done")):
        call(U64)
        assert fake.named(function)[-1] == (U64,)
        refuses(fake, call, name, U64)
    for name in ("create", "resize"):
        call = getattr(both, f"tenant_{name}")
        call("alpha", U64)
        assert fake.named(f"kvd_tenant_{name}")[-1][1] == U64 and fake.text == b"alpha"
        refuses(fake, lambda number: call("a", number), "size", U64)
    assert both.latency_ns(kvd.Op.PUT, 0.5) == 5
    refuses(fake, lambda number: both.latency_ns(number, 0.5), "op", U32)
    refuses(fake, lambda number: both.op_stats(number, 0), "op", U32)
    refuses(fake, lambda number: both.op_stats(0, number), "path", U32)
    refuses(fake, both.alloc, "size", U64)
    with pytest.raises(kvd.InvalidError, match="positive number of bytes, not 0"):
        both.alloc(0)


def test_numbers_of_a_scan(store, fake):
    store.put_many([("a", "1"), ("b", "2")])
    refuses(fake, lambda number: store.scan_part(number), "cursor", U64)
    refuses(fake, lambda number: store.scan_part(0, count=number), "count", U32)
    refuses(fake, lambda number: store.scan_uses_part(number), "cursor", U64)
    refuses(fake, lambda number: store.scan_uses_part(0, count=number), "count", U32)
    assert store.scan_part(1)[0][0].key == b"b"
    # Whatever is true is true, also if its lower 32 bits are 0.
    for values in (True, 1, 1 << 32, "yes"):
        assert [entry.value for entry in store.scan(values=values)] == [b"1", b"2"]
    for values in (False, 0, None):
        assert [entry.value for entry in store.scan(values=values)] == [None, None]


OPTIONS = {"timeout_ms": U32, "connect_timeout_ms": U32, "cache_bytes": U64, "spin_us": U32,
           "get_tries": U32, "depth": U32, "reconnect": U32}


@pytest.mark.parametrize("kind", [kvd.Client, kvd.aio.Client])
def test_each_option_of_a_client_alone(fake, kind):
    def given(**named):
        client = kind("softnic:///fake", **named)
        client._open() if kind is kvd.aio.Client else None
        client._close()
        return {name: getattr(fake.options, name) for name, _ in fake.options._fields_}

    default = given()
    assert default["timeout_ms"] == 2000 and default["tenant"] is None
    assert fake.url == b"softnic:///fake"
    assert given(**dict.fromkeys(default)) == default  # None: not given
    for name, limit in OPTIONS.items():
        for number in (0, 1, limit):
            assert given(**{name: number}) == {**default, name: number}
        for number in (-1, limit + 1, (1 << 32) * (limit + 1) + 1):
            with pytest.raises(kvd.InvalidError, match=f"^{name} is 0 to {limit}, not {number}$"):
                kind("softnic:///fake", **{name: number})
        for other in ("1", 1.5):
            with pytest.raises(TypeError, match=f"^{name} is an int, not"):
                kind("softnic:///fake", **{name: other})
    for name in ("tls_ca", "tls_certificate", "tls_key", "tls_psk", "tenant"):
        for text in ("é", b"\xc3\xa9", ""):
            assert given(**{name: text}) == {**default, name: "é".encode() if text else b""}
    assert fake.handles == []


@pytest.mark.parametrize("name", ["tls_ca", "tls_certificate", "tls_key", "tls_psk", "tenant"])
def test_options_are_not_cut(fake, name):
    """The library sees text to the first zero: of "a\\0b" it would be that of another."""
    with pytest.raises(kvd.InvalidError, match=f"^{name} has a zero byte"):
        kvd.Client("softnic:///fake", **{name: "alpha\0b"})


def test_names_are_not_cut(both, fake):
    for name, call in (("name", lambda text: both.tenant_create(text, 1)),
                       ("name", lambda text: both.tenant_resize(text, 1)),
                       ("name", both.tenant_drop), ("who", both.revoke)):
        call("alpha")
        assert fake.text == b"alpha"
        count = len(fake.calls)
        with pytest.raises(kvd.InvalidError, match=f"^{name} has a zero byte"):
            call("alpha\0b")
        assert len(fake.calls) == count
    assert both.revoke("user=é") == 7 and fake.text == "user=é".encode()


def test_options_of_the_server(both, fake):
    both.config_set({"log.level": "info", "rdma.networks": ""})
    assert fake.text == b"log.level=info\nrdma.networks="
    count = len(fake.calls)
    for options in {"a.b": "1\nc.d=2"}, {"a.b\n": "1"}:
        with pytest.raises(kvd.InvalidError, match="^options has a newline"):
            both.config_set(options)
    with pytest.raises(kvd.InvalidError, match="^options has a zero byte"):
        both.config_set({"a.b": "1\0"})
    assert len(fake.calls) == count
    fake.text = b"server.http =\nlog.level = info\nx.y = a = b\n"
    assert both.config() == {"server.http": "", "log.level": "info", "x.y": "a = b"}
    fake.text = b"/f: 2 options written\n"
    assert both.config_rewrite() == "/f: 2 options written\n"


def test_urls_are_not_cut(fake):
    with pytest.raises(kvd.InvalidError, match="^url has a zero byte"):
        kvd.Client("softnic:///fake\0b")


def test_keys_and_values_may_have_zeros(both, fake):
    both.put(b"a\0b", b"\0\0")
    assert set(fake.items) == {b"a\0b"} and both.get("a\0b") == b"\0\0" and not both.get("a")


@pytest.mark.parametrize("number", [0, -1, 1.5, "1", None])
def test_max_outstanding(fake, number):
    with pytest.raises((kvd.InvalidError, TypeError), match="max_outstanding"):
        kvd.aio.Client("softnic:///fake", max_outstanding=number)


# Methods of the asyncio client with a deadline of their own, and other arguments for them.
TIMED = {name: [*inspect.signature(method).parameters]
         for name, method in vars(kvd.aio.Client).items()
         if inspect.iscoroutinefunction(method) and not name.startswith("_")
         and "timeout_ms" in inspect.signature(method).parameters}
GIVEN = {"key": "k", "keys": ["k"], "value": "v", "ttl_s": 1, "version": 1, "buffer": bytearray(9),
         "buffers": [bytearray(9)], "offset": 1, "offsets": [1], "length": 1, "items": [("k", "v")]}
BY_PUT = {"add", "replace", "cas", "put_from"}  # hand it on


@pytest.mark.parametrize("name", sorted({*TIMED, *BY_PUT}))
def test_deadlines_of_calls(fake, name):
    from conftest import Blocking
    client = Blocking()
    try:
        parameters = inspect.signature(getattr(kvd.aio.Client, name)).parameters
        given = [GIVEN[parameter] for parameter in parameters if parameter in GIVEN and
                 parameters[parameter].kind is not inspect.Parameter.KEYWORD_ONLY]
        call = getattr(client, name)
        for number in (0, 1, 3600000):
            fake.items.clear()
            client.put("k", "7")
            fake.items[b"k"].version = 1
            try:
                call(*given, timeout_ms=number)
            except kvd.ExistsError:
                pass
            assert fake.ops[-1].timeout_ms == number
        refuses(fake, lambda number: call(*given, timeout_ms=number), "timeout_ms", 3600000)
    finally:
        client.close()


DEFAULTS = {**dict.fromkeys(FIELDS, 0), "timeout_ms": 0, "count": 0, "delay_s": 0, "delta": 1}


@pytest.mark.parametrize("kind", [kvd.Client, kvd.aio.Client])
def test_what_is_not_given(kind):
    for name, method in vars(kind).items():
        if inspect.isfunction(method) and not name.startswith("__"):
            for parameter in inspect.signature(method).parameters.values():
                if parameter.default is not inspect.Parameter.empty:
                    assert parameter.default == DEFAULTS.get(parameter.name, parameter.default), \
                        f"{name}({parameter})"


def test_timed_methods_are_found():
    assert {"get", "put", "get_many", "ping", "incr", "heads", "exists_prefix"} <= set(TIMED)


@pytest.mark.parametrize("option", [{"ttl_s": -1}, {"ttl_s": TTL_MAX + 1}, {"num_workers": 0},
                                    {"timeout_ms": 1 << 32}, {"lookup_timeout_ms": -1}])
def test_options_of_a_connector(fake, option):
    with pytest.raises(kvd.InvalidError, match=next(iter(option)).removeprefix("lookup_")):
        kvd.lmcache.Connector("softnic:///fake", **option)
    assert fake.handles == []
