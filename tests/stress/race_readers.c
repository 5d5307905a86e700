/* SPDX-License-Identifier: MIT */
/*
 * Race test of the whole system: a server in this process and client handles that connect to it
 * over softnic. Writers PUT values from 0 bytes to lengths that are pulled, and to lengths above
 * the largest that a slot can encode; readers have a bucket cache or none. READs copy a few bytes
 * at a time and yield the CPU sometimes (the device's fault plan). Every response is checked
 * (tests/stress/race.h).
 *
 * `race_readers -n 10000000` is the long form. With -u URL it runs against a running server, which
 * nobody else may use.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/stress/race.h"
#include "tests/support/local_server.h"

static struct kvd *open_handle(void *arg, unsigned int thread, const struct kvd_options *options)
{
	(void)thread;
	return local_server_open(arg, options);
}

int main(int argc, char **argv)
{
	/* The smallest index holds these keys; race_table and race_torture test chains. */
	static const char *const assignments[] = { "memory.size=256m", NULL };
	struct race_options options = {
		.seed = 1, .seconds = 5, .writers = 2, .readers = 3, .tear = 48
	};
	struct race_backend backend = { .open = open_handle };
	char url[80];
	bool ok;

	race_options_parse(&options, argc, argv);
	local_server_init();
	if (options.tear)
		local_server_tear(options.tear);
	snprintf(url, sizeof(url), "%s",
		 options.url ? options.url : local_server_begin(assignments));
	backend.arg = url;
	ok = race_run("race_readers", &options, &backend);
	if (!options.url && !local_server_end()) {
		printf("the server failed\n");
		ok = false;
	}
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
