# SPDX-License-Identifier: MIT
"""Which interface of vLLM's secondary tiers is installed. It changes between versions without
notice, so it is recognized by signatures, and one that is not known is refused.

Two are known. "blocks" (0.26 to 0.28): the constructor has three arguments, a job `block_ids`.
"chunks" (0.30): it has a fourth one, `backpressure_detector`, and a job `chunk_ids`; a result may
name the keys that were loaded.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from typing import Any, Final, NamedTuple

_TIERING: Final = "vllm.v1.kv_offload.tiering.base"
_BASE: Final = "vllm.v1.kv_offload.base"
_KNOWN: Final = {
    ("offloading_spec", "primary_kv_view", "tier_type"): "blocks",
    ("offloading_spec", "primary_kv_view", "tier_type", "backpressure_detector"): "chunks",
}
_SLOTS: Final = ("chunk_ids", "block_ids")


class Interface(NamedTuple):
    """What a tier uses of vLLM."""

    name: str  # "blocks" or "chunks"
    manager: Any  # the base class
    slots: str  # the field of a job that has the rows of the primary tier
    job_result: Any
    result_fields: frozenset[str]
    lookup_result: Any
    request_context: Any


def _fields(kind: Any) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(kind)) \
        if dataclasses.is_dataclass(kind) else frozenset()


def _refused(what: str) -> ImportError:
    try:
        version = importlib.import_module("vllm.version").__version__
    except (ImportError, AttributeError):
        version = "of an unknown version"
    return ImportError(f"kvd.vllm does not know the secondary tiers of this vLLM ({version}): "
                       f"{what}. It knows those of 0.26 to 0.28, and of 0.30: install one of "
                       "these, or a newer kvd")


def of_modules(tiering: Any, base: Any, methods: frozenset[str]) -> Interface:
    """The interface of these modules of vLLM, of whose abstract methods a tier has @methods.
    ImportError: it is not known."""
    manager = getattr(tiering, "SecondaryTierManager", None)
    if manager is None:
        raise _refused("there is no SecondaryTierManager")
    signature = inspect.signature(manager.__init__)
    name = _KNOWN.get(tuple(signature.parameters)[1:])
    if name is None:
        raise _refused(f"SecondaryTierManager{signature}")
    job = getattr(tiering, "TransferJob", None) or getattr(tiering, "JobMetadata", None)
    slots = next((slots for slots in _SLOTS if slots in _fields(job)), None)
    if slots is None:
        raise _refused(f"a job has none of {', '.join(_SLOTS)}")
    results = getattr(base, "LookupResult", None)
    if not all(hasattr(results, answer) for answer in ("HIT", "MISS", "RETRY")):
        raise _refused("lookups have other answers than HIT, MISS and RETRY")
    missing = frozenset(getattr(manager, "__abstractmethods__", ())) - methods
    if missing:
        raise _refused(f"a tier has to have {', '.join(sorted(missing))}")
    return Interface(name, manager, slots, tiering.JobResult, _fields(tiering.JobResult), results,
                     base.RequestOffloadingContext)


def installed(methods: frozenset[str]) -> Interface:
    """That of the vLLM which is installed. ImportError: there is none, or it is not known."""
    try:
        tiering, base = importlib.import_module(_TIERING), importlib.import_module(_BASE)
    except ImportError as error:
        raise ImportError(f"kvd.vllm.KvdTierManager is for vLLM, which loads it: {_TIERING} can't "
                          f"be imported here ({error})") from error
    return of_modules(tiering, base, methods)
