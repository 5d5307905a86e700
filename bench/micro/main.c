/* SPDX-License-Identifier: MIT */
/* micro's main(): finds the command; and functions that several commands share. */
#include "bench/micro/micro.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define HANDLE_FDS 10 /* descriptors of a handle, at most */

static const struct {
	const char *name;
	int (*main)(int argc, char **argv);
} commands[] = {
	{ "async", async_main },     { "away", away_main },
	{ "calls", calls_main },     { "connections", connections_main },
	{ "crowd", crowd_main },     { "get-floor", get_floor_main },
	{ "ranges", ranges_main },   { "resp", resp_main },
	{ "sockets", sockets_main },
};

unsigned int number(const char *text, unsigned int min, unsigned int max)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (end == text || *end || n < min || n > max)
		errx(2, "%s: give a number from %u to %u", text, min, max);
	return (unsigned int)n;
}

void descriptors_allow(unsigned int handles)
{
	const rlim_t wanted = (rlim_t)handles * HANDLE_FDS + 64;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		err(1, "the limit of open files");
	if (limit.rlim_cur >= wanted)
		return;
	limit.rlim_cur = wanted;
	if (limit.rlim_max < wanted)
		limit.rlim_max = wanted;
	if (!setrlimit(RLIMIT_NOFILE, &limit))
		return;
	/* This limit may suffice: most handles take fewer descriptors. */
	if (getrlimit(RLIMIT_NOFILE, &limit))
		err(1, "the limit of open files");
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		err(1, "the limit of open files can't be raised to %ju", (uintmax_t)limit.rlim_max);
}

int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	size_t i;

	for (i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].main(argc - 1, argv + 1);
	errx(2,
	     "usage: micro async|away|calls|connections|crowd|get-floor|ranges|resp|sockets ...");
}
