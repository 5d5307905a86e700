/* SPDX-License-Identifier: MIT */
/* Chooses the variant of XXH3 for this CPU, when the program is loaded. */
#include "common/sum_variant.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

sum_function *sum_long = sum_base;
sum_add_function *sum_long_add = sum_base_add;

uint64_t sum_base(const void *data, size_t bytes)
{
	return XXH3_64bits(data, bytes);
}

void sum_base_add(void *state, const void *data, size_t bytes)
{
	XXH3_64bits_update(state, data, bytes);
}

bool sum_variant(unsigned int n, struct sum_variant *variant)
{
	struct sum_variant variants[3];
	unsigned int count = 0;

	variants[count++] = (struct sum_variant){ "base", sum_base, sum_base_add };
#ifdef __x86_64__
	/* This asks the operating system, too: it has to save the wider registers. */
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx2"))
		variants[count++] = (struct sum_variant){ "avx2", sum_avx2, sum_avx2_add };
	if (__builtin_cpu_supports("avx512f"))
		variants[count++] = (struct sum_variant){ "avx512", sum_avx512, sum_avx512_add };
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
	}
}
