/* SPDX-License-Identifier: MIT */
/*
 * Actors: the threads of the torture (tests/stress/torture.h), their state, and the operations that
 * they run on hot keys (torture_hot.c) and on cold ones (torture_cold.c).
 */
#ifndef KVD_TESTS_STRESS_TORTURE_ACTOR_H
#define KVD_TESTS_STRESS_TORTURE_ACTOR_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/layout.h"
#include "tests/linearizability/lin.h"
#include "tests/stress/torture.h"

#define HOT_KEYS 24
/* In rounds with expiry the last of those are written so seldom that they expire. */
#define EXPIRING_KEYS 8
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

/* The number of a stay key's PUT, which is in its flags. */
struct stay {
	_Atomic uint32_t acked; /* the last that has returned */
	_Atomic uint32_t seen;	/* the last that a GET of any thread has returned */
	uint32_t started;	/* the last that was called; for its writer only */
};

struct torture {
	const struct torture_options *options;
	const struct torture_backend *backend;
	struct torture_round round;
	uint64_t nonce; /* part of every key of the round */
	struct stay stays[STAY_KEYS];
	_Atomic uint64_t expiring_ns[HOT_KEYS];	       /* of the last write */
	_Atomic uint64_t fillers[TORTURE_WRITERS_MAX]; /* that each writer has put */
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
	uint64_t serial;	     /* of its last value */
	uint64_t versions[HOT_KEYS]; /* the last it saw, for CAS */
	uint64_t tail, head;	     /* its fillers: tail is the oldest, head the next */
	uint64_t shrink_to;	     /* while tail is below, it only deletes */
	uint32_t *filler_flags;	     /* FILLERS_MAX, of the last PUT of each */
	struct geometry geometry;    /* when the round began */
	uint8_t *value;		     /* MANY of VALUE_BYTES_MAX */
	uint8_t *expected;	     /* VALUE_BYTES_MAX */
};

struct torture_key {
	uint8_t bytes[64];
	size_t len;
};

/* Whether a key may vanish that no thread deletes. */
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
/* Prints what is wrong, and ends the round. */
void actor_wrong(struct actor *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reports a call that returned an unexpected status. */
void actor_failed(struct actor *a, const char *what, enum kvd_status status);

/* Key number @number of a kind ('h', 's', or 'f' and its writer). */
void key_make(const struct torture *t, struct torture_key *key, char kind, unsigned int writer,
	      uint64_t number);
/* A random length, mostly short. */
uint32_t value_length(uint64_t random);
/* Fills @to with bytes that depend on @a and @b. */
void value_fill(uint8_t *to, uint32_t len, uint64_t a, uint64_t b);

/* Recorded operations on a hot key: tests/stress/torture_hot.c. */
void hot_change(struct actor *a);
void hot_get(struct actor *a);
void hot_get_many(struct actor *a);
void hot_flush(struct actor *a);

/* Operations on stay keys and fillers, checked at once: tests/stress/torture_cold.c. */
void stay_put(struct actor *a, unsigned int number);
void stay_get(struct actor *a);
void filler_change(struct actor *a);
void filler_get_own(struct actor *a);
void filler_get_any(struct actor *a);
/* A whole scan. */
void cold_scan(struct actor *a);

#endif /* KVD_TESTS_STRESS_TORTURE_ACTOR_H */
