/* SPDX-License-Identifier: MIT */
/* Takes values: see input.h. */
#include "client/kvctl/input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/key.h"
#include "client/kvctl/words.h"

#define READ_BYTES_FIRST 65536u

/* Reads @file to its end, or until it is longer than any value. NULL: no memory. */
static uint8_t *read_all(FILE *file, size_t *len)
{
	size_t size = READ_BYTES_FIRST, n;
	uint8_t *bytes = malloc(size), *grown;

	*len = 0;
	while (bytes && (n = fread(bytes + *len, 1, size - *len, file)) > 0) {
		*len += n;
		if (*len < size)
			continue;
		size *= 2;
		if (size > 2ull * KVD_VALUE_MAX)
			break;
		grown = realloc(bytes, size);
		if (!grown)
			free(bytes);
		bytes = grown;
	}
	return bytes;
}

static int value_read(struct value *value, FILE *file, const char *name)
{
	value->bytes = value->read = read_all(file, &value->len);
	if (!value->read) {
		fputs("kvctl: no memory for the value\n", stderr);
		return EX_OSERR;
	}
	if (!ferror(file))
		return EX_OK;
	fprintf(stderr, "kvctl: can't read the value from %s: %m\n", name);
	clearerr(file);
	value_release(value);
	return EX_IOERR;
}

static int value_read_file(struct value *value, const char *name)
{
	FILE *file = fopen(name, "re");
	int code;

	if (!file) {
		fprintf(stderr, "kvctl: can't open %s: %m\n", name);
		return EX_IOERR;
	}
	code = value_read(value, file, name);
	fclose(file);
	return code;
}

/* The bytes of its hexadecimal digits; those of a file may end with a newline. */
static int value_unhex(struct value *value)
{
	const size_t digits = value->len -
			      (value->read && value->len && value->bytes[value->len - 1] == '\n');
	uint8_t *bytes = malloc(digits / 2 + 1);
	bool good;

	if (!bytes) {
		value_release(value);
		fputs("kvctl: no memory for the value\n", stderr);
		return EX_OSERR;
	}
	good = digits % 2 == 0 && hex_parse(bytes, (const char *)value->bytes, digits);
	value_release(value);
	*value = (struct value){ .bytes = bytes, .len = digits / 2, .read = bytes };
	if (good)
		return EX_OK;
	value_release(value);
	return usage_error("--hex-values", "the value is not hexadecimal");
}

static int value_find(struct value *value, const struct arguments *arguments, int at)
{
	const char *word = arguments->word_count > at ? arguments->words[at] : "-";

	*value = (struct value){ .bytes = (const uint8_t *)word };
	if (arguments->file.given)
		return arguments->word_count > at ?
			       usage_error(word, "a value, and --file: give one of them") :
			       value_read_file(value, arguments->file.text);
	if (strcmp(word, "-") || word_is_quoted(arguments->line, word)) {
		value->len = word_len(arguments->line, word);
		return EX_OK;
	}
	if (arguments->input_is_script)
		return usage_error(word, "the standard input is the script: give a value");
	return value_read(value, stdin, "the standard input");
}

int value_take(struct value *value, const struct arguments *arguments, int at)
{
	const int code = value_find(value, arguments, at);

	return code || !arguments->hex_values.given ? code : value_unhex(value);
}

void value_release(struct value *value)
{
	free(value->read);
	value->read = NULL;
}
