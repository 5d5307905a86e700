/* SPDX-License-Identifier: MIT */
/*
 * Races on the table itself: writer threads change it as the server's workers do, while readers run
 * the client's GET over READs that copy the region, through a second mapping, in odd pieces and any
 * order with pauses between them (tests/support/loopback.h). Every answer is checked (tests/stress/race.h), and in the
 * end the whole table is. Under ThreadSanitizer it also shows that the server's own threads do not
 * race with each other; what readers copy is another mapping, and no business of its.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/stress/race.h"
#include "tests/support/loopback.h"

#define REGION_BYTES (128u << 20)
/* Four buckets for 48 keys: some are in overflow buckets. */
#define LEVEL 2

static struct store store;

static struct kvd *open_direct(void *arg, unsigned int thread, const struct kvd_options *options)
{
	struct loopback *loopback = loopback_open(&store, thread, options);

	(void)arg;
	loopback->scatter = true;
	return &loopback->kvd;
}

int main(int argc, char **argv)
{
	struct race_options options = { .seed = 1, .seconds = 5, .writers = 3, .readers = 3 };
	struct race_side side = { .open = open_direct };
	const char *error;
	bool ok;

	race_options_parse(&options, argc, argv);
	test_store_create(&store, REGION_BYTES, LEVEL, options.writers + options.readers);
	ok = race_run("race_table", &options, &side);
	error = test_store_check(&store, NULL);
	if (error)
		printf("the table: %s\n", error);
	test_store_destroy(&store);
	return ok && !error ? EXIT_SUCCESS : EXIT_FAILURE;
}
