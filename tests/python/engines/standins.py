# SPDX-License-Identifier: MIT
"""Modules in the place of SGLang's and vLLM's: the base classes and types that the adapters import,
made from the recorded signatures (signatures.json), and nothing else."""

import abc
import dataclasses
import enum
import inspect
import json
import pathlib
import sys
import types

RECORD = json.loads((pathlib.Path(__file__).parent / "signatures.json").read_text())


def module(monkeypatch, name, **content):
    """A module, and empty packages above it."""
    for i in range(name.count(".") + 1):
        above = name.rsplit(".", i)[0]
        if above not in sys.modules:
            monkeypatch.setitem(sys.modules, above, types.ModuleType(above))
    made = sys.modules[name]
    vars(made).update(content)
    return made


def dataclass(name, required, optional=()):
    fields = [(field, object) for field in required]
    fields += [(field, object, dataclasses.field(default=None)) for field in optional]
    return dataclasses.make_dataclass(name, fields)


def base_class(name, record):
    """The abstract base class: each method takes the recorded arguments."""
    def method(given, abstract):
        def called(self, *arguments, **named):
            raise NotImplementedError
        called.__signature__ = inspect.Signature(
            [inspect.Parameter(argument, inspect.Parameter.POSITIONAL_OR_KEYWORD)
             for argument in ["self", *given]])
        return abc.abstractmethod(called) if abstract else called

    return abc.ABCMeta(name, (), {
        method_name: method(given, method_name in record["abstract"])
        for method_name, given in record["methods"].items()})


def sglang(monkeypatch, newer=False):
    """SGLang's module of HiCacheStorage; @newer: with results that list all prefixes."""
    record = RECORD["sglang"]

    class PoolName(str, enum.Enum):
        KV, MAMBA, INDEXER, SWA, DRAFT = "kv", "mamba", "indexer", "swa", "draft"

        def __str__(self):
            return self.value

    class PoolHitPolicy(str, enum.Enum):
        ALL_PAGES, TRAILING_PAGES = "all_pages", "trailing_pages"

    transfer = dataclass("PoolTransfer", ["name"], record["transfer"][1:])
    return module(
        monkeypatch, "sglang.srt.mem_cache.hicache_storage",
        HiCacheStorage=base_class("HiCacheStorage", record),
        HiCacheStorageConfig=dataclass("HiCacheStorageConfig", record["config"]["required"],
                                       record["config"]["optional"]),
        PoolName=PoolName, PoolHitPolicy=PoolHitPolicy, PoolTransfer=transfer,
        PoolTransferResult=dataclass("PoolTransferResult",
                                     record["newer_result" if newer else "result"]))


def vllm(monkeypatch, name):
    """vLLM's modules of secondary tiers: @name is that of the interface."""
    record = RECORD[f"vllm {name}"]

    class LookupResult(enum.Enum):
        MISS, HIT, HIT_PENDING, RETRY = range(4)

    class RequestOffloadingContext:
        pass

    manager = base_class("SecondaryTierManager", record)

    def init(self, **given):
        assert list(given) == record["constructor"]
        self._primary_kv_view = given["primary_kv_view"]
        self.tier_type = given["tier_type"]

    init.__signature__ = inspect.Signature(
        [inspect.Parameter(argument, inspect.Parameter.POSITIONAL_OR_KEYWORD)
         for argument in ["self", *record["constructor"]]])
    manager.__init__ = init
    job = "JobMetadata" if name == "blocks" else "TransferJob"
    tiering = module(monkeypatch, "vllm.v1.kv_offload.tiering.base",
                     SecondaryTierManager=manager,
                     JobResult=dataclass("JobResult", record["result"][:2], record["result"][2:]),
                     **{job: dataclass(job, record["job"])})
    module(monkeypatch, "vllm.v1.kv_offload.base", LookupResult=LookupResult,
           RequestOffloadingContext=RequestOffloadingContext)
    return tiering
