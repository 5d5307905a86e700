/* SPDX-License-Identifier: MIT */
/* XXH3 for CPUs with AVX-512. The Makefile compiles this file alone for them. */
#include <assert.h>

#include "common/sum_variant.h"

#ifdef __x86_64__
#define XXH_INLINE_ALL
#include <xxhash.h>

static_assert(XXH_VECTOR == XXH_AVX512, "compiled with -mavx512f");

uint64_t sum_avx512(const void *data, size_t bytes)
{
	return XXH3_64bits(data, bytes);
}

void sum_avx512_add(void *state, const void *data, size_t bytes)
{
	XXH3_64bits_update(state, data, bytes);
}
#endif
