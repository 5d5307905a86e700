/* SPDX-License-Identifier: MIT */
/* A thread of sys_fronts.c: what it does by one of the two ways, and what it records of it. */
#ifndef KVD_TESTS_SYSTEM_SYS_FRONTS_H
#define KVD_TESTS_SYSTEM_SYS_FRONTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/kvd.h"
#include "tests/linearizability/lin.h"
#include "tests/support/mc_client.h"

#define THREADS 6 /* every other one speaks memcached's protocol */
#define KEYS 6
#define KEY_BYTES 40
/* Of the longest value: limits.max_value of tests/system/lib.sh. */
#define VALUE_BYTES_MAX (1u << 20)

/*
 * What has to happen by each way, or nothing is tested: results, values that were seen and had been
 * stored by the other way, by their size, and successful changes; a cas counts if it replaced a
 * value that the other way had stored.
 */
/* clang-format off */
#define COUNTS_MAP(X) \
	X(ok) X(not_found) X(saw_small) X(saw_middle) X(saw_large) X(cas) X(append) X(incr) \
	X(deleted)
/* clang-format on */

/*
 * What has to happen by memcached's protocol: a value was sent or taken in two parts, with other
 * commands in between, which changed the key of one that was taken.
 */
#define PARTS_MAP(X) X(sent_in_parts) X(taken_in_parts) X(changed_meanwhile)

struct counts {
#define X(name) uint64_t name;
	COUNTS_MAP(X)
	PARTS_MAP(X)
#undef X
};

/* A connection to the front, with the values that are on their way on it. */
struct link {
	struct mc_client client;
	uint8_t *got, *put;
};

struct run {
	const char *url;
	uint16_t port;	   /* of memcached's protocol */
	uint64_t nonce;	   /* of the round: it has keys of its own */
	uint64_t until_ns; /* when the round ends */
};

struct thread {
	const struct run *run;
	unsigned int number;
	bool is_mc;
	pthread_t id;
	uint64_t random, serial;
	struct lin_log log;
	/* What it read last of each key: the version, and whether the other way's clients wrote. */
	uint64_t versions[KEYS];
	bool foreign[KEYS];
	struct kvd *kvd;
	struct link links[2]; /* the second one: for what it does amid a value of the first */
	struct counts counts;
};

/* Connects it. */
void thread_init(struct thread *t, const struct run *run, unsigned int number, uint64_t seed);
void thread_release(struct thread *t);
/* Takes part in a round, with a new log, which the caller releases. @arg: struct thread. */
void *thread_run(void *arg);
/* Deletes the round's keys; by a thread of libkvd. */
void thread_delete_keys(struct thread *t);

#endif /* KVD_TESTS_SYSTEM_SYS_FRONTS_H */
