/* SPDX-License-Identifier: MIT */
/* Prints errors: see error.h. */
#include "client/kvctl/error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/util/text.h"

static uint64_t line_now, line_errors;
static const char *member_now;

void report_member(const char *id)
{
	member_now = id;
}

const char *report_member_now(void)
{
	return member_now;
}

void report_line(uint64_t line)
{
	line_now = line;
}

uint64_t report_line_now(void)
{
	return line_now;
}

/* Errors quote the command line; the terminal must not obey escape sequences in it. */
__attribute__((format(printf, 3, 0))) static void print_masked(FILE *out, const char *before,
							       const char *format, va_list list)
{
	char *text = NULL;
	int len = vasprintf(&text, format, list);

	if (len < 0) {
		fputs("kvctl: out of memory\n", stderr);
		return;
	}
	text_mask(text, (size_t)len);
	fprintf(out, "%s%s\n", before, text);
	free(text);
}

void report_result(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	print_masked(stdout, "", format, list);
	va_end(list);
}

void report_about(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	print_masked(stderr, "", format, list);
	va_end(list);
}

void report_error(const char *format, ...)
{
	char before[96] = "kvctl: ";
	va_list list;
	int used = 7;

	if (line_now && ++line_errors > LINE_ERRORS_SHOWN) {
		if (line_errors == LINE_ERRORS_SHOWN + 1)
			fputs("kvctl: more lines fail; their errors are not printed\n", stderr);
		return;
	}
	if (line_now)
		used = snprintf(before, sizeof(before), "kvctl: line %" PRIu64 ": ", line_now);
	if (member_now)
		snprintf(before + used, sizeof(before) - (size_t)used, "%s: ", member_now);
	va_start(list, format);
	print_masked(stderr, before, format, list);
	va_end(list);
}
