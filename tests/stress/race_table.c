/* SPDX-License-Identifier: MIT */
/*
 * Race test of the table without a server: writer threads change it as the server's workers do,
 * while readers run the client's GET, whose READs copy pieces of the region in random order through
 * a second mapping (tests/support/loopback.h). Every response is checked (tests/stress/race.h), and
 * the whole table at the end. ThreadSanitizer also checks here that the server's own threads do not
 * race with each other; it does not see races with readers, which use another mapping.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/stress/race.h"
#include "tests/support/loopback.h"

#define REGION_BYTES (128u << 20)
/* Four buckets for 48 keys, so that some keys are in overflow buckets. */
#define LEVEL 2

static struct store store;

static struct kvd *open_loopback(void *arg, unsigned int thread, const struct kvd_options *options)
{
	struct loopback *loopback = loopback_open(&store, thread, options);

	(void)arg;
	loopback->scatter = true;
	return &loopback->kvd;
}

int main(int argc, char **argv)
{
	struct race_options options = { .seed = 1, .seconds = 5, .writers = 3, .readers = 3 };
	struct race_backend backend = { .open = open_loopback };
	const char *error;
	bool ok;

	race_options_parse(&options, argc, argv);
	test_store_create(&store, REGION_BYTES, LEVEL, options.writers + options.readers);
	ok = race_run("race_table", &options, &backend);
	error = test_store_check(&store, NULL);
	if (error)
		printf("the table: %s\n", error);
	test_store_destroy(&store);
	return ok && !error ? EXIT_SUCCESS : EXIT_FAILURE;
}
