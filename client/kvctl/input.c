/* SPDX-License-Identifier: MIT */
/* Takes values: see input.h. */
#include "client/kvctl/input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"

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

int value_take(struct value *value, const struct arguments *arguments, int at)
{
	const char *word = arguments->word_count > at ? arguments->words[at] : "-";

	*value = (struct value){ .bytes = (const uint8_t *)word };
	if (strcmp(word, "-")) {
		value->len = strlen(word);
		return EX_OK;
	}
	if (arguments->input_is_script)
		return usage_error(word, "the standard input is the script: give a value");
	return value_read(value, stdin, "the standard input");
}

void value_release(struct value *value)
{
	free(value->read);
	value->read = NULL;
}
