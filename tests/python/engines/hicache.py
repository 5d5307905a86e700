# SPDX-License-Identifier: MIT
"""Drives kvd.sglang as SGLang's HiCache controller does: a thread that prefetches (an exists call,
then loads in batches of up to 128 pages), one that backs up, and the scheduler's, all at once, on
one host pool, whose pages are free again as soon as a call has returned."""

import mmap
import queue
import threading

import numpy

from chunks import fill

DEADLINE_S = 300
BATCH = 128  # SGLang's STORAGE_BATCH_SIZE


class Tensor:
    """What the adapter uses of a torch tensor, on an array."""

    def __init__(self, array):
        self.array = array

    def data_ptr(self):
        return self.array.ctypes.data

    def numel(self):
        return self.array.size

    def element_size(self):
        return self.array.itemsize

    def is_contiguous(self):
        return bool(self.array.flags.c_contiguous)


class HostPool:
    """A pool of pages in the layouts of SGLang's: `page_first` has K and V of a page each in one
    piece, `layer_first` a piece for each layer, and `mla` one piece."""

    def __init__(self, pages, page_bytes, layout="page_first", page_size=4, pieces=None):
        self.pieces = pieces or {"page_first": 2, "layer_first": 8}.get(layout, 1)
        self.layout, self.dtype, self.page_size = layout, "uint8", page_size
        self.page_bytes, self.pages = page_bytes, pages
        self.piece = page_bytes // self.pieces
        self.mapping = mmap.mmap(-1, pages * page_bytes)
        array = numpy.frombuffer(self.mapping, numpy.uint8)
        self.kv_buffer = Tensor(array)
        # Piece p of page i: pieces of one kind are together.
        self.array = array.reshape(self.pieces, pages, self.piece)

    def get_page_buffer_meta(self, indices):
        addresses = [self.array[piece, index // self.page_size].ctypes.data
                     for index in list(indices)[::self.page_size] for piece in range(self.pieces)]
        return addresses, [self.piece] * len(addresses)

    def get_split_heads_page_buffer_meta(self, indices, factor):
        """Each piece, cut in @factor: for each page, and each part of it, what all pieces have."""
        size = self.piece // factor
        addresses = [self.array[piece, index // self.page_size].ctypes.data + part * size
                     for index in list(indices)[::self.page_size] for part in range(factor)
                     for piece in range(self.pieces)]
        return addresses, [size] * len(addresses)

    def indices(self, pages):
        """The tokens of these pages, as a tensor of indices."""
        return numpy.concatenate([numpy.arange(page * self.page_size, (page + 1) * self.page_size)
                                  for page in pages] or [numpy.arange(0)])

    def put(self, page, key, generation=0):
        """Makes the page that is stored under @key."""
        block = numpy.empty(self.page_bytes, numpy.uint8)
        fill(memoryview(block), key, generation)
        self.array[:, page] = block.reshape(self.pieces, self.piece)

    def bytes(self, page):
        """A copy of a page, as put() made it."""
        return memoryview(numpy.ascontiguousarray(self.array[:, page]).reshape(-1))

    def wipe(self, pages):
        self.array[:, list(pages)] = 0xee


class Controller:
    """The threads. Results of prefetch() and backup() come by their queues."""

    def __init__(self, storage, pool):
        self.storage, self.pool = storage, pool
        self.failure = None
        self._queues = {name: queue.Queue() for name in ("prefetch", "backup")}
        self._threads = [threading.Thread(target=self._serve, args=(name,), daemon=True)
                         for name in self._queues]
        for thread in self._threads:
            thread.start()

    def _serve(self, name):
        while (operation := self._queues[name].get()) is not None:
            call, done = operation
            try:
                done.put(call())
            except BaseException as error:  # SGLang's thread would be gone for good
                self.failure = error
                done.put(None)

    def _ask(self, name, call):
        done = queue.Queue()
        self._queues[name].put((call, done))
        return done

    def _batches(self, keys, pages, move):
        results = []
        for begin in range(0, len(keys), BATCH):
            part = pages[begin:begin + BATCH]
            given = move(keys[begin:begin + BATCH], self.pool.indices(part))
            assert len(given) == len(part) and all(type(one) is bool for one in given)
            results += given
            if not all(given):  # the rest of a prefix is of no use
                break
        return results

    def backup(self, keys, pages):
        """Stores pages; a queue that gets what became of each."""
        return self._ask("backup", lambda: self._batches(keys, pages, self.storage.batch_set_v1))

    def prefetch(self, keys, pages):
        """Loads the present prefix of @keys into @pages; a queue that gets for each of it whether
        it is there, and the bytes, copied at once."""
        def call():
            hits = self.storage.batch_exists(keys)
            assert 0 <= hits <= len(keys)
            self.pool.wipe(pages[:hits])
            loaded = self._batches(keys[:hits], pages[:hits], self.storage.batch_get_v1)
            return hits, [(key, self.pool.bytes(page) if ok else None)
                          for key, page, ok in zip(keys, pages, loaded)]

        return self._ask("prefetch", call)

    def close(self):
        for each in self._queues.values():
            each.put(None)
        for thread in self._threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive()
        self.storage.close()
        if self.failure is not None:
            raise self.failure
