/* SPDX-License-Identifier: MIT */
/*
 * Cache-aside with protection against stampedes: when a popular key expires, one client computes it
 * again while the others wait, instead of all asking the slow origin at once.
 *
 *	cache_aside [URL [THREADS]]
 *
 * The right to compute is a second key, which one client wins by KVD_PUT_IF_ABSENT. It has a short
 * time to live: if the winner dies, another client takes over when it expires. The winner looks for
 * the value once more before it computes, since an earlier winner may just have stored it and given
 * the right back. It gives the right back only if it still has it, which the version tells.
 */
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kvd.h>

#define THREADS_MAX 64
#define RIGHT_TTL_S 5 /* longer than the origin takes */
#define VALUE_TTL_S 300

static const char *const key = "report", *const right = "report:computing";
static const char *url;
static atomic_uint origin_asked, answers;

/* The origin: slow, so it is called as rarely as possible. */
static void origin(char *value, size_t size)
{
	const struct timespec slow = { .tv_nsec = 100000000 };

	atomic_fetch_add(&origin_asked, 1);
	nanosleep(&slow, NULL);
	snprintf(value, size, "the report");
}

/* Returns whether the value is in the cache; then it is copied to `value`. */
static bool cached(struct kvd *db, char *value, size_t size)
{
	struct kvd_item item;
	enum kvd_status status = kvd_get(db, key, strlen(key), value, size - 1, &item);

	if (status && status != KVD_NOT_FOUND)
		errx(EXIT_FAILURE, "%s", kvd_error(db));
	if (!status)
		value[item.value_len] = '\0';
	return !status;
}

static void compute(struct kvd *db, char *value, size_t size)
{
	const struct kvd_put_args args = { .ttl_s = VALUE_TTL_S };

	origin(value, size);
	if (kvd_put(db, key, strlen(key), value, strlen(value), &args, NULL))
		warnx("not cached: %s", kvd_error(db));
}

static void lookup(struct kvd *db, char *value, size_t size)
{
	const struct kvd_put_args args = { .mode = KVD_PUT_IF_ABSENT, .ttl_s = RIGHT_TTL_S };
	struct timespec pause = { .tv_nsec = 1000000 };
	enum kvd_status status;
	uint64_t version;

	while (!cached(db, value, size)) {
		status = kvd_put(db, right, strlen(right), "", 0, &args, &version);
		if (!status) {
			/* An earlier winner may have stored it since we looked. */
			if (!cached(db, value, size))
				compute(db, value, size);
			/* If we took too long, another client has the right and keeps it. */
			kvd_delete_if(db, right, strlen(right), version);
			return;
		}
		if (status != KVD_ERR_EXISTS)
			errx(EXIT_FAILURE, "%s", kvd_error(db));
		/* Another client computes it. Asking again costs the server nothing. */
		nanosleep(&pause, NULL);
	}
}

static void *client_run(void *arg)
{
	char value[100];
	struct kvd *db;

	(void)arg;
	if (kvd_open(&db, url, NULL))
		errx(EXIT_FAILURE, "%s", kvd_error(NULL));
	lookup(db, value, sizeof(value));
	if (!strcmp(value, "the report"))
		atomic_fetch_add(&answers, 1);
	kvd_close(db);
	return NULL;
}

/* As if the key had expired. */
static void forget(void)
{
	struct kvd *db;

	if (kvd_open(&db, url, NULL))
		errx(EXIT_FAILURE, "%s", kvd_error(NULL));
	kvd_delete(db, key, strlen(key));
	kvd_delete(db, right, strlen(right));
	kvd_close(db);
}

int main(int argc, char **argv)
{
	unsigned int i, threads = argc > 2 ? (unsigned int)atoi(argv[2]) : 8;
	pthread_t ids[THREADS_MAX];
	char buffer[KVD_URL_MAX];

	url = argc > 1 ? argv[1] : kvd_default_url(buffer);
	if (!threads || threads > THREADS_MAX)
		errx(EXIT_FAILURE, "THREADS is 1 to %d", THREADS_MAX);
	forget();
	for (i = 0; i < threads; i++) {
		errno = pthread_create(&ids[i], NULL, client_run, NULL);
		if (errno)
			err(EXIT_FAILURE, "pthread_create");
	}
	for (i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	printf("%u answers, the origin was asked %u time%s\n", atomic_load(&answers),
	       atomic_load(&origin_asked), atomic_load(&origin_asked) == 1 ? "" : "s");
	return 0;
}
