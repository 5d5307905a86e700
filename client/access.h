/* SPDX-License-Identifier: MIT */
/*
 * Access records. The server does not see one-sided GETs, but has to know which items are in use
 * before it evicts others: the client tells it of one hit in `rate`, by the key's hash.
 *
 * The gap between two samples is random, 1 to 2 * rate - 1, `rate` on average, so that no period in
 * the keys that are read can hide some of them. What a hit costs is access_hit(): one decrement and
 * one branch. Clocks are read for samples only.
 *
 * Records go with the next request, whatever it is. When MESSAGE_MAX wait, or one of them waits for
 * longer than the server's delay when the next sample is taken, a message of their own is due. So
 * what an idle client has is told at its next call, or when it closes.
 */
#ifndef KVD_CLIENT_ACCESS_H
#define KVD_CLIENT_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"

/* What may be waiting when a batch of GETs begins, and what that batch adds at most. */
#define ACCESS_BATCH_MAX 32u
#define ACCESS_MAX (WIRE_ACCESS_MAX + ACCESS_BATCH_MAX)

struct access {
	uint64_t hits_left; /* hits until the next sample */
	uint64_t rate;	    /* 0: none is told */
	uint64_t delay_ns;
	uint64_t random;
	uint64_t oldest_ns; /* when the first of the records was taken */
	uint32_t count;
	bool due; /* a message of their own */
	uint64_t hashes[ACCESS_MAX];
};

/* As the server's welcome asks. @seed: any number. */
void access_init(struct access *access, uint32_t rate, uint32_t delay_ms, uint64_t seed);

/* Counts a hit. True: it is to be given to access_add(). */
static inline bool access_hit(struct access *access)
{
	return --access->hits_left == 0;
}

/* Takes a sample, and chooses the next. Where there is no room the oldest is forgotten. */
void access_add(struct access *access, uint64_t hash, uint64_t now_ns);

/*
 * Moves as many records as fit @room bytes and a message to @to, the oldest first; returns how many.
 */
uint32_t access_take(struct access *access, uint8_t *to, size_t room);

#endif /* KVD_CLIENT_ACCESS_H */
