/* SPDX-License-Identifier: MIT */
/* kvctl exists and ttl: whether keys exist and when they expire, without reading values. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/json.h"
#include "client/kvctl/key.h"
#include "client/kvctl/report.h"

#define S_NS 1000000000ull

static void print_json(const struct arguments *arguments, const struct key *key,
		       const struct kvd_exists *result)
{
	struct json json;

	json_begin(&json, stdout);
	json_open(&json, NULL, '{');
	key_json(&json, arguments, key->bytes, key->len);
	json_bool(&json, "exists", !result->status);
	if (!result->status) {
		json_number(&json, "value_bytes", result->item.value_len);
		json_number(&json, "version", result->item.version);
		json_number(&json, "flags", result->item.flags);
		json_number(&json, "expires", result->item.expires_s);
	}
	json_close(&json, '}');
	json_end(&json);
}

/* Asks for all keys at once, so that they share round trips. */
struct lookup {
	struct key *keys;
	struct kvd_key *wanted;
	struct kvd_exists *results;
	size_t count;
};

static bool lookup_init(struct lookup *lookup, size_t count)
{
	*lookup = (struct lookup){
		.keys = calloc(count, sizeof(*lookup->keys)),
		.wanted = calloc(count, sizeof(*lookup->wanted)),
		.results = calloc(count, sizeof(*lookup->results)),
		.count = count,
	};
	return lookup->keys && lookup->wanted && lookup->results;
}

static void lookup_release(struct lookup *lookup)
{
	free(lookup->keys);
	free(lookup->wanted);
	free(lookup->results);
}

/* Why it is not known whether some key exists, or KVD_OK. */
static enum kvd_status lookup_unknown(const struct lookup *lookup)
{
	for (size_t i = 0; i < lookup->count; i++)
		if (lookup->results[i].status > KVD_NOT_FOUND)
			return lookup->results[i].status;
	return KVD_OK;
}

static int lookup_run(struct kvd *db, struct lookup *lookup, const struct arguments *arguments)
{
	enum kvd_status status;
	size_t present;

	for (size_t i = 0; i < lookup->count; i++) {
		if (key_parse(&lookup->keys[i], arguments, arguments->words[i]))
			return EX_USAGE;
		lookup->wanted[i] = (struct kvd_key){ lookup->keys[i].bytes, lookup->keys[i].len };
	}
	status = kvd_exists_many(db, lookup->wanted, lookup->count, lookup->results, &present);
	if (status)
		return report(db, status);
	status = lookup_unknown(lookup);
	for (size_t i = 0; arguments->json.given && i < lookup->count; i++)
		if (lookup->results[i].status <= KVD_NOT_FOUND)
			print_json(arguments, &lookup->keys[i], &lookup->results[i]);
	if (status)
		return report(db, status);
	if (!arguments->json.given)
		printf("%zu\n", present);
	return present == lookup->count ? EX_OK : EXIT_NOT_FOUND;
}

int command_exists(struct kvd *db, const struct arguments *arguments)
{
	struct lookup lookup;
	int code;

	code = lookup_init(&lookup, (size_t)arguments->word_count) ?
		       lookup_run(db, &lookup, arguments) :
		       report_memory();
	lookup_release(&lookup);
	return code;
}

/* The server's clock; the handle may have to ask for it. */
static enum kvd_status clock_of(struct kvd *db, uint64_t *now_ns)
{
	enum kvd_status status = KVD_OK;

	*now_ns = kvd_clock_ns(db);
	if (!*now_ns)
		status = kvd_ping(db);
	if (!status)
		*now_ns = kvd_clock_ns(db);
	return status;
}

/*
 * A key expires at a whole second of the server's clock, so at first slightly more than the TTL
 * given may be left. Whole seconds are printed; in its last second a key has 1, since a TTL of 0
 * means that it never expires.
 */
int command_ttl(struct kvd *db, const struct arguments *arguments)
{
	struct kvd_exists result;
	enum kvd_status status;
	uint64_t now_ns = 0, left_s = 0;
	struct kvd_key wanted;
	struct json json;
	struct key key;

	if (key_parse(&key, arguments, arguments->words[0]))
		return EX_USAGE;
	wanted = (struct kvd_key){ key.bytes, key.len };
	status = kvd_exists_many(db, &wanted, 1, &result, NULL);
	if (!status)
		status = result.status;
	if (!status && result.item.expires_s)
		status = clock_of(db, &now_ns);
	/* The key has expired since the server was asked. */
	if (!status && result.item.expires_s && result.item.expires_s * S_NS <= now_ns)
		status = KVD_NOT_FOUND;
	if (status)
		return report(db, status);
	if (result.item.expires_s)
		left_s = (result.item.expires_s * S_NS - now_ns) / S_NS;
	if (!left_s)
		left_s = 1;
	if (!arguments->json.given) {
		if (result.item.expires_s)
			printf("%" PRIu64 "\n", left_s);
		else
			puts("never");
		return EX_OK;
	}
	json_begin(&json, stdout);
	json_open(&json, NULL, '{');
	key_json(&json, arguments, key.bytes, key.len);
	if (result.item.expires_s)
		json_number(&json, "ttl", left_s);
	else
		json_null(&json, "ttl");
	json_number(&json, "expires", result.item.expires_s);
	json_close(&json, '}');
	json_end(&json);
	return EX_OK;
}
