/* SPDX-License-Identifier: MIT */
/*
 * Items of all kinds in a fleet, for the test in which their shards move.
 *
 *	sys_move put URL	stores them
 *	sys_move list URL	prints a line for each: its key, version, flags, length and sum of
 *				the value, and whether its expiry time is as it should be
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/kvd.h"
#include "common/sum.h"
#include "tests/support/checks.h"

#define KEYS 2000u
#define KEY_BYTES 24
#define SMALL_MAX 2000u
#define LARGE_BYTES 300000u
#define HUGE_BYTES 1000000u
#define TTL_S 50000
/* Each move may let an item live a second longer. */
#define TTL_MORE_S 60
/* How old the items are at most. */
#define LATE_S 1200

static uint8_t value[HUGE_BYTES];

static size_t key_of(char key[KEY_BYTES], unsigned int n)
{
	return (size_t)snprintf(key, KEY_BYTES, "move:%u", n);
}

static size_t length_of(unsigned int n)
{
	if (n % 400 == 7)
		return HUGE_BYTES;
	return n % 50 == 3 ? LARGE_BYTES : n * 37 % SMALL_MAX;
}

static enum kvd_status one_put(struct kvd *db, unsigned int n)
{
	struct kvd_put_args args = { .flags = n * 3, .ttl_s = n % 2 ? TTL_S : 0 };
	size_t len = length_of(n);
	char key[KEY_BYTES];

	for (size_t i = 0; i < len; i++)
		value[i] = (uint8_t)(i * 7 + n);
	return kvd_put(db, key, key_of(key, n), value, len, &args, NULL);
}

static int put(struct kvd *db)
{
	for (unsigned int n = 0; n < KEYS; n++)
		if (one_put(db, n)) {
			printf("move:%u: %s\n", n, kvd_error(db));
			return 1;
		}
	return 0;
}

/* By this host's clock, which is the servers' too. */
static const char *expiry_of(unsigned int n, const struct kvd_item *item)
{
	int64_t left_s = (int64_t)item->expires_s - (int64_t)time(NULL);

	if (n % 2 == 0)
		return item->expires_s ? "expires" : "stays";
	return left_s > TTL_S - LATE_S && left_s <= TTL_S + TTL_MORE_S ? "ends" : "differs";
}

static int list(struct kvd *db)
{
	struct kvd_item item;
	char key[KEY_BYTES];

	for (unsigned int n = 0; n < KEYS; n++) {
		enum kvd_status status = kvd_get(db, key, key_of(key, n), value, sizeof(value),
						 &item);

		if (status)
			printf("%s %s\n", key,
			       status == KVD_NOT_FOUND ? "not found" : kvd_error(db));
		else
			printf("%s %" PRIu64 " %u %zu %016" PRIx64 " %s\n", key, item.version,
			       item.flags, item.value_len,
			       (uint64_t)XXH3_64bits(value, item.value_len), expiry_of(n, &item));
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct kvd_options options;
	struct kvd *db;
	int status;

	if (argc != 3 || (strcmp(argv[1], "put") && strcmp(argv[1], "list")))
		die("usage", "sys_move put|list URL");
	kvd_options_init(&options);
	options.timeout_ms = options.connect_timeout_ms = SYS_TIMEOUT_MS;
	if (kvd_open(&db, argv[2], &options))
		die("open", kvd_error(NULL));
	status = strcmp(argv[1], "put") ? list(db) : put(db);
	kvd_close(db);
	return status;
}
