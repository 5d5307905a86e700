/* SPDX-License-Identifier: MIT */
/*
 * Changes the clocks of hosts (tests/support/host_clocks.h), each in a file, which it makes if it
 * is not there; its processes must start after that.
 *
 *	sys_clocks rate PPM FILE...	the hardware's clock is that much too fast
 *	sys_clocks slept MS FILE...	the host was suspended, in no time
 *	sys_clocks stood MS FILE...	the host was suspended for MS that have just passed
 *	sys_clocks day S FILE...	the time of day is set ahead
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "tests/support/host_clocks.h"

#define NS_PER_MS 1000000
#define NS_PER_S 1000000000
/* A clock never goes back, also where it was read while its rate was changed. */
#define CHANGE_NS 10000

static void die(const char *what, const char *path)
{
	fprintf(stderr, "sys_clocks: %s", what);
	if (path)
		perror(path);
	exit(EXIT_FAILURE);
}

static struct host_clocks *clocks_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *map;

	if (fd < 0 || ftruncate(fd, sizeof(struct host_clocks)))
		die("", path);
	map = mmap(NULL, sizeof(struct host_clocks), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		die("", path);
	close(fd);
	return map;
}

static void state_change(struct host_clocks_state *state, const char *what, int64_t by)
{
	uint64_t now_ns = clock_raw_ns();

	if (!strcmp(what, "rate")) {
		state->raw_ns = host_clocks_raw_ahead(state, now_ns) + CHANGE_NS;
		state->since_ns = now_ns;
		state->raw_ppm = by;
	} else if (!strcmp(what, "slept")) {
		state->boot_ns += by * NS_PER_MS;
	} else if (!strcmp(what, "stood")) {
		state->raw_ns -= by * NS_PER_MS;
		state->boot_ns += by * NS_PER_MS;
	} else if (!strcmp(what, "day")) {
		state->real_ns += by * NS_PER_S;
	} else {
		die("what is that?\n", NULL);
	}
}

int main(int argc, char **argv)
{
	if (argc < 4)
		die("usage: sys_clocks rate|slept|stood|day NUMBER FILE...\n", NULL);
	for (int i = 3; i < argc; i++) {
		struct host_clocks *clocks = clocks_open(argv[i]);

		atomic_fetch_add(&clocks->sequence, 1);
		atomic_thread_fence(memory_order_release);
		state_change(&clocks->state, argv[1], atoll(argv[2]));
		atomic_fetch_add_explicit(&clocks->sequence, 1, memory_order_release);
	}
	return EXIT_SUCCESS;
}
