/* SPDX-License-Identifier: MIT */
/*
 * Races through everything: a whole server in this process, handles that connect to it over softnic,
 * writers with values from none to some that are pulled and some longer than a slot can tell, warm
 * and cold readers. READs copy a few bytes at a time and yield the CPU in between now and then (the
 * device's fault plan). Every answer is
 * checked (tests/stress/race.h). `race_readers -n 10000000` is the long form. With -u URL it races on a
 * server that runs already and that nobody else uses.
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
	/* The smallest index holds these keys: chains are what race_table and race_torture have. */
	static const char *const assignments[] = { "memory.size=256m", NULL };
	struct race_options options = {
		.seed = 1, .seconds = 5, .writers = 2, .readers = 3, .tear = 48
	};
	struct race_side side = { .open = open_handle };
	char url[80];
	bool ok;

	race_options_parse(&options, argc, argv);
	local_server_init();
	if (options.tear)
		local_server_tear(options.tear);
	snprintf(url, sizeof(url), "%s",
		 options.url ? options.url : local_server_begin(assignments));
	side.arg = url;
	ok = race_run("race_readers", &options, &side);
	if (!options.url && !local_server_end()) {
		printf("the server failed\n");
		ok = false;
	}
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
