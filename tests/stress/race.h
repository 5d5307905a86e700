/* SPDX-License-Identifier: MIT */
/*
 * Writers and readers on the same few keys, through libkvd's API, and a check of every answer
 * against guarantees A, B and C of server/DESIGN.md.
 *
 * A value says in its flags who wrote it and when; its length and every byte of it follow from the
 * key and the flags, so a torn, foreign or half-written one can't pass for whole (A). Kinds of keys:
 *
 *	owned	one writer, never deleted: a GET must return one of the PUTs between the last
 *		acknowledged before it and the last started when it returned, none older than any
 *		that a GET, by whoever, had returned before (B), and never a miss (C)
 *	mortal	the same with DELETEs among the PUTs: a miss must be one of the DELETEs
 *	shared	several writers, never deleted: versions for sequence numbers, never a miss (B, C)
 *	wild	several writers, PUT and DELETE (A)
 */
#ifndef KVD_TESTS_STRESS_RACE_H
#define KVD_TESTS_STRESS_RACE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/kvd.h"

#define RACE_THREADS_MAX 8

struct race_options {
	uint64_t seed;
	uint64_t reads;	      /* to stop after, all readers together; 0: never */
	unsigned int seconds; /* to stop after; 0: never */
	unsigned int writers, readers;
	unsigned int tear; /* softnic: bytes a READ copies at a time; 0: all */
	const char *url;   /* of a server that runs already, or NULL */
};

/* Where handles come from: thread 0 to writers - 1 write, those after them read. */
struct race_side {
	struct kvd *(*open)(void *arg, unsigned int thread, const struct kvd_options *options);
	void *arg;
};

/* Reads the command line: -n READS, -t SECONDS, -s SEED, -w WRITERS, -r READERS, -T BYTES, -u URL. */
void race_options_parse(struct race_options *options, int argc, char **argv);

/*
 * Runs until enough is read, prints the counts, and returns whether all is well: no wrong answer, no
 * error, and some reads that met a change.
 */
bool race_run(const char *name, const struct race_options *options, const struct race_side *side);

#endif /* KVD_TESTS_STRESS_RACE_H */
