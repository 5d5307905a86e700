/* SPDX-License-Identifier: MIT */
/* A thread of sys_history.c: what it submits, and what it records of it. */
#ifndef KVD_TESTS_SYSTEM_SYS_HISTORY_H
#define KVD_TESTS_SYSTEM_SYS_HISTORY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/kvd.h"
#include "tests/linearizability/lin.h"

#define CLIENTS 4
/* Of all clients together on one key: no more than LIN_PENDING_MAX. */
#define PLACES 12
/* In a run with restarts, which leave the result of each that was sent unknown. */
#define PLACES_RESTART 3
#define SHARED_KEYS 6
#define GENERATIONS 16
/* Keys that all clients change, and for each client one that no other changes. */
#define KEYS (SHARED_KEYS + CLIENTS * GENERATIONS)
#define VALUE_BYTES_MAX (400u << 10)
#define KEY_BYTES 24
#define PIECES 3
/* Changes of a client in a round of which the library said that it is unknown what they did. */
#define UNKNOWN_MAX 64
/* Of a client in a round; more are not judged by their bytes. */
#define MADE_MAX 2048
#define RANGED_MAX 1024

/* clang-format off */
#define COUNTS_MAP(X) \
	X(batches) X(called) X(canceled) X(timeouts) X(unknown) X(slept) X(pairs) X(pairs_seen) \
	X(in_pieces) X(ranges) X(ranges_judged) X(ranges_long) X(ok) X(not_found) X(away) X(moved)
/* clang-format on */

struct counts {
#define X(name) uint64_t name;
	COUNTS_MAP(X)
#undef X
};

struct client;

/* A change that stored a value of unique_fill(), and a range that was read, in this round. */
struct made {
	int64_t index; /* in the log */
	uint64_t serial;
};
struct ranged {
	int64_t index;
	size_t offset;
	struct lin_value bytes;
};

/* An operation that is submitted, or free to be. */
struct place {
	struct kvd_op op;
	struct client *client;
	int64_t index; /* in the log; negative: of a pair */
	bool used, canceled;
	bool dirty; /* the library must not write to the value any more */
	uint8_t key[KEY_BYTES];
	uint8_t *value;
	struct iovec pieces[PIECES];
};

struct run;

struct client {
	struct run *run;
	struct kvd *kvd;
	int fd; /* negative: it waits by kvd_wait() */
	unsigned int number;
	pthread_t thread;
	uint64_t random, serial;
	struct lin_log log;
	struct place places[PLACES];
	uint64_t versions[KEYS]; /* the last that it saw */
	uint8_t *value;		 /* of a synchronous call */
	struct kvd_mem *mem;	 /* of the places' values; NULL: not registered */
	bool lost;
	int64_t unknown[UNKNOWN_MAX]; /* in the log, in this round */
	unsigned int unknown_count;
	struct made made[MADE_MAX];
	struct ranged ranged[RANGED_MAX];
	unsigned int made_count, ranged_count;
	unsigned int short_times; /* changes that got too short a time, in this round */

	/* Of the handle: each has a key of its own, and a pair of keys. */
	_Atomic uint32_t generation;
	uint64_t pair_number; /* of its last change */

	uint64_t losses;
	struct counts counts;
};

struct run {
	const char *url;
	const char *killed; /* of the server whose connections are closed */
	bool pairs;	    /* the rule of two keys is tested */
	bool stays;	    /* connections stay */
	bool restarts;	    /* the server does */
	bool faults;	    /* the test makes them: connections may be lost */
	bool loses;	    /* members of a fleet, and the items of their shards */
	bool may_lose;	    /* members may be lost; the test judges whether there was a reason */
	bool lost;	    /* items, in this round */
	uint64_t nonce;	    /* of the round: it has keys of its own */
	struct client clients[CLIENTS];
	_Atomic unsigned int wrong, running;
	_Atomic bool restarted; /* it was started again */
	_Atomic uint64_t steps;
	uint64_t ops, kills;
	unsigned int undecided, rounds_lost;
};

void die(const char *what, const char *why);
void wrong(const char *what, uint32_t key, uint64_t a, uint64_t b);
uint64_t client_random(struct client *c);

/* history_range.c: the bytes of ranges, which the checker of histories does not judge. */

/* Makes a value that no other change has and of which no two parts are alike. */
void unique_fill(uint8_t *to, size_t len, uint64_t serial, unsigned int number);
/* Prepares to read a part of a value whose length is not known. */
void range_prep(struct client *c, struct kvd_op *op, const uint8_t *key, uint8_t *value);
/* The synchronous call, of one or of many. */
enum kvd_status range_call(struct client *c, struct kvd_op *op);
/* Keeps what was called as operation @index of the log, or what it has read. */
void range_note_call(struct client *c, const struct kvd_op *op, int64_t index);
void range_note_return(struct client *c, const struct kvd_op *op, int64_t index);
/* Whether each range that @reader read is of the value that @c stored with its version. */
void ranges_judge(struct client *reader, const struct client *c);

void client_init(struct client *c, struct run *run, unsigned int number, uint64_t seed);
/* Gets memory for the places' values, by its handle: that of every other client is registered. */
void client_places(struct client *c);
void client_release(struct client *c);
/* Begins a round. */
void client_begin(struct client *c);
/* Submits, calls, cancels or takes something. */
void client_step(struct client *c);
/* Takes all that is outstanding. */
void client_drain(struct client *c);
/* Whether what it did was seen in its order. */
void client_judge_order(const struct client *c);
/*
 * Deletes what it may have stored in the round, before the next one: memory has to last for any
 * number of them. Stops at an error: a few keys more are no harm.
 */
void client_end(struct client *c);
/*
 * Whether a change whose end is unknown, since the server was killed, was seen on the next one: by
 * @reader, after @restarted_ns.
 */
void client_judge_unknown(const struct client *c, const struct client *reader,
			  uint64_t restarted_ns);

#endif /* KVD_TESTS_SYSTEM_SYS_HISTORY_H */
