/* SPDX-License-Identifier: MIT */
/* kvctl get and gat: values of keys. */
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/key.h"
#include "client/kvctl/report.h"

#define READ_BYTES_FIRST 65536u

static void print_item(const struct kvd_item *item)
{
	fprintf(stderr, "length %zu version %llu flags %u expires %u\n", item->value_len,
		(unsigned long long)item->version, item->flags, item->expires_s);
}

/* How the value of a key is read. */
struct get {
	const struct arguments *arguments;
	struct key key;
	bool touch;
	uint32_t ttl_s;
};

static enum kvd_status get_once(struct kvd *db, const struct get *get, uint8_t *value, size_t size,
				struct kvd_item *item)
{
	const struct key *key = &get->key;

	if (get->touch)
		return kvd_get_and_touch(db, key->bytes, key->len, get->ttl_s, value, size, item);
	if (get->arguments->request.given)
		return kvd_get_by_request(db, key->bytes, key->len, value, size, item);
	return kvd_get(db, key->bytes, key->len, value, size, item);
}

/* If the buffer is too small for the value, the call returns its length. */
static int get_run(struct kvd *db, const struct get *get)
{
	size_t size = READ_BYTES_FIRST;
	enum kvd_status status;
	struct kvd_item item;
	uint8_t *value = NULL, *grown;
	int code;

	for (;;) {
		grown = realloc(value, size);
		if (!grown) {
			free(value);
			fprintf(stderr, "kvctl: no memory for a value of %zu bytes\n", size);
			return EX_OSERR;
		}
		value = grown;
		status = get_once(db, get, value, size, &item);
		if (status != KVD_ERR_BUFFER)
			break;
		size = item.value_len;
	}
	code = report(db, status);
	if (!code) {
		fwrite(value, 1, item.value_len, stdout);
		if (isatty(STDOUT_FILENO))
			putchar('\n');
		code = output_flush();
	}
	if (!code && get->arguments->verbose.given)
		print_item(&item);
	free(value);
	return code;
}

int command_get(struct kvd *db, const struct arguments *arguments)
{
	struct get get = { .arguments = arguments };

	if (key_parse(&get.key, arguments, arguments->words[0]))
		return EX_USAGE;
	return get_run(db, &get);
}

int command_gat(struct kvd *db, const struct arguments *arguments)
{
	struct get get = { .arguments = arguments, .touch = true };

	if (key_parse(&get.key, arguments, arguments->words[0]) ||
	    parse_ttl(arguments->words[1], &get.ttl_s))
		return EX_USAGE;
	return get_run(db, &get);
}
