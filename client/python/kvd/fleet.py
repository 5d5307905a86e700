# SPDX-License-Identifier: MIT
"""What a client of a fleet knows of it, by the map that it has: struct kvd_fleet_info, _member and
_shard of kvd.h. No member is asked."""

from __future__ import annotations

from ctypes import byref, sizeof
from typing import NamedTuple

from . import _abi
from ._lib import lib


class FleetInfo(NamedTuple):
    """A fleet."""

    name: str
    epoch: int  # of the map: it grows with each change of who has which keys
    generation: int  # of the map's history
    shards: int  # equal parts of the keys, each of one member
    unowned: int  # shards that no member has yet: AwayError
    members: int  # whether they are there or not


class FleetMember(NamedTuple):
    """A member of a fleet."""

    id: str
    urls: list[str]  # at which clients reach it
    connection: str  # of this client: as in info(), or "unused"
    weight: int  # its share of the shards, relative to other members'
    shards: int  # that it has
    open: int  # its shards that clients may READ
    away: bool  # the fleet saw that it is absent: it gets no shard until it is back
    drained: bool  # it gives its shards to others, and gets none: fleet_drain()
    balances: bool  # all members get their share: fleet_rebalance()


class FleetShard(NamedTuple):
    """A shard of a fleet."""

    member: int | None  # number of its member; None: it has none yet
    open: bool  # clients may READ it
    since: int  # the epoch in which that changed last


def info_of(handle: int) -> tuple[int, FleetInfo]:
    """The status of the library, and what it wrote; likewise below."""
    known = _abi.CFleetInfo()
    status = lib.kvd_fleet_info(handle, byref(known), sizeof(known))
    return status, FleetInfo(known.name.decode(), known.epoch, known.generation, known.shards,
                             known.unowned, known.members)


def member_of(handle: int, number: int) -> tuple[int, FleetMember]:
    known = _abi.CFleetMember()
    status = lib.kvd_fleet_member(handle, number, byref(known), sizeof(known))
    return status, FleetMember(
        known.id.decode(), known.urls.decode().split(","), (known.connection or b"").decode(),
        known.weight, known.shards, known.open, bool(known.flags & _abi.FLEET_MEMBER_AWAY),
        bool(known.flags & _abi.FLEET_MEMBER_DRAINED),
        bool(known.flags & _abi.FLEET_MEMBER_BALANCES))


def shard_of(handle: int, number: int) -> tuple[int, FleetShard]:
    known = _abi.CFleetShard()
    status = lib.kvd_fleet_shard(handle, number, byref(known), sizeof(known))
    member = None if known.member == _abi.FLEET_NO_MEMBER else known.member
    return status, FleetShard(member, bool(known.open), known.since)
