/* SPDX-License-Identifier: MIT */
/*
 * A pool of threads, each with a handle of its own. Handles of a process share the device, the
 * mapping of the server's memory and the bucket cache, so each further handle is cheap. Sharing one
 * handle between threads under a lock would be slower.
 *
 *	thread_pool [URL [THREADS]]
 *
 * The work: each job stores a key, and reads keys of jobs that started earlier.
 */
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvd.h>

#define JOBS 2000
#define THREADS_MAX 64
#define READS 4 /* keys that a job reads */

static const char *url;
static atomic_uint next_job, jobs_done, found;

static int key_of(char *key, size_t size, unsigned int job)
{
	return snprintf(key, size, "job-%u", job);
}

static void job_run(struct kvd *db, unsigned int job)
{
	char key[32], value[32];
	struct kvd_item item;
	unsigned int i;
	int n;

	n = key_of(key, sizeof(key), job);
	if (kvd_put(db, key, (size_t)n, key, (size_t)n, NULL, NULL))
		errx(EXIT_FAILURE, "%s", kvd_error(db));
	for (i = 0; i < READS; i++) {
		n = key_of(key, sizeof(key), job * i / READS);
		if (!kvd_get(db, key, (size_t)n, value, sizeof(value), &item) &&
		    item.value_len == (size_t)n && !memcmp(key, value, (size_t)n))
			atomic_fetch_add(&found, 1);
	}
	atomic_fetch_add(&jobs_done, 1);
}

static void *thread_run(void *arg)
{
	struct kvd *db;
	unsigned int job;

	(void)arg;
	if (kvd_open(&db, url, NULL))
		errx(EXIT_FAILURE, "%s", kvd_error(NULL));
	while ((job = atomic_fetch_add(&next_job, 1)) < JOBS)
		job_run(db, job);
	kvd_close(db);
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned int i, threads = argc > 2 ? (unsigned int)atoi(argv[2]) : 4;
	pthread_t ids[THREADS_MAX];
	char buffer[KVD_URL_MAX];

	url = argc > 1 ? argv[1] : kvd_default_url(buffer);
	if (!threads || threads > THREADS_MAX)
		errx(EXIT_FAILURE, "THREADS is 1 to %d", THREADS_MAX);
	for (i = 0; i < threads; i++) {
		errno = pthread_create(&ids[i], NULL, thread_run, NULL);
		if (errno)
			err(EXIT_FAILURE, "pthread_create");
	}
	for (i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	printf("%u jobs done by %u threads; %s\n", atomic_load(&jobs_done), threads,
	       atomic_load(&found) ? "jobs found each other's keys" : "no key was found");
	return 0;
}
