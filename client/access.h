/* SPDX-License-Identifier: MIT */
/*
 * Access records: samples of a client's hits, for a server that evicts. The server does not see
 * one-sided GETs, but has to know which items are in use before it evicts others. So the client
 * reports one hit in `rate`, by the key's hash.
 *
 * The gap between two samples is random, 1 to 2 * rate - 1, `rate` on average, so that no period in
 * the keys that are read can hide some of them. A hit costs access_hit(): one decrement and one
 * branch. The clock is read for samples only.
 *
 * Records go with the next request, whatever it is. A message of their own is due when
 * WIRE_ACCESS_MAX records wait, or when a sample is taken and the oldest record has waited for the
 * server's delay. So the records of an idle client are reported by its next call, or when it
 * closes.
 */
#ifndef KVD_CLIENT_ACCESS_H
#define KVD_CLIENT_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"

/* Records that a batch of GETs adds at most; and those that may wait when it ends. */
#define ACCESS_BATCH_MAX 32u
#define ACCESS_MAX (WIRE_ACCESS_MAX + ACCESS_BATCH_MAX)

struct access {
	uint64_t hits_left; /* hits until the next sample */
	uint64_t rate;	    /* one hit in so many is sampled; 0: none */
	uint64_t delay_ns;
	uint64_t random;
	uint64_t oldest_ns; /* when the oldest record was added */
	uint32_t count;
	bool due; /* a message of their own has to be sent */
	uint64_t hashes[ACCESS_MAX];
};

/* @rate and @delay_ms: as in the server's welcome. @seed: any number. */
void access_init(struct access *access, uint32_t rate, uint32_t delay_ms, uint64_t seed);

/* Counts a hit. True: give it to access_add(). */
static inline bool access_hit(struct access *access)
{
	return --access->hits_left == 0;
}

/* Adds a sample, and chooses the next. Where there is no room, drops the oldest. */
void access_add(struct access *access, uint64_t hash, uint64_t now_ns);

/*
 * Moves records to @to, the oldest first: as many as fit @room bytes, at most WIRE_ACCESS_MAX.
 * Returns how many.
 */
uint32_t access_take(struct access *access, uint8_t *to, size_t room);

#endif /* KVD_CLIENT_ACCESS_H */
