/* SPDX-License-Identifier: MIT */
/*
 * calls: synchronous calls of a known number, for callgrind to count what each costs the client.
 *
 *	calls get|put URL CALLS
 *
 * 64 keys with values of 100 bytes, all of them stored and read once before.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/kvd.h"

#define KEYS 64u
#define VALUE_BYTES 100

static struct kvd *db;

/* What callgrind counts. */
static __attribute__((noinline)) void call(int put, unsigned long number)
{
	static char value[VALUE_BYTES];
	char key[] = "key-00";
	enum kvd_status status;

	key[4] = (char)('0' + number % KEYS / 10);
	key[5] = (char)('0' + number % KEYS % 10);
	status = put ? kvd_put(db, key, sizeof(key) - 1, value, sizeof(value), NULL, NULL) :
		       kvd_get(db, key, sizeof(key) - 1, value, sizeof(value), NULL);
	if (status)
		errx(1, "%s", kvd_error(db));
}

int main(int argc, char **argv)
{
	struct kvd_options options;
	unsigned long i, count;
	int put;

	if (argc != 4 || (strcmp(argv[1], "get") != 0 && strcmp(argv[1], "put") != 0))
		errx(2, "usage: calls get|put URL CALLS");
	put = !strcmp(argv[1], "put");
	count = strtoul(argv[3], NULL, 10);
	kvd_options_init(&options);
	options.timeout_ms = 60000;
	/* It never sleeps: a device that was once to wake its user does more in each call. */
	options.spin_us = 1000000;
	if (kvd_open(&db, argv[2], &options))
		errx(1, "%s", kvd_error(NULL));
	for (i = 0; i < KEYS; i++)
		call(1, i);
	for (i = 0; i < KEYS; i++)
		call(0, i);
	for (i = 0; i < count; i++)
		call(put, i);
	kvd_close(db);
	return 0;
}
