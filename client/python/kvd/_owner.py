# SPDX-License-Identifier: MIT
"""Objects that own something of libkvd, which must be released once: they can't be copied."""

from __future__ import annotations

from typing import NoReturn


class Owner:
    """A base of such objects: copy.copy(), copy.deepcopy() and pickle refuse them."""

    __slots__ = ()
    _instead = ""  # what to do in place of copying it

    def __reduce__(self) -> NoReturn:
        """The first step of copy.copy(), copy.deepcopy() and pickle."""
        kind = type(self)
        raise TypeError(f"a {kind.__module__}.{kind.__qualname__} can't be copied or pickled: "
                        f"{self._instead}")
