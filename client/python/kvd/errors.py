# SPDX-License-Identifier: MIT
"""The statuses of libkvd, and an exception for each of them.

Every exception is a `kvd.Error`, and also of the Python class with the same meaning, if there is
one, so that `except KeyError`, `except TimeoutError` or `except ConnectionError` work.
"""

from __future__ import annotations

import builtins
import enum
from typing import Any, Final


class Status(enum.IntEnum):
    """Statuses, with the names and numbers of enum kvd_status of kvd.h."""

    OK = 0
    NOT_FOUND = 1
    ERR_INVALID = 2
    ERR_TOO_LARGE = 3
    ERR_BUFFER = 4
    ERR_NO_SPACE = 5
    ERR_NO_MEMORY = 6
    ERR_TIMEOUT = 7
    ERR_DISCONNECTED = 8
    ERR_UNREACHABLE = 9
    ERR_REFUSED = 10
    ERR_DEVICE = 11
    ERR_PROTOCOL = 12
    ERR_BUSY = 13
    ERR_EXISTS = 14
    ERR_NOT_A_NUMBER = 15
    ERR_CANCELED = 16
    ERR_UNKNOWN = 17
    ERR_AUTH = 18
    ERR_NOT_ALLOWED = 19
    ERR_LIMIT = 20
    ERR_AWAY = 21
    ERR_MOVED = 22


class Error(Exception):
    """An operation failed. `status` says why; the text has the cause and, if known, the remedy.

    `results`: for an operation on many keys, the result of each key, or the Error that it would
    have raised alone. Else None.
    """

    status: Status = Status.ERR_INVALID
    results: list[Any] | None = None

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else self.status.name  # KeyError would quote it


class NotFoundError(Error, KeyError):
    """The key is not in the store: a verified fact. Also: there is no such connection, tenant."""

    status = Status.NOT_FOUND


class InvalidError(Error, ValueError):
    """An argument is out of its range, or the client is closed; nothing was done."""

    status = Status.ERR_INVALID


class ThreadError(InvalidError, RuntimeError):
    """A call on this client is under way in another thread, or it belongs to another event loop.

    Open a client for each thread. Nothing was done."""


class TooLargeError(Error, ValueError):
    """The value is longer than the server's max_value, or than the device can register at once."""

    status = Status.ERR_TOO_LARGE


class BufferTooSmallError(Error, ValueError):
    """The value is longer than the buffer; `needed` is its length in bytes."""

    status = Status.ERR_BUFFER
    needed: int = 0


class NoSpaceError(Error):
    """The server's memory is full; the old value, if any, is unchanged."""

    status = Status.ERR_NO_SPACE


class NoMemoryError(Error, MemoryError):
    """This process could not allocate or register memory (RLIMIT_MEMLOCK)."""

    status = Status.ERR_NO_MEMORY


class TimedOutError(Error, builtins.TimeoutError):
    """The call took longer than timeout_ms. A change may have taken effect, or may still do so."""

    status = Status.ERR_TIMEOUT


class DisconnectedError(Error, ConnectionError):
    """There was no connection until the deadline, or the client is that of the parent process."""

    status = Status.ERR_DISCONNECTED


class UnreachableError(Error, ConnectionError):
    """No server listens at the address, or no route leads there."""

    status = Status.ERR_UNREACHABLE


class RefusedError(Error, ConnectionRefusedError):
    """The server refused the connection: it is full or stopping, or has no such tenant."""

    status = Status.ERR_REFUSED


class DeviceError(Error):
    """The RDMA device failed, or none that fits the address exists."""

    status = Status.ERR_DEVICE


class ProtocolError(Error):
    """The server speaks another version, or sent what the protocol does not allow."""

    status = Status.ERR_PROTOCOL


class BusyError(Error):
    """A bounded resource is in use now: try again later. Memory: operations use it."""

    status = Status.ERR_BUSY


class ExistsError(Error):
    """The key exists, or has another version: nothing was changed."""

    status = Status.ERR_EXISTS


class NotANumberError(Error, ValueError):
    """The value is not an unsigned decimal number of 64 bits: nothing was changed."""

    status = Status.ERR_NOT_A_NUMBER


class CanceledError(Error):
    """The operation was ended early, and had no effect."""

    status = Status.ERR_CANCELED


class UnknownOutcomeError(Error):
    """The connection ended before a change was answered: read the key to learn what it did."""

    status = Status.ERR_UNKNOWN


class AuthError(Error, PermissionError):
    """One end does not accept the other's identity, or the server has no user for the client."""

    status = Status.ERR_AUTH


class NotAllowedError(Error, PermissionError):
    """The client's user lacks the right, or may not use the key; nothing was done."""

    status = Status.ERR_NOT_ALLOWED


class LimitError(Error):
    """A limit of the client's user was exceeded; nothing was done: try again later."""

    status = Status.ERR_LIMIT


class AwayError(Error, ConnectionError):
    """The server has been away for a whole timeout_ms. Nothing was done, and nothing waited for."""

    status = Status.ERR_AWAY


class MovedError(Error):
    """Another member of the fleet has the key, or none that is known; nothing was done."""

    status = Status.ERR_MOVED


# The only place that maps a status to its exception.
BY_STATUS: Final[dict[int, type[Error]]] = {
    cls.status: cls
    for cls in (
        NotFoundError,
        InvalidError,
        TooLargeError,
        BufferTooSmallError,
        NoSpaceError,
        NoMemoryError,
        TimedOutError,
        DisconnectedError,
        UnreachableError,
        RefusedError,
        DeviceError,
        ProtocolError,
        BusyError,
        ExistsError,
        NotANumberError,
        CanceledError,
        UnknownOutcomeError,
        AuthError,
        NotAllowedError,
        LimitError,
        AwayError,
        MovedError,
    )
}


class OtherStatusError(Error):
    """A status that this package does not know: the library is newer. `number` is the status."""

    number: int = -1


def error_of(status: int, text: str) -> Error:
    """Returns the exception for @status, with the text of libkvd."""
    cls = BY_STATUS.get(status)
    if cls is None:
        error = OtherStatusError(f"status {status}, which this version of kvd for Python does not "
                                 f"know: {text}")
        error.number = status
        return error
    return cls(text)
