/* SPDX-License-Identifier: MIT */
/*
 * A race of writers and readers on the same few keys, through libkvd's API, which checks every
 * response against guarantees A, B and C of server/DESIGN.md.
 *
 * A value's flags say who wrote it and when; its length and every byte of it are computed from the
 * key and the flags, so that a torn or half-written value, or another key's, is detected (A). Kinds
 * of keys:
 *
 *	owned	one writer, never deleted: a GET must return one of the PUTs from the last one
 *		acknowledged when it began to the last one started when it returned, no older one
 *		than any GET of any thread had returned before it began (B), and never a miss (C)
 *	mortal	the same with DELETEs among the PUTs: a miss must be one of the DELETEs (B, C)
 *	shared	several writers, never deleted: the same with versions instead of sequence
 *		numbers, and never a miss (B, C)
 *	mixed	several writers, which PUT and DELETE: only the bytes are checked (A)
 */
#ifndef KVD_TESTS_STRESS_RACE_H
#define KVD_TESTS_STRESS_RACE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/kvd.h"

#define RACE_THREADS_MAX 8

struct race_options {
	uint64_t seed;
	uint64_t reads;	      /* stop after this many by all readers; 0: no limit */
	unsigned int seconds; /* stop after this time; 0: no limit */
	unsigned int writers, readers;
	unsigned int tear; /* softnic: bytes that a READ copies at a time; 0: all */
	const char *url;   /* of a running server; NULL: start one */
};

/* What opens the handles: threads 0 to writers - 1 write, those after them read. */
struct race_backend {
	struct kvd *(*open)(void *arg, unsigned int thread, const struct kvd_options *options);
	void *arg;
};

/* Parses -n READS, -t SECONDS, -s SEED, -w WRITERS, -r READERS, -T BYTES, -u URL. */
void race_options_parse(struct race_options *options, int argc, char **argv);

/*
 * Runs the race until a limit of @options is reached and prints the counts. Returns whether it
 * passed: no wrong response, no error, and some reads that overlapped a change.
 */
bool race_run(const char *name, const struct race_options *options,
	      const struct race_backend *backend);

#endif /* KVD_TESTS_STRESS_RACE_H */
