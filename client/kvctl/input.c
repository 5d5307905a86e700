/* SPDX-License-Identifier: MIT */
/* Reads values: see input.h. */
#include "client/kvctl/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/error.h"
#include "client/kvctl/interrupt.h"
#include "client/kvctl/key.h"
#include "client/kvctl/words.h"

#define READ_BYTES_FIRST 65536u

/*
 * Reads to the end, or @max bytes. A read of 0 bytes is the end, on a terminal as well, where
 * stdio would read again. 0, or an errno.
 */
static int read_all(struct value *value, int fd, size_t max)
{
	size_t size = 0;
	uint8_t *grown;
	ssize_t n = 1;

	while (n && value->len < max) {
		if (value->len == size) {
			size = size ? 2 * size : READ_BYTES_FIRST;
			grown = realloc(value->read, size);
			if (!grown)
				return ENOMEM;
			value->bytes = value->read = grown;
		}
		n = read(fd, value->read + value->len,
			 max < size ? max - value->len : size - value->len);
		if (n < 0 && (errno != EINTR || interrupted()))
			return errno;
		value->len += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int value_read(struct value *value, int fd, const char *name, size_t max)
{
	const int err = read_all(value, fd, max);

	if (!err)
		return EX_OK;
	value_release(value);
	if (err == ENOMEM) {
		report_error("no memory for the value");
		return EX_OSERR;
	}
	report_error("can't read the value from %s: %s", name, strerror(err));
	return EX_IOERR;
}

static int value_read_file(struct value *value, const char *name, size_t max)
{
	const int fd = open(name, O_RDONLY | O_CLOEXEC);
	int code;

	if (fd < 0) {
		report_error("can't open %s: %m", name);
		return EX_IOERR;
	}
	code = value_read(value, fd, name, max);
	close(fd);
	return code;
}

/* One byte more than the server's longest value, so that libkvd refuses a longer input. */
static size_t read_max(const struct kvd *db, const struct arguments *arguments)
{
	struct kvd_info info;

	kvd_info(db, &info);
	return (info.value_max + 1) * (arguments->hex_values.given ? 2 : 1);
}

/* Decodes hexadecimal digits; a newline may follow the digits of a file. */
static int value_unhex(struct value *value)
{
	const size_t digits = value->len -
			      (value->read && value->len && value->bytes[value->len - 1] == '\n');
	uint8_t *bytes = malloc(digits / 2 + 1);
	bool good;

	if (!bytes) {
		value_release(value);
		report_error("no memory for the value");
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

static int value_find(struct value *value, const struct kvd *db, const struct arguments *arguments,
		      int at)
{
	const char *word = arguments->word_count > at ? arguments->words[at] : "-";

	*value = (struct value){ .bytes = (const uint8_t *)word };
	if (arguments->file.given)
		return arguments->word_count > at ?
			       usage_error(word, "a value, and --file: give one of them") :
			       value_read_file(value, arguments->file.text,
					       read_max(db, arguments));
	if (strcmp(word, "-") || word_is_quoted(arguments->line, word)) {
		value->len = word_len(arguments->line, word);
		return EX_OK;
	}
	if (arguments->input_is_script)
		return usage_error(word, "the standard input is the script: give a value");
	return value_read(value, STDIN_FILENO, "the standard input", read_max(db, arguments));
}

int value_take(struct value *value, const struct kvd *db, const struct arguments *arguments, int at)
{
	const int code = value_find(value, db, arguments, at);

	return code || !arguments->hex_values.given ? code : value_unhex(value);
}

void value_release(struct value *value)
{
	free(value->read);
	value->read = NULL;
}
