/* SPDX-License-Identifier: MIT */
/* The log fixture of tests. */
#include "tests/support/log_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/log.h"

char test_log_dir[] = "/tmp/kvd-test-logged-XXXXXX";
char test_log_path[64];

int test_log_group_setup(void **state)
{
	(void)state;
	if (!mkdtemp(test_log_dir))
		return -1;
	snprintf(test_log_path, sizeof(test_log_path), "%s/log", test_log_dir);
	return 0;
}

int test_log_group_teardown(void **state)
{
	(void)state;
	unlink(test_log_path);
	return rmdir(test_log_dir);
}

int test_log_begin(void)
{
	unlink(test_log_path);
	return log_init(LOG_NOTICE, test_log_path);
}

const char *test_log_text(void)
{
	static char text[8192];
	FILE *in = fopen(test_log_path, "re");

	assert_non_null(in);
	text[fread(text, 1, sizeof(text) - 1, in)] = '\0';
	fclose(in);
	return text;
}

unsigned int test_log_lines(void)
{
	unsigned int lines = 0;

	for (const char *at = test_log_text(); *at; at++)
		lines += *at == '\n';
	return lines;
}

void assert_logged(const char *text)
{
	const char *logged = test_log_text();

	if (!strstr(logged, text))
		fail_msg("not in the log: '%s'; it says: %s", text, logged);
}
