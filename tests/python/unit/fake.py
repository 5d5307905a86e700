# SPDX-License-Identifier: MIT
"""A library in the place of libkvd: a store of one process, whose functions are called by ctypes
with the types that the package declares, so that it sees what C would see, and notes it."""

import ctypes
import os
import types
from ctypes import CFUNCTYPE, c_int, c_size_t, c_uint64, c_void_p, string_at

from kvd import _abi, _lib
from kvd._abi import Op, PutMode
from kvd.errors import Status

U64 = 1 << 64
TIME_S = 1000  # of the server's clock


def _at(kind, address):
    return kind.from_address(address)


class Fake:
    """`calls`: names and arguments of all; `ops`: operations, as they came, however that was.
    `status`: what a function of that name returns, if not 0; nothing is done then.
    `hold`: what is submitted ends only by end(); `sent`: and can't be canceled."""

    def __init__(self):
        self.calls, self.ops, self.status = [], [], {}
        self.items, self.version = {}, 0
        self.hold = self.sent = False
        self.flying, self.ended = [], []
        self.submitter = None  # the handle whose they are
        self.handles, self.memory, self.failures = [], {}, []
        self.opened = 0
        self.connection = b"up"
        self.fds = {}
        self.text = b""
        self.kvd_default_url = _lib.lib.kvd_default_url
        self.quick = types.SimpleNamespace(
            kvd_error=lambda handle: b"the reason", kvd_status_text=_lib.quick.kvd_status_text,
            kvd_outstanding=lambda handle: len(self.flying) + len(self.ended))

    def __getattr__(self, name):
        if name not in _lib._FUNCTIONS:
            raise AttributeError(name)
        setattr(self, name, self._function(name, *_lib._FUNCTIONS[name]))
        return getattr(self, name)

    def _function(self, name, result, arguments):
        """A C function that calls the method of that name without "kvd_", if there is one."""
        scalars = (c_int, c_size_t, ctypes.c_uint32, c_uint64, ctypes.c_double)
        kinds = [kind if kind in scalars else c_void_p for kind in arguments]

        def called(*given):
            self.calls.append((name, given))
            try:
                if name in self.status:
                    if name == "kvd_exists_many":
                        self._refuse_keys(self.status[name], *given)
                    return self.status[name]
                method = getattr(self, name[4:], None)  # a test may have its own
                return method(*given) or 0 if method is not None else 0
            except BaseException as error:  # it can't pass through C
                self.failures.append(error)
                return int(Status.ERR_INVALID) if result is c_int else 0

        function = CFUNCTYPE(result, *kinds)(called)
        function.argtypes = arguments
        return function

    def named(self, name):
        """The arguments of all calls of a function, without the handle."""
        return [given[1:] for called, given in self.calls if called == name]

    # Handles.

    def open(self, handle, url, options):
        self.opened += 1
        number = 0x1000 + self.opened
        self.handles.append(number)
        copy = _abi.COptions.from_buffer_copy(string_at(options, ctypes.sizeof(_abi.COptions)))
        self.url, self.options = string_at(url), copy
        _at(c_void_p, handle).value = number

    def options_init(self, options):
        _lib.lib.kvd_options_init(_at(_abi.COptions, options))

    def close(self, handle):
        self.handles.remove(handle)
        if handle in self.fds:
            os.close(self.fds.pop(handle))
        if handle == self.submitter:
            self.flying, self.ended = [], []

    # Operations.

    def _execute(self, op):
        """What an operation does: op.status, op.item, op.number. Returns the value of a GET."""
        self.ops.append(op)
        op.status, found = 0, self.items.get(op.key)
        if op.op == Op.PING:
            return None
        if op.op == Op.PUT:
            return self._put(op, found)
        if op.op in (Op.INCR, Op.DECR):
            return self._arith(op, found)
        if found is None:
            op.status = Status.NOT_FOUND
            return None
        if op.op == Op.DELETE:
            if op.mode == PutMode.IF_VERSION and op.if_version != found.version:
                op.status = Status.ERR_EXISTS
            else:
                del self.items[op.key]
            return None
        if op.op in (Op.TOUCH, Op.GET_AND_TOUCH):
            found.expires_s = op.ttl_s and TIME_S + op.ttl_s
        op.item = found
        if op.op == Op.GET_RANGE:
            return found.value[op.offset:op.offset + op.size]
        return found.value if op.op in (Op.GET, Op.GET_BY_REQUEST, Op.GET_AND_TOUCH) else None

    def _store(self, op, value):
        self.version += 1
        op.item = self.items[op.key] = types.SimpleNamespace(
            value=value, value_len=len(value), version=self.version, flags=op.flags,
            expires_s=op.ttl_s and TIME_S + op.ttl_s)

    def _put(self, op, found):
        exists = {PutMode.IF_ABSENT: False, PutMode.IF_PRESENT: True, PutMode.APPEND: True,
                  PutMode.PREPEND: True, PutMode.IF_VERSION: True}.get(op.mode)
        if exists and found is None:
            op.status = Status.NOT_FOUND
        elif exists is False and found or \
                op.mode == PutMode.IF_VERSION and op.if_version != found.version:
            op.status = Status.ERR_EXISTS
        else:
            value = op.value
            if op.mode == PutMode.APPEND:
                value = found.value + value
            elif op.mode == PutMode.PREPEND:
                value = value + found.value
            self._store(op, value)

    def _arith(self, op, found):
        if found is None and not op.create:
            op.status = Status.NOT_FOUND
            return
        if found is None:
            op.number = op.initial
        elif op.op == Op.INCR:
            op.number = (int(found.value) + op.delta) % U64
        else:
            op.number = max(int(found.value) - op.delta, 0)
        self._store(op, str(op.number).encode())

    @staticmethod
    def _op(code, key, key_len, **fields):
        fields = {**dict.fromkeys(("flags", "ttl_s", "mode", "if_version", "pin_s", "priority",
                                   "create", "initial", "delta", "number", "timeout_ms"), 0),
                  "item": None, **fields}
        return types.SimpleNamespace(op=code, key=string_at(key, key_len) if key else b"",
                                     **fields)

    @staticmethod
    def _iov(iov, count):
        return [(piece.iov_base, piece.iov_len)
                for piece in (_abi.Iovec * count).from_address(iov)]

    @staticmethod
    def _read(pieces):
        return b"".join(string_at(at, size) if size else b"" for at, size in pieces)

    @staticmethod
    def _write(op, value, pieces):
        if value is None:
            return
        if len(value) > sum(size for _, size in pieces):
            op.status = Status.ERR_BUFFER
            return
        for at, size in pieces:
            part, value = value[:size], value[size:]
            if part:
                ctypes.memmove(at, part, len(part))

    @staticmethod
    def _give(op, item, version=None):
        if item and op.item is not None:
            at = _at(_abi.CItem, item)
            for name, _ in _abi.CItem._fields_:
                setattr(at, name, getattr(op.item, name))
        if version and op.item is not None:
            _at(c_uint64, version).value = op.item.version
        return op.status

    def _get(self, op, pieces, item):
        self._write(op, self._execute(op), pieces)
        return self._give(op, item)

    def get(self, handle, key, key_len, value, size, item):
        return self._get(self._op(Op.GET, key, key_len), [(value, size)], item)

    def getv(self, handle, key, key_len, iov, count, item):
        return self._get(self._op(Op.GET, key, key_len), self._iov(iov, count), item)

    def get_by_request(self, handle, key, key_len, value, size, item):
        return self._get(self._op(Op.GET_BY_REQUEST, key, key_len), [(value, size)], item)

    def get_range(self, handle, key, key_len, offset, value, size, item):
        return self._get(self._op(Op.GET_RANGE, key, key_len, offset=offset, size=size),
                         [(value, size)], item)

    def get_and_touch(self, handle, key, key_len, ttl_s, value, size, item):
        return self._get(self._op(Op.GET_AND_TOUCH, key, key_len, ttl_s=ttl_s), [(value, size)],
                         item)

    def _put_call(self, key, key_len, pieces, args, version):
        fields = {}
        if args:
            fields = {name: getattr(_at(_abi.CPutArgs, args), name)
                      for name, _ in _abi.CPutArgs._fields_}
        op = self._op(Op.PUT, key, key_len, value=self._read(pieces), **fields)
        self._execute(op)
        return self._give(op, None, version)

    def put(self, handle, key, key_len, value, size, args, version):
        return self._put_call(key, key_len, [(value, size)], args, version)

    def putv(self, handle, key, key_len, iov, count, args, version):
        return self._put_call(key, key_len, self._iov(iov, count), args, version)

    def _simple(self, op, version=None):
        self._execute(op)
        return self._give(op, None, version)

    def delete(self, handle, key, key_len):
        return self._simple(self._op(Op.DELETE, key, key_len))

    def delete_if(self, handle, key, key_len, version):
        return self._simple(self._op(Op.DELETE, key, key_len, mode=PutMode.IF_VERSION,
                                     if_version=version))

    def touch(self, handle, key, key_len, ttl_s, version):
        return self._simple(self._op(Op.TOUCH, key, key_len, ttl_s=ttl_s), version)

    def _arith_call(self, code, key, key_len, delta, args, number, version):
        fields = {name: getattr(_at(_abi.CArithArgs, args), name)
                  for name, _ in _abi.CArithArgs._fields_}
        op = self._op(code, key, key_len, delta=delta, **fields)
        status = self._simple(op, version)
        _at(c_uint64, number).value = op.number
        return status

    def incr(self, handle, *given):
        return self._arith_call(Op.INCR, *given)

    def decr(self, handle, *given):
        return self._arith_call(Op.DECR, *given)

    @staticmethod
    def _refuse_keys(status, handle, keys, count, results, found):
        """Keys that were not looked up have the status of the call, too."""
        for result in (_abi.CExists * count).from_address(results):
            result.status = status

    def exists_many(self, handle, keys, count, results, found):
        for key, result in zip((_abi.CKey * count).from_address(keys),
                               (_abi.CExists * count).from_address(results)):
            op = self._op(Op.EXISTS, key.key, key.key_len)
            self._execute(op)
            result.status = op.status
            self._give(op, ctypes.addressof(result.item))

    def exists_leading(self, handle, keys, count, leading):
        number = 0
        for key in (_abi.CKey * count).from_address(keys):
            if string_at(key.key, key.key_len) not in self.items:
                break
            number += 1
        _at(c_size_t, leading).value = number

    # Submitted operations.

    def submit(self, handle, array, count):
        addresses = list((c_void_p * count).from_address(array))
        if any(len(self._read(self._pieces(_at(_abi.COp, at)))) > 1 << 20 for at in addresses
               if _at(_abi.COp, at).op == Op.PUT):
            return Status.ERR_TOO_LARGE
        self.submitter = handle
        self.flying += addresses
        if not self.hold:
            self.end()

    def _pieces(self, op):
        return self._iov(op.iov, op.iov_count) if op.iov_count else [(op.value, op.value_len)]

    def _end_one(self, address, status):
        """Executes what is in a struct kvd_op, from a copy of which the result is written back."""
        at = _at(_abi.COp, address)
        fields = {name: getattr(at, name) for name in (
            "flags", "ttl_s", "mode", "if_version", "pin_s", "priority", "create", "initial",
            "delta", "timeout_ms", "offset")}
        fields["size"] = at.value_len
        key = _at(c_void_p, address).value  # of a c_char_p ctypes gives what is before a zero
        op = self._op(at.op, key, at.key_len, **fields)
        pieces = self._pieces(at)
        if at.op == Op.PUT:
            op.value = self._read(pieces)
        if status is None:
            self._write(op, self._execute(op), pieces)
        else:
            op.status = status
        at.number, at.status = op.number, op.status
        self._give(op, address + _abi.COp.item.offset)
        self.ended.append(address)

    def end(self, count=None, status=None):
        """The oldest of those under way, or all, end."""
        count = len(self.flying) if count is None else count
        now, self.flying = self.flying[:count], self.flying[count:]
        for address in now:
            self._end_one(address, status)
        for fd in self.fds.values():
            os.eventfd_write(fd, 1)

    def poll(self, handle, done, count):
        given, self.ended = self.ended[:count], self.ended[count:]
        for i, address in enumerate(given):
            (c_void_p * count).from_address(done)[i] = address
        return len(given)

    def wait(self, handle, done, count, least, timeout_ms):
        return self.poll(handle, done, count)

    def cancel(self, handle, address):
        if address not in self.flying:
            return Status.ERR_INVALID
        if self.sent:
            return Status.ERR_BUSY
        self.flying.remove(address)
        self._end_one(address, Status.ERR_CANCELED)
        for fd in self.fds.values():
            os.eventfd_write(fd, 1)

    def fd(self, handle):
        self.fds[handle] = os.eventfd(0, os.EFD_NONBLOCK)
        return self.fds[handle]

    def arm(self, handle):
        if self.ended:
            return Status.ERR_BUSY
        try:
            os.eventfd_read(self.fds[handle])
        except BlockingIOError:
            pass

    # Memory.

    def register(self, handle, address, size, memory):
        number = 0x100 + len(self.memory)
        self.memory[number] = (address, size)
        _at(c_void_p, memory).value = number

    def alloc(self, handle, size, address, memory):
        block = ctypes.create_string_buffer(size)
        number = 0x100 + len(self.memory)
        self.memory[number] = (ctypes.addressof(block), size, block)
        _at(c_void_p, address).value = ctypes.addressof(block)
        _at(c_void_p, memory).value = number

    def deregister(self, memory):
        del self.memory[memory]

    free = deregister

    def mem_info(self, memory, info):
        at = _at(_abi.CMemInfo, info)
        at.addr, at.bytes = self.memory[memory][:2]
        at.registrations, at.register_ns = 3, 4

    # What the server and the client say.

    def scan(self, handle, cursor, args, function, arg):
        """Two keys by a request, in their order; the cursor is the number of those given."""
        args, place = _at(_abi.CScanArgs, args), _at(c_uint64, cursor)
        prefix = string_at(args.prefix, args.prefix_len)
        keys = sorted(key for key in self.items if key.startswith(prefix))
        for key in keys[place.value:place.value + 2]:
            found, entry = self.items[key], _abi.CEntry()
            name = ctypes.create_string_buffer(key, len(key))
            value = ctypes.create_string_buffer(found.value, len(found.value) or 1)
            entry.key, entry.key_len = ctypes.addressof(name), len(key)
            entry.value = ctypes.addressof(value) if args.values else None
            for field, _ in _abi.CItem._fields_:
                setattr(entry.item, field, getattr(found, field))
            if _abi.ENTRY_FN(function)(arg, entry):
                return 0
        place.value = place.value + 2 if place.value + 2 < len(keys) else 0

    def scan_uses(self, handle, cursor, args, function, arg):
        key = ctypes.create_string_buffer(b"used", 4)
        used = _abi.CUsed(ctypes.addressof(key), 4, _abi.CItem(1, 2, 3, 4), 5 + _at(
            c_uint64, cursor).value, 6, 7)
        _at(c_uint64, cursor).value = 0 if _at(c_uint64, cursor).value else 1
        _abi.USED_FN(function)(arg, used)

    def _text(self, text, size, length):
        _at(c_size_t, length).value = len(self.text)
        if len(self.text) > size:
            return Status.ERR_BUFFER
        ctypes.memmove(text, self.text, len(self.text))

    def server_stats(self, handle, *given):
        return self._text(*given)

    client_list = tenant_list = config_get = config_rewrite = server_stats

    def stats_text(self, handle, format, *given):
        return self._text(*given)

    def revoke(self, handle, who, closed):
        self.text = string_at(who)
        _at(c_uint64, closed).value = 7

    def _named(self, handle, name, *given):
        self.text = string_at(name)

    tenant_create = tenant_resize = tenant_drop = config_set = _named

    fleet_drain = fleet_undrain = _named

    def fleet_info(self, handle, info, size):
        assert size == ctypes.sizeof(_abi.CFleetInfo)
        known = _at(_abi.CFleetInfo, info)
        known.name, known.epoch, known.generation = b"fleet", 5, U64 - 1
        known.shards, known.unowned, known.members = 16384, 3, 2

    def fleet_member(self, handle, number, member, size):
        assert size == ctypes.sizeof(_abi.CFleetMember)
        if number == 2:
            return Status.NOT_FOUND
        known = _at(_abi.CFleetMember, member)
        known.id, known.urls, known.connection = b"a", b"rdma://a,rdma+tcp://a", b"unused"
        known.weight, known.shards, known.open, known.flags = 7, 8, 9, 1 << number

    def fleet_shard(self, handle, number, shard, size):
        assert size == ctypes.sizeof(_abi.CFleetShard)
        if number == 16384:
            return Status.NOT_FOUND
        known = _at(_abi.CFleetShard, shard)
        known.member, known.open, known.since = number or (1 << 32) - 1, number, 4

    def fleet_key(self, handle, key, key_len, number):
        _at(ctypes.c_uint32, number).value = key_len

    def flush_start(self, handle, delay_s, ticket):
        _at(c_uint64, ticket).value = 1 << 40

    def flush_cancel(self, handle, ticket, any_owner, cancelled):
        _at(c_uint64, cancelled).value = 2 + any_owner

    def clock_ns(self, handle):
        return self.version

    def stats(self, handle, stats):
        for i, (name, _) in enumerate(_abi.CStats._fields_):
            setattr(_at(_abi.CStats, stats), name, i + 1)

    def process_stats(self, stats, size):
        assert size == ctypes.sizeof(_abi.CStats)
        self.stats(None, stats)
        return size

    def latency_ns(self, handle, op, quantile):
        return 5 if (op, quantile) == (1, 0.5) else 0

    def op_stats(self, handle, op, path, stats, size):
        assert size == ctypes.sizeof(_abi.COpStats)
        at = _at(_abi.COpStats, stats)
        at.count, at.errors = op + 1, path + 1
        for i, (name, _) in enumerate(_abi.CTimes._fields_):
            setattr(at.queue, name, 10 + i)
            setattr(at.service, name, 20 + i)

    def info(self, handle, info):
        at = _at(_abi.CInfo, info)
        at.device_kind, at.value_max, at.reconnects = b"soft\xff", 1 << 40, 3
        at.connection = self.connection
