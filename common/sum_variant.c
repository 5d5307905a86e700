/* SPDX-License-Identifier: MIT */
/* Chooses the variants for this CPU, when the program is loaded. */
#include "common/sum_variant.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

sum_function *sum_long = sum_base;
sum_add_function *sum_long_add = sum_base_add;
sum_move_function *sum_lines_move = sum_base_move;

uint64_t sum_base(const void *data, size_t bytes, const void *secret)
{
	return XXH3_64bits_withSecret(data, bytes, secret, SUM_KEY_BYTES);
}

void sum_base_add(void *state, const void *data, size_t bytes)
{
	XXH3_64bits_update(state, data, bytes);
}

void sum_base_move(void *to, const void *from, size_t bytes)
{
#ifdef __SSE2__
	const __m128i *source = from;
	__m128i *copy = to;
	size_t i, count = bytes / sizeof(*copy);

	for (i = 0; i < count; i += 4) {
		__m128i a = _mm_loadu_si128(&source[i]), b = _mm_loadu_si128(&source[i + 1]),
			c = _mm_loadu_si128(&source[i + 2]), d = _mm_loadu_si128(&source[i + 3]);

		_mm_stream_si128(&copy[i], a);
		_mm_stream_si128(&copy[i + 1], b);
		_mm_stream_si128(&copy[i + 2], c);
		_mm_stream_si128(&copy[i + 3], d);
	}
#else
	memcpy(to, from, bytes);
#endif
}

void sum_lines_fence(void)
{
#ifdef __SSE2__
	_mm_sfence();
#endif
}

bool sum_variant(unsigned int n, struct sum_variant *variant)
{
	struct sum_variant variants[3];
	unsigned int count = 0;

	variants[count++] = (struct sum_variant){ "base", sum_base, sum_base_add, sum_base_move };
#ifdef __x86_64__
	/* Also asks the operating system, which must save the wider registers. */
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx2"))
		variants[count++] = (struct sum_variant){ "avx2", sum_avx2, sum_avx2_add,
							  sum_avx2_move };
	if (__builtin_cpu_supports("avx512f"))
		variants[count++] = (struct sum_variant){ "avx512", sum_avx512, sum_avx512_add,
							  sum_avx512_move };
#endif
	if (n >= count)
		return false;
	*variant = variants[n];
	return true;
}

__attribute__((constructor)) static void choose(void)
{
	struct sum_variant variant;
	unsigned int n;

	for (n = 0; sum_variant(n, &variant); n++) {
		sum_long = variant.sum;
		sum_long_add = variant.add;
		sum_lines_move = variant.move;
	}
}
