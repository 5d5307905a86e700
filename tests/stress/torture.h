/* SPDX-License-Identifier: MIT */
/*
 * The torture of growth: rounds in which an index grows from a few buckets to thousands while
 * writers, one-sided and two-sided readers, scans, moves, deletes, eviction and flushes all work on
 * it, through libkvd's API. Three kinds of keys:
 *
 *	hot	a few; every operation on them is recorded with its call and return, and the history
 *		must be linearizable (tests/linearizability/lin.h): guarantees A, B and C of server/DESIGN.md
 *	stay	there from before the round to its end, and rewritten: never missed, by a GET or a
 *		scan, never an older value than one whose PUT had returned (B, C)
 *	filler	thousands, each one writer's, that come and go so that buckets are split and chains
 *		grow and are shortened: what their writer reads is what it wrote last
 *
 * Every value says by its bytes whose it is, so that a torn or foreign one can't pass for whole
 * (A).
 */
#ifndef KVD_TESTS_STRESS_TORTURE_H
#define KVD_TESTS_STRESS_TORTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/kvd.h"

#define TORTURE_WRITERS_MAX 3
#define TORTURE_READERS_MAX 3
/* Writers, readers, one that scans and one that disturbs. */
#define TORTURE_THREADS_MAX (TORTURE_WRITERS_MAX + TORTURE_READERS_MAX + 2)

struct torture_options {
	uint64_t seed;
	unsigned int seconds;
	unsigned int writers, readers;
	unsigned int mutant; /* enum mutant of tests/stress/mutants.h */
	bool flush;	     /* in every round, with every kind of change */
	bool server;	     /* through a server in this process, over softnic */
	const char *url;     /* through one that runs already, or NULL */
};

/* What differs between rounds. */
struct torture_round {
	uint64_t seed;
	unsigned int number;
	unsigned int threads;
	uint32_t level;	   /* the index begins with 2^level buckets */
	uint32_t fill;	   /* percent at which it grows: far above 100 makes long chains */
	uint32_t eviction; /* enum eviction_policy */
	uint64_t region_bytes;
	uint64_t fillers; /* of each writer: the round ends when one has so many */
	uint64_t max_ns;  /* or after this */
	bool flush;	  /* now and then */
	bool brief;	  /* some PUTs have a second to live */
};

/* The store under torture. */
struct torture_side {
	void (*begin)(const struct torture_round *round);
	/* A handle for thread @thread. Ends the process if there is none. */
	struct kvd *(*open)(unsigned int thread, const struct kvd_options *options);
	/* One move of items, by the thread that disturbs. NULL: it can't be done from here. */
	void (*disturb)(uint64_t random);
	/* Removes all that is stored at its call. @kvd is the calling thread's handle. */
	bool (*flush)(struct kvd *kvd);
	/* Called by each thread at its end. NULL: nothing to do. */
	void (*leave)(void);
	/* After the round, with all handles closed: NULL, or what is wrong with the store. */
	const char *(*end)(void);
	/* Prints what the store counted; NULL, or what did not happen. NULL: it can't say. */
	const char *(*report)(void);
};

/* Reads the command line: -t SECONDS, -s SEED, -w WRITERS, -r READERS, -b BUG, -F, -S, -u URL. */
void torture_options_parse(struct torture_options *options, int argc, char **argv);

/* Does rounds until the time is over or something is wrong, prints counts; whether all is well. */
bool torture_run(const struct torture_options *options, const struct torture_side *side);

/* tests/stress/torture_store.c, tests/stress/torture_server.c */
const struct torture_side *torture_store(const struct torture_options *options);
const struct torture_side *torture_server(const struct torture_options *options);

#endif /* KVD_TESTS_STRESS_TORTURE_H */
