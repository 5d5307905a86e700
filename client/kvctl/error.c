/* SPDX-License-Identifier: MIT */
/* Prints errors: see error.h. */
#include "client/kvctl/error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static uint64_t line_now, line_errors;

void report_line(uint64_t line)
{
	line_now = line;
}

uint64_t report_line_now(void)
{
	return line_now;
}

void report_error(const char *format, ...)
{
	va_list list;

	if (line_now && ++line_errors > LINE_ERRORS_SHOWN) {
		if (line_errors == LINE_ERRORS_SHOWN + 1)
			fputs("kvctl: more lines fail; their errors are not printed\n", stderr);
		return;
	}
	fputs("kvctl: ", stderr);
	if (line_now)
		fprintf(stderr, "line %" PRIu64 ": ", line_now);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
}
