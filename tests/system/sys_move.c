/* SPDX-License-Identifier: MIT */
/*
 * Items of all kinds in a fleet, for the test in which their shards move.
 *
 *	sys_move put URL	stores them
 *	sys_move list URL	prints a line for each: its key, version, flags, length and sum of
 *				the value, and whether its expiry time is as it should be
 *	sys_move follow URL	until SIGTERM: GETs by request see the changes of their keys that
 *				the handle has submitted before them
 */
#include <inttypes.h>
#include <signal.h>
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
#define FOLLOWED 128u /* keys */

static volatile sig_atomic_t ends;

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

static void on_term(int number)
{
	(void)number;
	ends = 1;
}

/* A PUT and a GET of each key at a time, which go to all members. */
static int follow(struct kvd *db)
{
	static char keys[FOLLOWED][KEY_BYTES];
	uint64_t round, got[FOLLOWED], seen = 0;
	struct kvd_op ops[2 * FOLLOWED], *list[2 * FOLLOWED];

	signal(SIGTERM, on_term);
	for (round = 1; !ends; round++) {
		for (unsigned int n = 0; n < FOLLOWED; n++) {
			const size_t len = (size_t)snprintf(keys[n], KEY_BYTES, "follow:%u", n);

			kvd_prep_put(&ops[2 * n], keys[n], len, &round, sizeof(round), NULL);
			kvd_prep_get_by_request(&ops[2 * n + 1], keys[n], len, &got[n],
						sizeof(round));
			list[2 * n] = &ops[2 * n];
			list[2 * n + 1] = &ops[2 * n + 1];
		}
		if (kvd_submit(db, list, 2 * FOLLOWED))
			die("submit", kvd_error(db));
		while (kvd_outstanding(db))
			kvd_wait(db, list, 2 * FOLLOWED, 1, 1000);
		for (unsigned int n = 0; n < FOLLOWED; n++) {
			const enum kvd_status status = ops[2 * n + 1].status;

			if (ops[2 * n].status || status > KVD_NOT_FOUND)
				continue;
			seen++;
			if (status || got[n] != round) {
				printf("%s is %" PRIu64 " in round %" PRIu64 "\n", keys[n], got[n],
				       round);
				return 1;
			}
		}
	}
	printf("%" PRIu64 " GETs saw the PUT before\n", seen);
	return !seen;
}

int main(int argc, char **argv)
{
	struct kvd_options options;
	struct kvd *db;
	int status;

	if (argc != 3)
		die("usage", "sys_move put|list|follow URL");
	kvd_options_init(&options);
	options.timeout_ms = options.connect_timeout_ms = SYS_TIMEOUT_MS;
	options.depth = 2 * FOLLOWED;
	if (kvd_open(&db, argv[2], &options))
		die("open", kvd_error(NULL));
	status = !strcmp(argv[1], "put")  ? put(db) :
		 !strcmp(argv[1], "list") ? list(db) :
					    follow(db);
	kvd_close(db);
	return status;
}
