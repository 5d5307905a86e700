/* SPDX-License-Identifier: MIT */
/*
 * Which slots of a bucket, or of a line of the client's cache, have a tag: a bit for each, with one
 * comparison for four slots where the CPU has SSE2, as every x86-64 does. For slots that no other
 * thread is writing.
 */
#ifndef KVD_COMMON_SLOT_MATCH_H
#define KVD_COMMON_SLOT_MATCH_H

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "common/layout.h"

/* Slots in 64 bytes, a line of the client's cache. */
#define LINE_SLOTS 8u

/* An empty slot has the tag 0. */
static inline unsigned int match_scalar(const uint64_t *slots, unsigned int count, uint16_t tag)
{
	unsigned int i, matches = 0;

	for (i = 0; i < count; i++)
		matches |= (unsigned int)(slot_tag(slots[i]) == tag) << i;
	return matches;
}

#ifdef __SSE2__
/* The upper half of each of four slots, which has the tag in its own upper half. */
static inline __m128i slots_upper(const uint64_t *slots)
{
	const __m128 low = _mm_loadu_ps((const float *)(const void *)slots);
	const __m128 high = _mm_loadu_ps((const float *)(const void *)(slots + 2));

	return _mm_castps_si128(_mm_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1)));
}

/*
 * The comparison's result in the upper half of four bytes is also their sign, and packing keeps
 * signs: so each slot ends as one byte whose sign says whether it matches.
 */
static inline unsigned int slots_match(const uint64_t slots[BUCKET_SLOTS], uint16_t tag)
{
	const __m128i wanted = _mm_set1_epi16((short)tag);
	__m128i a, b, c, d;
	unsigned int mask;

	static_assert(BUCKET_SLOTS == 14, "three times four slots, and two of the last four");
	a = _mm_cmpeq_epi16(slots_upper(slots), wanted);
	b = _mm_cmpeq_epi16(slots_upper(slots + 4), wanted);
	c = _mm_cmpeq_epi16(slots_upper(slots + 8), wanted);
	d = _mm_cmpeq_epi16(slots_upper(slots + 10), wanted);
	a = _mm_packs_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d));
	mask = (unsigned int)_mm_movemask_epi8(a);
	/* The last four start at slot 10: slots 10 and 11 come twice. */
	return (mask & 0xfff) | (mask >> 2 & 0x3000);
}

static inline unsigned int line_match(const uint64_t slots[LINE_SLOTS], uint16_t tag)
{
	const __m128i wanted = _mm_set1_epi16((short)tag);
	__m128i a, b;

	a = _mm_cmpeq_epi16(slots_upper(slots), wanted);
	b = _mm_cmpeq_epi16(slots_upper(slots + 4), wanted);
	a = _mm_packs_epi32(a, b);
	return (unsigned int)_mm_movemask_epi8(_mm_packs_epi16(a, a)) & 0xff;
}
#else
static inline unsigned int slots_match(const uint64_t slots[BUCKET_SLOTS], uint16_t tag)
{
	return match_scalar(slots, BUCKET_SLOTS, tag);
}

static inline unsigned int line_match(const uint64_t slots[LINE_SLOTS], uint16_t tag)
{
	return match_scalar(slots, LINE_SLOTS, tag);
}
#endif

#endif /* KVD_COMMON_SLOT_MATCH_H */
