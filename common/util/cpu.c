/* SPDX-License-Identifier: MIT */
/* Reads the affinity mask of the process. */
#include "common/util/cpu.h"

#include <sched.h>

/* CPU 0 alone if the mask can't be read. */
static void affinity_read(cpu_set_t *set)
{
	CPU_ZERO(set);
	if (sched_getaffinity(0, sizeof(*set), set))
		CPU_SET(0, set);
}

unsigned int cpu_count(void)
{
	cpu_set_t set;

	affinity_read(&set);
	return (unsigned int)CPU_COUNT(&set);
}

int cpu_number(unsigned int n)
{
	cpu_set_t set;
	int cpu;

	affinity_read(&set);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set) && !n--)
			return cpu;
	return -1;
}
