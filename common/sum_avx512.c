/* SPDX-License-Identifier: MIT */
/*
 * XXH3, and copies past the cache, for CPUs with AVX-512. The Makefile compiles this file alone for
 * them.
 */
#include <assert.h>

#include "common/sum_variant.h"

#ifdef __x86_64__
#include <immintrin.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static_assert(XXH_VECTOR == XXH_AVX512, "compiled with -mavx512f");

uint64_t sum_avx512(const void *data, size_t bytes, const void *secret)
{
	return XXH3_64bits_withSecret(data, bytes, secret, SUM_KEY_BYTES);
}

void sum_avx512_add(void *state, const void *data, size_t bytes)
{
	XXH3_64bits_update(state, data, bytes);
}

void sum_avx512_move(void *to, const void *from, size_t bytes)
{
	const __m512i *source = from;
	__m512i *copy = to;
	size_t i, count = bytes / sizeof(*copy);

	for (i = 0; i < count; i++)
		_mm512_stream_si512(&copy[i], _mm512_loadu_si512(&source[i]));
}
#endif
