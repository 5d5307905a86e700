# SPDX-License-Identifier: MIT
"""Objects that own something of libkvd, which must be released once: they can't be copied; and how
those with threads end."""

from __future__ import annotations

import atexit
import functools
import os
import threading
import weakref
from typing import Any, Callable, NoReturn


class Owner:
    """A base of such objects: copy.copy(), copy.deepcopy() and pickle refuse them."""

    __slots__ = ()
    _instead = ""  # what to do in place of copying it

    def __reduce__(self) -> NoReturn:
        """The first step of copy.copy(), copy.deepcopy() and pickle."""
        kind = type(self)
        raise TypeError(f"a {kind.__module__}.{kind.__qualname__} can't be copied or pickled: "
                        f"{self._instead}")


class Ending:
    """Calls @end(*@args) once, which must not lead to @owner: when this is called; when the process
    ends, before threads are stopped in the middle of a call; or when @owner was collected. The
    collector runs in any thread, which may be one that @end joins, or hold a lock for which such a
    thread waits: @end gets a thread of its own then. In a child process nothing is called: the
    threads are the parent's."""

    def __init__(self, owner: object, end: Callable[..., Any], *args: Any) -> None:
        self._end = functools.partial(end, *args)
        self._pid = os.getpid()
        self._collected = weakref.finalize(owner, self._start)
        self._collected.atexit = False
        atexit.register(self)

    @property
    def alive(self) -> bool:
        """Whether @end was not called yet."""
        return self._collected.alive

    def cancel(self) -> bool:
        """Has nothing called. False: it was called already, or this is a child process."""
        if os.getpid() != self._pid or self._collected.detach() is None:
            return False
        atexit.unregister(self)
        return True

    def __call__(self) -> None:
        if self.cancel():
            self._end()

    def _start(self) -> None:
        atexit.unregister(self)
        if os.getpid() == self._pid:
            threading.Thread(target=self._end, name="kvd-ending", daemon=True).start()
