/* SPDX-License-Identifier: MIT */
/*
 * A client for the system test of expiry: GETs a key from when it is there until it has expired.
 * What it sees is compared with what the server says: a key that is missed is none that the server
 * has, and a key that the server does not have any more is missed by each GET that begins later.
 * A client that notices that the key has expired PUTs KEY.gone, for others that watch it, too.
 * Prints `ok` and `FAIL` lines as tests/system/lib.sh does.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/kvd.h"
#include "tests/support/checks.h"

#define PAUSE_US 500
/* GETs after the key was first missed, which have to miss it, too. */
#define MISSES 200

static struct kvd *db;

/* Whether the key is there. */
static bool has(const char *key, bool by_request)
{
	enum kvd_status (*get)(struct kvd *, const void *, size_t, void *, size_t,
			       struct kvd_item *) = by_request ? kvd_get_by_request : kvd_get;
	struct kvd_item item;
	char value[100];
	enum kvd_status status = get(db, key, strlen(key), value, sizeof(value), &item);

	if (status && status != KVD_NOT_FOUND)
		die("get", kvd_error(db));
	return !status;
}

int main(int argc, char **argv)
{
	unsigned int hits = 0, misses = 0;
	const char *key;
	char gone_key[64];
	bool gone, found;

	if (argc != 3) {
		fputs("usage: sys_expiry URL KEY\n", stderr);
		return 64;
	}
	db = must_open(argv[1]);
	key = argv[2];
	snprintf(gone_key, sizeof(gone_key), "%s.gone", key);
	puts("looping");
	fflush(stdout);
	for (; misses < MISSES; usleep(PAUSE_US)) {
		gone = has(gone_key, false);
		found = has(key, false);
		/* Not there yet. */
		if (!hits && !found)
			continue;
		if (found && (gone || misses))
			die("get", "a key is returned after it expired");
		if (!found && has(key, true))
			die("get", "a key is missed before it expired");
		hits += found;
		misses += !found;
		if (misses == 1 && !found &&
		    kvd_put(db, gone_key, strlen(gone_key), "", 0, NULL, NULL))
			die("put", kvd_error(db));
		if (hits == 1 && found) {
			puts("found");
			fflush(stdout);
		}
	}
	printf("ok    %u hits until it expired, and none later\n", hits);
	kvd_close(db);
	return EXIT_SUCCESS;
}
