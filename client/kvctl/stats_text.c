/* SPDX-License-Identifier: MIT */
/* Reads the texts of a server: see stats_text.h. */
#include "client/kvctl/stats_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX 20 /* of 64 bits */

bool stats_line_next(const char **at, struct stats_line *line)
{
	size_t len;

	if (!**at)
		return false;
	len = strcspn(*at, "\n");
	line->name = *at;
	line->name_len = strcspn(*at, " \n");
	line->value = *at + line->name_len + (line->name_len < len);
	line->value_len = (size_t)(*at + len - line->value);
	*at += len + ((*at)[len] == '\n');
	return true;
}

bool stats_line_number(const struct stats_line *line, uint64_t *number)
{
	char *end;

	if (!line->value_len || line->value_len > DIGITS_MAX || *line->value < '0' ||
	    *line->value > '9')
		return false;
	errno = 0;
	*number = strtoull(line->value, &end, 10);
	return !errno && end == line->value + line->value_len;
}

bool stats_find(const char *text, const char *name, size_t name_len, struct stats_line *line)
{
	while (stats_line_next(&text, line))
		if (line->name_len == name_len && !memcmp(line->name, name, name_len))
			return true;
	return false;
}

uint64_t stats_number(const char *text, const char *name)
{
	struct stats_line line;
	uint64_t number;

	if (!stats_find(text, name, strlen(name), &line) || !stats_line_number(&line, &number))
		return 0;
	return number;
}

const char *field_find(const char *line, const char *name, size_t *len)
{
	const size_t name_len = strlen(name);

	for (;;) {
		line += strspn(line, " ");
		if (!*line || *line == '\n')
			return NULL;
		if (!strncmp(line, name, name_len) && line[name_len] == '=') {
			*len = strcspn(line + name_len + 1, " \n");
			return line + name_len + 1;
		}
		line += strcspn(line, " \n");
	}
}

uint64_t field_number(const char *line, const char *name)
{
	size_t len;
	const char *value = field_find(line, name, &len);

	return value ? strtoull(value, NULL, 10) : 0;
}
