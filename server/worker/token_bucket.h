/* SPDX-License-Identifier: MIT */
/*
 * A token bucket: what may be taken in a time, with bursts. It fills at a rate of tokens per
 * second, and never beyond its depth. More than it has may be taken at once: it is then in debt,
 * and has nothing until that is refilled. So the long-run rate is exact whatever is taken at a
 * time.
 *
 * It counts what is missing from a full bucket, in units of 1e-9 tokens. At a rate of r tokens per
 * second r units are added in a nanosecond: nothing is divided or rounded. A clock that jumps ahead
 * fills the bucket; one that goes back adds nothing, and the bucket goes on from there.
 */
#ifndef KVD_SERVER_WORKER_TOKEN_BUCKET_H
#define KVD_SERVER_WORKER_TOKEN_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#define TOKEN_UNITS 1000000000ull

/* The deepest bucket, in tokens; what is deeper is made so deep. */
#define TOKEN_DEPTH_MAX (UINT64_MAX / TOKEN_UNITS)

struct token_bucket {
	uint64_t rate;	  /* tokens per second, that is, units per nanosecond; 0: no limit */
	uint64_t depth;	  /* units in a full bucket */
	uint64_t missing; /* units; beyond the depth it is a debt, of at most UINT64_MAX - depth */
	uint64_t at_ns;	  /* when it was refilled last */
};

/* A full bucket of @depth tokens, at least 1. */
static inline void token_bucket_init(struct token_bucket *bucket, uint64_t rate, uint64_t depth)
{
	*bucket = (struct token_bucket){
		.rate = rate,
		.depth = (depth < TOKEN_DEPTH_MAX ? depth : TOKEN_DEPTH_MAX) * TOKEN_UNITS,
	};
}

/* Adds what has come since the last call. */
static inline void token_bucket_refill(struct token_bucket *bucket, uint64_t now_ns)
{
	uint64_t elapsed_ns = now_ns > bucket->at_ns ? now_ns - bucket->at_ns : 0;
	uint64_t gain;

	bucket->at_ns = now_ns;
	/* A product of more than 64 bits is more than can be missing. */
	if (__builtin_mul_overflow(elapsed_ns, bucket->rate, &gain) || gain >= bucket->missing)
		bucket->missing = 0;
	else
		bucket->missing -= gain;
}

/* Whether there is a whole token, or no limit. */
static inline bool token_bucket_ready(const struct token_bucket *bucket)
{
	return !bucket->rate || bucket->missing <= bucket->depth - TOKEN_UNITS;
}

/* Takes @tokens, which need not be there. */
static inline void token_bucket_take(struct token_bucket *bucket, uint64_t tokens)
{
	uint64_t units;

	if (__builtin_mul_overflow(tokens, TOKEN_UNITS, &units) ||
	    __builtin_add_overflow(bucket->missing, units, &bucket->missing))
		bucket->missing = UINT64_MAX;
}

#endif /* KVD_SERVER_WORKER_TOKEN_BUCKET_H */
