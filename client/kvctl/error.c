/* SPDX-License-Identifier: MIT */
/* Prints errors: see error.h. */
#include "client/kvctl/error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/util/text.h"

static uint64_t line_now, line_errors;

void report_line(uint64_t line)
{
	line_now = line;
}

uint64_t report_line_now(void)
{
	return line_now;
}

/* The text has words of the command line, which the terminal must not obey. */
__attribute__((format(printf, 1, 0))) static void print_shown(const char *format, va_list list)
{
	char *text = NULL;
	int len = vasprintf(&text, format, list);

	if (len < 0) {
		fputs("out of memory\n", stderr);
		return;
	}
	text_mask(text, (size_t)len);
	fprintf(stderr, "%s\n", text);
	free(text);
}

void report_about(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	print_shown(format, list);
	va_end(list);
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
	print_shown(format, list);
	va_end(list);
}
