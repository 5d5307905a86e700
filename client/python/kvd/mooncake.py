# SPDX-License-Identifier: MIT
"""Mooncake's Python store over kvd: programs that use `mooncake.store` keep their values in kvd.

    export PYTHONPATH=$(python3 -m kvd.mooncake)    # `mooncake.store` is this module
    export MOONCAKE_MASTER=rdma://HOST:7471         # SGLang: --hicache-storage-backend mooncake

It imports nothing of Mooncake; MOONCAKE.md says how to use it, and what is not here.

Guarantees. A value that is returned, or a buffer for which a length is returned, has the bytes that
one PUT stored under its key; several ranges of a value are read one by one. A buffer that was not
filled has undefined content. After a call kvd uses none of its buffers. Nothing is raised because
of the server: a call that fails returns an error code of Mooncake, for each key if it has many. The
causes go to the log `kvd.mooncake`: a line when calls of a kind begin to fail, fail for another
reason, or work again.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Callable, Final, Iterable, Mapping, Sequence

from ._abi import PutMode
from ._mooncake_session import (
    Results, Session, T, code, first_error, key_of, log, log_unused, results_of,
    session_of,
)
from ._mooncake_types import BufferHandle, Code, ReplicateConfig, SoftPinAction
from ._operations import Head, keys_of
from ._owner import Ending, Owner
from .client import Client
from .errors import Error, InvalidError, Status
from .memory import holder_of

Buffer = tuple[int, int]  # address and bytes, within registered memory

_REMOVED: Final = 1024  # keys that one part of a removal deletes together
_default = ReplicateConfig()


class MooncakeDistributedStore(Owner):
    """A store of Mooncake's kind in kvd. Any thread may call any method but setup() and close(); at
    most four transfers and one lookup run at the same time. Others wait for them: for at most their
    timeout, after which they end with RPC_TIMEOUT (-901).

    Keys are str. Addresses are those of host memory in which a buffer was registered. Methods
    return 0, a length or a count, or an error code, which is negative: INVALID_PARAMS (-600) before
    setup() and after close(), and for lists of different lengths. Arguments of a wrong type raise
    TypeError. Not usable in a child process after fork()."""

    _instead = "make another one, and set it up with the same arguments"

    def __init__(self) -> None:
        self._session: Session | None = None
        self._end: Callable[[], Any] = lambda: None

    # Setting up.

    def setup(self, local_hostname: str | Mapping[str, Any] = "", metadata_server: str = "",
              global_segment_size: Any = None, local_buffer_size: Any = None,
              protocol: Any = None, rdma_devices: Any = None, master_server_addr: str = "",
              engine: Any = None, enable_ssd_offload: Any = False, ssd_offload_path: Any = "",
              tenant_id: str = "default", enable_client_http_server: Any = False,
              client_http_port: Any = 9300, config: Mapping[str, Any] | None = None) -> int:
        """Connects, with these arguments, or with a mapping that has them by name, as the first
        argument or as @config. @master_server_addr or @metadata_server is kvd's URL; else it is
        $KVD_URL. @tenant_id is a tenant of kvd's. The others have no meaning here.

        A mapping may also have the options of kvd.Client, but not a `reconnect` of 0; `timeout_ms`
        (5000) of each value of a transfer, from its start; `lookup_timeout_ms` (500) of 32 keys of
        a lookup; and `num_clients` (4), the transfers at the same time.

        Returns 0, or an error code, whose cause goes to the log. INVALID_PARAMS (-600): no URL, or
        a wrong option. RPC_FAIL (-900): no server there. ILLEGAL_CLIENT (-601): it refuses this
        user. TRANSFER_FAIL (-800): no RDMA device that fits."""
        given = config if config is not None else local_hostname
        if not isinstance(given, Mapping):
            given = dict(local_hostname=local_hostname, metadata_server=metadata_server,
                         global_segment_size=global_segment_size,
                         local_buffer_size=local_buffer_size, protocol=protocol,
                         rdma_devices=rdma_devices, master_server_addr=master_server_addr,
                         engine=engine, enable_ssd_offload=enable_ssd_offload,
                         ssd_offload_path=ssd_offload_path, tenant_id=tenant_id,
                         enable_client_http_server=enable_client_http_server)
        self.close()
        try:
            session = session_of(dict(given))
        except Error as error:
            log.error("setup fails: %s", error)
            return code(-error.status)
        self._session = session
        self._end = Ending(self, session.close)
        return 0

    def close(self) -> int:
        """Waits for the calls that are under way, disconnects, and ends the registrations. Returns
        0, also if there is nothing to close."""
        self._session = None
        self._end()
        return 0

    def get_hostname(self) -> str:
        """The local_hostname of setup()."""
        return self._session.hostname if self._session else ""

    def health_check(self) -> int:
        """0: kvd answers; 1: not set up; 2: it does not answer within lookup_timeout_ms, or
        other lookups last longer."""
        if self._session is None:
            return 1

        def ping(client: Client) -> list[int]:
            client.ping()
            return [0]

        return 2 if self._call("health_check", [""], ping, lookup=True)[0] else 0

    def register_buffer(self, buffer_ptr: int, size: int) -> int:
        """Registers host memory, once for all stores of the process with the same URL, so that
        values are moved without copies. Takes 0.1 to 0.4 s for each GiB on an RDMA device. The
        memory must stay until unregister_buffer() or close().

        INVALID_PARAMS: it is empty, not host memory, or some of it is registered already; or 64
        buffers are. BUFFER_OVERFLOW: the device can't register it (RLIMIT_MEMLOCK)."""
        return self._change_buffers("register_buffer",
                                    lambda session: session.register(buffer_ptr, size))

    def unregister_buffer(self, buffer_ptr: int) -> int:
        """Ends a registration. INVALID_PARAMS: there is none at that address.
        UNAVAILABLE_IN_CURRENT_STATUS: calls in other threads use the memory."""
        return self._change_buffers("unregister_buffer",
                                    lambda session: session.unregister(buffer_ptr))

    def _change_buffers(self, kind: str, change: Callable[[Session], None]) -> int:
        session = self._session
        if session is None:
            return Code.INVALID_PARAMS
        try:
            change(session)
        except Error as error:
            log.error("%s fails: %s", kind, error)
            return code(-error.status)
        return 0

    # Storing. put(): a key that exists keeps its value, and that is no error. upsert(): it gets the
    # new one. @config: its soft pin.

    def put(self, key: str, value: Any, config: ReplicateConfig = _default) -> int:
        """Stores the bytes of a buffer, unless the key exists."""
        return self._put("put", [key], [value], config, PutMode.IF_ABSENT)[0]

    def put_parts(self, key: str, *parts: Any, config: ReplicateConfig = _default) -> int:
        """As put(), with the buffers one after another; at most 64."""
        return self._put("put", [key], [list(parts)], config, PutMode.IF_ABSENT)[0]

    def put_batch(self, keys: Sequence[str], values: Sequence[Any],
                  config: ReplicateConfig = _default) -> int:
        """As put(), for many keys. Returns 0, or the lowest error."""
        return min([0, *self._put("put", keys, values, config, PutMode.IF_ABSENT)])

    def put_from(self, key: str, buffer_ptr: int, size: int,
                 config: ReplicateConfig = _default) -> int:
        """As put(), from registered memory."""
        return self._put("put", [key], [(buffer_ptr, size)], config, PutMode.IF_ABSENT)[0]

    def put_from_with_metadata(self, key: str, buffer_ptr: int, metadata_buffer_ptr: int, size: int,
                               metadata_size: int, config: ReplicateConfig = _default) -> int:
        """As put_from(), with the metadata before the bytes of the buffer."""
        pieces = [(metadata_buffer_ptr, metadata_size), (buffer_ptr, size)]
        return self._put("put", [key], [pieces], config, PutMode.IF_ABSENT)[0]

    def batch_put_from(self, keys: Sequence[str], buffer_ptrs: Sequence[int],
                       sizes: Sequence[int], config: ReplicateConfig = _default) -> list[int]:
        """As put_from(), for many keys. Returns 0 or an error of each."""
        return self._put("put", keys, _buffers(buffer_ptrs, sizes), config, PutMode.IF_ABSENT)

    def batch_put_from_multi_buffers(self, keys: Sequence[str],
                                     all_buffer_ptrs: Sequence[Sequence[int]],
                                     all_sizes: Sequence[Sequence[int]],
                                     config: ReplicateConfig = _default) -> list[int]:
        """As batch_put_from(), with at most 64 buffers for each key, one after another."""
        return self._put("put", keys, _pieces(all_buffer_ptrs, all_sizes), config,
                         PutMode.IF_ABSENT)

    def upsert(self, key: str, value: Any, config: ReplicateConfig = _default) -> int:
        """Stores the bytes of a buffer, in the place of an earlier value."""
        return self._put("upsert", [key], [value], config, PutMode.SET)[0]

    def upsert_parts(self, key: str, *parts: Any, config: ReplicateConfig = _default) -> int:
        """As upsert(), with the buffers one after another; at most 64."""
        return self._put("upsert", [key], [list(parts)], config, PutMode.SET)[0]

    def upsert_batch(self, keys: Sequence[str], values: Sequence[Any],
                     config: ReplicateConfig = _default) -> int:
        """As upsert(), for many keys. Returns 0, or the lowest error."""
        return min([0, *self._put("upsert", keys, values, config, PutMode.SET)])

    def upsert_from(self, key: str, buffer_ptr: int, size: int,
                    config: ReplicateConfig = _default) -> int:
        """As upsert(), from registered memory."""
        return self._put("upsert", [key], [(buffer_ptr, size)], config, PutMode.SET)[0]

    def batch_upsert_from(self, keys: Sequence[str], buffer_ptrs: Sequence[int],
                          sizes: Sequence[int], config: ReplicateConfig = _default) -> list[int]:
        """As upsert_from(), for many keys. Returns 0 or an error of each."""
        return self._put("upsert", keys, _buffers(buffer_ptrs, sizes), config, PutMode.SET)

    def _put(self, kind: str, keys: Sequence[str], values: Iterable[Any], config: ReplicateConfig,
             mode: PutMode) -> list[int]:
        def store(client: Client) -> Results[int]:
            pin_s = config.pin_s()
            pairs = list(zip(map(key_of, keys), values, strict=True))
            results = results_of(lambda: client.put_many(pairs, mode=mode, pin_s=pin_s))
            return [min(result, 0) if result != -Status.ERR_EXISTS else 0 for result in results]

        if unused := config.unused():
            log_unused("ReplicateConfig: " + ", ".join(unused))
        return [code(result) for result in self._call(kind, keys, store)]

    # Loading.

    def get(self, key: str) -> bytes:
        """The value; b"": there is none, or the call failed."""
        return self.get_batch([key])[0]

    def get_batch(self, keys: Sequence[str]) -> list[bytes]:
        """The value of each key, or b""."""
        def load(client: Client) -> Results[bytes | None]:
            return results_of(lambda: client.get_many(map(key_of, keys)))

        return [value if isinstance(value, bytes) else b""
                for value in self._call("get", keys, load)]

    def get_buffer(self, key: str) -> BufferHandle | None:
        """The value, with the buffer protocol; None: there is none, or the call failed."""
        return self.batch_get_buffer([key])[0]

    def batch_get_buffer(self, keys: Sequence[str]) -> list[BufferHandle | None]:
        """The value of each key, or None."""
        def load(client: Client) -> Results[bytes | None]:
            return results_of(lambda: client.get_many(map(key_of, keys)))

        return [BufferHandle(value) if isinstance(value, bytes) else None
                for value in self._call("get", keys, load)]

    def get_into(self, key: str, buffer_ptr: int, size: int) -> int:
        """Reads the value to registered memory, and returns its length. INVALID_PARAMS: also if it
        is longer than @size."""
        return self.batch_get_into([key], [buffer_ptr], [size])[0]

    def batch_get_into(self, keys: Sequence[str], buffer_ptrs: Sequence[int],
                       sizes: Sequence[int]) -> list[int]:
        """As get_into(), for many keys. Returns the length or an error of each."""
        return self._get_into(keys, _buffers(buffer_ptrs, sizes))

    def batch_get_into_multi_buffers(self, keys: Sequence[str],
                                     all_buffer_ptrs: Sequence[Sequence[int]],
                                     all_sizes: Sequence[Sequence[int]],
                                     prefer_alloc_in_same_node: bool = False) -> list[int]:
        """As batch_get_into(), with at most 64 buffers for each key, one after another."""
        if prefer_alloc_in_same_node:
            log_unused("prefer_alloc_in_same_node")
        return self._get_into(keys, _pieces(all_buffer_ptrs, all_sizes))

    def _get_into(self, keys: Sequence[str], buffers: Iterable[Any]) -> list[int]:
        def load(client: Client) -> list[int]:
            return client.batch_get_into(map(key_of, keys), buffers)

        return [code(result) for result in self._call("get", keys, load)]

    def get_into_ranges(self, buffer_ptrs: Sequence[int], all_keys: Sequence[Sequence[str]],
                        all_dst_offsets: Sequence[Sequence[Sequence[int]]],
                        all_src_offsets: Sequence[Sequence[Sequence[int]]],
                        all_sizes: Sequence[Sequence[Sequence[int]]]) -> list[list[list[int]]]:
        """Reads parts of values to parts of registered memory: for each buffer keys, and for each
        of its keys offsets in the buffer, offsets in the value, and sizes. Returns the size or an
        error of each part. INVALID_PARAMS: it is not within its value or a registered buffer, or
        its lists have not the same length."""
        results = [[[int(Code.INVALID_PARAMS)] * len(offsets) for offsets in of_buffer]
                   for of_buffer in all_dst_offsets]
        keys: list[str] = []
        sources: list[int] = []
        buffers: list[Buffer] = []
        places: list[tuple[list[int], int]] = []  # of the results
        for i, address in enumerate(buffer_ptrs):
            groups = _same_lengths(i, all_keys, all_dst_offsets, all_src_offsets, all_sizes)
            for j, (key, at, source, size) in enumerate(groups):
                if not len(at) == len(source) == len(size):
                    continue
                for k, buffer in enumerate(zip((address + offset for offset in at), size)):
                    if _is_registered(buffer):
                        keys.append(key)
                        sources.append(source[k])
                        buffers.append(buffer)
                        places.append((results[i][j], k))

        def load(client: Client) -> list[int]:
            lengths = client.batch_get_ranges_into(map(key_of, keys), sources, buffers)
            return [-Status.ERR_INVALID if 0 <= length < size else length
                    for length, (_, size) in zip(lengths, buffers)]

        if keys:
            for (of_key, k), result in zip(places, self._call("get", keys, load)):
                of_key[k] = code(result)
        return results

    # Looking up.

    def is_exist(self, key: str) -> int:
        """1: the key exists; 0: it does not."""
        return self.batch_is_exist([key])[0]

    def batch_is_exist(self, keys: Sequence[str]) -> list[int]:
        """is_exist() of many keys, 32 in a round trip."""
        return [0 if head is None else 1 if isinstance(head, Head) else code(head)
                for head in self._heads("is_exist", keys)]

    def get_size(self, key: str) -> int:
        """The length of the value. OBJECT_NOT_FOUND: there is none."""
        (head,) = self._heads("get_size", [key])
        if head is None:
            return Code.OBJECT_NOT_FOUND
        return head.value_len if isinstance(head, Head) else code(head)

    def _heads(self, kind: str, keys: Sequence[str]) -> Results[Head | None]:
        def look(client: Client) -> Results[Head | None]:
            return results_of(lambda: client.heads(map(key_of, keys)))

        return self._call(kind, keys, look, lookup=True)

    # Removing. @force has no meaning: kvd has no leases that would prevent it.

    def remove(self, key: str, force: bool = False) -> int:
        """Removes the key. OBJECT_NOT_FOUND: there is none."""
        return self.batch_remove([key], force)[0]

    def batch_remove(self, keys: Sequence[str], force: bool = False) -> list[int]:
        """remove() of many keys. Returns 0 or an error of each."""
        def delete(client: Client) -> Results[int]:
            results = results_of(lambda: client.delete_many(map(key_of, keys)))
            return [-Status.NOT_FOUND if result is False else min(result, 0)
                    for result in results]

        return [code(result) for result in self._call("remove", keys, delete)]

    def remove_by_regex(self, regex_pattern: str, force: bool = False) -> int:
        """Removes the keys in which a regular expression of Python's finds something, and returns
        how many. It reads all keys of the store. INVALID_PARAMS: also for a wrong expression.

        After another error some may be removed."""
        def delete(client: Client) -> list[int]:
            try:
                pattern = re.compile(regex_pattern)
            except re.error as error:
                raise InvalidError(f"the regular expression {regex_pattern!r}: {error}") from None
            removed = cursor = 0
            while True:
                entries, cursor = client.scan_part(cursor, count=_REMOVED)
                keys = {entry.key for entry in entries
                        if pattern.search(entry.key.decode(errors="surrogateescape"))}
                removed += sum(client.delete_many(keys))
                if not cursor:
                    return [removed]

        return code(self._call("remove", [regex_pattern], delete)[0])

    def remove_all(self, force: bool = False) -> int:
        """Removes all keys that exist when it starts, and returns how many."""
        return self.remove_by_regex("", force)

    def _call(self, kind: str, keys: Sequence[str], work: Callable[[Client], Results[T]],
              lookup: bool = False) -> Results[T]:
        """Does @work with a client that no other thread uses. Returns a result of each key, or
        minus its status; an error of all is that of each key."""
        keys = list(keys_of(keys))
        session = self._session
        if session is None or not keys:
            return [-Status.ERR_INVALID] * len(keys)
        text = ""
        results: Results[T]
        try:
            with session.client(lookup) as client:
                results = work(client)
        except (Error, ValueError) as error:  # ValueError: lists of different lengths
            text = str(error)
            results = [-getattr(error, "status", Status.ERR_INVALID)] * len(keys)
        if not session.closing:
            status, where = first_error(kind, keys, results)
            session.notes.note(kind, status, text or where)
        return results


# The iterators are consumed by the call, which ends with INVALID_PARAMS if the lengths differ.

def _buffers(addresses: Iterable[int], sizes: Iterable[int]) -> Iterable[Buffer]:
    return zip(addresses, sizes, strict=True)


def _pieces(addresses: Iterable[Iterable[int]], sizes: Iterable[Iterable[int]]) \
        -> Iterable[list[Buffer]]:
    for of_key in zip(addresses, sizes, strict=True):
        yield list(_buffers(*of_key))


def _same_lengths(i: int, *lists: Sequence[Sequence[Any]]) -> Iterable[tuple[Any, ...]]:
    """What the lists have for number @i, side by side. Nothing if they have not the same length."""
    parts = [each[i] for each in lists if i < len(each)]
    if len(parts) < len(lists) or len({len(part) for part in parts}) > 1:
        return []
    return zip(*parts)


def _is_registered(buffer: Buffer) -> bool:
    try:
        holder_of(*buffer)
        return True
    except InvalidError:
        return False


__all__ = ["BufferHandle", "MooncakeDistributedStore", "ReplicateConfig", "SoftPinAction"]

if __name__ == "__main__":
    # The folder to put into PYTHONPATH.
    sys.stdout.write(os.path.join(os.path.dirname(os.path.abspath(__file__)), "names") + "\n")
