/* SPDX-License-Identifier: MIT */
/* kvctl slowlog and monitor: what a server's workers have executed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/error.h"
#include "client/kvctl/glob.h"
#include "client/kvctl/interrupt.h"
#include "client/kvctl/json.h"
#include "client/kvctl/key.h"
#include "client/kvctl/report.h"

#define SLOWLOG_BYTES (128u << 10)
#define SAMPLE_BYTES (64u << 10)
#define PAUSE_NS 100000000l

/* Prints @len bytes at @line, which end in a newline. */
static void line_print(const struct arguments *arguments, const char *line, size_t len)
{
	if (arguments->json.given)
		json_pairs(line, len);
	else
		fwrite(line, 1, len, stdout);
}

/* The length of the line at @text, its newline included. */
static size_t line_len(const char *text)
{
	const size_t len = strcspn(text, "\n");

	return len + (text[len] == '\n');
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

struct monitor {
	const struct arguments *arguments;
	uint32_t every;
	uint64_t cursor;
	uint64_t left; /* operations that are still wanted */
	char text[SAMPLE_BYTES];
};

/* N or 1/N. */
static int every_parse(const struct arguments *arguments, uint32_t *every)
{
	const char *text = arguments->sample.text;
	uint64_t number = 1;

	if (arguments->sample.given &&
	    parse_number(text + (!strncmp(text, "1/", 2) ? 2 : 0), 1, UINT32_MAX, &number))
		return EX_USAGE;
	*every = (uint32_t)number;
	return EX_OK;
}

/* The text after " @name=" in the line, or NULL. */
static const char *line_value(const char *line, size_t len, const char *name)
{
	const size_t name_len = strlen(name);

	for (const char *at = line; at < line + len; at += strcspn(at, " \n") + 1)
		if (!strncmp(at, name, name_len) && at[name_len] == '=')
			return at + name_len + 1;
	return NULL;
}

/* Whether the line's key, which the server has escaped, matches --match. */
static bool line_matches(const struct monitor *monitor, const char *line, size_t len)
{
	const char *glob = monitor->arguments->match.text, *key = line_value(line, len, "key");
	uint8_t bytes[KVD_KEY_MAX];
	size_t count = 0;

	if (!glob)
		return true;
	if (!key)
		return false;
	for (; *key != ' ' && *key != '\n' && count < sizeof(bytes); count++) {
		if (*key != '%') {
			bytes[count] = (uint8_t)*key++;
			continue;
		}
		if (!hex_parse(&bytes[count], key + 1, 2))
			return false;
		key += 3;
	}
	return glob_matches((const uint8_t *)glob, strlen(glob), bytes, count);
}

static void lost_print(const struct arguments *arguments, uint64_t count)
{
	char line[32];

	line_print(arguments, line,
		   (size_t)snprintf(line, sizeof(line), "lost=%" PRIu64 "\n", count));
}

/* Prints what was answered to a request from @expected on, which is 0 in the first one. */
static void sample_print(struct monitor *monitor, uint64_t expected)
{
	const char *line = monitor->text, *value;
	uint64_t number;
	size_t len;

	for (; *line && monitor->left; line += len) {
		len = line_len(line);
		value = line_value(line, len, "number");
		number = value ? strtoull(value, NULL, 10) : expected;
		if (number > expected)
			lost_print(monitor->arguments, number - expected);
		expected = number + 1;
		if (!line_matches(monitor, line, len))
			continue;
		line_print(monitor->arguments, line, len);
		monitor->left--;
	}
}

static void pause_begin(void)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };

	nanosleep(&pause, NULL);
}

static int monitor_run(struct kvd *db, struct monitor *monitor)
{
	enum kvd_status status = KVD_OK;
	int code = EX_OK;

	while (!code && monitor->left && !interrupted()) {
		const uint64_t cursor = monitor->cursor;

		status = kvd_sample(db, monitor->every, &monitor->cursor, monitor->text,
				    sizeof(monitor->text), NULL);
		if (interrupted())
			break;
		code = report(db, status);
		if (code)
			break;
		sample_print(monitor, cursor);
		code = output_flush();
		if (!*monitor->text)
			pause_begin();
	}
	return code;
}

int command_monitor(struct kvd *db, const struct arguments *arguments)
{
	struct monitor *monitor;
	struct sigaction before;
	uint32_t every;
	int code = every_parse(arguments, &every);

	if (code)
		return code;
	monitor = calloc(1, sizeof(*monitor));
	if (!monitor)
		return report_memory();
	monitor->arguments = arguments;
	monitor->every = every;
	monitor->left = arguments->count.given ? arguments->count.number : UINT64_MAX;
	interrupt_clear();
	interrupt_catch(&before);
	code = monitor_run(db, monitor);
	interrupt_leave(&before);
	free(monitor);
	return code;
}
