/* SPDX-License-Identifier: MIT */
/*
 * Makes a known number of synchronous calls, for callgrind to count the client's cost of each.
 * bench/call-cost.sh runs it.
 *
 *	micro calls get|many|put URL CALLS
 *
 * The 64 keys have values of 100 bytes and were all stored and read once before; many:
 * kvd_get_many() of 32 keys.
 */
#include "bench/micro/micro.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS 64u
#define MANY 32u
#define VALUE_BYTES 100

static struct kvd *db;
static char keys[KEYS][8];
static char values[MANY][VALUE_BYTES];
static struct kvd_get_request requests[MANY];

/* The function whose instructions callgrind counts. */
static __attribute__((noinline)) void call(char op, unsigned long i)
{
	const char *key = keys[i % KEYS];
	enum kvd_status status;

	if (op == 'p')
		status = kvd_put(db, key, strlen(key), values[0], VALUE_BYTES, NULL, NULL);
	else if (op == 'g')
		status = kvd_get(db, key, strlen(key), values[0], VALUE_BYTES, NULL);
	else
		status = kvd_get_many(db, requests, MANY);
	if (status)
		errx(1, "%s", kvd_error(db));
}

int calls_main(int argc, char **argv)
{
	struct kvd_options options;
	unsigned long i, count;

	if (argc != 4 || (strcmp(argv[1], "get") != 0 && strcmp(argv[1], "many") != 0 &&
			  strcmp(argv[1], "put") != 0))
		errx(2, "usage: micro calls get|many|put URL CALLS");
	count = strtoul(argv[3], NULL, 10);
	for (i = 0; i < KEYS; i++)
		snprintf(keys[i], sizeof(keys[i]), "key-%02lu", i % KEYS);
	for (i = 0; i < MANY; i++)
		requests[i] = (struct kvd_get_request){
			.key = keys[i],
			.key_len = strlen(keys[i]),
			.value = values[i],
			.value_size = VALUE_BYTES,
		};
	kvd_options_init(&options);
	options.timeout_ms = 60000;
	/* Never sleep: a device that once had to wake its user does more in each call. */
	options.spin_us = 1000000;
	if (kvd_open(&db, argv[2], &options))
		errx(1, "%s", kvd_error(NULL));
	for (i = 0; i < KEYS; i++)
		call('p', i);
	for (i = 0; i < KEYS; i++)
		call('g', i);
	for (i = 0; i < count; i++)
		call(argv[1][0], i);
	kvd_close(db);
	return 0;
}
