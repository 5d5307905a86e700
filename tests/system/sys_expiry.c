/* SPDX-License-Identifier: MIT */
/*
 * A client for the system test of expiry: GETs a key from when it is there until it has expired,
 * and checks each result against the time of day, which is the server's clock here, on the same
 * host. Prints `ok` and `FAIL` lines as tests/system/lib.sh does.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/kvd.h"
#include "common/util/clock.h"
#include "tests/support/checks.h"

#define PAUSE_US 500
/* GETs after the key was first missed, which have to miss it, too. */
#define MISSES 200
/* The server read the time of day when it started, this one reads it now. */
#define APART_NS 20000000u

int main(int argc, char **argv)
{
	uint64_t before, after, expires_ns = 0;
	unsigned int hits = 0, misses = 0;
	enum kvd_status status;
	struct kvd_item item;
	char value[100];
	struct kvd *db;

	if (argc != 3) {
		fputs("usage: sys_expiry URL KEY\n", stderr);
		return 64;
	}
	db = must_open(argv[1]);
	puts("looping");
	fflush(stdout);
	for (; misses < MISSES; usleep(PAUSE_US)) {
		before = clock_read_ns(CLOCK_REALTIME);
		status = kvd_get(db, argv[2], strlen(argv[2]), value, sizeof(value), &item);
		after = clock_read_ns(CLOCK_REALTIME);
		if (status && status != KVD_NOT_FOUND)
			die("get", kvd_error(db));
		if (!status && !item.expires_s)
			die("get", "the key does not expire");
		/* Not there yet. */
		if (!hits && status)
			continue;
		if (!status && misses)
			die("get", "a key that had expired is there again");
		if (!status)
			expires_ns = item.expires_s * 1000000000ull;
		if (!status && before > expires_ns + APART_NS)
			die("get", "a key is returned after it expired");
		if (status && after + APART_NS < expires_ns)
			die("get", "a key is missed before it expired");
		hits += !status;
		misses += status == KVD_NOT_FOUND;
		if (hits == 1 && !status) {
			puts("found");
			fflush(stdout);
		}
	}
	printf("ok    %u hits until it expired, and none later\n", hits);
	kvd_close(db);
	return EXIT_SUCCESS;
}
