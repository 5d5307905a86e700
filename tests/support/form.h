/* SPDX-License-Identifier: MIT */
/* Whether tests run in their long form, that of `make check-long`. */
#ifndef KVD_TESTS_SUPPORT_FORM_H
#define KVD_TESTS_SUPPORT_FORM_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool long_form(void)
{
	const char *value = getenv("KVD_TEST_LONG");

	return value && strcmp(value, "1") == 0;
}

#endif
