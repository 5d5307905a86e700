# SPDX-License-Identifier: MIT
"""Drives a connector as LMCache's multi-process server does: tasks are submitted by its controller
threads under one lock, and a thread of the driver waits on the connector's descriptor, takes what
has ended without that lock, and deals it out by number."""

import select
import threading

import numpy
from chunks import generation_of

DEADLINE_S = 120
PATTERN = numpy.uint64(0x5a5aa5a55a5aa5a5)  # of buffers that are used again
POLL_MS = 50  # LMCache: 500, which only a stop waits for


class Task:
    """What is known of a batch: `ok`, `error` and `found` once done() has returned."""

    def __init__(self, kind, keys, views):
        self.kind, self.keys, self.views = kind, keys, views
        self.ended = threading.Event()
        self.ok = self.error = self.found = None

    def done(self):
        assert self.ended.wait(DEADLINE_S), f"no completion of a {self.kind}"
        return self

    def use_again(self):
        """Has LMCache use the buffers for other chunks, which nothing must change."""
        for view in self.done().views:
            numpy.frombuffer(view, numpy.uint64)[:] = PATTERN

    def check_untouched(self):
        for view in self.views:
            words = numpy.frombuffer(view, numpy.uint64)
            assert (words == PATTERN).all(), "written after the completion"


class Driver:
    """Has the arguments and methods of LMCache's class for native connectors, whose place it
    takes, as far as kvd's adapter uses them."""

    def __init__(self, connector, max_capacity_gb=0, type_name=""):
        self.connector, self.type_name = connector, type_name
        self.max_capacity_gb = max_capacity_gb
        self._fd = int(connector.event_fd())
        self._lock = threading.Lock()
        self._pending = {}
        self._stop = threading.Event()
        self.failure = None
        self._thread = threading.Thread(target=self._demux, daemon=True)
        self._thread.start()

    def _demux(self):
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        while not self._stop.is_set():
            if not poller.poll(POLL_MS):
                continue
            for number, ok, error, found in self.connector.drain_completions():
                with self._lock:
                    task = self._pending.pop(number, None)
                if task is None:
                    self.failure = f"completion {number} of no batch"
                    continue
                task.ok, task.error, task.found = ok, error, found
                task.ended.set()

    def _submit(self, task, submit, *arguments):
        with self._lock:
            self._pending[int(submit(task.keys, *arguments))] = task
        return task

    def store(self, keys, views):
        return self._submit(Task("store", keys, views), self.connector.submit_batch_set, views)

    def load(self, keys, views):
        return self._submit(Task("load", keys, views), self.connector.submit_batch_get, views)

    def lookup(self, keys):
        return self._submit(Task("lookup", keys, None), self.connector.submit_batch_exists)

    def delete(self, keys):
        return self._submit(Task("delete", keys, None), self.connector.submit_batch_delete)

    def report_status(self):
        return {"is_healthy": self._thread.is_alive(), "type": self.type_name}

    def close(self):
        self._stop.set()
        self._thread.join()
        self.connector.close()
        assert self.failure is None, self.failure
        assert not self._pending, f"{len(self._pending)} batches have no completion"


def check_loaded(task):
    """A chunk that is said to be loaded is right. Returns how many there are."""
    task.done()
    assert len(task.found) == len(task.keys)
    for key, view, found in zip(task.keys, task.views, task.found):
        if found:
            generation_of(view, key)
    return sum(task.found)
