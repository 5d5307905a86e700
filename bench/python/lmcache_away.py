# SPDX-License-Identifier: MIT
"""What a kvd that is gone costs the connector for LMCache: starts build/kvd on the software device,
and ends it by SIGKILL, or stops it. Prints times from the submission to the completion.

    PYTHONPATH=client/python KVD_LIBRARY=build/libkvd.so.0.4 python3 bench/python/lmcache_away.py
"""

import logging
import os
import select
import signal
import subprocess
import tempfile
import time

import kvd
import kvd.lmcache

CHUNKS = 8  # of 1 MiB, in each load and store
LOOKUP = 256  # keys
CALLS = 1000


class Bench:
    """A server, a connector, and the completions so far by number, with their times."""

    def __init__(self, folder):
        self.url = f"softnic://{folder}/s"
        options = ("memory.size=256m", "limits.max_value=4m", f"server.listen={self.url}",
                   f"log.file={folder}/log")
        self.server = subprocess.Popen([
            os.environ.get("KVD_BUILD", "build") + "/kvd",
            *(word for option in options for word in ("-o", option))])
        while True:
            try:
                kvd.Client(self.url).close()
                break
            except kvd.Error:
                time.sleep(0.01)
        self.connector = kvd.lmcache.Connector(self.url)
        self.poller = select.poll()
        self.poller.register(self.connector.event_fd(), select.POLLIN)
        self.ended = {}
        self.views = [memoryview(bytearray(1 << 20)) for _ in range(CHUNKS)]
        self.keys = [f"model@01000100@0@{i:064x}" for i in range(LOOKUP)]

    def end_of(self, number):
        """When a batch has ended."""
        while number not in self.ended:
            self.poller.poll(1000)
            for completion in self.connector.drain_completions():
                self.ended[completion[0]] = time.perf_counter()
        return self.ended[number]

    def timed(self, name, *submits):
        """Submits batches at once, and waits for the last one."""
        begin = time.perf_counter()
        numbers = [submit() for submit in submits]
        seconds = max(self.end_of(number) for number in numbers) - begin
        print(f"{name:36} {seconds * 1e3:10.3f} ms  {self.connector.report_status()['connection']}")

    def lookup(self):
        return self.connector.submit_batch_exists(self.keys)

    def store(self):
        return self.connector.submit_batch_set(self.keys[:CHUNKS], self.views)

    def load(self):
        return self.connector.submit_batch_get(self.keys[:CHUNKS], self.views)

    def lookups(self):
        for _ in range(20):
            number = self.lookup()
            self.end_of(number)
        return number

    def calls(self):
        """The time of a call itself."""
        times = []
        for _ in range(CALLS):
            begin = time.perf_counter()
            self.lookup()
            self.connector.drain_completions()
            times.append(time.perf_counter() - begin)
        times.sort()
        print(f"submit and drain a lookup of {LOOKUP} keys: median {times[CALLS // 2] * 1e6:.1f} "
              f"us, 99 % {times[CALLS * 99 // 100] * 1e6:.1f} us")


def measure(how):
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder)
        print(f"\n{how.name}:")
        bench.timed("a store and a load, while it is there", bench.store, bench.load)
        bench.server.send_signal(how)
        if how == signal.SIGKILL:
            bench.server.wait()
        bench.timed("20 lookups, one by one", bench.lookups)
        bench.timed("8 stores and a load, at once", *[bench.store] * CHUNKS, bench.load)
        bench.calls()
        begin = time.perf_counter()
        bench.connector.close()
        print(f"{'close()':36} {(time.perf_counter() - begin) * 1e3:10.3f} ms")
        bench.server.kill()
        bench.server.wait()


logging.disable(logging.WARNING)
measure(signal.SIGKILL)
measure(signal.SIGSTOP)
