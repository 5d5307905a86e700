/* SPDX-License-Identifier: MIT */
/* What is printed, kept: see captured.h. */
#include "tests/support/captured.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static FILE *from;
static int before = -1, kept = -1;
static char text[65536];

void captured_begin(FILE *stream)
{
	from = stream;
	fflush(from);
	before = dup(fileno(from));
	kept = memfd_create("captured", MFD_CLOEXEC);
	assert_true(before >= 0 && kept >= 0 && dup2(kept, fileno(from)) >= 0);
}

const char *captured_end(void)
{
	ssize_t len;

	fflush(from);
	assert_true(dup2(before, fileno(from)) >= 0);
	len = pread(kept, text, sizeof(text) - 1, 0);
	assert_true(len >= 0);
	text[len] = '\0';
	close(kept);
	close(before);
	return text;
}
