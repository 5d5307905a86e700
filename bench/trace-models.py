#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints a trace of keys and sizes (bench/kvtrace/trace.h) as published measurements describe them.

    bench/trace-models.py MODEL ACCESSES

  etc      Facebook's ETC: lengths by a generalized Pareto distribution (Atikoglu et al., "Workload
           Analysis of a Large-Scale Key-Value Store", SIGMETRICS 2012), zipfian (0.9)
  usr      Facebook's USR (likewise): values of 2 bytes
  one-hit  as of several of Twitter's clusters: zipfian (1.1), and a quarter of the accesses to keys
           that are used once or twice (Yang et al., OSDI 2020); 60 to 460 bytes
  cdn      lognormal lengths around 12 KB, zipfian (0.85)
  llm      prefixes of conversations in chunks of 125 KB and, of a second model, 1 MB, which are
           read from the first one on, and are longer with each turn
"""
import math
import random
import sys


def zipfian(keys, theta, accesses):
    """Yields the numbers of keys, the most popular one first."""
    total, sums = 0.0, []
    for rank in range(1, keys + 1):
        total += rank**-theta
        sums.append(total)
    for _ in range(accesses // 10000 + 1):
        yield from random.choices(range(keys), cum_weights=sums, k=10000)


def uniform(key, salt):
    """In [0, 1), the key's own."""
    return random.Random(key * 1000003 + salt).random()


def pareto(u):
    """The length of a value in ETC: its table 5, cut at 1 MB."""
    return min(int(214.476 / 0.348238 * ((1 - u) ** -0.348238 - 1)) + 1, 1000000)


def etc(accesses):
    for key in zipfian(300000, 0.9, accesses):
        yield key, pareto(uniform(key, 1))


def usr(accesses):
    for key in zipfian(3000000, 0.9, accesses):
        yield key, 2


def one_hit(accesses):
    new = 1 << 40
    for key in zipfian(200000, 1.1, accesses):
        if random.random() < 0.25:
            new += random.random() < 0.7
            key = new
        yield key, 60 + int(400 * uniform(key, 2))


def cdn(accesses):
    for key in zipfian(200000, 0.85, accesses):
        u = max(uniform(key, 3), 1e-9)
        v = math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * uniform(key, 4))
        yield key, min(int(12000 * math.exp(1.5 * v)) + 1, 1000000)


def llm(accesses):
    """400 conversations; usually one of the most recent continues."""
    chunks = [4 + random.randrange(8) for _ in range(400)]
    order = list(range(400))
    while accesses > 0:
        at = min(int(random.expovariate(1 / 40)), 399)
        talk = order.pop(at)
        order.insert(0, talk)
        if random.random() < 0.02:
            chunks[talk] = 4
            order[0] = talk = len(chunks)
            chunks.append(4 + random.randrange(8))
        size = 1000000 if talk % 4 == 0 else 125000
        for chunk in range(chunks[talk]):
            yield talk * 1000 + chunk, size
        accesses -= chunks[talk]
        chunks[talk] = min(chunks[talk] + 1, 24)


def main():
    models = {"etc": etc, "usr": usr, "one-hit": one_hit, "cdn": cdn, "llm": llm}
    if len(sys.argv) != 3 or sys.argv[1] not in models or not sys.argv[2].isdigit():
        sys.exit("usage: trace-models.py etc|usr|one-hit|cdn|llm ACCESSES")
    random.seed(1)
    accesses = int(sys.argv[2])
    for n, (key, size) in enumerate(models[sys.argv[1]](accesses)):
        if n == accesses:
            break
        print(key, size)


if __name__ == "__main__":
    main()
