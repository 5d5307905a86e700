# SPDX-License-Identifier: MIT
"""Drives kvd.vllm as vLLM's TieringOffloadingManager does, in one thread: each step() takes what
has finished, looks up the blocks of the requests that wait, and ends with on_schedule_end(), before
which found blocks become load jobs, one for each request. Rows of the primary tier belong to a job
until it is reported, and are overwritten right then."""

import mmap
import time
import types

import numpy

from chunks import fill, generation_of

DEADLINE_S = 300


class Request:
    """Blocks that are wanted. `found`: for each, None until it is known, then whether it came."""

    def __init__(self, number, keys):
        self.context = types.SimpleNamespace(req_id=str(number), kv_transfer_params=None)
        self.keys = keys
        self.found = dict.fromkeys(keys)

    @property
    def done(self):
        return None not in self.found.values()

    @property
    def hits(self):
        return sum(map(bool, self.found.values()))


class Scheduler:
    """@tiering: the stand-in for vLLM's module of that name; @interface: of kvd's class."""

    def __init__(self, kind, tiering, rows, row_bytes, **options):
        self.mapping = mmap.mmap(-1, rows * row_bytes)
        self.array = numpy.frombuffer(self.mapping, numpy.int8).reshape(rows, row_bytes)
        self.view = memoryview(self.array)
        self.free = list(range(rows))
        self.interface = kind.interface
        self.results = self.interface.lookup_result
        self._job = getattr(tiering, "TransferJob", None) or tiering.JobMetadata
        given = {"offloading_spec": spec(), "primary_kv_view": self.view,
                 "tier_type": "KvdTierManager", **options}
        if self.interface.name == "chunks":
            given["backpressure_detector"] = None
        self.tier = kind(**given)
        self.jobs, self.waiting, self.stored = {}, [], {}
        self._number = 0

    def _submit(self, submit, keys, rows, request):
        self._number += 1
        job = self._job(**{"job_id": self._number, "keys": keys,
                           self.interface.slots: numpy.array(rows, dtype=numpy.int64),
                           "is_promotion": request is not None,
                           "req_context": request and request.context})
        self.jobs[self._number] = job, rows, request
        submit(job)
        return self._number

    def store(self, keys, generation=0):
        """Starts to store the blocks of @keys; returns the job's number."""
        rows = [self.free.pop() for _ in keys]
        for row, key in zip(rows, keys):
            fill(self.array[row], key.hex(), generation)
        return self._submit(self.tier.submit_store, keys, rows, None)

    def want(self, keys):
        """A request for blocks, which the next steps look up and load."""
        self._number += 1
        self.waiting.append(Request(self._number, list(keys)))
        self.tier.on_new_request(self.waiting[-1].context)
        return self.waiting[-1]

    def _finished(self):
        for result in self.tier.get_finished_jobs():
            job, rows, request = self.jobs.pop(result.job_id)
            if request is None:
                self.stored[result.job_id] = result.success
            else:
                named = getattr(result, "successful_keys", None)
                assert not (named and result.success) and set(named or ()) <= set(job.keys)
                for key, row in zip(job.keys, rows):
                    request.found[key] = result.success or key in (named or ())
                    if request.found[key]:
                        generation_of(self.array[row], key.hex())
            self.array[rows] = -1
            self.free += rows

    def step(self):
        self._finished()
        loads = []
        for request in self.waiting:
            wanted = []
            for key in request.keys:
                if request.found[key] is not None or any(
                        request is other and key in job.keys
                        for job, _, other in self.jobs.values()):
                    continue
                answer = self.tier.lookup(key, request.context)
                assert answer in (self.results.HIT, self.results.MISS, self.results.RETRY)
                if answer is self.results.HIT and len(wanted) < len(self.free):
                    wanted.append(key)
                elif answer is self.results.MISS:
                    request.found[key] = False
            if wanted:
                loads.append((wanted, [self.free.pop() for _ in wanted], request))
        for load in loads:
            self._submit(self.tier.submit_load, *load)
        self.tier.on_schedule_end(None)
        self.waiting = [request for request in self.waiting if not request.done]

    def run(self, *requests):
        """Steps until these requests are done, or all jobs are."""
        end = time.monotonic() + DEADLINE_S
        while not all(request.done for request in requests) if requests else \
                self.tier.has_pending_work():
            self.step()
            assert time.monotonic() < end, "the tier does not answer"
            time.sleep(0.001)  # a step of the model

    def close(self):
        self.tier.shutdown()
        self._finished()
        assert not self.jobs, f"{len(self.jobs)} jobs were not reported"
        self.tier = None
        self.view.release()


def spec(model="meta-llama/Llama-3.1-8B", **parallel):
    """What a tier reads of vLLM's OffloadingSpec."""
    return types.SimpleNamespace(config=types.SimpleNamespace(
        model=types.SimpleNamespace(name=model, dtype="bfloat16"),
        parallel=types.SimpleNamespace(**{"world_size": 1, "tp_size": 1, "pp_size": 1,
                                          **parallel})))
