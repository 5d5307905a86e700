/* SPDX-License-Identifier: MIT */
/* One thread of the torture (tests/stress/torture.h) and what it does. */
#ifndef KVD_TESTS_STRESS_TORTURE_ACTOR_H
#define KVD_TESTS_STRESS_TORTURE_ACTOR_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/layout.h"
#include "tests/linearizability/lin.h"
#include "tests/stress/torture.h"

#define HOT_KEYS 24
/* Of those, in rounds with expiry, the last ones are written so seldom that they expire. */
#define BRIEF_KEYS 8
#define STAY_KEYS 96
#define FILLERS_MAX (1u << 16)
#define VALUE_BYTES_MAX (256u << 10)
#define MANY 8

#define COUNTS_MAP(X) X(hot) X(stay) X(filler) X(scans) X(scanned) X(flushes) X(disturbances)

struct counts {
#define X(name) uint64_t name;
	COUNTS_MAP(X)
#undef X
};

/* A stay key's PUTs are numbered; the number is in its flags. */
struct stay {
	_Atomic uint32_t acked; /* by its writer */
	_Atomic uint32_t seen;	/* by whoever */
	uint32_t started;	/* its writer's */
};

struct torture {
	const struct torture_options *options;
	const struct torture_side *side;
	struct torture_round round;
	uint64_t nonce; /* in every key of the round */
	struct stay stays[STAY_KEYS];
	_Atomic uint64_t brief_ns[HOT_KEYS];	       /* when they were written last */
	_Atomic uint64_t fillers[TORTURE_WRITERS_MAX]; /* how many each writer has begun with */
	_Atomic bool stop;
	_Atomic unsigned int wrong;
};

struct actor {
	struct torture *torture;
	struct kvd *kvd;
	pthread_t thread;
	unsigned int number;
	bool writes;
	uint64_t random;
	struct lin_log log;
	struct counts counts;
	uint64_t serial;	     /* of its values */
	uint64_t versions[HOT_KEYS]; /* the last it saw, for CAS */
	uint64_t tail, head;	     /* its fillers that are there */
	uint64_t shrink_to;	     /* tail < this: it deletes only */
	uint32_t *filler_flags;	     /* FILLERS_MAX, of the last PUT of each */
	struct geometry geometry;    /* as it was at the beginning */
	uint8_t *value;		     /* MANY of VALUE_BYTES_MAX */
	uint8_t *expected;	     /* VALUE_BYTES_MAX */
};

struct torture_key {
	uint8_t bytes[64];
	size_t len;
};

/* Whether a key that nobody deletes may be gone all the same. */
static inline bool torture_vanishes(const struct torture *t)
{
	return t->round.eviction || t->round.flush;
}

/* Whether most keys are in overflow buckets. */
static inline bool torture_has_chains(const struct torture *t)
{
	return t->round.fill > 100;
}

uint64_t actor_random(struct actor *a);
/* Says what is wrong, and ends the round. */
void actor_wrong(struct actor *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same of a status that no call should have. */
void actor_failed(struct actor *a, const char *what, enum kvd_status status);

/* Key number @number of a kind ('h', 's', or 'f' and its writer). */
void key_make(const struct torture *t, struct torture_key *key, char kind, unsigned int writer,
	      uint64_t number);
/* A length as items have it: mostly short. */
uint32_t value_length(uint64_t random);
/* The value of that length which @a, @b stand for. */
void value_fill(uint8_t *to, uint32_t len, uint64_t a, uint64_t b);

/* Recorded operations on a hot key: tests/stress/torture_hot.c. */
void hot_change(struct actor *a);
void hot_get(struct actor *a);
void hot_get_many(struct actor *a);
void hot_flush(struct actor *a);

/* The others: tests/stress/torture_cold.c. */
void stay_put(struct actor *a, unsigned int number);
void stay_get(struct actor *a);
void filler_change(struct actor *a);
void filler_get_own(struct actor *a);
void filler_get_any(struct actor *a);
/* A whole scan. */
void cold_scan(struct actor *a);

#endif /* KVD_TESTS_STRESS_TORTURE_ACTOR_H */
