/* SPDX-License-Identifier: MIT */
/*
 * Takes the host's memory until the kernel kills it, for tests/system/memory_pressure.sh; in the
 * test machine only. It is the first process that the kernel kills when there is no memory
 * (oom_score_adj).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Only the guest of tests/vm/run has it. */
#define TEST_MACHINE "/run/kvd-vm-command"
#define PIECE_BYTES (1u << 20)

static int fail(const char *what)
{
	printf("FAIL  %s: %s\n", what, strerror(errno));
	return EXIT_FAILURE;
}

static int die_first(void)
{
	FILE *file = fopen("/proc/self/oom_score_adj", "w");

	if (!file)
		return -1;
	fputs("1000\n", file);
	return fclose(file);
}

int main(void)
{
	if (access(TEST_MACHINE, F_OK))
		return fail(TEST_MACHINE);
	if (die_first())
		return fail("oom_score_adj");
	while (mmap(NULL, PIECE_BYTES, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) != MAP_FAILED)
		;
	return fail("mmap");
}
