/* SPDX-License-Identifier: MIT */
/*
 * Which slots of a bucket have a tag: a bit for each, with one comparison for two slots where the
 * CPU has SSE2, as every x86-64 does. For a bucket that no other thread is writing.
 */
#ifndef KVD_COMMON_SLOT_MATCH_H
#define KVD_COMMON_SLOT_MATCH_H

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "common/layout.h"

/* An empty slot has the tag 0. */
static inline unsigned int slots_match_scalar(const uint64_t slots[BUCKET_SLOTS], uint16_t tag)
{
	unsigned int i, matches = 0;

	for (i = 0; i < BUCKET_SLOTS; i++)
		matches |= (unsigned int)(slot_tag(slots[i]) == tag) << i;
	return matches;
}

#ifdef __SSE2__
static inline unsigned int slots_match(const uint64_t slots[BUCKET_SLOTS], uint16_t tag)
{
	const __m128i wanted = _mm_set1_epi16((short)tag);
	unsigned int i, matches = 0;
	__m128i pair;

	static_assert(BUCKET_SLOTS % 2 == 0, "two slots at a time");
#pragma GCC unroll 7
	for (i = 0; i < BUCKET_SLOTS; i += 2) {
		pair = _mm_loadu_si128((const __m128i *)(const void *)&slots[i]);
		/* The sign of each half is that of its top 16 bits, the tag's comparison. */
		pair = _mm_cmpeq_epi16(pair, wanted);
		matches |= (unsigned int)_mm_movemask_pd(_mm_castsi128_pd(pair)) << i;
	}
	return matches;
}
#else
static inline unsigned int slots_match(const uint64_t slots[BUCKET_SLOTS], uint16_t tag)
{
	return slots_match_scalar(slots, tag);
}
#endif

#endif /* KVD_COMMON_SLOT_MATCH_H */
