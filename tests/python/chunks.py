# SPDX-License-Identifier: MIT
"""Chunks of a KV cache whose bytes can be judged: for the drivers that stand in for engines."""

import zlib

import numpy

# A chunk's words count up from a number that only this key and generation have.

def _first_word(key, generation):
    return zlib.crc32(key.encode()) << 32 | generation << 24


def fill(view, key, generation=0):
    """Makes the chunk that is stored under @key."""
    words = numpy.frombuffer(view, numpy.uint64)
    words[:] = numpy.arange(len(words), dtype=numpy.uint64)
    words += numpy.uint64(_first_word(key, generation))


def generation_of(view, key):
    """Which chunk of @key these bytes are, all of them. Fails if they are none."""
    words = numpy.frombuffer(view, numpy.uint64)
    generation = (int(words[0]) - _first_word(key, 0)) >> 24
    assert 0 <= generation < 256, f"{key}: the bytes of another key"
    counted = words - numpy.arange(len(words), dtype=numpy.uint64)
    assert (counted == numpy.uint64(_first_word(key, generation))).all(), f"{key}: torn bytes"
    return generation
