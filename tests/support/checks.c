/* SPDX-License-Identifier: MIT */
/* Prints and counts the checks of a system test's client: see checks.h. */
#include "tests/support/checks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_BYTES 65536

static unsigned int failures;

void check(bool good, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf(good ? "ok    " : "FAIL  ");
	vprintf(format, args);
	printf("\n");
	va_end(args);
	fflush(stdout);
	failures += !good;
}

int check_status(void)
{
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}

_Noreturn void die(const char *what, const char *why)
{
	printf("FAIL  %s: %s\n", what, why);
	exit(EXIT_FAILURE);
}

struct kvd *must_open(const char *url)
{
	struct kvd_options options;
	struct kvd *db;

	kvd_options_init(&options);
	options.timeout_ms = options.connect_timeout_ms = SYS_TIMEOUT_MS;
	if (kvd_open(&db, url, &options))
		die("open", kvd_error(NULL));
	return db;
}

unsigned int connections_kill(struct kvd *db)
{
	static char text[LIST_BYTES];
	const char *line = text;
	unsigned int kills = 0;
	unsigned long id;

	if (kvd_client_list(db, text, sizeof(text), NULL))
		return 0;
	for (; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "id=%lu", &id) == 1)
			kills += !kvd_client_kill(db, id);
	}
	return kills;
}
