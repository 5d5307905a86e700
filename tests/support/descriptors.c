/* SPDX-License-Identifier: MIT */
/* Counts the entries of /proc/self/fd. */
#include "tests/support/descriptors.h"

#include <dirent.h>
#include <stdlib.h>

unsigned int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	if (!dir)
		abort();
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}
