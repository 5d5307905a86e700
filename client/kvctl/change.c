/* SPDX-License-Identifier: MIT */
/* kvctl incr, decr, touch, del and flush: changes that store no value. */
#include <inttypes.h>
#include <stdio.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/json.h"
#include "client/kvctl/key.h"
#include "client/kvctl/members.h"
#include "client/kvctl/report.h"

typedef enum kvd_status (*arith_fn)(struct kvd *, const void *, size_t, uint64_t,
				    const struct kvd_arith_args *, uint64_t *, uint64_t *);

static int arith(struct kvd *db, const struct arguments *arguments, arith_fn change)
{
	struct kvd_arith_args args = {
		.create = arguments->initial.given,
		.initial = arguments->initial.number,
		.ttl_s = (uint32_t)arguments->ttl.number,
		.flags = (uint32_t)arguments->flags.number,
	};
	uint64_t delta = 1, number, version;
	enum kvd_status status;
	struct key key;

	if (key_parse(&key, arguments, arguments->words[0]))
		return EX_USAGE;
	if (arguments->word_count > 1 && parse_number(arguments->words[1], 0, UINT64_MAX, &delta))
		return EX_USAGE;
	if (!args.create && (arguments->ttl.given || arguments->flags.given))
		return usage_error(arguments->command->name, "-e and -f need -i");
	status = change(db, key.bytes, key.len, delta, &args, &number, &version);
	if (!status && arguments->json.given)
		change_json(arguments, &key, version, &number);
	else if (!status)
		printf("%llu\n", (unsigned long long)number);
	return report(db, status);
}

int command_incr(struct kvd *db, const struct arguments *arguments)
{
	return arith(db, arguments, kvd_incr);
}

int command_decr(struct kvd *db, const struct arguments *arguments)
{
	return arith(db, arguments, kvd_decr);
}

int command_touch(struct kvd *db, const struct arguments *arguments)
{
	enum kvd_status status;
	uint64_t version;
	struct key key;
	uint32_t ttl_s;

	if (key_parse(&key, arguments, arguments->words[0]) ||
	    parse_ttl(arguments->words[1], &ttl_s))
		return EX_USAGE;
	status = kvd_touch(db, key.bytes, key.len, ttl_s, &version);
	if (!status && arguments->json.given)
		change_json(arguments, &key, version, NULL);
	return report_change(db, arguments, status);
}

static void deleted_json(const struct arguments *arguments, const struct key *key, bool deleted)
{
	struct json json;

	json_begin(&json, stdout);
	json_open(&json, NULL, '{');
	key_json(&json, arguments, key->bytes, key->len);
	json_bool(&json, "deleted", deleted);
	json_close(&json, '}');
	json_end(&json);
}

int command_del(struct kvd *db, const struct arguments *arguments)
{
	const bool several = arguments->word_count > 1;
	enum kvd_status status;
	int code = EX_OK, one;
	struct key key;

	/* If one of the words is no key, nothing is removed. */
	for (int i = 0; i < arguments->word_count; i++)
		if (key_parse(&key, arguments, arguments->words[i]))
			return EX_USAGE;
	for (int i = 0; i < arguments->word_count; i++) {
		key_parse(&key, arguments, arguments->words[i]);
		status = kvd_delete(db, key.bytes, key.len);
		one = report_of(db, several ? arguments->words[i] : "", status);
		if (one && one != EXIT_NOT_FOUND)
			return one;
		if (arguments->json.given)
			deleted_json(arguments, &key, !status);
		code = code ? code : one;
	}
	return code ? code : report_change(db, arguments, KVD_OK);
}

static int flush_cancel(struct kvd *db, const struct arguments *arguments)
{
	enum kvd_status status;
	uint64_t ticket = 0, cancelled = 0;

	if (arguments->word_count && parse_number(arguments->words[0], 1, UINT64_MAX, &ticket))
		return EX_USAGE;
	status = kvd_flush_cancel(db, ticket, arguments->all.given, &cancelled);
	if (!status)
		printf(arguments->json.given ? "{\"cancelled\": %" PRIu64 "}\n" :
					       "%" PRIu64 " flushes cancelled\n",
		       cancelled);
	return report(db, status);
}

int command_flush(struct kvd *db, const struct arguments *arguments)
{
	uint32_t delay_s;

	if (arguments->cancel.given)
		return flush_cancel(db, arguments);
	if (arguments->all.given)
		return usage_error("--all", "needs --cancel");
	if (!arguments->word_count)
		return report_change(db, arguments, kvd_flush_all(db));
	if (parse_ttl(arguments->words[0], &delay_s))
		return EX_USAGE;
	if (members_url_is(arguments->server))
		return usage_error("flush", "a fleet takes no DELAY: flush it at that time");
	return report_change(db, arguments, kvd_flush_start(db, delay_s, NULL));
}
