/* SPDX-License-Identifier: MIT */
#include "tests/support/users_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define OPTION "users.file="

void users_file_write(const char *path, const char *text, mode_t mode)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, mode), 0);
}

void users_option_begin(char option[USERS_OPTION_BYTES], const char *text)
{
	char *path = option + strlen(OPTION);
	int fd;

	strcpy(option, OPTION "/tmp/kvd-users-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	users_file_write(path, text, 0600);
}

void users_option_end(const char *option)
{
	unlink(option + strlen(OPTION));
}
