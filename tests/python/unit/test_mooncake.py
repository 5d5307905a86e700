# SPDX-License-Identifier: MIT
"""kvd.mooncake: its calls beside those of Mooncake (mooncake_calls), the code of each status, what
goes to the log, and how threads share clients."""

import ctypes
import inspect
import logging
import os
import pathlib
import threading
import time

import kvd
import kvd._mooncake_session
import kvd.mooncake
import pytest
from kvd import Op, PutMode, Status
from kvd.mooncake import BufferHandle, MooncakeDistributedStore, ReplicateConfig, SoftPinAction

URL = "softnic:///fake"
DEADLINE_S = 300
HERE = pathlib.Path(__file__).parent
DOCUMENT = HERE.parents[2] / "client" / "python" / "MOONCAKE.md"
CODES = {
    "NOT_FOUND": -704, "ERR_INVALID": -600, "ERR_TOO_LARGE": -600, "ERR_BUFFER": -600,
    "ERR_NO_SPACE": -200, "ERR_NO_MEMORY": -10, "ERR_TIMEOUT": -901, "ERR_DISCONNECTED": -900,
    "ERR_UNREACHABLE": -900, "ERR_REFUSED": -900, "ERR_DEVICE": -800, "ERR_PROTOCOL": -900,
    "ERR_BUSY": -1010, "ERR_EXISTS": -1, "ERR_NOT_A_NUMBER": -1, "ERR_CANCELED": -900,
    "ERR_UNKNOWN": -900, "ERR_AUTH": -601, "ERR_NOT_ALLOWED": -601, "ERR_LIMIT": -1010,
    "ERR_AWAY": -900, "ERR_MOVED": -900,
}


def recorded(kind):
    """Names and arguments of the lines of a kind."""
    lines = [line.split() for line in (HERE / "mooncake_calls").read_text().splitlines()]
    return [(words[1], words[2:]) for words in lines if words and words[0] == kind]


@pytest.fixture
def mooncake(fake):
    mooncake = MooncakeDistributedStore()
    assert mooncake.setup("host", "", 1, 1, "tcp", "", URL) == 0
    yield mooncake
    mooncake.close()


@pytest.mark.parametrize("name, arguments", recorded("call"))
def test_each_call_has_the_arguments_of_mooncake(name, arguments):
    ours = list(inspect.signature(getattr(MooncakeDistributedStore, name)).parameters.values())[1:]
    if name == "setup":  # the other form, with a dict
        assert ours.pop().name == "config"
    assert len(ours) == len(arguments)
    for parameter, argument in zip(ours, arguments):
        wanted, has_default, default = argument.partition("=")
        if wanted.startswith("*"):
            assert parameter.kind == parameter.VAR_POSITIONAL
        assert parameter.name == wanted.lstrip("*/")
        if default == "ReplicateConfig()":
            assert isinstance(parameter.default, ReplicateConfig)
        elif has_default:
            assert repr(parameter.default) == default
        else:  # setup() gets all of them, or a dict
            assert parameter.default is parameter.empty or name == "setup"


def test_each_field_and_nothing_else():
    config = ReplicateConfig()
    fields = dict(name.split("=") if "=" in name else (name, "None")
                  for name, _ in recorded("field"))
    assert sorted(fields) == sorted(name.lstrip("_") for name in ReplicateConfig.__slots__)
    for name, default in fields.items():
        assert getattr(config, name) == eval(default), name  # pylint: disable=eval-used
        assert hasattr(ReplicateConfig, name) and name in str(config)
    assert [action.name for action in SoftPinAction] == ["PRESERVE", "ENABLE", "DISABLE"]
    methods = {name for name, value in vars(MooncakeDistributedStore).items()
               if callable(value) and name[0] != "_"}
    assert methods == {name for name, _ in recorded("call")}


def test_the_document_names_all_calls():
    text = DOCUMENT.read_text()
    calls = {name for name, _ in recorded("call")}
    absent = {name for name, _ in recorded("absent")}
    assert not [name for name in calls | absent
                if f"`{name}`" not in text and f"`ReplicateConfig.{name}`" not in text]
    has = {*dir(MooncakeDistributedStore), *dir(ReplicateConfig)}
    assert not absent & has and not [name for name in has if "tensor" in name]


@pytest.mark.parametrize("status", [status for status in Status if status])
def test_each_status(mooncake, fake, status, caplog):
    """The code of each, for one key and among many; a put of a key that exists is none."""
    assert mooncake.put_batch(["a", "b"], [b"value", b"value"]) == 0
    execute = fake._execute

    def fails(op):
        if op.key == b"a":
            op.status = status
            return None
        return execute(op)

    fake._execute = fails
    code = CODES[status.name]
    memory = ctypes.create_string_buffer(100)
    address = ctypes.addressof(memory)
    assert mooncake.register_buffer(address, 100) == 0
    stored = 0 if status == Status.ERR_EXISTS else code
    caplog.clear()
    assert mooncake.batch_put_from(["a", "b"], [address] * 2, [5] * 2) == [stored, 0]
    assert mooncake.put("a", b"x") == stored
    assert mooncake.put_batch(["b", "a"], [b"x"] * 2) == stored
    quiet = status in (Status.NOT_FOUND, Status.ERR_EXISTS)
    assert caplog.text.count("put fails: ") == (not quiet)
    if status == Status.ERR_BUFFER:
        return  # the fake would be asked again for ever
    assert mooncake.batch_get_into(["a", "b"], [address] * 2, [50] * 2) == [code, 5]
    assert mooncake.get_batch(["a", "b"]) == [b"", b"value"] and mooncake.get("a") == b""
    assert mooncake.batch_get_buffer(["a", "b"]) == [None, b"value"]
    assert mooncake.batch_remove(["a", "b"]) == [code, 0]


def test_a_call_that_fails_as_a_whole(mooncake, fake):
    fake.status["kvd_exists_many"] = Status.ERR_AWAY
    assert mooncake.batch_is_exist(["a", "b"]) == [-900] * 2
    assert mooncake.is_exist("a") == mooncake.get_size("a") == -900
    fake.status["kvd_ping"] = Status.ERR_TIMEOUT
    assert mooncake.health_check() == 2
    fake.status["kvd_scan"] = Status.ERR_NOT_ALLOWED
    assert mooncake.remove_all() == mooncake.remove_by_regex("a") == -601


def test_pins_and_modes(mooncake, fake):
    def stored(config, upsert=False):
        fake.ops.clear()
        code = (mooncake.upsert if upsert else mooncake.put)("k", b"v", config)
        return [(op.mode, op.pin_s) for op in fake.ops], code

    config = ReplicateConfig()
    assert stored(config) == ([(PutMode.IF_ABSENT, 0)], 0)
    assert stored(config, True) == ([(PutMode.SET, 0)], 0)
    config.with_soft_pin = True
    assert stored(config, True) == ([(PutMode.SET, 1800)], 0)
    config = ReplicateConfig()
    config.soft_pin_action, config.soft_pin_ttl_ms = SoftPinAction.ENABLE, 1001
    assert stored(config, True) == ([(PutMode.SET, 2)], 0)
    config.soft_pin_action = SoftPinAction.DISABLE
    assert stored(config, True) == ([], -600)
    config.soft_pin_ttl_ms = None
    assert stored(config, True) == ([(PutMode.SET, 0)], 0)
    for wrong in (-1, 1 << 64, "7"):
        with pytest.raises(TypeError):
            config.soft_pin_ttl_ms = wrong


def test_what_has_no_meaning_is_said_once(mooncake, caplog):
    caplog.set_level(logging.INFO, "kvd.mooncake")
    kvd._mooncake_session.log_unused.cache_clear()
    config = ReplicateConfig()
    assert not config.unused()
    config.replica_num, config.group_ids = 3, ["g"]
    for _ in range(2):
        assert mooncake.put("k", b"v", config) == 0
        assert mooncake.batch_get_into_multi_buffers([], [], [], True) == []
    assert caplog.messages == ["without a meaning for kvd: ReplicateConfig: replica_num, group_ids",
                               "without a meaning for kvd: prefer_alloc_in_same_node"]


@pytest.mark.parametrize("master, metadata, environment, url", [
    ("rdma://a", "fleet://b", "softnic:///c", "rdma://a"),
    ("127.0.0.1:50051", "fleet+tls://b", "softnic:///c", "fleet+tls://b"),
    ("etcd://a", "http://b/metadata", "softnic:///c", "softnic:///c"),
    ("etcd://a", "P2PHANDSHAKE", None, None),
])
def test_url(monkeypatch, master, metadata, environment, url):
    monkeypatch.delenv("KVD_URL", raising=False)
    if environment:
        monkeypatch.setenv("KVD_URL", environment)
    if url:
        assert kvd._mooncake_session.url_of(master, metadata) == url
    else:
        with pytest.raises(kvd.InvalidError, match="etcd://a.*KVD_URL"):
            kvd._mooncake_session.url_of(master, metadata)


def test_options(fake, caplog):
    mooncake = MooncakeDistributedStore()
    assert mooncake.setup({"master_server_addr": URL, "tenant_id": "t", "depth": 7,
                           "timeout_ms": 8, "lookup_timeout_ms": 9, "num_clients": 2}) == 0
    assert len(fake.handles) == 3 and (fake.options.depth, fake.options.timeout_ms) == (7, 8)
    assert fake.options.tenant == b"t"
    fake.status["kvd_open"] = Status.ERR_AUTH
    assert mooncake.setup("host", "", 0, 0, "", "", URL) == -601 and not fake.handles
    assert mooncake.put("k", b"v") == -600
    for wrong in {"timeout_ms": 3600001}, {"lookup_timeout_ms": -1}, {"num_clients": 0}, \
            {"reconnect": 0}:
        assert mooncake.setup({"master_server_addr": URL, **wrong}) == -600
        assert next(iter(wrong)) in caplog.messages[-1]


def test_half_of_the_clients_connect(fake):
    """Clients that are connected are closed again."""
    open_one = fake.open

    def opens_two(handle, url, options):
        if len(fake.handles) == 2:
            return Status.ERR_REFUSED
        return open_one(handle, url, options)

    fake.open = opens_two
    assert MooncakeDistributedStore().setup("host", "", 0, 0, "", "", URL) == -900
    assert not fake.handles


def closes(mooncake, pool):
    """A thread that closes the store, and waits for the client that @pool has lent."""
    thread = threading.Thread(target=mooncake.close)
    thread.start()
    end = time.monotonic() + DEADLINE_S
    while not (pool._closed and pool._changed._waiters):
        assert time.monotonic() < end
        os.sched_yield()
    return thread


@pytest.mark.parametrize("lookup", [True, False])
def test_close_waits_for_calls(mooncake, fake, lookup):
    """Buffers stay registered until the last call has ended."""
    session = mooncake._session
    memory = ctypes.create_string_buffer(100)
    assert mooncake.register_buffer(ctypes.addressof(memory), 100) == 0
    with session.client(lookup) as client:
        thread = closes(mooncake, session.lookups if lookup else session.transfers)
        assert mooncake.put("k", b"v") == mooncake.is_exist("k") == -600
        assert not client.closed and fake.memory
    thread.join(DEADLINE_S)
    assert not thread.is_alive() and client.closed and not fake.memory
    assert not fake.handles


def test_all_clients_in_use(fake, caplog):
    """A call that gets no client within the timeout of the others' calls is a miss."""
    mooncake = MooncakeDistributedStore()
    assert mooncake.setup({"master_server_addr": URL, "timeout_ms": 8, "lookup_timeout_ms": 9,
                           "num_clients": 1}) == 0
    session = mooncake._session
    assert (session.transfers.wait_ms, session.lookups.wait_ms) == (8, 9)
    with session.client(lookup=False):
        assert mooncake.put_batch(["a", "b"], [b"v"] * 2) == -901
        assert mooncake.get("a") == b"" and mooncake.batch_remove(["a", "b"]) == [-901] * 2
        assert mooncake.is_exist("a") == 0
    with session.client(lookup=True):
        assert mooncake.batch_is_exist(["a", "b"]) == [-901] * 2
        assert mooncake.health_check() == 2 and mooncake.put("a", b"v") == 0
    assert mooncake.is_exist("a") == 1
    assert caplog.text.count("all 1 clients of the pool were in use for 8 ms") == 3
    mooncake.close()


def test_one_client_learns_that_the_server_is_away(mooncake):
    """The client that was used last is used next, also of those that setup() has opened."""
    session = mooncake._session
    with session.client(lookup=False) as first:
        pass
    for _ in range(3):
        with session.client(lookup=False) as again:
            assert again is first
    assert len(session.transfers._idle) == 4


def test_child(mooncake, fake, monkeypatch):
    """After fork() the clients are the parent's."""
    pid = os.getpid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: pid + 1)
        assert mooncake.put("k", b"v") == -600 and mooncake.is_exist("k") == -600
        mooncake._session.close()
        assert fake.handles
    assert mooncake.put("k", b"v") == 0


def test_an_arena_that_is_in_use(mooncake, fake):
    memory = ctypes.create_string_buffer(100)
    address = ctypes.addressof(memory)
    assert mooncake.register_buffer(address, 100) == 0
    fake.status["kvd_deregister"] = Status.ERR_BUSY
    assert mooncake.unregister_buffer(address) == -1010
    assert mooncake.put_from("k", address, 10) == 0
    del fake.status["kvd_deregister"]
    assert mooncake.unregister_buffer(address) == 0 and not fake.memory
    assert mooncake.put_from("k", address, 10) == -600


def test_buffer_handle():
    assert (BufferHandle(b"ab").size(), BufferHandle(b"").size()) == (2, 0)
    handle = BufferHandle(b"ab")
    assert ctypes.string_at(handle.ptr(), 2) == b"ab"


def test_is_host_memory():
    """The first and the last byte, of memory that can't be read, too."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype, page = ctypes.c_void_p, 4096
    address = libc.mmap(None, ctypes.c_size_t(2 * page), 3, 0x22, -1, ctypes.c_long(0))
    libc.mprotect(ctypes.c_void_p(address + page), ctypes.c_size_t(page), 0)
    readable = kvd._mooncake_session._is_host_memory
    assert readable(address, page) and not readable(address, page + 1)
    assert not readable(address + page, 1) and not readable(0, 1)
    libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(2 * page))


def test_operations_of_the_fake(mooncake, fake):
    """Loading and storing are one batch of the library each."""
    fake.ops.clear()
    assert mooncake.put_batch([f"k{i}" for i in range(64)], [b"v"] * 64) == 0
    assert [op.op for op in fake.ops] == [Op.PUT] * 64
    assert len(fake.named("kvd_submit")) == 1


def test_close_with_memory_in_use(fake, caplog):
    """Another client of the process uses the buffers: the log says so, and nothing is raised."""
    block = ctypes.create_string_buffer(200)
    address = ctypes.addressof(block)
    store = kvd.mooncake.MooncakeDistributedStore()
    assert store.setup({"master_server_addr": "softnic:///fake"}) == 0
    for at in (address, address + 100):
        assert store.register_buffer(at, 100) == 0
    fake.status["kvd_deregister"] = Status.ERR_BUSY
    assert store.close() == 0
    assert caplog.text.count("stays registered") == 2
    del fake.status["kvd_deregister"]
    for arena in list(kvd._engine.Arena._all.values()):
        arena.leave()
