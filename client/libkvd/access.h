/* SPDX-License-Identifier: MIT */
/*
 * Access records: what a client tells of its hits to a server that evicts. The server does not see
 * one-sided GETs, but has to know which items are in use before it evicts others.
 *
 * The access field of an item that was READ says what the server knows (common/layout.h). A hit of
 * an item that was used and is young changes nothing; of those one in SAMPLE_EVERY is reported, for
 * the counters of uses, after a random gap. All others are, as far as their share of all hits is
 * one in `rate`: then one is reported by chance, the rarer the more of them there were, so that no
 * period in the keys that are read can hide some. A record says for how many hits it stands.
 *
 * A server that estimates what more memory would hit samples keys by their hash, and of those each
 * GET is reported, whatever the rate.
 *
 * A hit that is not reported costs access_hit(): two counts and three branches. The clock is read
 * for records only.
 *
 * Records go with the next request, whatever it is. A message of their own is due when
 * WIRE_ACCESS_MAX records wait, or when one is added and the oldest has waited for the server's
 * delay. So the records of an idle client are reported by its next call, or when it closes.
 *
 * How many GETs hit and missed goes with the next request likewise, for the server's statistics,
 * but never in a message of its own before the connection closes: GETs of a server that does not
 * evict cost it nothing at all (guarantee E).
 */
#ifndef KVD_CLIENT_LIBKVD_ACCESS_H
#define KVD_CLIENT_LIBKVD_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"

/* Records that a batch of GETs adds at most; and those that may wait when it ends. */
#define ACCESS_BATCH_MAX 32u
#define ACCESS_MAX (WIRE_ACCESS_MAX + ACCESS_BATCH_MAX)

struct access {
	uint64_t known_left; /* known hits until the next sample of them; rate 0: no sample */
	uint64_t credit;     /* hits that no record was added for; a record takes `rate` */
	uint64_t rate;	     /* one hit in so many is reported at most; 0: none */
	uint64_t delay_ns;
	uint64_t random;
	uint64_t oldest_ns; /* when the oldest record was added */
	uint64_t sample;    /* wire_sample_mask() of the tick */
	uint64_t hits;	    /* that were not reported, as misses */
	uint64_t misses;
	uint32_t count;
	uint16_t tick; /* the server's, of the last response */
	bool due;      /* a message of their own has to be sent */
	struct wire_access records[ACCESS_MAX];
};

/*
 * @rate and @delay_ms: as in the server's welcome. @seed: any number. Records that waited are
 * dropped; GETs that were counted, and the tick, stay.
 */
void access_init(struct access *access, uint32_t rate, uint32_t delay_ms, uint64_t seed);

/* What a response says of the server's time, and of the keys whose GETs are all reported. */
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
 * Counts a hit of an item with the access field @field. True: a record of it is to be added, if the
 * key is sampled; else access_choose() decides.
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

/* Counts a miss. True: a record of it is to be added. */
static inline bool access_miss(struct access *access, uint64_t hash)
{
	access->misses++;
	return access_is_sampled(access, hash);
}

/* For how many hits a record of this one is to stand; 0: none is added. */
uint32_t access_choose(struct access *access);

/* Adds a record; no @hits: of a miss. Where there is no room, drops the oldest. */
void access_add(struct access *access, uint64_t hash, uint32_t hits, uint64_t now_ns);

/*
 * Moves records to @to, the oldest first: as many as fit @room bytes, at most WIRE_ACCESS_MAX.
 * Returns how many.
 */
uint32_t access_take(struct access *access, uint8_t *to, size_t room);

/*
 * Moves the GETs to @to, 8 bytes; of more than 2^32 - 1 as many. False: there were none, or @room
 * has less.
 */
bool access_take_gets(struct access *access, uint8_t *to, size_t room);

/* Whether anything is not reported. */
static inline bool access_is_empty(const struct access *access)
{
	return !access->count && !access->hits && !access->misses;
}

#endif /* KVD_CLIENT_LIBKVD_ACCESS_H */
