/* SPDX-License-Identifier: MIT */
/*
 * Counters with exactly once: an increment whose connection is lost is sent again by the library,
 * and executed once. So a program needs no care but for two statuses, KVD_ERR_UNKNOWN and
 * KVD_ERR_TIMEOUT, after which nobody can say yet whether the server added or not.
 *
 *	counters [URL [THREADS [INCREMENTS]]]
 *
 * Such an increment is never repeated: it might count twice. What became of it the counter itself
 * says: nobody else adds to the counter of this thread, so the number that the next increment
 * returns is what was acknowledged, and those unknown ones that took effect. A sum over all threads
 * is the sum of their counters.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <kvd.h>

#define THREADS_MAX 64

struct counter {
	pthread_t thread;
	struct kvd *db;
	char key[32];
	size_t key_len;
	uint64_t increments;   /* to be done */
	uint64_t number;       /* what the server said last */
	uint64_t acknowledged; /* since the counter began */
	uint64_t unknown;      /* increments whose end was not known at once, */
	uint64_t effective;    /* and those of them that took effect */
	int last_is_unknown;   /* the last one's end is not known yet */
	uint64_t restarts;     /* the server was empty again, and the counter began anew */
};

static const char *url;

static void take(struct counter *c, uint64_t number)
{
	if (number <= c->number) {
		c->restarts++;
		c->number = 0;
	}
	/* This one, and those before it that took effect although nobody knew. */
	c->effective += number - c->number - 1;
	c->acknowledged++;
	c->number = number;
}

/* One increment, unless nothing was done. */
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
	default:
		errx(EXIT_FAILURE, "%s", kvd_error(c->db));
	}
}

static void *counter_run(void *arg)
{
	struct counter *c = arg;

	if (kvd_open(&c->db, url, NULL))
		errx(EXIT_FAILURE, "%s", kvd_error(NULL));
	/* It may be there, from another run. */
	kvd_delete(c->db, c->key, c->key_len);
	while (c->acknowledged + c->unknown < c->increments)
		add(c);
	/* One more says what became of the last one. */
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
