/* SPDX-License-Identifier: MIT */
/* kvctl slowlog: what a server's workers have executed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/json.h"
#include "client/kvctl/report.h"

#define SLOWLOG_BYTES (128u << 10)

/* Prints @len bytes at @line, which end in a newline. */
static void line_print(const struct arguments *arguments, const char *line, size_t len)
{
	if (arguments->json.given)
		json_pairs(line, len);
	else
		fwrite(line, 1, len, stdout);
}

/* The newest line first, and at most @count of them. */
static void slowlog_print(const struct arguments *arguments, const char *text, uint64_t count)
{
	const char *end = text + strlen(text), *line;

	for (; count && end > text; count--, end = line) {
		line = end - 1;
		while (line > text && line[-1] != '\n')
			line--;
		line_print(arguments, line, (size_t)(end - line));
	}
}

static int slowlog(struct kvd *db, const struct arguments *arguments)
{
	char *text = malloc(SLOWLOG_BYTES);
	enum kvd_status status;

	if (!text)
		return report_memory();
	status = kvd_server_report(db, KVD_REPORT_SLOW, text, SLOWLOG_BYTES, NULL);
	if (!status)
		slowlog_print(arguments, text,
			      arguments->count.given ? arguments->count.number : UINT64_MAX);
	free(text);
	return report(db, status);
}

int command_slowlog(struct kvd *db, const struct arguments *arguments)
{
	char none[2];

	if (!arguments->word_count)
		return slowlog(db, arguments);
	if (strcmp(arguments->words[0], "reset") != 0)
		return usage_error(arguments->words[0], "nothing, or reset");
	return report_change(db, arguments,
			     kvd_server_report(db, KVD_REPORT_RESET, none, sizeof(none), NULL));
}
