/* SPDX-License-Identifier: MIT */
/*
 * Access records: what a client reports of its hits to a server that evicts. The server does not
 * see one-sided GETs, but must know which items are in use before it evicts others.
 *
 * The access field of an item that was READ says what the server knows (common/layout.h). A hit of
 * an item that is known to be used lately changes nothing: one in SAMPLE_EVERY is reported, after a
 * random gap, for the counters of uses. Other hits are all reported while they are at most one in
 * `rate` of all hits. Beyond that chance decides, so that no period in the keys can hide some. A
 * record says how many hits it stands for.
 *
 * A server that estimates how much more it would hit with more memory samples keys by their hash:
 * each GET of those is reported, whatever the rate.
 *
 * A hit that is not reported costs access_hit(): two counts and three branches. The clock is read
 * for records only.
 *
 * Records go with the next request, whatever it is. A message of their own is due when
 * WIRE_ACCESS_MAX records wait, or when one is added and the oldest has waited for the server's
 * delay. So the records of an idle client are reported by its next call, or when it closes.
 *
 * The counts of hits and misses, for the server's statistics, also go with the next request, but in
 * a message of their own only when the connection closes: GETs cost a server that does not evict
 * nothing at all (guarantee E).
 */
#ifndef KVD_CLIENT_LIBKVD_ACCESS_H
#define KVD_CLIENT_LIBKVD_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"

/* The most records that a batch of GETs adds, and that may wait after it. */
#define ACCESS_BATCH_MAX 32u
#define ACCESS_MAX (WIRE_ACCESS_MAX + ACCESS_BATCH_MAX)

struct access {
	uint64_t known_left; /* known hits until the next sample of them; rate 0: no sample */
	uint64_t credit;     /* grows by 1 with each hit; a record takes `rate` */
	uint64_t rate;	     /* at most one hit in this many is reported; 0: none */
	uint64_t delay_ns;
	uint64_t random;
	uint64_t oldest_ns; /* when the oldest record was added */
	uint64_t sample;    /* wire_sample_mask() of the tick */
	uint64_t hits;	    /* not reported yet, like misses */
	uint64_t misses;
	uint32_t count;
	uint16_t tick; /* the server's, from the last response */
	bool due;      /* a message of records alone must be sent */
	struct wire_access records[ACCESS_MAX];
};

/*
 * @rate and @delay_ms: as in the server's welcome. @seed: any number. Records that waited are
 * dropped; GETs that were counted, and the tick, stay.
 */
void access_init(struct access *access, uint32_t rate, uint32_t delay_ms, uint64_t seed);

/* Takes the server's tick from a response: it tells which keys are sampled. */
static inline void access_learn(struct access *access, uint16_t tick)
{
	access->tick = tick;
	access->sample = wire_sample_mask(tick);
}

static inline bool access_is_sampled(const struct access *access, uint64_t hash)
{
	return !(hash & access->sample);
}

/*
 * Counts a hit of an item with the access field @field. True: add a record if the key is sampled,
 * else if access_choose() says so.
 */
static inline bool access_hit(struct access *access, uint16_t field, uint64_t hash)
{
	access->hits++;
	access->credit++;
	if (__builtin_expect(access_is_sampled(access, hash), 0))
		return true;
	if (__builtin_expect(!access->rate || access_is_known(field, access->tick), 1))
		return --access->known_left == 0;
	return true;
}

/* Counts a miss. True: add a record of it. */
static inline bool access_miss(struct access *access, uint64_t hash)
{
	access->misses++;
	return access_is_sampled(access, hash);
}

/* For how many hits a record of this one stands; 0: add none. */
uint32_t access_choose(struct access *access);

/* Adds a record; @hits 0: of a miss. Drops the oldest if there is no room. */
void access_add(struct access *access, uint64_t hash, uint32_t hits, uint64_t now_ns);

/*
 * Moves records to @to, the oldest first: as many as fit @room bytes, at most WIRE_ACCESS_MAX.
 * Returns how many.
 */
uint32_t access_take(struct access *access, uint8_t *to, size_t room);

/*
 * Moves the counts of hits and misses to @to, 8 bytes; at most 2^32 - 1 of each. False: both are 0,
 * or @room is less.
 */
bool access_take_gets(struct access *access, uint8_t *to, size_t room);

/* Whether everything is reported. */
static inline bool access_is_empty(const struct access *access)
{
	return !access->count && !access->hits && !access->misses;
}

#endif /* KVD_CLIENT_LIBKVD_ACCESS_H */
