/* SPDX-License-Identifier: MIT */
/*
 * The torture on a server: in this process over softnic, a new server for each round, with two
 * workers and a maintenance thread, which all make the index grow; or on a running server with the
 * configuration that it has. READs over softnic copy a few bytes at a time and yield the CPU
 * sometimes (the device's fault plan).
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/stress/torture.h"
#include "tests/support/local_server.h"

#define TEAR_BYTES 48
/* Fills of the servers' indexes, in percent: chains as long as a server may come to have. */
#define FILL_MIN 30
#define FILL_MAX 90

static const char *url;

static void server_begin(const struct torture_round *round)
{
	static const char *const evictions[] = { "memory.eviction=none",
						 "memory.eviction=object-hits",
						 "memory.eviction=byte-hits" };
	uint32_t fill = round->fill < FILL_MIN ? FILL_MIN :
			round->fill > FILL_MAX ? FILL_MAX :
						 round->fill;
	const char *const assignments[] = {
		round->eviction ? "memory.size=16m" : "memory.size=64m",
		evictions[round->eviction],
		"index.keys=0",
		NULL,
	};

	local_server_set_fill(fill);
	url = local_server_begin(assignments);
}

static struct kvd *server_open(unsigned int thread, const struct kvd_options *options)
{
	(void)thread;
	return local_server_open(url, options);
}

static bool server_flush(struct kvd *kvd)
{
	return kvd_flush_all(kvd) == KVD_OK;
}

static const char *server_end(void)
{
	return local_server_end() ? NULL : "the server failed";
}

/* Removes the last round's items, or they would fill the server's memory. */
static void running_begin(const struct torture_round *round)
{
	struct kvd *kvd = server_open(0, NULL);

	(void)round;
	if (kvd_flush_all(kvd)) {
		fprintf(stderr, "race_torture: %s\n", kvd_error(kvd));
		exit(EXIT_FAILURE);
	}
	kvd_close(kvd);
}

static const char *running_end(void)
{
	return NULL;
}

const struct torture_backend *torture_server(const struct torture_options *options)
{
	static const struct torture_backend own = {
		.begin = server_begin,
		.open = server_open,
		.flush = server_flush,
		.end = server_end,
	};
	static const struct torture_backend running = {
		.begin = running_begin,
		.open = server_open,
		.flush = server_flush,
		.end = running_end,
	};

	local_server_init();
	local_server_tear(TEAR_BYTES);
	url = options->url;
	return url ? &running : &own;
}
