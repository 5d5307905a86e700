# SPDX-License-Identifier: MIT
"""What kvd.mooncake takes and returns in addition to numbers: the configuration of a PUT, values in
buffers, and the error codes of Mooncake."""

from __future__ import annotations

import enum
from operator import index
from typing import Final

from ._buffers import writable
from .errors import InvalidError, Status

_SOFT_PIN_S: Final = 30 * 60  # as Mooncake's master pins without soft_pin_ttl_ms


class Code(enum.IntEnum):
    """Error codes with the names and numbers of Mooncake's types.h: those that kvd returns."""

    OK = 0
    INTERNAL_ERROR = -1
    BUFFER_OVERFLOW = -10
    NO_AVAILABLE_HANDLE = -200
    INVALID_PARAMS = -600
    ILLEGAL_CLIENT = -601
    OBJECT_NOT_FOUND = -704
    TRANSFER_FAIL = -800
    RPC_FAIL = -900
    RPC_TIMEOUT = -901
    UNAVAILABLE_IN_CURRENT_STATUS = -1010


# The only place that maps a status of kvd to its code. Those that are missing: INTERNAL_ERROR.
CODES: Final[dict[int, Code]] = {
    Status.OK: Code.OK,
    Status.NOT_FOUND: Code.OBJECT_NOT_FOUND,
    Status.ERR_INVALID: Code.INVALID_PARAMS,
    Status.ERR_TOO_LARGE: Code.INVALID_PARAMS,
    Status.ERR_BUFFER: Code.INVALID_PARAMS,
    Status.ERR_NO_SPACE: Code.NO_AVAILABLE_HANDLE,
    Status.ERR_NO_MEMORY: Code.BUFFER_OVERFLOW,
    Status.ERR_TIMEOUT: Code.RPC_TIMEOUT,
    Status.ERR_DISCONNECTED: Code.RPC_FAIL,
    Status.ERR_UNREACHABLE: Code.RPC_FAIL,
    Status.ERR_REFUSED: Code.RPC_FAIL,
    Status.ERR_DEVICE: Code.TRANSFER_FAIL,
    Status.ERR_PROTOCOL: Code.RPC_FAIL,
    Status.ERR_BUSY: Code.UNAVAILABLE_IN_CURRENT_STATUS,
    Status.ERR_CANCELED: Code.RPC_FAIL,
    Status.ERR_UNKNOWN: Code.RPC_FAIL,
    Status.ERR_AUTH: Code.ILLEGAL_CLIENT,
    Status.ERR_NOT_ALLOWED: Code.ILLEGAL_CLIENT,
    Status.ERR_LIMIT: Code.UNAVAILABLE_IN_CURRENT_STATUS,
    Status.ERR_AWAY: Code.RPC_FAIL,
    Status.ERR_MOVED: Code.RPC_FAIL,
}


class SoftPinAction(enum.Enum):
    """What a PUT does with the soft pin of its key."""

    PRESERVE = 0
    ENABLE = 1
    DISABLE = 2


class ReplicateConfig:
    """How a value is stored. A soft pin is a pin of kvd: `soft_pin_action` ENABLE, or
    `with_soft_pin`, for `soft_pin_ttl_ms` milliseconds, rounded up to seconds (None: 30 minutes).
    The other fields are those of Mooncake which have no meaning for kvd.

    There is no `with_hard_pin`: kvd pins for a limited time. Setting it raises AttributeError."""

    __slots__ = ("replica_num", "nof_replica_num", "dfs_replica_num", "with_soft_pin",
                 "soft_pin_action", "_soft_pin_ttl_ms", "preferred_segments",
                 "preferred_nof_segments", "preferred_segment", "prefer_alloc_in_same_node",
                 "data_type", "group_ids")

    def __init__(self) -> None:
        self.replica_num = 1
        self.nof_replica_num = 0
        self.dfs_replica_num = 0
        self.with_soft_pin = False
        self.soft_pin_action = SoftPinAction.PRESERVE
        self._soft_pin_ttl_ms: int | None = None
        self.preferred_segments: list[str] = []
        self.preferred_nof_segments: list[str] = []
        self.preferred_segment = ""
        self.prefer_alloc_in_same_node = False
        self.data_type: object = None
        self.group_ids: list[str] | None = None

    @property
    def soft_pin_ttl_ms(self) -> int | None:
        """The time of a soft pin. TypeError: it is set to what is no number of 64 bits, or None."""
        return self._soft_pin_ttl_ms

    @soft_pin_ttl_ms.setter
    def soft_pin_ttl_ms(self, value: int | None) -> None:
        if value is not None and not 0 <= index(value) < 1 << 64:
            raise TypeError(f"soft_pin_ttl_ms is None, or 0 to {(1 << 64) - 1}, not {value}")
        self._soft_pin_ttl_ms = value

    def __str__(self) -> str:
        fields = ", ".join(f"{name.lstrip('_')}: {getattr(self, name)}" for name in self.__slots__)
        return f"ReplicateConfig: {{ {fields} }}"

    def pin_s(self) -> int:
        """The seconds for which kvd pins the value; 0: not. InvalidError: a time without a pin."""
        if self.with_soft_pin or self.soft_pin_action is SoftPinAction.ENABLE:
            if self.soft_pin_ttl_ms is None:
                return _SOFT_PIN_S
            return -(-self.soft_pin_ttl_ms // 1000)
        if self.soft_pin_ttl_ms is not None:
            raise InvalidError("soft_pin_ttl_ms is set, but soft_pin_action is not ENABLE")
        return 0

    def unused(self) -> list[str]:
        """The fields that were set and that kvd does not use."""
        fresh = ReplicateConfig()
        return [name for name in self.__slots__ if "soft_pin" not in name and
                getattr(self, name) != getattr(fresh, name)]


class BufferHandle(bytearray):
    """A value, with the buffer protocol."""

    def ptr(self) -> int:
        """The address of the first byte; 0: the value is empty."""
        return writable(self)[0] or 0

    def size(self) -> int:
        """The value's length in bytes."""
        return len(self)


__all__ = ["BufferHandle", "ReplicateConfig", "SoftPinAction"]
