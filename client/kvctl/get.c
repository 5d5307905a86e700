/* SPDX-License-Identifier: MIT */
/* kvctl get and gat: values of keys. Several keys are read one after another. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/error.h"
#include "client/kvctl/json.h"
#include "client/kvctl/key.h"
#include "client/kvctl/report.h"

#define READ_BYTES_FIRST 65536u

/* How the value of a key is read. */
struct get {
	const struct arguments *arguments;
	const char *word; /* of the key, if there are others; else "" */
	struct key key;
	bool touch;
	uint32_t ttl_s;
	uint64_t offset, length; /* with --range */
};

static enum kvd_status get_once(struct kvd *db, const struct get *get, uint8_t *value, size_t size,
				struct kvd_item *item)
{
	const struct key *key = &get->key;

	if (get->touch)
		return kvd_get_and_touch(db, key->bytes, key->len, get->ttl_s, value, size, item);
	if (get->arguments->range.given)
		return kvd_get_range(db, key->bytes, key->len, get->offset, value, size, item);
	if (get->arguments->request.given)
		return kvd_get_by_request(db, key->bytes, key->len, value, size, item);
	return kvd_get(db, key->bytes, key->len, value, size, item);
}

static void print_item(const struct get *get, const struct kvd_item *item)
{
	report_about("%s%slength %zu version %llu flags %u expires %u", get->word,
		     *get->word ? ": " : "", item->value_len, (unsigned long long)item->version,
		     item->flags, item->expires_s);
}

/* The bytes of the value that were read. */
static size_t bytes_read(const struct get *get, const struct kvd_item *item)
{
	size_t left = get->offset < item->value_len ? item->value_len - get->offset : 0;

	return get->arguments->range.given && get->length < left ? get->length : left;
}

/* @value: NULL if there is none. */
static void print_json(const struct get *get, const uint8_t *value, const struct kvd_item *item)
{
	struct json json;

	json_begin(&json, stdout);
	json_open(&json, NULL, '{');
	key_json(&json, get->arguments, get->key.bytes, get->key.len);
	if (value) {
		value_json(&json, get->arguments, value, bytes_read(get, item));
		json_number(&json, "version", item->version);
		json_number(&json, "flags", item->flags);
		json_number(&json, "expires", item->expires_s);
	} else {
		json_null(&json, "value");
	}
	json_close(&json, '}');
	json_end(&json);
}

/*
 * A single value is printed as its bytes alone, so that it can go to a file; in a script a newline
 * separates it from the next command's output.
 */
static void print_value(const struct get *get, const uint8_t *value, const struct kvd_item *item)
{
	const struct arguments *arguments = get->arguments;
	const bool ends_line = isatty(STDOUT_FILENO) || arguments->input_is_script;
	const bool show = *get->word && !arguments->null.given && isatty(STDOUT_FILENO);

	if (*get->word) {
		(show ? key_show : key_print)(stdout, arguments, get->key.bytes, get->key.len);
		putchar('\t');
	}
	(show ? value_show : value_print)(stdout, arguments, value, bytes_read(get, item));
	if (arguments->null.given)
		putchar('\0');
	else if (*get->word || (ends_line && !arguments->no_newline.given))
		putchar('\n');
}

/* If the buffer is too small for the value, the call returns its length. */
static int get_run(struct kvd *db, const struct get *get)
{
	size_t size = get->arguments->range.given ? get->length : READ_BYTES_FIRST;
	enum kvd_status status;
	struct kvd_item item;
	uint8_t *value = NULL, *grown;
	int code;

	for (;;) {
		grown = realloc(value, size ? size : 1);
		if (!grown) {
			free(value);
			report_error("no memory for a value of %zu bytes", size);
			return EX_OSERR;
		}
		value = grown;
		status = get_once(db, get, value, size, &item);
		if (status != KVD_ERR_BUFFER)
			break;
		size = item.value_len;
	}
	code = report_of(db, get->word, status);
	if (get->arguments->json.given && (!code || code == EXIT_NOT_FOUND))
		print_json(get, code ? NULL : value, &item);
	else if (!code)
		print_value(get, value, &item);
	if (!code)
		code = output_flush();
	if (!code && get->arguments->verbose.given)
		print_item(get, &item);
	free(value);
	return code;
}

/* OFFSET:LENGTH. */
static int range_parse(struct get *get)
{
	const struct arguments *arguments = get->arguments;
	const char *text = arguments->range.text;
	char *end;

	if (!arguments->range.given)
		return EX_OK;
	if (arguments->request.given)
		return usage_error("--request", "not with --range");
	errno = 0;
	get->offset = strtoull(text, &end, 10);
	if (*text >= '0' && *text <= '9' && *end == ':' && end[1] >= '0' && end[1] <= '9') {
		get->length = strtoull(end + 1, &end, 10);
		if (!*end && !errno && get->length <= KVD_VALUE_MAX)
			return EX_OK;
	}
	return usage_error(text, "not OFFSET:LENGTH: two numbers of bytes such as 1000000:4096, "
				 "LENGTH at most 1 GiB");
}

int command_get(struct kvd *db, const struct arguments *arguments)
{
	struct get get = { .arguments = arguments, .word = "" };
	int code = range_parse(&get), one;

	if (code)
		return code;
	/* If one of the words is no key, nothing is printed. */
	for (int i = 0; i < arguments->word_count; i++)
		if (key_parse(&get.key, arguments, arguments->words[i]))
			return EX_USAGE;
	for (int i = 0; i < arguments->word_count; i++) {
		if (arguments->word_count > 1)
			get.word = arguments->words[i];
		key_parse(&get.key, arguments, arguments->words[i]);
		one = get_run(db, &get);
		if (one && one != EXIT_NOT_FOUND)
			return one;
		code = code ? code : one;
	}
	return code;
}

int command_gat(struct kvd *db, const struct arguments *arguments)
{
	struct get get = { .arguments = arguments, .word = "", .touch = true };

	if (key_parse(&get.key, arguments, arguments->words[0]) ||
	    parse_ttl(arguments->words[1], &get.ttl_s))
		return EX_USAGE;
	return get_run(db, &get);
}
