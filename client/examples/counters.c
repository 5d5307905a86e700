/* SPDX-License-Identifier: MIT */
/*
 * Counters with exactly-once increments: if the connection is lost, the library sends an increment
 * again, and the server executes it once. A program must only handle two statuses, KVD_ERR_UNKNOWN
 * and KVD_ERR_TIMEOUT, after which it is not known yet whether the server added.
 *
 *	counters [URL [THREADS [INCREMENTS]]]
 *
 * Such an increment is never repeated, as it might count twice. The counter itself shows whether it
 * took effect: only this thread adds to its counter, so the number that the next increment returns
 * is the acknowledged increments plus the unknown ones that took effect. The total is the sum of
 * all threads' counters.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <kvd.h>

#define THREADS_MAX 64

struct counter {
	pthread_t thread;
	struct kvd *db;
	char key[32];
	size_t key_len;
	uint64_t increments;   /* to do */
	uint64_t number;       /* the last result of the server */
	uint64_t acknowledged; /* since the counter began */
	uint64_t unknown;      /* increments whose result was not known at once */
	uint64_t effective;    /* unknown increments that took effect */
	int last_is_unknown;   /* the result of the last increment is not known yet */
	uint64_t restarts;     /* how often the server was empty and the counter started again */
};

static const char *url;

static void take(struct counter *c, uint64_t number)
{
	if (number <= c->number) {
		c->restarts++;
		c->number = 0;
	}
	/* This increment, and earlier unknown ones that took effect. */
	c->effective += number - c->number - 1;
	c->acknowledged++;
	c->number = number;
}

/* Does one increment, unless the server did nothing. */
static void add(struct counter *c)
{
	const struct kvd_arith_args from_one = { .create = 1, .initial = 1 };
	uint64_t number;

	switch (kvd_incr(c->db, c->key, c->key_len, 1, &from_one, &number, NULL)) {
	case KVD_OK:
		take(c, number);
		c->last_is_unknown = 0;
		break;
	case KVD_ERR_UNKNOWN: /* the server has restarted, or forgot this handle */
	case KVD_ERR_TIMEOUT: /* it may still take effect, before the next one does */
		c->unknown++;
		c->last_is_unknown = 1;
		break;
	case KVD_ERR_DISCONNECTED: /* no server until the deadline: nothing was done */
	case KVD_ERR_BUSY:	   /* refused, for now */
		break;
	case KVD_ERR_AWAY: /* still none, found at once: nothing was done */
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
		break;
	default:
		errx(EXIT_FAILURE, "%s", kvd_error(c->db));
	}
}

static void *counter_run(void *arg)
{
	struct counter *c = arg;

	if (kvd_open(&c->db, url, NULL))
		errx(EXIT_FAILURE, "%s", kvd_error(NULL));
	/* The key may exist, from another run. */
	kvd_delete(c->db, c->key, c->key_len);
	while (c->acknowledged + c->unknown < c->increments)
		add(c);
	/* One more increment tells whether the last one took effect. */
	while (c->last_is_unknown)
		add(c);
	kvd_close(c->db);
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned int i, threads = argc > 2 ? (unsigned int)atoi(argv[2]) : 4;
	uint64_t increments = argc > 3 ? strtoull(argv[3], NULL, 10) : 1000;
	static struct counter counters[THREADS_MAX];
	struct counter all = { 0 };
	char buffer[KVD_URL_MAX];

	url = argc > 1 ? argv[1] : kvd_default_url(buffer);
	if (!threads || threads > THREADS_MAX)
		errx(EXIT_FAILURE, "THREADS is 1 to %d", THREADS_MAX);
	for (i = 0; i < threads; i++) {
		struct counter *c = &counters[i];

		c->increments = increments;
		c->key_len = (size_t)snprintf(c->key, sizeof(c->key), "counter-%u", i);
		errno = pthread_create(&c->thread, NULL, counter_run, c);
		if (errno)
			err(EXIT_FAILURE, "pthread_create");
	}
	for (i = 0; i < threads; i++) {
		pthread_join(counters[i].thread, NULL);
		all.number += counters[i].number;
		all.acknowledged += counters[i].acknowledged;
		all.unknown += counters[i].unknown;
		all.effective += counters[i].effective;
		all.restarts += counters[i].restarts;
	}
	printf("%" PRIu64 " increments acknowledged, %" PRIu64 " unknown, of which %" PRIu64
	       " took effect; the counters say %" PRIu64 "\n",
	       all.acknowledged, all.unknown, all.effective, all.number);
	if (all.restarts)
		printf("the server lost its keys %" PRIu64 " times\n", all.restarts);
	return 0;
}
