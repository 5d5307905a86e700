/* SPDX-License-Identifier: MIT */
/* From /proc/self/smaps, whose VmFlags have "dd" for MADV_DONTDUMP. */
#include "tests/support/dumped.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Writes the flags of the mapping; false: there is none. */
static bool find(const void *address, char *flags, size_t bytes)
{
	uintptr_t at = (uintptr_t)address, from, to;
	FILE *in = fopen("/proc/self/smaps", "re");
	bool inside = false, found = false;

	assert_non_null(in);
	while (!found && fgets(flags, (int)bytes, in)) {
		if (sscanf(flags, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
			inside = at >= from && at < to;
		else
			found = inside && !strncmp(flags, "VmFlags:", 8);
	}
	fclose(in);
	return found;
}

bool is_dumped(const void *address)
{
	char flags[512];

	assert_true(find(address, flags, sizeof(flags)));
	return !strstr(flags, " dd");
}

bool is_mapped(const void *address)
{
	char flags[512];

	return find(address, flags, sizeof(flags));
}
