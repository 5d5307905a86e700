# SPDX-License-Identifier: MIT
"""A circuit breaker that the threads of a connector share: a server that is gone costs one of them
one deadline, and the others nothing.

States. Up: batches are executed. Away: each ends at once, and a probe is made after each pause.

    up -- trip(): a thread has found that the server is gone -----> away
       <-- the probe has opened a connection and got a response ---

Guarantees. A. Between trip() and the probe that succeeds nothing but the probe uses the network,
once the threads have noticed (lost()). B. There is one probe at a time, on a connection and a
thread of its own. C. Pauses are random, and double up to a second as those of libkvd do
(reconnect.h), until a batch has succeeded: the connectors of a server that restarts do not all come
at once, and a server that fails again and again is not asked more often.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from typing import Any, Callable, Final

from ._lib import status_text
from .errors import Error, Status

PAUSE_S_MIN: Final = 0.01  # the longest first pause
PAUSE_S_MAX: Final = 1.0
_DOUBLINGS: Final = 7  # from the one to the other
_log = logging.getLogger("kvd.lmcache")


def warn(text: str, *args: Any) -> None:
    """Writes to the log. What the program has put there, may raise: the threads must live."""
    with contextlib.suppress(Exception):
        _log.warning(text, *args)


class Breaker:
    """Whether a server is there. `changed` guards all fields; reading one alone needs no lock."""

    def __init__(self, url: str, probe: Callable[[], None], ready: Callable[[], bool]) -> None:
        """@probe: asks the server, and raises an Error if it does not answer. @ready: whether
        nothing that a probe must do is left; it is called with `changed` held."""
        self.changed: Final = threading.Condition()
        self.url: Final = url
        self.status = 0  # why the server is away; 0: it is up
        self.why = ""
        self.since = time.time()
        self.losses = 0  # times that it went away: the number of the state, too
        self.probes = 0
        self.closing = False
        self._failures = 0  # of probes, since a batch succeeded
        self._tries = 0  # of this time
        self._probe: Final = probe
        self._ready: Final = ready
        self.thread: Final = threading.Thread(target=self._run, name="kvd-lmcache-probe",
                                              daemon=True)

    def trip(self, losses: int, status: int, why: str) -> bool:
        """A thread that saw the server up after @losses losses has found it away, because of
        @status. False: that is known. The caller holds `changed`."""
        if self.status or losses != self.losses:
            return False
        self.status, self.why, self.since = status, why, time.time()
        self.losses += 1
        self._tries = 0
        self.changed.notify_all()
        return True

    def lost(self, losses: int) -> bool:
        """Whether the server has been away since there were @losses losses."""
        return losses != self.losses

    def works(self) -> None:
        """A batch has succeeded."""
        self._failures = 0

    def error(self) -> str:
        """The error of what ends while the server is away."""
        return f"{self.url} is away: {self.why or status_text(self.status)}"

    def close(self) -> None:
        """Ends the thread, after the probe that is being made."""
        with self.changed:
            self.closing = True
            self.changed.notify_all()

    def _run(self) -> None:
        """The thread that probes."""
        while self._await_pause():
            try:
                self._probe()
            except Exception as error:  # the thread must live
                self._failed(error)
            else:
                self._succeeded()

    def _await_pause(self) -> bool:
        """Waits until the next probe is due. False: there will be none."""
        with self.changed:
            self.changed.wait_for(lambda: self.status or self.closing)
            longest = min(PAUSE_S_MIN * 2 ** min(self._failures, _DOUBLINGS), PAUSE_S_MAX)
            self.changed.wait_for(lambda: self.closing, random.uniform(0, longest))
            self.probes += not self.closing
            return not self.closing

    def _failed(self, error: Exception) -> None:
        """What trip() was told may only be that time was up; the probe's error says more. Tries 1,
        2, 4, ... are logged: a server that stays away fills no log."""
        with self.changed:
            self._failures += 1
            self._tries += 1
            self.status = error.status if isinstance(error, Error) else Status.ERR_INVALID
            self.why = str(error) or repr(error)
        if not self._tries & (self._tries - 1) and not self.closing:
            warn("probe %d of %s failed: %s", self._tries, self.url, self.why)

    def _succeeded(self) -> None:
        with self.changed:
            if not self._ready():
                return
            now = time.time()
            away_s = now - self.since
            self._failures += 1  # unless a batch succeeds
            self.status, self.why, self.since = 0, "", now
        warn("%s is back after %.3f s", self.url, away_s)
