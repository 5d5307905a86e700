/* SPDX-License-Identifier: MIT */
/*
 * Parses traces: see trace.h.
 */
#include "bench/kvtrace/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "common/util/parse.h"

/* A field of a line, not terminated. */
struct field {
	const char *text;
	size_t len;
};

static int __attribute__((format(printf, 2, 3))) bad_line(struct trace *trace, const char *why, ...)
{
	va_list args;
	int len;

	len = snprintf(trace->error, sizeof(trace->error), "%s:%" PRIu64 ": ", trace->name,
		       trace->line);
	if (len < 0 || (size_t)len >= sizeof(trace->error))
		return -EINVAL;
	va_start(args, why);
	vsnprintf(trace->error + len, sizeof(trace->error) - (size_t)len, why, args);
	va_end(args);
	return -EINVAL;
}

int trace_open(struct trace *trace, const char *path, const struct trace_format *format)
{
	trace->format = *format;
	trace->line = 0;
	trace->cut = 0;
	trace->error[0] = '\0';
	trace->name = strcmp(path, "-") ? path : "standard input";
	trace->file = strcmp(path, "-") ? fopen(path, "re") : stdin;
	if (trace->file)
		return 0;
	snprintf(trace->error, sizeof(trace->error), "%s: %s", path, strerror(errno));
	return -errno;
}

void trace_close(struct trace *trace)
{
	if (trace->file && trace->file != stdin)
		fclose(trace->file);
	trace->file = NULL;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Finds field number @column, from 1. False: the line has fewer. */
static bool find_field(const char *text, uint32_t column, struct field *field)
{
	for (;;) {
		text += strspn(text, " \t");
		field->text = text;
		field->len = strcspn(text, " \t,");
		text += field->len;
		if (!--column)
			return field->len > 0;
		text += strspn(text, " \t");
		if (*text == ',')
			text++;
		else if (!*text)
			return false;
	}
}

/* -EINVAL: not a decimal number below 2^64. */
static int field_number(const struct field *field, uint64_t *number)
{
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < field->len; i++) {
		const unsigned int digit = (unsigned int)(field->text[i] - '0');

		if (digit > 9 || n > (UINT64_MAX - digit) / 10)
			return -EINVAL;
		n = n * 10 + digit;
	}
	*number = n;
	return field->len ? 0 : -EINVAL;
}

/* FNV-1a. With 100 million keys the chance that any two share a number is 1 in 3,700. */
static uint64_t field_hash(const struct field *field)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	size_t i;

	for (i = 0; i < field->len; i++)
		hash = (hash ^ (uint8_t)field->text[i]) * UINT64_C(1099511628211);
	return hash;
}

static int parse_access(struct trace *trace, struct trace_access *access)
{
	const struct trace_format *format = &trace->format;
	struct field field;
	uint64_t size;

	if (!find_field(trace->text, format->key_column, &field))
		return bad_line(trace, "no key in column %u", format->key_column);
	if (format->text_keys)
		access->key = field_hash(&field);
	else if (field_number(&field, &access->key))
		return bad_line(trace, "'%.*s' is no key: give a number below 2^64", (int)field.len,
				field.text);
	access->size = format->size_default;
	if (!find_field(trace->text, format->size_column, &field))
		return 1;
	if (field_number(&field, &size))
		return bad_line(trace, "'%.*s' is no size in bytes", (int)field.len, field.text);
	if (size > TRACE_SIZE_MAX) {
		size = TRACE_SIZE_MAX;
		trace->cut++;
	}
	access->size = (uint32_t)size;
	return 1;
}

int trace_next(struct trace *trace, struct trace_access *access)
{
	size_t len, bom;

	while (fgets(trace->text, sizeof(trace->text), trace->file)) {
		trace->line++;
		len = strlen(trace->text);
		bom = trace->line == 1 ? bom_length(trace->text, len) : 0;
		len -= bom;
		memmove(trace->text, trace->text + bom, len + 1);
		if (len == sizeof(trace->text) - 1 && trace->text[len - 1] != '\n')
			return bad_line(trace, "longer than %u bytes", TRACE_LINE_MAX - 2);
		while (len && (trace->text[len - 1] == '\n' || trace->text[len - 1] == '\r' ||
			       is_blank(trace->text[len - 1])))
			trace->text[--len] = '\0';
		if (len && trace->text[0] != '#')
			return parse_access(trace, access);
	}
	if (!ferror(trace->file))
		return 0;
	bad_line(trace, "%s", strerror(errno));
	return -EIO;
}
