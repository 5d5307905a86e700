# SPDX-License-Identifier: MIT
"""Drives `mooncake.store` as SGLang's hierarchical cache does, written from a description of it: a
pool of pages in one registered buffer; a thread that backs pages up and one that prefetches them,
each with a queue of batches; and lookups of the scheduler meanwhile. A page has one object (MLA, in
pieces of its layers that lie apart) or two (keys and values). Pages are used again as soon as their
batch has ended, so a store that still reads or writes them then is found out."""

import ctypes
import mmap
import queue
import threading

from chunks import fill, generation_of
from mooncake.store import MooncakeDistributedStore, ReplicateConfig

DEADLINE_S = 120
LAYERS = 8  # pieces of a page


class Task:
    """A batch of pages: `results` has a truth for each once done() has returned."""

    def __init__(self, work, names, pages):
        self.work, self.names, self.pages = work, names, pages
        self.ended = threading.Event()
        self.results = None

    def done(self):
        assert self.ended.wait(DEADLINE_S), f"no end of a {self.work.__name__}"
        assert self.results is not None, f"a {self.work.__name__} raised"
        return self.results


class Engine:
    """@objects of each page: 1 in pieces, or 2. @url goes where SGLang has the master's address."""

    def __init__(self, url, page_bytes, pages, objects=2, store=None, **options):
        self.page_bytes, self.objects = page_bytes, objects
        self.size = page_bytes // objects  # of an object
        self.store = store or self.set_up(url, options)
        self.memory = mmap.mmap(-1, pages * page_bytes)
        self.views = memoryview(self.memory)
        self.address = ctypes.addressof(ctypes.c_ubyte.from_buffer(self.memory))
        assert self.store.register_buffer(self.address, len(self.memory)) == 0
        self.lock = threading.Lock()
        self.free = list(range(pages))
        self.queues, self.threads = [], []
        for name in ("backup", "prefetch"):
            tasks = queue.Queue()
            self.queues.append(tasks)
            self.threads.append(threading.Thread(target=self.work, args=(tasks,), name=name))
            self.threads[-1].start()

    @staticmethod
    def set_up(url, options):
        store = MooncakeDistributedStore()
        if options:
            code = store.setup({"local_hostname": "host", "metadata_server": "P2PHANDSHAKE",
                                "master_server_addr": url, **options})
        else:
            code = store.setup("host", "P2PHANDSHAKE", 4 << 30, 16 << 20, "rdma", "", url, None)
        assert code == 0
        assert store.put("warmup", bytes(4096)) == 0
        assert store.is_exist("warmup") == 1 and store.get("warmup") == bytes(4096)
        return store

    # Pages and their objects.

    def take(self, count):
        with self.lock:
            pages, self.free = self.free[:count], self.free[count:]
        assert len(pages) == count, "the pool is empty"
        return pages

    def give(self, pages):
        """The first to be taken next: they are used again at once."""
        with self.lock:
            self.free = pages + self.free

    def keys(self, names):
        suffixes = ("_0_k", "_0_v") if self.objects == 2 else ("__k",)
        return [name + suffix for name in names for suffix in suffixes]

    def object(self, page, number):
        """The parts of an object: offset and bytes in the buffer. Layers of a page lie apart."""
        if self.objects == 2:
            return [(page * self.page_bytes + number * self.size, self.size)]
        piece = self.size // LAYERS
        pages = len(self.memory) // self.page_bytes
        return [((layer * pages + page) * piece, piece) for layer in range(LAYERS)]

    def parts(self, pages):
        return [self.object(page, number) for page in pages for number in range(self.objects)]

    def fill(self, names, pages, generation=0):
        for key, parts in zip(self.keys(names), self.parts(pages)):
            whole = bytearray(self.size)
            fill(whole, key, generation)
            start = 0
            for offset, size in parts:
                self.views[offset:offset + size] = whole[start:start + size]
                start += size

    def scribble(self, pages):
        """What the next user of the pages does."""
        for parts in self.parts(pages):
            for offset, size in parts:
                ctypes.memset(self.address + offset, 0xee, size)

    def check(self, names, pages, generation=0):
        for key, parts in zip(self.keys(names), self.parts(pages)):
            whole = b"".join(self.views[offset:offset + size] for offset, size in parts)
            assert generation_of(whole, key) == generation

    # What the threads do.

    def work(self, tasks):
        while (task := tasks.get()) is not None:
            try:
                task.results = task.work(task.names, task.pages)
            finally:
                task.ended.set()

    def _meta(self, pages):
        parts = self.parts(pages)
        if self.objects == 2:
            return [self.address + part[0][0] for part in parts], [part[0][1] for part in parts]
        return ([[self.address + offset for offset, _ in part] for part in parts],
                [[size for _, size in part] for part in parts])

    def _per_page(self, results):
        assert len(results) % self.objects == 0
        return [all(results[i:i + self.objects]) for i in range(0, len(results), self.objects)]

    def _back_up(self, names, pages):
        keys, (addresses, sizes) = self.keys(names), self._meta(pages)
        codes = [0 if exists == 1 else -1 for exists in self.store.batch_is_exist(keys)]
        missing = [i for i, code in enumerate(codes) if code]
        if missing:
            arguments = [[each[i] for i in missing] for each in (keys, addresses, sizes)]
            if self.objects == 2:
                stored = self.store.batch_put_from(*arguments)
            else:
                stored = self.store.batch_put_from_multi_buffers(*arguments, ReplicateConfig())
            assert len(stored) == len(missing)
            for i, code in zip(missing, stored):
                codes[i] = code
        return self._per_page([code == 0 for code in codes])

    def _prefetch(self, names, pages):
        keys, (addresses, sizes) = self.keys(names), self._meta(pages)
        if self.objects == 2:
            lengths = self.store.batch_get_into(keys, addresses, sizes)
        else:
            lengths = self.store.batch_get_into_multi_buffers(keys, addresses, sizes)
        assert len(lengths) == len(keys) and all(n < 0 or n == self.size for n in lengths)
        return self._per_page([length > 0 for length in lengths])

    # What the scheduler does.

    def back_up(self, names, pages):
        self.queues[0].put(task := Task(self._back_up, names, pages))
        return task

    def prefetch(self, names, pages):
        self.queues[1].put(task := Task(self._prefetch, names, pages))
        return task

    def lookup(self, names):
        """How many pages exist before the first that does not."""
        found = self._per_page([n == 1 for n in self.store.batch_is_exist(self.keys(names))])
        return found.index(False) if False in found else len(found)

    def store_batch(self, names):
        """Backs up pages that are made now, and uses their memory again at once."""
        pages = self.take(len(names))
        self.fill(names, pages)
        results = self.back_up(names, pages).done()
        self.scribble(pages)
        self.give(pages)
        return results

    def load_batch(self, names):
        """Prefetches pages; those that are said to be loaded are right."""
        pages = self.take(len(names))
        self.scribble(pages)
        results = self.prefetch(names, pages).done()
        for name, page, loaded in zip(names, pages, results):
            if loaded:
                self.check([name], [page])
        self.give(pages)
        return results

    def close(self):
        for tasks in self.queues:
            tasks.put(None)
        for thread in self.threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive()
        assert self.store.close() == 0
