# SPDX-License-Identifier: MIT
"""LMCache's adapter over kvd.lmcache.Connector, which registers LMCache's arena: the form for
RDMA. LMCache loads it as `plugin`, since `native_plugin` does not get the arena's address.

    --l2-adapter '{"type": "plugin", "module_path": "kvd.lmcache_adapter",
                   "class_name": "Adapter", "adapter_params": {"url": "rdma://HOST:7471"}}'
"""

from __future__ import annotations

import logging
from typing import Any

from lmcache.v1.distributed.l2_adapters import native_connector_l2_adapter as native  # type: ignore

from .lmcache import Connector

_log = logging.getLogger("kvd.lmcache")
_PARTS = 4  # of a key: model, rank, group, hash; and perhaps a salt


class Adapter(native.NativeConnectorL2Adapter):  # type: ignore[misc]
    """@params: arguments of kvd.lmcache.Connector, and `max_capacity_gb`, LMCache's own limit for
    what it stores in kvd (0: kvd evicts). @l1_memory_desc: where LMCache's arena is."""

    def __init__(self, params: dict[str, Any], l1_memory_desc: Any = None) -> None:
        params = dict(params)
        capacity = params.pop("max_capacity_gb", 0)
        connector = self._connector = Connector(**params)
        try:
            if l1_memory_desc is not None:
                # An arena that grows has a part that stays.
                size = getattr(l1_memory_desc, "stable_registration_size", None) or \
                    l1_memory_desc.size
                info = connector.register(l1_memory_desc.ptr, size)
                if info is not None:
                    _log.info("registered %d bytes in %.1f s, registrations: %d", info.bytes,
                              info.register_ns / 1e9, info.registrations)
            super().__init__(connector, max_capacity_gb=capacity, type_name="kvd")
        except BaseException:
            connector.close()
            raise

    def report_status(self) -> dict[str, Any]:
        """As Connector.report_status(), with what LMCache's class has. It is healthy if both are:
        not while kvd is away."""
        status: dict[str, Any] = super().report_status()
        known = self._connector.report_status()
        known["is_healthy"] &= status.get("is_healthy", True)
        return {**status, **known}

    def list_l2_keys(self, model_name: str | None = None, page_size: int = 500,
                     cursor: str | None = None) -> Any:
        """As Connector.list_l2_keys(), with LMCache's types. Other keys of the store are left
        out."""
        from lmcache.v1.distributed.api import KeyEntry, KeyListPage  # type: ignore

        found, after = self._connector.list_l2_keys(model_name, page_size, cursor)
        entries = ((_encoded_key(key), size) for key, size in found)
        return KeyListPage(tuple(KeyEntry(key, size) for key, size in entries if key is not None),
                           after)

    def get_object_sizes(self, keys: list[Any]) -> list[int | None]:
        """As Connector.get_object_sizes()."""
        return self._connector.get_object_sizes([native._object_key_to_string(key)
                                                 for key in keys])


def _encoded_key(text: str) -> Any:
    """LMCache's EncodedObjectKey of a key in kvd. None: the key is none of LMCache's."""
    from lmcache.v1.distributed.api import ObjectKey

    parts = text.split("@")
    if len(parts) not in (_PARTS, _PARTS + 1):
        return None
    try:
        key = ObjectKey(model_name=parts[0], kv_rank=int(parts[1], 16),
                        object_group_id=int(parts[2], 16), chunk_hash=bytes.fromhex(parts[3]),
                        cache_salt="".join(parts[_PARTS:]))
        return key.to_encoded_object_key()
    except ValueError:
        return None
