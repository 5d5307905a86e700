/* SPDX-License-Identifier: MIT */
/*
 * Test vectors: finds the numbers, tables and blocks of bytes in the protocol documents, and fails
 * the test where they are missing or differ.
 */
#include "tests/support/vectors.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DOCUMENTS_MAX 4
#define DOCUMENT_BYTES_MAX (1u << 20)

static char *documents[DOCUMENTS_MAX];
static unsigned int documents_count;

void documents_load(const char *const *paths, unsigned int count)
{
	assert_true(count <= DOCUMENTS_MAX);
	for (documents_count = 0; documents_count < count; documents_count++) {
		char *text = calloc(1, DOCUMENT_BYTES_MAX);
		FILE *in = fopen(paths[documents_count], "re");
		size_t got;

		if (!in || !text)
			fail_msg("%s can't be read: run this in the tree's root",
				 paths[documents_count]);
		got = fread(text, 1, DOCUMENT_BYTES_MAX - 1, in);
		fclose(in);
		assert_in_range(got, 1, DOCUMENT_BYTES_MAX - 2);
		documents[documents_count] = text;
	}
}

void documents_free(void)
{
	while (documents_count)
		free(documents[--documents_count]);
}

static const char *line_next(const char *line)
{
	const char *end = strchr(line, '\n');

	if (!end)
		fail_msg("a block or a table has no end");
	return end + 1;
}

static bool line_is_fence(const char *line)
{
	return !strncmp(line, "```", 3);
}

/* Returns the text after @what, which must be in the documents exactly once. */
static const char *text_after(const char *what)
{
	const char *found = NULL, *at;
	unsigned int i;

	for (i = 0; i < documents_count; i++)
		for (at = documents[i]; (at = strstr(at, what)); found = at) {
			if (found)
				fail_msg("the documents have more than once: %s", what);
			at += strlen(what);
		}
	if (!found)
		fail_msg("the documents don't have: %s", what);
	return found;
}

static const char *block_text(const char *name)
{
	char fence[64];

	assert_true(snprintf(fence, sizeof(fence), "\n```vector %s\n", name) < (int)sizeof(fence));
	return text_after(fence);
}

static void bytes_add(struct vector *vector, const uint8_t *bytes, size_t len)
{
	assert_true(len <= sizeof(vector->bytes) - vector->len);
	memcpy(vector->bytes + vector->len, bytes, len);
	vector->len += len;
}

static const char *hex_pair(const char *at, uint8_t *byte)
{
	char pair[3] = { at[0], at[0] ? at[1] : '\0', '\0' };

	if (!isxdigit((unsigned char)pair[0]) || !isxdigit((unsigned char)pair[1]) ||
	    !isspace((unsigned char)at[2]))
		fail_msg("no pair of hex digits: %.20s", at);
	*byte = (uint8_t)strtoul(pair, NULL, 16);
	return at + 2;
}

/* "(NAME)": the bytes of another block. */
static void include_add(struct vector *vector, const char *at)
{
	struct vector other;
	char name[64];

	assert_int_equal(sscanf(at, "(%63[^)\n])", name), 1);
	vector_load(&other, name);
	bytes_add(vector, other.bytes, other.len);
}

static void line_add(struct vector *vector, const char *at)
{
	const char *end = at + strcspn(at, "#\n");
	unsigned int repeat;
	uint8_t byte;

	if (*at == '(') {
		include_add(vector, at);
		return;
	}
	if (memchr(at, '=', (size_t)(end - at)))
		return;
	if (sscanf(at, "%2hhx x %u", &byte, &repeat) == 2) {
		assert_true(repeat <= sizeof(vector->bytes) - vector->len);
		memset(vector->bytes + vector->len, byte, repeat);
		vector->len += repeat;
		return;
	}
	while (at < end) {
		at = hex_pair(at, &byte);
		bytes_add(vector, &byte, 1);
		at += strspn(at, " ");
	}
}

void vector_load(struct vector *vector, const char *name)
{
	const char *line;

	*vector = (struct vector){ .text = block_text(name) };
	for (line = vector->text; !line_is_fence(line); line = line_next(line))
		line_add(vector, line);
}

static uint64_t number_parse(const char *at, const char **end)
{
	uint64_t number;
	char *after;

	number = strtoull(at, &after, 0);
	if (after == at || !isspace((unsigned char)*after))
		fail_msg("no number: %.30s", at);
	*end = after;
	return number;
}

uint64_t vector_number(const struct vector *vector, const char *name)
{
	const char *line = vector->text;
	size_t len = strlen(name);

	for (; !line_is_fence(line); line = line_next(line))
		if (!strncmp(line, name, len) && !strncmp(line + len, " = ", 3))
			return number_parse(line + len + 3, &line);
	fail_msg("a vector has no %s", name);
	return 0;
}

unsigned int vector_numbers(const char *name, uint64_t *to, unsigned int max)
{
	const char *line = block_text(name), *at;
	unsigned int count = 0;

	for (; !line_is_fence(line); line = line_next(line))
		for (at = line; *at != '#' && *at != '\n'; at += strspn(at, " ")) {
			assert_true(count < max);
			to[count++] = number_parse(at, &at);
		}
	return count;
}

/* Returns the text of the next block of numbers from @at on, or NULL. */
static const char *numbers_next(const char *at)
{
	static const char fence[] = "\n```numbers\n";

	at = strstr(at, fence);
	return at ? at + sizeof(fence) - 1 : NULL;
}

/*
 * Counts the lines of all blocks of numbers, or only those of @name. With @value, each of them must
 * have the number *@value.
 */
static unsigned int numbers_match(const char *name, const uint64_t *value)
{
	size_t len = name ? strlen(name) : 0;
	unsigned int i, count = 0;
	const char *line, *end;

	for (i = 0; i < documents_count; i++)
		for (line = documents[i]; (line = numbers_next(line));)
			for (; !line_is_fence(line); line = line_next(line)) {
				if (name && (strncmp(line, name, len) || line[len] != ' '))
					continue;
				count++;
				if (value && number_parse(line + len + strspn(line + len, " "),
							  &end) != *value)
					fail_msg("the code has another number: %.60s", line);
			}
	return count;
}

void assert_number(const char *name, uint64_t value)
{
	if (numbers_match(name, &value) != 1)
		fail_msg("%s is not in the documents exactly once", name);
}

unsigned int numbers_count(void)
{
	return numbers_match(NULL, NULL);
}

/* Returns the first row of the first table after @anchor, which follows the line "|---|". */
static const char *table_begin(const char *anchor)
{
	const char *line = text_after(anchor);

	while (strncmp(line, "|---", 4))
		line = line_next(line);
	return line_next(line);
}

static void assert_row(const char *line, const char *row)
{
	if (strncmp(line, row, strlen(row)))
		fail_msg("the document says\n  %.*s\ninstead of\n  %s", (int)strcspn(line, "\n"),
			 line, row);
}

static void assert_table_ends(const char *line)
{
	if (*line == '|')
		fail_msg("a row too many: %.*s", (int)strcspn(line, "\n"), line);
}

void assert_fields(const char *anchor, const struct field *fields, unsigned int count, size_t bytes)
{
	const char *line = table_begin(anchor);
	size_t at = 0;
	unsigned int i;
	char row[128];

	for (i = 0; i < count; i++, line = line_next(line)) {
		assert_int_equal(fields[i].offset, at);
		at += fields[i].bytes;
		snprintf(row, sizeof(row), "| %zu | %zu | %s |", fields[i].offset, fields[i].bytes,
			 fields[i].name);
		assert_row(line, row);
	}
	assert_int_equal(at, bytes);
	assert_table_ends(line);
}

void assert_rows(const char *anchor, const struct named *rows, unsigned int count)
{
	const char *line = table_begin(anchor);
	unsigned int i;
	char row[128];

	for (i = 0; i < count; i++, line = line_next(line)) {
		snprintf(row, sizeof(row), "| %u | %s |", rows[i].number, rows[i].name);
		assert_row(line, row);
	}
	assert_table_ends(line);
}
