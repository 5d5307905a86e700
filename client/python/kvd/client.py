# SPDX-License-Identifier: MIT
"""The synchronous client: dict-like, and a method for each operation of kvd.h."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_size_t, c_uint64, string_at
from types import TracebackType
from typing import (
    Any, Callable, Iterable, Iterator, Literal, Mapping, NamedTuple, TypeVar, overload,
)

from . import _fast
from ._abi import (
    CArithArgs, CEntry, CExists, CItem, CKey, CPutArgs, CScanArgs, CUsed, ENTRY_FN, Priority,
    PutMode, USED_FN, Use, VALUE_MAX,
)
from ._buffers import Key, Readable, Writable, key_bytes, new_bytes, readable, writable
from ._handle import CHUNK, POINTERS, Handle, PathName
from ._lib import lib, quick, status_text
from ._operations import (
    Head, Item, Number, Operation, Pairs, buffers_of, check_number, check_text, check_ttl,
    code_of_length, code_of_range, code_of_status, found_of, keys_of, number_of, pairs_of,
    pieces_of, put_name, range_bytes, ranges_of, result_value, seconds_left,
)
from .errors import (
    BusyError, Error, ExistsError, InvalidError, NotFoundError, Status, error_of,
)
from .fleet import FleetInfo, FleetMember, FleetShard

_SCRATCH = 65536  # bytes of a value that is read to memory of the client first
_TEXT_MAX = 1 << 24  # bytes of a list of clients or tenants
_NOT_FOUND = int(Status.NOT_FOUND)
_BUFFER = int(Status.ERR_BUFFER)
_TRIES = 100  # of setdefault() and pop() while others change the key
_WAIT_MS = 100  # so soon a batch notices a signal

T = TypeVar("T")
D = TypeVar("D")
K = TypeVar("K", bound=Key)

fast_get = _fast.get
fast_put = _fast.put
fast_lengths = _fast.lengths
_KEYS = CKey * CHUNK
_USES: dict[int, int] = {use: use for use in Use}
_EXISTS = CExists * CHUNK


class Entry(NamedTuple):
    """A key that a scan delivers. `value` is None if it was not asked for, or is too long."""

    key: bytes
    value: bytes | None
    head: Head


class Used(NamedTuple):
    """A key that scan_uses() delivers; `uses` and `age`: libkvd(3), Access records."""

    key: bytes
    head: Head
    use: int  # a Use; of a newer server perhaps another number
    uses: int  # about how often the key was used
    age: int  # percent of the server's memory that was added since the last one


class Client(Handle):
    """A connection to a kvd server. One thread uses it at a time; else ThreadError.

    `url` as in kvd.h, kvd_open(); None: $KVD_URL, or the socket of this host's kvd. The options
    are the fields of struct kvd_options: timeout_ms, connect_timeout_ms, cache_bytes, spin_us,
    get_tries, depth, reconnect, tls_ca, tls_certificate, tls_key, tls_psk, tenant.

    Keys are bytes, or str in UTF-8, of 1 to 1,024 bytes; values are bytes, str or any contiguous
    buffer, and are returned as bytes. Times to live are in seconds; 0: for ever. Each call blocks
    for at most timeout_ms. For a missing key, lookups return None or False, and changes raise
    NotFoundError. Other errors raise the class of their status (kvd.Error).
    """

    def __init__(self, url: str | None = None, *, timeout_ms: int | None = None,
                 connect_timeout_ms: int | None = None, cache_bytes: int | None = None,
                 spin_us: int | None = None, get_tries: int | None = None,
                 depth: int | None = None, reconnect: int | None = None,
                 tls_ca: PathName | None = None, tls_certificate: PathName | None = None,
                 tls_key: PathName | None = None, tls_psk: PathName | None = None,
                 tenant: str | None = None) -> None:
        super().__init__(url, {
            "timeout_ms": timeout_ms, "connect_timeout_ms": connect_timeout_ms,
            "cache_bytes": cache_bytes, "spin_us": spin_us, "get_tries": get_tries,
            "depth": depth, "reconnect": reconnect, "tls_ca": tls_ca,
            "tls_certificate": tls_certificate, "tls_key": tls_key, "tls_psk": tls_psk,
            "tenant": tenant,
        })
        self._open()
        self._item = CItem()
        self._item_ref = byref(self._item)
        self._scratch = ctypes.create_string_buffer(_SCRATCH)
        self._scratch_at = ctypes.addressof(self._scratch)
        self._version = c_uint64()
        self._version_ref = byref(self._version)

    def close(self) -> None:
        """Disconnects. May wait for the server for 50 ms. A second call does nothing."""
        self._close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    # Reading.

    def _read(self, call: Callable[..., int], *arguments: Any) -> bytes | None:
        """Calls @call with a buffer that is large enough; the guard is held."""
        item = self._item
        status = call(self._pointer, *arguments, self._scratch_at, _SCRATCH, self._item_ref)
        if status == 0:
            return string_at(self._scratch_at, item.value_len)
        while status == _BUFFER:
            value = new_bytes(None, item.value_len)
            status = call(self._pointer, *arguments, value, len(value), self._item_ref)
            if status == 0:
                length: int = item.value_len
                data: bytes = value if length == len(value) else value[:length]
                return data
        if status != _NOT_FOUND:
            raise self._error(status)
        return None

    def _get(self, call: Callable[..., int], key: Key, *arguments: Any) -> bytes | None:
        data = key_bytes(key)
        guard = self._guard
        if not guard.acquire(False):
            guard.taken()
        try:
            return self._read(call, data, len(data), *arguments)
        finally:
            guard.release()

    @overload
    def get(self, key: Key) -> bytes | None: ...

    @overload
    def get(self, key: Key, default: D) -> bytes | D: ...

    def get(self, key: Key, default: Any = None) -> Any:
        """Returns the value, or @default if the key is not in the store."""
        guard = self._guard
        if not guard.acquire(False):
            guard.taken()
        try:
            value = fast_get(self._pointer, key)
            if value.__class__ is int:
                if value:
                    raise self._error(value)
                data = key_bytes(key)
                value = self._read(lib.kvd_get, data, len(data))
        finally:
            guard.release()
        return default if value is None else value

    @overload
    def get_by_request(self, key: Key) -> bytes | None: ...

    @overload
    def get_by_request(self, key: Key, default: D) -> bytes | D: ...

    def get_by_request(self, key: Key, default: Any = None) -> Any:
        """As get(), but asks the server instead of reading its memory."""
        value = self._get(lib.kvd_get_by_request, key)
        return default if value is None else value

    def get_item(self, key: Key) -> Item | None:
        """Returns the value with version, flags and expiry time; None: there is no such key."""
        data = key_bytes(key)
        with self._guard:
            value = self._read(lib.kvd_get, data, len(data))
            if value is None:
                return None
            item = self._item
            return Item(value, item.version, item.flags, item.expires_s)

    def gets(self, key: Key) -> tuple[bytes, int] | tuple[None, None]:
        """Returns the value and its version, for cas(); (None, None): there is no such key."""
        item = self.get_item(key)
        return (None, None) if item is None else (item.value, item.version)

    @overload
    def get_and_touch(self, key: Key, ttl_s: int) -> bytes | None: ...

    @overload
    def get_and_touch(self, key: Key, ttl_s: int, default: D) -> bytes | D: ...

    def get_and_touch(self, key: Key, ttl_s: int, default: Any = None) -> Any:
        """Returns the value and, at the same instant, sets its time to live.

        A value longer than 64 KiB is asked for twice, and its time to live set twice."""
        value = self._get(lib.kvd_get_and_touch, key, check_ttl(ttl_s))
        return default if value is None else value

    gat = get_and_touch

    def get_into(self, key: Key, buffer: Writable | list[Writable]) -> int:
        """Reads the value into @buffer, or into the buffers of a list one after another, and
        returns its length. Without a copy if the buffer is in registered memory.

        After an error the buffer's content is undefined, and always past the value's end.
        NotFoundError; and BufferTooSmallError, whose `needed` is the value's length."""
        data = key_bytes(key)
        holder: object
        if isinstance(buffer, list):
            iov, count, size, holder = pieces_of(buffer, writable)
            with self._guard:
                return self._length(lib.kvd_getv(self._pointer, data, len(data), iov, count,
                                                 self._item_ref), data, size)
        address, size, holder = writable(buffer)
        with self._guard:
            length = self._length(lib.kvd_get(self._pointer, data, len(data), address, size,
                                              self._item_ref), data, size)
        del holder
        return length

    def get_range(self, key: Key, offset: int, length: int) -> bytes | None:
        """Returns @length bytes of the value from byte @offset on, fewer where the value ends
        before, or None if there is no value. Of a long value only the pieces of 64 KiB that the
        range touches are read."""
        data, offset = key_bytes(key), check_number(offset, "offset")
        value: bytes = new_bytes(None, min(check_number(length, "length"), VALUE_MAX))
        with self._guard:
            status = lib.kvd_get_range(self._pointer, data, len(data), offset, value, len(value),
                                       self._item_ref)
            if status == _NOT_FOUND:
                return None
            self._check(status, "get_range", data)
            count = range_bytes(self._item.value_len, offset, len(value))
        return value if count == len(value) else value[:count]

    def get_range_into(self, key: Key, offset: int, buffer: Writable) -> int:
        """As get_range(), but reads the range to @buffer, whose length is its own, and returns
        the bytes read. Without a copy if the buffer is in registered memory. The buffer's content
        past the range is undefined, and after an error all of it. NotFoundError."""
        data, offset = key_bytes(key), check_number(offset, "offset")
        address, size, holder = writable(buffer)
        with self._guard:
            self._check(lib.kvd_get_range(self._pointer, data, len(data), offset, address, size,
                                          self._item_ref), "get_range", data)
            count = range_bytes(self._item.value_len, offset, size)
        del holder
        return count

    def _length(self, status: int, key: bytes, size: int) -> int:
        length: int = self._item.value_len
        if status == _BUFFER:
            raise self._too_small(length, size)
        self._check(status, "get", key)
        return length

    # Changes.

    def put(self, key: Key, value: Readable | list[Readable], *, mode: int = PutMode.SET,
            flags: int = 0, ttl_s: int = 0, if_version: int = 0, pin_s: int = 0,
            priority: int = Priority.NORMAL) -> int:
        """Stores @value as @mode says, and returns the new version. A list of buffers is stored
        as one value. @flags (32 bits) are returned with it; @pin_s and @priority are for servers
        that evict.

        NotFoundError, ExistsError: the mode's condition does not hold. TooLargeError: longer than
        info()["value_max"]. NoSpaceError: the server is full; the old value is unchanged.
        UnknownOutcomeError, TimedOutError: it is unknown whether it was stored."""
        guard = self._guard
        args = None
        if not (mode or flags or ttl_s or if_version or pin_s or priority):
            if not guard.acquire(False):
                guard.taken()
            try:
                version = fast_put(self._pointer, key, value)
                if version < 0:
                    raise self._error(-version)
            finally:
                guard.release()
            if version:
                return version
        else:
            args = byref(CPutArgs(check_number(flags, "flags", 1 << 32), check_ttl(ttl_s),
                                  check_number(mode, "mode", 1 << 32),
                                  check_number(if_version, "if_version"),
                                  check_ttl(pin_s, "pin_s"),
                                  check_number(priority, "priority", 1 << 32)))
        data = key_bytes(key)
        at: Any
        holder: object
        if isinstance(value, list):
            at, count, _, holder = pieces_of(value, readable)
            call = lib.kvd_putv
        else:
            at, count, holder = readable(value)
            call = lib.kvd_put
        if not guard.acquire(False):
            guard.taken()
        try:
            status = call(self._pointer, data, len(data), at, count, args, self._version_ref)
            if status:
                raise self._error(status, put_name(mode), data)
            return self._version.value
        finally:
            guard.release()
            del holder

    set = put  # as dict-like stores call it; it returns the version, which is never 0

    def put_from(self, key: Key, buffer: Readable | list[Readable], **arguments: Any) -> int:
        """As put(): registered memory is READ by the server from where it is."""
        return self.put(key, buffer, **arguments)

    def add(self, key: Key, value: Readable, **arguments: Any) -> int:
        """Stores it if the key does not exist; else ExistsError."""
        return self.put(key, value, mode=PutMode.IF_ABSENT, **arguments)

    def replace(self, key: Key, value: Readable, **arguments: Any) -> int:
        """Stores it if the key exists; else NotFoundError."""
        return self.put(key, value, mode=PutMode.IF_PRESENT, **arguments)

    def cas(self, key: Key, value: Readable, version: int, **arguments: Any) -> int:
        """Stores it if the key has @version; else ExistsError or NotFoundError."""
        return self.put(key, value, mode=PutMode.IF_VERSION, if_version=version, **arguments)

    def append(self, key: Key, value: Readable) -> int:
        """Adds @value after the existing one, which must exist (NotFoundError)."""
        return self.put(key, value, mode=PutMode.APPEND)

    def prepend(self, key: Key, value: Readable) -> int:
        """Adds @value before the existing one, which must exist (NotFoundError)."""
        return self.put(key, value, mode=PutMode.PREPEND)

    def _found(self, status: int) -> bool:
        if status > _NOT_FOUND:
            raise self._error(status)
        return status == 0

    def delete(self, key: Key) -> bool:
        """Removes the key. Returns whether it existed."""
        data = key_bytes(key)
        with self._guard:
            return self._found(lib.kvd_delete(self._pointer, data, len(data)))

    def delete_if(self, key: Key, version: int) -> bool:
        """Removes the key if it has @version; else ExistsError. Returns whether it existed."""
        data = key_bytes(key)
        version = check_number(version, "version")
        with self._guard:
            return self._found(lib.kvd_delete_if(self._pointer, data, len(data), version))

    def _arith(self, name: str, call: Callable[..., int], key: Key, delta: int,
               initial: int | None, flags: int, ttl_s: int) -> Number:
        data = key_bytes(key)
        args = CArithArgs(initial is not None, check_number(flags, "flags", 1 << 32),
                          check_ttl(ttl_s), check_number(initial or 0, "initial"))
        delta = check_number(delta, "delta")
        number = c_uint64()
        with self._guard:
            self._check(call(self._pointer, data, len(data), delta, byref(args), byref(number),
                             self._version_ref), name, data)
            return number_of(number.value, self._version.value)

    def incr(self, key: Key, delta: int = 1, *, initial: int | None = None, flags: int = 0,
             ttl_s: int = 0) -> Number:
        """Adds @delta to the decimal number that is the value; wraps at 2^64. A key that does not
        exist gets the number @initial, flags and time to live, or raises NotFoundError if that is
        None. NotANumberError. The result is an int with an attribute `version`."""
        return self._arith("incr", lib.kvd_incr, key, delta, initial, flags, ttl_s)

    def decr(self, key: Key, delta: int = 1, *, initial: int | None = None, flags: int = 0,
             ttl_s: int = 0) -> Number:
        """As incr(), but subtracts @delta, and stops at 0."""
        return self._arith("decr", lib.kvd_decr, key, delta, initial, flags, ttl_s)

    def touch(self, key: Key, ttl_s: int) -> int:
        """Sets the time to live, and returns the version, which stays. NotFoundError."""
        data = key_bytes(key)
        ttl_s = check_ttl(ttl_s)
        with self._guard:
            self._check(lib.kvd_touch(self._pointer, data, len(data), ttl_s, self._version_ref),
                        "touch", data)
            return self._version.value

    expire = touch  # a time to live of 0 is for ever, and does not remove the key

    def ttl(self, key: Key) -> int | None:
        """Returns the whole seconds that the key has left to live, at least 1; 0: it never expires,
        as ttl_s=0 stores it; None: there is no such key. BusyError: the client does not know the
        server's clock, since its host was suspended, and a ping() did not tell it."""
        head = self.head(key)
        if head is None or not head.expires_s:
            return None if head is None else 0
        now_ns = self.clock_ns()
        if now_ns is None:
            self.ping()
            now_ns = self.clock_ns()
        return seconds_left(head, now_ns)

    # As a dict.

    def __getitem__(self, key: Key) -> bytes:
        value: bytes | None = self.get(key)
        if value is None:
            raise NotFoundError(f"no key {key!r}")
        return value

    def __setitem__(self, key: Key, value: Readable) -> None:
        self.put(key, value)

    def __delitem__(self, key: Key) -> None:
        if not self.delete(key):
            raise NotFoundError(f"no key {key!r}")

    def __contains__(self, key: Key) -> bool:
        return self.exists(key)

    def __iter__(self) -> Iterator[bytes]:
        return self.keys()

    def keys(self, prefix: bytes | str = b"") -> Iterator[bytes]:
        """The keys that begin with @prefix, by scan(), but each only once: the iterator remembers
        those that it has delivered, and so needs memory for all of them."""
        return (entry.key for entry in _once(self.scan(prefix)))

    def items(self, prefix: bytes | str = b"") -> Iterator[tuple[bytes, bytes]]:
        """The keys that begin with @prefix, each once as keys() delivers them, with their values:
        each pair is of one moment, but all together are no snapshot."""
        for key, value, _ in _once(self.scan(prefix, values=True)):
            if value is None:  # too long for a scan
                value = self._get(lib.kvd_get, key)
            if value is not None:
                yield key, value

    def __len__(self) -> int:
        """The number of keys, by a scan of them all, which takes as long as the store is large.
        list(store) calls this first; list(store.keys()) does not. stats()["items"] is what one
        server counts: at once, but with keys that have just expired."""
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        """True: `if store:` asks whether there is a client, and no server for its keys."""
        return True

    def setdefault(self, key: Key, value: Readable, **arguments: Any) -> bytes:
        """Returns the key's value, or stores @value and returns it. If several clients do this at
        the same time, one of them stores, and all return the same value.

        BusyError: others keep adding and removing the key."""
        for _ in range(_TRIES):
            try:
                self.add(key, value, **arguments)
                return value.encode() if isinstance(value, str) else bytes(value)
            except ExistsError:
                found = self._get(lib.kvd_get, key)
            if found is not None:
                return found
        raise BusyError(f"the key {key!r} was added and removed {_TRIES} times meanwhile")

    @overload
    def pop(self, key: Key) -> bytes | None: ...

    @overload
    def pop(self, key: Key, default: D) -> bytes | D: ...

    def pop(self, key: Key, default: Any = None) -> Any:
        """Removes the key and returns its value, or @default. No other client gets the same value
        by pop(). BusyError: others keep changing the key."""
        for _ in range(_TRIES):
            item = self.get_item(key)
            if item is None:
                return default
            try:
                if self.delete_if(key, item.version):
                    return item.value
            except ExistsError:
                continue
        raise BusyError(f"the key {key!r} was changed {_TRIES} times meanwhile")

    # Existence.

    def exists(self, key: Key) -> bool:
        """Whether the key exists, by one short READ."""
        return self.head(key) is not None

    def head(self, key: Key) -> Head | None:
        """Length, version, flags and expiry time of the value; None: there is no such key."""
        return self.heads([key])[0]

    def heads(self, keys: Iterable[Key]) -> list[Head | None]:
        """head() of many keys, 32 in a round trip; together they are no snapshot. If one fails its
        error is raised, with the `results` of all."""
        found: list[Any] = []
        for count, array in _chunks_of(keys):
            results = _EXISTS()
            with self._guard:
                self._check(lib.kvd_exists_many(self._pointer, array, count, results, None))
            for i in range(count):
                status, item = results[i].status, results[i].item
                found.append(error_of(status, status_text(status)) if status > _NOT_FOUND else
                             None if status else _head(item))
        return _raised(found)

    def batch_sizes(self, keys: Iterable[Key]) -> list[int]:
        """The length of the value of each key, or minus the status: -Status.NOT_FOUND, ... As
        heads(), but only errors in the arguments are raised, not those of single keys."""
        wanted = list(keys_of(keys))
        sizes: list[int] = []
        for begin in range(0, len(wanted), _fast.LENGTHS_MAX):
            part = wanted[begin:begin + _fast.LENGTHS_MAX]
            with self._guard:
                found = fast_lengths(self._pointer, part)
            sizes += found if found else self._sizes(part)
        return sizes

    def _sizes(self, keys: list[Key]) -> list[int]:
        ((count, array),) = _chunks_of(keys)
        results = _EXISTS()
        with self._guard:
            lib.kvd_exists_many(self._open_pointer(), array, count, results, None)
        return [-results[i].status if results[i].status else results[i].item.value_len
                for i in range(count)]

    def batch_exists(self, keys: Iterable[Key]) -> list[bool]:
        """Whether each of the keys exists. If one fails its error is raised, with the `results` of
        all."""
        return _raised([error_of(-size, status_text(-size)) if size < -_NOT_FOUND else size >= 0
                        for size in self.batch_sizes(keys)])

    def exists_prefix(self, keys: Iterable[Key]) -> int:
        """How many keys exist before the first that does not."""
        total = 0
        leading = c_size_t()
        for count, array in _chunks_of(keys):
            with self._guard:
                self._check(lib.kvd_exists_leading(self._pointer, array, count, byref(leading)))
            total += leading.value
            if leading.value < count:
                break
        return total

    # Many operations at once.

    def _run(self, operations: list[Operation]) -> None:
        """Submits all operations and waits for them. Nothing they point to is freed before they
        end, even if a signal handler raises."""
        with self._guard:
            self._settle()
            try:
                for begin in range(0, len(operations), CHUNK):
                    pointer = self._open_pointer()
                    part = operations[begin:begin + CHUNK]
                    self._pins.append(part)
                    left = len(part) - len(self._submit_part(part))
                    done = POINTERS()
                    while left:
                        left -= lib.kvd_wait(pointer, done, CHUNK, left, _WAIT_MS)
                    self._pins.remove(part)
            except BaseException:
                self._settle()
                raise

    def _settle(self) -> None:
        """Ends the operations that an interrupted batch has left."""
        for part in self._pins:
            for operation in part:
                lib.kvd_cancel(self._pointer, operation.address)
        while self._pins and not self._guard.forked and quick.kvd_outstanding(self._pointer):
            lib.kvd_wait(self._pointer, POINTERS(), CHUNK, CHUNK, _WAIT_MS)
        self._pins.clear()

    @staticmethod
    def _results(operations: list[Operation]) -> list[Any]:
        results: list[Any] = []
        for operation in operations:
            try:
                results.append(operation.result(operation))
            except Error as error:
                results.append(error)
        return _raised(results)

    @overload
    def get_many(self, keys: Iterable[Key], *,
                 as_dict: Literal[False] = False) -> list[bytes | None]: ...

    @overload
    def get_many(self, keys: Iterable[K], *, as_dict: Literal[True]) -> dict[K, bytes]: ...

    def get_many(self, keys: Iterable[Any], *, as_dict: bool = False) -> Any:
        """Returns the value of each key, None where there is none; GETs share round trips, and
        together they are no snapshot. If one fails its error is raised, with `results` of all.
        @as_dict: returns a dict, by the keys as they were given, without those that are not in the
        store."""
        wanted = list(keys_of(keys))
        operations = []
        for key in wanted:
            operation = Operation()
            operation.prepare_get(key, 0, result_value)
            operations.append(operation)
        again = operations
        while again:
            self._run(again)
            again = [o for o in again if o.op.status == _BUFFER]
            for operation in again:
                operation.room(operation.op.item.value_len)
        values = self._results(operations)
        return found_of(wanted, values) if as_dict else values

    def put_many(self, items: Pairs, *, mode: int = PutMode.SET, flags: int = 0, ttl_s: int = 0,
                 pin_s: int = 0, priority: int = Priority.NORMAL) -> list[int]:
        """Stores the (key, value) pairs of an iterable or a mapping, in their order, and returns
        the versions. If one fails its error is raised when all have ended, with `results` of all.
        TypeError: one is not a pair; nothing was stored."""
        operations = []
        for key, value in pairs_of(items):
            operation = Operation()
            operation.prepare_put(key, value, mode, flags, ttl_s, 0, pin_s, priority)
            operations.append(operation)
        self._run(operations)
        return self._results(operations)

    set_many = put_many

    def delete_many(self, keys: Iterable[Key]) -> list[bool]:
        """Removes the keys. Returns for each whether it existed."""
        operations = []
        for key in keys_of(keys):
            operation = Operation()
            operation.prepare_delete(key, None)
            operations.append(operation)
        self._run(operations)
        return self._results(operations)

    def batch_get_into(self, keys: Iterable[Key], buffers: Iterable[Writable]) -> list[int]:
        """Reads the value of each key into its buffer. Returns the length of each, or minus its
        status: -Status.NOT_FOUND, -Status.ERR_BUFFER, ... If it is negative, the buffer's content
        is undefined. Only errors in the arguments are raised, not those of single keys."""
        operations = []
        for key, buffer in buffers_of(keys, buffers):
            operation = Operation()
            operation.prepare_get_into(key, buffer, code_of_length)
            operations.append(operation)
        self._run(operations)
        return [code_of_length(operation) for operation in operations]

    def batch_get_ranges_into(self, keys: Iterable[Key], offsets: Iterable[int],
                              buffers: Iterable[Writable]) -> list[int]:
        """Reads a range of the value of each key, from its offset on, into its buffer; a key may
        be there several times. Returns the bytes read of each, or minus its status, as
        batch_get_into()."""
        operations = []
        for key, offset, buffer in ranges_of(keys, offsets, buffers):
            operation = Operation()
            operation.prepare_range_into(key, offset, buffer, code_of_range)
            operations.append(operation)
        self._run(operations)
        return [code_of_range(operation) for operation in operations]

    def batch_put_from(self, keys: Iterable[Key], buffers: Iterable[Readable], *,
                       flags: int = 0, ttl_s: int = 0, pin_s: int = 0,
                       priority: int = Priority.NORMAL) -> list[int]:
        """Stores each buffer under its key. Returns 0, or minus the status of each."""
        operations = []
        for key, buffer in buffers_of(keys, buffers):
            operation = Operation()
            operation.prepare_put(key, buffer, PutMode.SET, flags, ttl_s, 0, pin_s, priority)
            operations.append(operation)
        self._run(operations)
        return [code_of_status(operation) for operation in operations]

    # The store as a whole.

    def scan(self, prefix: bytes | str = b"", *, values: bool = False,
             count: int = 0) -> Iterator[Entry]:
        """All keys that begin with @prefix, in no particular order, at most @count by a request.
        A key that exists from start to end is delivered at least once; any key may be delivered
        more than once. Other calls on the client are allowed between two entries."""
        cursor = 0
        while True:
            found, cursor = self.scan_part(cursor, prefix, values=values, count=count)
            yield from found
            if not cursor:
                return

    def scan_part(self, cursor: int, prefix: bytes | str = b"", *, values: bool = False,
                  count: int = 0) -> tuple[list[Entry], int]:
        """One request of a scan, which begins with @cursor 0. Returns keys, perhaps none, and the
        next cursor; 0: the scan is complete."""
        return self._scan(lib.kvd_scan, ENTRY_FN, _entry, cursor, prefix, values, count)

    def scan_uses(self, prefix: bytes | str = b"", *, count: int = 0) -> Iterator[Used]:
        """As scan(), with the record of each key's use that the server keeps for eviction.
        InvalidError: the server does not evict."""
        cursor = 0
        while True:
            found, cursor = self.scan_uses_part(cursor, prefix, count=count)
            yield from found
            if not cursor:
                return

    def scan_uses_part(self, cursor: int, prefix: bytes | str = b"", *,
                       count: int = 0) -> tuple[list[Used], int]:
        """As scan_part(), for scan_uses()."""
        return self._scan(lib.kvd_scan_uses, USED_FN, _used, cursor, prefix, False, count)

    def _scan(self, call: Callable[..., int], function: Any, entry_of: Callable[[Any], T],
              cursor: int, prefix: bytes | str, values: bool, count: int) -> tuple[list[T], int]:
        if isinstance(prefix, str):
            prefix = prefix.encode()
        elif not isinstance(prefix, bytes):
            raise TypeError(f"a prefix is str or bytes, not {type(prefix).__name__}")
        args = CScanArgs(prefix, len(prefix), check_number(count, "count", 1 << 32), bool(values))
        place = c_uint64(check_number(cursor, "cursor"))
        found: list[T] = []
        failed: list[BaseException] = []

        def each(_: int | None, pointer: Any) -> int:
            try:
                found.append(entry_of(pointer.contents))
                return 0
            except BaseException as error:  # it can't pass through libkvd
                failed.append(error)
                return 1

        with self._guard:
            self._check(call(self._pointer, byref(place), byref(args), function(each), None))
        if failed:
            raise failed[0]
        return found, place.value

    def flush(self) -> None:
        """Removes all keys, and waits until no reader can see them. TimedOutError: the flush
        continues."""
        with self._guard:
            self._check(lib.kvd_flush_all(self._pointer))

    def flush_start(self, delay_s: int = 0) -> int:
        """Starts a flush of what is in the store in @delay_s seconds; a ticket for flush_done().
        BusyError: 8 flushes with a delay of this client, or 56 of all, wait already, and
        flush_cancel() makes room."""
        ticket = c_uint64()
        delay_s = check_ttl(delay_s, "delay_s")
        with self._guard:
            self._check(lib.kvd_flush_start(self._pointer, delay_s, byref(ticket)))
        return ticket.value

    def flush_done(self, ticket: int) -> bool:
        """Whether that flush is done."""
        with self._guard:
            status = lib.kvd_flush_done(self._pointer, check_number(ticket, "ticket"))
            if status == Status.ERR_BUSY:
                return False
            self._check(status)
            return True

    def flush_cancel(self, ticket: int = 0, *, any_owner: bool = False) -> int:
        """Cancels flushes that were started with a delay, of this client or of all clients, and
        returns how many: the one with this ticket; 0: all. NotFoundError: there is none."""
        cancelled = c_uint64()
        ticket = check_number(ticket, "ticket")
        with self._guard:
            self._check(lib.kvd_flush_cancel(self._pointer, ticket, bool(any_owner),
                                             byref(cancelled)), "flush_cancel", ticket, "flush")
        return cancelled.value

    def ping(self) -> None:
        """Waits for a response of the server."""
        with self._guard:
            self._check(lib.kvd_ping(self._pointer))

    def _text(self, call: Callable[..., int]) -> str:
        size = _SCRATCH
        while True:
            text = ctypes.create_string_buffer(size)
            length = c_size_t()
            with self._guard:
                status = call(self._pointer, text, size, byref(length))
                if status != _BUFFER or size >= _TEXT_MAX:
                    self._check(status)
                    return text.raw[:length.value].decode(errors="replace")
            size *= 4

    def stats(self) -> dict[str, int | str]:
        """The server's statistics, by name; `kvd --help` explains them."""
        lines = (line.partition(" ") for line in self._text(lib.kvd_server_stats).splitlines())
        return {name: int(value) if value.isdigit() else value for name, _, value in lines}

    def info(self) -> dict[str, int | str]:
        """The properties of the connection: the fields of struct kvd_info. Does not block."""
        return self._info()

    def _records(self, call: Callable[..., int]) -> list[dict[str, str]]:
        return [dict(pair.split("=", 1) for pair in line.split() if "=" in pair)
                for line in self._text(call).splitlines()]

    def clients(self) -> list[dict[str, str]]:
        """The server's connections: id, addr, state, ... as kvd_client_list() has them."""
        return self._records(lib.kvd_client_list)

    def kill(self, client_id: int) -> None:
        """Closes the connection with this id. NotFoundError; DisconnectedError: one's own."""
        with self._guard:
            self._check(lib.kvd_client_kill(self._pointer, check_number(client_id, "id")),
                        "kill", client_id, "connection")

    def revoke(self, who: str) -> int:
        """Closes all connections of a client ("user=NAME", "uid=N", "addr=ADDRESS", "id=N", ...:
        kvd_revoke()), and returns how many there were."""
        closed = c_uint64()
        data = check_text(who, "who")
        with self._guard:
            self._check(lib.kvd_revoke(self._pointer, data, byref(closed)), "revoke", who,
                        "connection")
        return closed.value

    def shutdown(self) -> None:
        """Stops the server, as SIGTERM does: kvd_shutdown(). For administrators."""
        with self._guard:
            self._check(lib.kvd_shutdown(self._pointer), "shutdown", None, "server")

    def whoami(self) -> dict[str, str]:
        """The user, rights and tenant of this client, as the server knows it: kvd_whoami()."""
        return self._records(lib.kvd_whoami)[0]

    def config(self) -> dict[str, str]:
        """The server's options as they are now, by section.key: kvd_config_get(). For
        administrators."""
        lines = (line.partition(" =") for line in self._text(lib.kvd_config_get).splitlines())
        return {name: value[1:] for name, _, value in lines}

    def config_set(self, options: Mapping[str, str]) -> None:
        """Changes options of the running server, by section.key, all of them or none:
        kvd_config_set(). For administrators. InvalidError says which is wrong, and why."""
        for name, value in options.items():
            if "\n" in name + value:
                raise InvalidError(f"options has a newline: {name}")
        data = check_text("\n".join(f"{name}={value}" for name, value in options.items()),
                          "options")
        with self._guard:
            self._check(lib.kvd_config_set(self._pointer, data))

    def config_rewrite(self) -> str:
        """Writes what config_set() has changed into the server's file, and returns what was
        written: kvd_config_rewrite(). For administrators. InvalidError: the file is as it was."""
        return self._text(lib.kvd_config_rewrite)

    def tenants(self) -> list[dict[str, str]]:
        """The server's tenants: name, bytes, state, ...; for administrators."""
        return self._records(lib.kvd_tenant_list)

    def tenant_create(self, name: str, size: int) -> None:
        """Creates a tenant with @size bytes of memory. ExistsError, NoSpaceError."""
        with self._guard:
            self._check(lib.kvd_tenant_create(self._pointer, check_text(name, "name"),
                                              check_number(size, "size")))

    def tenant_resize(self, name: str, size: int) -> None:
        """Changes the size of a tenant. NotFoundError, NoSpaceError."""
        with self._guard:
            self._check(lib.kvd_tenant_resize(self._pointer, check_text(name, "name"),
                                              check_number(size, "size")),
                        "tenant_resize", name, "tenant")

    def tenant_drop(self, name: str) -> None:
        """Drops a tenant with all of its items. NotFoundError."""
        with self._guard:
            self._check(lib.kvd_tenant_drop(self._pointer, check_text(name, "name")),
                        "tenant_drop", name, "tenant")

    def fleet_info(self) -> FleetInfo:
        """What the client knows of its fleet, by the map that it has. InvalidError: it is for one
        server. Like the next three calls it asks no member."""
        return self._fleet_info()

    def fleet_member(self, number: int) -> FleetMember:
        """A member, from number 0 on, in the order of the map. NotFoundError: there are fewer."""
        return self._fleet_member(number)

    def fleet_shard(self, number: int) -> FleetShard:
        """A shard, from number 0 on. NotFoundError: there are fewer."""
        return self._fleet_shard(number)

    def fleet_key(self, key: Key) -> int:
        """The number of the shard that the key belongs to."""
        return self._fleet_key(key)

    def fleet_drain(self, member: str) -> None:
        """Has the member of that name give its shards, with their keys, to the others, and get
        none, until fleet_undrain() or the end of its process: kvd_fleet_drain(). For
        administrators. Returns when the map says so; fleet_member() shows how far they are.

        NotFoundError. InvalidError: also if the fleet's members are in a file. BusyError: the map
        did not change within timeout_ms, and may still do so. AwayError."""
        with self._guard:
            self._check(lib.kvd_fleet_drain(self._pointer, check_text(member, "member")),
                        "fleet_drain", member, "member")

    def fleet_undrain(self, member: str) -> None:
        """Ends what fleet_drain() has begun: the member keeps the shards that it has."""
        with self._guard:
            self._check(lib.kvd_fleet_undrain(self._pointer, check_text(member, "member")),
                        "fleet_undrain", member, "member")

    def fleet_rebalance(self) -> None:
        """Has each member that is there and not drained get its share of the shards, by their
        weights. Else as fleet_drain()."""
        with self._guard:
            self._check(lib.kvd_fleet_rebalance(self._pointer))


def _once(entries: Iterator[Entry]) -> Iterator[Entry]:
    """The entries of a scan without those whose key was delivered before."""
    delivered: set[bytes] = set()
    for entry in entries:
        if entry.key not in delivered:
            delivered.add(entry.key)
            yield entry


def _raised(results: list[Any]) -> list[Any]:
    """Returns @results. If it has errors, the first one is raised, with all results."""
    for result in results:
        if isinstance(result, Error):
            result.results = results
            raise result
    return results


def _chunks_of(keys: Iterable[Key]) -> Iterator[tuple[int, Any]]:
    """Arrays of struct kvd_key, with the number of keys in each; they keep the keys alive."""
    encoded = [key_bytes(key) for key in keys_of(keys)]
    for begin in range(0, len(encoded), CHUNK):
        part = encoded[begin:begin + CHUNK]
        array = _KEYS()
        for i, key in enumerate(part):
            array[i].key = key
            array[i].key_len = len(key)
        yield len(part), array


def _head(item: CItem) -> Head:
    return Head(item.value_len, item.version, item.flags, item.expires_s)


def _entry(entry: CEntry) -> Entry:
    value = string_at(entry.value, entry.item.value_len) if entry.value is not None else None
    return Entry(string_at(entry.key, entry.key_len), value, _head(entry.item))


def _used(used: CUsed) -> Used:
    return Used(string_at(used.key, used.key_len), _head(used.item),
                _USES.get(used.use, used.use), used.uses, used.age)
