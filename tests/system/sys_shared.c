/* SPDX-License-Identifier: MIT */
/*
 * A client for the system test of what the handles of a process share. Prints `ok` and `FAIL` lines
 * as tests/system/lib.sh does.
 *
 *	sys_shared cost URL COUNT [BYTES DESCRIPTORS]	what COUNT further handles cost
 *	sys_shared threads URL...			threads that open, use and close handles
 *	sys_shared restart URL				handles opened before and after a restart
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/kvd.h"
#include "tests/support/checks.h"
#include "tests/support/descriptors.h"

#define KEYS 64
#define THREADS_MAX 8
#define THREADS_PER_SERVER 3
#define ROUNDS 30
#define HANDLES 3 /* of one thread at a time */
#define VALUE_BYTES 100
#define PAGE_KIB 1024
#define DEVICE_HANDLES 512 /* that have one device */

/* Resident memory of all kinds: what is shared with the server counts in full. */
static unsigned long long resident_bytes(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	unsigned long long kib = 0;
	char line[128];

	if (!file)
		die("cost", "no /proc/self/smaps_rollup");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "Rss: %llu kB", &kib) == 1)
			break;
	fclose(file);
	return kib * PAGE_KIB;
}

static size_t key_of(char key[32], unsigned int n)
{
	return (size_t)snprintf(key, 32, "shared%u", n);
}

/* PUTs and GETs of all keys, each with @mark in its value; with another one it is wrong. */
static bool use(struct kvd *db, const char *mark)
{
	char key[32], value[VALUE_BYTES], found[VALUE_BYTES];
	struct kvd_item item;
	unsigned int n;
	size_t len;

	memset(value, 'v', sizeof(value));
	snprintf(value, sizeof(value), "%s", mark);
	for (n = 0; n < KEYS; n++) {
		len = key_of(key, n);
		if (n % 4 == 0 && kvd_put(db, key, len, value, sizeof(value), NULL, NULL))
			return false;
		if (kvd_get(db, key, len, found, sizeof(found), &item))
			return false;
		if (item.value_len != sizeof(found) || strcmp(found, mark))
			return false;
	}
	return true;
}

static void fill(struct kvd *db, const char *mark)
{
	char key[32], value[VALUE_BYTES];
	unsigned int n;

	memset(value, 'v', sizeof(value));
	snprintf(value, sizeof(value), "%s", mark);
	for (n = 0; n < KEYS; n++)
		if (kvd_put(db, key, key_of(key, n), value, sizeof(value), NULL, NULL))
			die("fill", kvd_error(db));
}

/* The first handle pays for what all share; each further one is used like it. */
static void cost(const char *url, unsigned int count, const char *bytes_max, const char *fds_max)
{
	struct kvd *first = must_open(url), **handles = calloc(count, sizeof(*handles));
	unsigned long long bytes;
	unsigned int i, fds;
	bool good = true;

	if (!handles)
		die("cost", "no memory");
	fill(first, url);
	use(first, url);
	fds = descriptors();
	bytes = resident_bytes();
	for (i = 0; i < count; i++) {
		handles[i] = must_open(url);
		good &= use(handles[i], url);
	}
	bytes = (resident_bytes() - bytes) / count;
	/* A device has one, too. */
	fds = (descriptors() - fds - count / DEVICE_HANDLES + count - 1) / count;
	check(good, "%u handles work", count);
	printf("a further handle: %llu bytes, %u descriptors\n", bytes, fds);
	if (bytes_max) {
		check(bytes <= strtoull(bytes_max, NULL, 10), "at most %s bytes: %llu", bytes_max,
		      bytes);
		check(fds <= strtoul(fds_max, NULL, 10), "at most %s descriptors: %u", fds_max,
		      fds);
	}
	for (i = 0; i < count; i++)
		kvd_close(handles[i]);
	check(use(first, url), "the first one works after the others were closed");
	kvd_close(first);
	free(handles);
}

/* Opens, uses and closes handles, overlapping, so that the last user of what is shared changes. */
static void *thread_run(void *arg)
{
	const char *url = arg;
	struct kvd *handles[HANDLES] = { NULL };
	unsigned int i;
	bool good = true;

	for (i = 0; i < ROUNDS; i++) {
		struct kvd **db = &handles[i % HANDLES];

		kvd_close(*db);
		*db = must_open(url);
		good &= use(*db, url);
	}
	for (i = 0; i < HANDLES; i++)
		kvd_close(handles[i]);
	return good ? NULL : arg;
}

/* Each server has the same keys, with other values: nothing of one may be taken for the other's. */
static void threads(char **urls, unsigned int count)
{
	pthread_t ids[THREADS_MAX];
	unsigned int i, n = count * THREADS_PER_SERVER;
	bool good = true;
	void *wrong;

	for (i = 0; i < count; i++) {
		struct kvd *db = must_open(urls[i]);

		fill(db, urls[i]);
		kvd_close(db);
	}
	for (i = 0; i < n; i++)
		if (pthread_create(&ids[i], NULL, thread_run, urls[i % count]))
			die("threads", "pthread_create");
	for (i = 0; i < n; i++) {
		pthread_join(ids[i], &wrong);
		good &= !wrong;
	}
	check(good, "%u threads with handles to %u servers", n, count);
}

/* The server is restarted between two lines of stdin. */
static void restart(const char *url)
{
	struct kvd *old = must_open(url), *older = must_open(url), *new;
	char line[16], found[VALUE_BYTES];

	fill(old, "old");
	check(use(old, "old") && use(older, "old"), "two handles work");
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		die("restart", "no input");
	new = must_open(url);
	check(kvd_get(new, "shared1", 7, found, sizeof(found), NULL) == KVD_NOT_FOUND,
	      "a new one does not find what the old server had");
	fill(new, "new");
	check(use(new, "new"), "it works");
	check(use(old, "new"), "an earlier handle connects again and finds what the new one has");
	kvd_close(old);
	check(use(new, "new"), "that harms no other");
	kvd_close(older);
	check(use(new, "new"), "nor does closing the last earlier one");
	kvd_close(new);
}

int main(int argc, char **argv)
{
	if (argc >= 4 && !strcmp(argv[1], "cost"))
		cost(argv[2], (unsigned int)atoi(argv[3]), argc > 5 ? argv[4] : NULL,
		     argc > 5 ? argv[5] : NULL);
	else if (argc >= 3 && argc - 2 <= THREADS_MAX / THREADS_PER_SERVER &&
		 !strcmp(argv[1], "threads"))
		threads(argv + 2, (unsigned int)argc - 2);
	else if (argc == 3 && !strcmp(argv[1], "restart"))
		restart(argv[2]);
	else
		die("usage", "sys_shared cost|threads|restart URL...");
	return check_status();
}
