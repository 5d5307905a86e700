/* SPDX-License-Identifier: MIT */
/*
 * The torture of a growing index: a stress test of rounds in which the index grows from a few
 * buckets to thousands while writers, one-sided and two-sided readers, scans, moves, deletes,
 * eviction and flushes use it through libkvd's API. Kinds of keys:
 *
 *	hot	a few: every operation on them is recorded with its call and return, and the history
 *		must be linearizable (tests/linearizability/lin.h): guarantees A, B and C of
 *		server/DESIGN.md
 *	stay	put before the round, rewritten in it and never deleted: no GET and no scan may
 *		miss them or return an older value than one whose PUT had returned (B, C)
 *	filler	thousands, each written by one thread, which adds and deletes them so that buckets
 *		are split and chains grow and are shortened: the thread must read what it wrote last
 *
 * Stay and filler keys are also called cold: their operations are checked at once and not recorded.
 * The bytes of every value depend on the key and the PUT, so that a torn value, or that of another
 * key, is detected (A).
 */
#ifndef KVD_TESTS_STRESS_TORTURE_H
#define KVD_TESTS_STRESS_TORTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/kvd.h"

#define TORTURE_WRITERS_MAX 3
#define TORTURE_READERS_MAX 3
/* Writers, readers, one thread that scans and one that moves items and flushes. */
#define TORTURE_THREADS_MAX (TORTURE_WRITERS_MAX + TORTURE_READERS_MAX + 2)

struct torture_options {
	uint64_t seed;
	unsigned int seconds;
	unsigned int writers, readers;
	unsigned int mutant; /* enum mutant of tests/stress/mutants.h */
	bool flush;	     /* in every round */
	bool server;	     /* use a server in this process, over softnic */
	const char *url;     /* of a running server to use, or NULL */
};

/* What differs from round to round. */
struct torture_round {
	uint64_t seed;
	unsigned int number;
	unsigned int threads;
	uint32_t level;	   /* the index begins with 2^level buckets */
	uint32_t fill;	   /* percent at which it grows; above 100 there are chains */
	uint32_t eviction; /* enum eviction_policy */
	uint64_t region_bytes;
	uint64_t fillers; /* the round ends when a writer has put this many */
	uint64_t max_ns;  /* or after this */
	bool flush;	  /* flush sometimes */
	bool expiring;	  /* some PUTs have a time to live of one second */
};

/* The store under torture. */
struct torture_backend {
	void (*begin)(const struct torture_round *round);
	/* Opens a handle for thread @thread. Exits the process on failure. */
	struct kvd *(*open)(unsigned int thread, const struct kvd_options *options);
	/* Evacuates a span of items, in the thread that moves items; NULL: not possible. */
	void (*disturb)(uint64_t random);
	/* Removes all items that are stored when it is called. @kvd is the calling thread's. */
	bool (*flush)(struct kvd *kvd);
	/* Called by each thread at its end. NULL: nothing to do. */
	void (*leave)(void);
	/* Ends the round, when all handles are closed. Returns NULL, or what is wrong. */
	const char *(*end)(void);
	/* What was not tested in the rounds until now, or NULL. May be NULL. */
	const char *(*missing)(void);
	/* Prints the store's counts. May be NULL. */
	void (*report)(void);
};

/* Parses -t SECONDS, -s SEED, -w WRITERS, -r READERS, -b MUTANT, -F, -S, -u URL. */
void torture_options_parse(struct torture_options *options, int argc, char **argv);

/* Runs rounds until the time is up or a check fails, and prints counts. True: it passed. */
bool torture_run(const struct torture_options *options, const struct torture_backend *backend);

/* tests/stress/torture_store.c, tests/stress/torture_server.c */
const struct torture_backend *torture_store(const struct torture_options *options);
const struct torture_backend *torture_server(const struct torture_options *options);

#endif /* KVD_TESTS_STRESS_TORTURE_H */
