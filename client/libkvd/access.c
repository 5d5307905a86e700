/* SPDX-License-Identifier: MIT */
/* Access records: chooses the hits that are reported, and keeps them until a message takes them. */
#include "client/libkvd/access.h"

#include <string.h>

/* xorshift64 (Marsaglia, 2003), whose state is never 0. */
static uint64_t random_next(struct access *access)
{
	access->random ^= access->random << 13;
	access->random ^= access->random >> 7;
	access->random ^= access->random << 17;
	return access->random;
}

/* One in this many hits that change nothing is reported, on average. */
#define SAMPLE_EVERY 64u
/*
 * Credit, in units of `rate` squared. Below CREDIT_SHORT chance decides, with the share that is
 * left as the probability; if every hit may be reported, credit settles at 16 records.
 */
#define CREDIT_SHORT 16u
#define CREDIT_MAX (2 * CREDIT_SHORT)

static uint32_t sample_every(const struct access *access)
{
	return access->rate > SAMPLE_EVERY ? (uint32_t)access->rate : SAMPLE_EVERY;
}

/* Uniform in [1, 2 * n - 1]. */
static uint64_t gap_next(struct access *access)
{
	return 1 + random_next(access) % (2 * sample_every(access) - 1);
}

void access_init(struct access *access, uint32_t rate, uint32_t delay_ms, uint64_t seed)
{
	access->rate = rate;
	access->sample = wire_sample_mask(access->tick);
	access->delay_ns = delay_ms * 1000000ull;
	access->random = seed ? seed : 1;
	access->credit = access->rate * rate * CREDIT_MAX;
	access->count = 0;
	access->due = false;
	/* Similar seeds have similar first numbers. */
	for (unsigned int i = 0; i < 8; i++)
		random_next(access);
	access->known_left = rate ? gap_next(access) : UINT64_MAX;
}

static void credit_use(struct access *access)
{
	access->credit -= access->credit < access->rate ? access->credit : access->rate;
}

uint32_t access_choose(struct access *access)
{
	const uint64_t square = access->rate * access->rate;
	const uint64_t most = square * CREDIT_MAX, few = square * CREDIT_SHORT;
	uint32_t hits = 1;

	if (access->credit > most)
		access->credit = most;
	if (!access->known_left) {
		access->known_left = gap_next(access);
		hits = sample_every(access);
	} else if (access->credit < few) {
		hits = random_next(access) % few < access->credit ?
			       (uint32_t)((few + access->credit / 2) / access->credit) :
			       0;
	}
	if (hits)
		credit_use(access);
	return hits;
}

static void drop_oldest(struct access *access, uint32_t n)
{
	access->count -= n;
	memmove(access->records, access->records + n, access->count * sizeof(access->records[0]));
}

void access_add(struct access *access, uint64_t hash, uint32_t hits, uint64_t now_ns)
{
	if (access->count == ACCESS_MAX)
		drop_oldest(access, 1);
	if (!access->count)
		access->oldest_ns = now_ns;
	access->records[access->count++] = wire_access_make(hash, hits);
	if (access->count >= WIRE_ACCESS_MAX || now_ns - access->oldest_ns >= access->delay_ns)
		access->due = true;
}

/* What stays may still be due, if more was waiting than a message holds. */
uint32_t access_take(struct access *access, uint8_t *to, size_t room)
{
	uint32_t n = access->count < WIRE_ACCESS_MAX ? access->count : WIRE_ACCESS_MAX;

	if (n > room / WIRE_ACCESS_BYTES)
		n = (uint32_t)(room / WIRE_ACCESS_BYTES);
	if (!n && access->count)
		return 0;
	memcpy(to, access->records, n * sizeof(access->records[0]));
	drop_oldest(access, n);
	access->due = access->count >= WIRE_ACCESS_MAX;
	return n;
}

static uint32_t count_of(uint64_t gets)
{
	return gets < UINT32_MAX ? (uint32_t)gets : UINT32_MAX;
}

bool access_take_gets(struct access *access, uint8_t *to, size_t room)
{
	const struct wire_gets gets = { .hits = count_of(access->hits),
					.misses = count_of(access->misses) };

	if (!(gets.hits | gets.misses) || room < sizeof(gets))
		return false;
	memcpy(to, &gets, sizeof(gets));
	access->hits -= gets.hits;
	access->misses -= gets.misses;
	return true;
}
