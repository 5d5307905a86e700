/* SPDX-License-Identifier: MIT */
/* Access records: samples hits at random and keeps their hashes until a message takes them. */
#include "client/access.h"

#include <string.h>

/* xorshift64 (Marsaglia, 2003), whose state is never 0. */
static uint64_t random_next(struct access *access)
{
	access->random ^= access->random << 13;
	access->random ^= access->random >> 7;
	access->random ^= access->random << 17;
	return access->random;
}

/* Uniform in [1, 2 * rate - 1]. */
static uint64_t gap_next(struct access *access)
{
	/* Never, in practice: a client that does 10^8 GETs a second takes 5,800 years. */
	if (!access->rate)
		return UINT64_MAX;
	return 1 + random_next(access) % (2 * access->rate - 1);
}

void access_init(struct access *access, uint32_t rate, uint32_t delay_ms, uint64_t seed)
{
	*access = (struct access){
		.rate = rate,
		.delay_ns = delay_ms * 1000000ull,
		.random = seed ? seed : 1,
	};
	/* The first numbers of seeds that differ little are alike. */
	for (unsigned int i = 0; i < 8; i++)
		random_next(access);
	access->hits_left = gap_next(access);
}

static void drop_oldest(struct access *access, uint32_t n)
{
	access->count -= n;
	memmove(access->hashes, access->hashes + n, access->count * sizeof(access->hashes[0]));
}

void access_add(struct access *access, uint64_t hash, uint64_t now_ns)
{
	access->hits_left = gap_next(access);
	if (!access->rate)
		return;
	if (access->count == ACCESS_MAX)
		drop_oldest(access, 1);
	if (!access->count)
		access->oldest_ns = now_ns;
	access->hashes[access->count++] = hash;
	if (access->count >= WIRE_ACCESS_MAX || now_ns - access->oldest_ns >= access->delay_ns)
		access->due = true;
}

/* What stays may be due still: more than a message holds was waiting. */
uint32_t access_take(struct access *access, uint8_t *to, size_t room)
{
	uint32_t n = access->count < WIRE_ACCESS_MAX ? access->count : WIRE_ACCESS_MAX;

	if (n > room / WIRE_ACCESS_BYTES)
		n = (uint32_t)(room / WIRE_ACCESS_BYTES);
	if (!n)
		return 0;
	memcpy(to, access->hashes, n * sizeof(access->hashes[0]));
	drop_oldest(access, n);
	access->due = access->count >= WIRE_ACCESS_MAX;
	return n;
}
