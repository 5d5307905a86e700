/* SPDX-License-Identifier: MIT */
/*
 * loops: GETs or PUTs as fast as they go in one thread, which a binding's loop is compared with.
 *
 *	loops URL sync|batch|async get|put BYTES MS
 *
 * Prints how many operations there were in a second. sync: one after the other; batch: 32 in one
 * kvd_get_many(), or submitted together and waited for; async: 64 (of 64 KiB and more: 8) under way
 * all the time, by kvd_poll() and poll(2) of the descriptor. Values of 4 KiB and more are in memory
 * of kvd_alloc(). client/rust/kvd/examples/bench.rs does the same.
 */
#include <err.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/kvd.h"

#define KEYS_MAX 64u
#define TOGETHER 32u
#define LARGE (64u << 10)
#define KEYS_LARGE 8u

static struct kvd *db;
static struct kvd_op ops[KEYS_MAX], *list[KEYS_MAX], *done[KEYS_MAX];
static struct kvd_get_request requests[TOGETHER];
static char keys[KEYS_MAX][16], *values;
static size_t bytes, keys_count;
static bool is_get;

static void check(enum kvd_status status)
{
	if (status)
		errx(1, "%s", kvd_error(db));
}

static char *value(size_t number)
{
	return values + number % keys_count * bytes;
}

static const char *key(size_t number)
{
	return keys[number % keys_count];
}

static void prepare(size_t i)
{
	if (is_get)
		kvd_prep_get(&ops[i], key(i), strlen(key(i)), value(i), bytes);
	else
		kvd_prep_put(&ops[i], key(i), strlen(key(i)), value(i), bytes, NULL);
}

static size_t sync_step(size_t number)
{
	const char *k = key(number);

	if (is_get)
		check(kvd_get(db, k, strlen(k), value(number), bytes, NULL));
	else
		check(kvd_put(db, k, strlen(k), value(number), bytes, NULL, NULL));
	return 1;
}

static size_t batch_step(size_t number)
{
	size_t i, n, count = keys_count < TOGETHER ? keys_count : TOGETHER;

	(void)number;
	if (is_get) {
		check(kvd_get_many(db, requests, count));
		for (i = 0; i < count; i++)
			check(requests[i].status);
		return count;
	}
	for (i = 0; i < count; i++)
		prepare(i);
	check(kvd_submit(db, list, count));
	while (kvd_outstanding(db))
		for (n = kvd_wait(db, done, count, count, UINT32_MAX); n--;)
			check(done[n]->status);
	return count;
}

static size_t async_step(size_t number)
{
	struct pollfd fd = { .events = POLLIN };
	size_t i, n;

	if (!number && !kvd_outstanding(db))
		check(kvd_submit(db, list, keys_count));
	n = kvd_poll(db, done, keys_count);
	for (i = 0; i < n; i++) {
		check(done[i]->status);
		prepare((size_t)(done[i] - ops));
	}
	if (n) {
		check(kvd_submit(db, done, n));
	} else if (!kvd_arm(db)) {
		fd.fd = kvd_fd(db);
		poll(&fd, 1, -1);
	}
	return n;
}

static void prepare_all(void)
{
	struct kvd_mem *mem;
	void *memory = NULL;
	size_t i;

	if (bytes < 4096)
		memory = calloc(keys_count, bytes);
	else
		check(kvd_alloc(db, keys_count * bytes, &memory, &mem));
	if (!memory)
		err(1, "calloc");
	values = memory;
	for (i = 0; i < keys_count; i++) {
		snprintf(keys[i], sizeof(keys[i]), "key-%02zu", i % KEYS_MAX);
		check(kvd_put(db, key(i), strlen(key(i)), value(i), bytes, NULL, NULL));
		prepare(i);
		list[i] = &ops[i];
	}
	for (i = 0; i < TOGETHER; i++)
		requests[i] = (struct kvd_get_request){ .key = key(i),
							.key_len = strlen(key(i)),
							.value = value(i),
							.value_size = bytes };
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	size_t (*step)(size_t number) = sync_step;
	double begin, end;
	size_t count = 0;

	if (argc != 6)
		errx(2, "usage: loops URL sync|batch|async get|put BYTES MS");
	if (!strcmp(argv[2], "batch"))
		step = batch_step;
	else if (!strcmp(argv[2], "async"))
		step = async_step;
	is_get = !strcmp(argv[3], "get");
	bytes = strtoul(argv[4], NULL, 10);
	keys_count = bytes < LARGE ? KEYS_MAX : KEYS_LARGE;
	if (kvd_open(&db, argv[1], NULL))
		errx(1, "%s", kvd_error(NULL));
	prepare_all();
	if (kvd_fd(db) < 0)
		errx(1, "%s", kvd_error(db));
	begin = seconds();
	do
		count += step(count);
	while ((end = seconds()) < begin + atof(argv[5]) / 1e3);
	printf("%.0f\n", (double)count / (end - begin));
	kvd_close(db);
	return 0;
}
