# SPDX-License-Identifier: MIT
"""A host pool of SGLang's HiCache as kvd.sglang sees it: the memory to register, the pieces of its
pages, and the keys of kvd under which they are.

A page is one value, whose pieces (K and V, or those of each layer) libkvd gathers and scatters. Its
key names the model, the page's hash, the pool, how the pool lays out a page, and the ranks of which
the page is a part: pages that differ in any of them are different keys.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Union

from ._abi import IOV_MAX
from ._engine import bounded_key
from .errors import InvalidError

KV: Final = "kv"
# Pools whose pages are the same on all ranks of tensor parallelism, as SGLang's own stores have it.
_REPLICATED: Final = ("indexer", "draft_indexer", "deepseek_v4")
_DRAFTS: Final = ("draft", "draft_swa")
_SHARED_CLASSES: Final = frozenset(("MLATokenToKVPoolHost", "DeepSeekV4PagedHostPool"))

Piece = tuple[int, int]  # address and bytes, in registered memory
Page = Union[Piece, list[Piece]]


class Part(NamedTuple):
    """One value: a page, or what one rank of a larger group has of it."""

    key: bytes
    page: Page
    size: int  # bytes


def _tensor_range(tensor: Any) -> Piece:
    return int(tensor.data_ptr()), int(tensor.numel()) * int(tensor.element_size())


def ranges_of(host: Any) -> list[Piece]:
    """Address and bytes of the memory of a pool; buffers that adjoin each other are one range."""
    get = getattr(host, "get_hybrid_pool_buffer", None)
    tensors = get() if get is not None else getattr(host, "kv_buffer", None)
    if tensors is None:
        return []
    if hasattr(tensors, "data_ptr"):
        tensors = [tensors]
    ranges: list[Piece] = []
    for address, size in sorted(_tensor_range(tensor) for tensor in tensors if tensor is not None):
        if ranges and address <= sum(ranges[-1]):
            begin = ranges[-1][0]
            ranges[-1] = begin, max(sum(ranges[-1]), address + size) - begin
        elif size:
            ranges.append((address, size))
    return ranges


def _is_ranked(name: str, host: Any, mla: bool) -> bool:
    """Whether each rank of tensor parallelism has pages of its own in this pool."""
    if name.startswith(_REPLICATED):
        return False
    if name in _DRAFTS:
        return not any(kind.__name__ in _SHARED_CLASSES for kind in type(host).__mro__)
    return name == "mamba" or not mla


def _ranks(config: Any, ranked: bool) -> list[str]:
    """The end of the keys: one, or one for each rank of `tp_lcm_size` that this rank stands for
    (SGLang's should_split_heads: instances with different tp_size share pages then)."""
    tail = ""
    for name, rank, size in (("pp", "pp_rank", "pp_size"),
                             ("cp", "attn_cp_rank", "attn_cp_size")):
        if getattr(config, size, 1) > 1:
            tail += f"@{name}{getattr(config, rank)}.{getattr(config, size)}"
    if not ranked:
        return [tail]
    rank, size = config.tp_rank, config.tp_size
    if not getattr(config, "should_split_heads", False):
        return [f"@tp{rank}.{size}{tail}"]
    factor = config.tp_lcm_size // size
    return [f"@tp{rank * factor + i}.{config.tp_lcm_size}{tail}" for i in range(factor)]


class Pool:
    """@host: SGLang's pool; @name: that of PoolName; @config: its HiCacheStorageConfig; @head:
    what all keys of this model begin with."""

    def __init__(self, host: Any, name: str, config: Any, head: str) -> None:
        self._host = host
        self._head = head
        self._page_size = int(getattr(host, "page_size", 1) or 1)
        layout, dtype = getattr(host, "layout", ""), getattr(host, "dtype", "")
        ranks = _ranks(config, _is_ranked(name, host, config.is_mla_model))
        pool = "" if name == KV else f".{name}"
        self._tails: Final = [f"{pool}@{layout}@{dtype}{rank}" for rank in ranks]
        # A pool that only counts: other pools have the data.
        self.logical: Final = not ranges_of(host)

    @property
    def parts(self) -> int:
        """How many keys a page has."""
        return len(self._tails)

    def keys(self, pages: list[str]) -> list[bytes]:
        """The keys of the pages with these hashes, `parts` for each."""
        return [bounded_key(f"{self._head}{page}{tail}".encode())
                for page in pages for tail in self._tails]

    def pages(self, pages: list[str], indices: Any) -> list[Part]:
        """The parts of the pages whose tokens have these @indices in the pool, in their order.
        InvalidError: the numbers do not fit, or a page has more pieces than a value can have."""
        if indices is None or len(indices) != len(pages) * self._page_size:
            raise InvalidError(f"{len(pages)} pages of {self._page_size} tokens have "
                               f"{len(indices) if indices is not None else 'no'} indices")
        if self.parts > 1:
            addresses, sizes = self._host.get_split_heads_page_buffer_meta(indices, self.parts)
        else:
            addresses, sizes = self._host.get_page_buffer_meta(indices)
        if isinstance(sizes, int):
            sizes = [sizes] * len(addresses)
        each, rest = divmod(len(addresses), len(pages) * self.parts)
        if rest or not each or len(sizes) != len(addresses):
            raise InvalidError(f"{len(addresses)} buffers for {len(pages)} pages")
        if each > IOV_MAX:
            raise InvalidError(f"a page has {each} buffers, and a value at most {IOV_MAX}: start "
                               "SGLang with --hicache-mem-layout page_first")
        pieces = [(int(address), int(size)) for address, size in zip(addresses, sizes)]
        found = []
        for i, key in enumerate(self.keys(pages)):
            page = pieces[i * each:(i + 1) * each]
            found.append(Part(key, page[0] if each == 1 else page, sum(size for _, size in page)))
        return found
