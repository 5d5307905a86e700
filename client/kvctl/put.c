/* SPDX-License-Identifier: MIT */
/* kvctl put, add, replace, cas, append and prepend: values that are stored. */
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/input.h"
#include "client/kvctl/key.h"
#include "client/kvctl/report.h"

/* Stores the value of words[@at], with the options added to @args. */
static int put(struct kvd *db, const struct arguments *arguments, int at, struct kvd_put_args *args)
{
	enum kvd_status status;
	struct value value;
	uint64_t version;
	struct key key;
	int code;

	args->flags = (uint32_t)arguments->flags.number;
	args->ttl_s = (uint32_t)arguments->ttl.number;
	args->pin_s = (uint32_t)arguments->pin.number;
	args->priority = arguments->low.given ? KVD_PRIORITY_LOW : KVD_PRIORITY_NORMAL;
	code = key_parse(&key, arguments, arguments->words[0]);
	if (code)
		return code;
	code = value_take(&value, db, arguments, at);
	if (code)
		return code;
	status = kvd_put(db, key.bytes, key.len, value.bytes, value.len, args, &version);
	value_release(&value);
	if (!status && arguments->json.given)
		change_json(arguments, &key, version, NULL);
	return report_change(db, arguments, status);
}

static int put_mode(struct kvd *db, const struct arguments *arguments, enum kvd_put_mode mode)
{
	struct kvd_put_args args = { .mode = mode };

	return put(db, arguments, 1, &args);
}

int command_put(struct kvd *db, const struct arguments *arguments)
{
	return put_mode(db, arguments, KVD_PUT_SET);
}

int command_add(struct kvd *db, const struct arguments *arguments)
{
	return put_mode(db, arguments, KVD_PUT_IF_ABSENT);
}

int command_replace(struct kvd *db, const struct arguments *arguments)
{
	return put_mode(db, arguments, KVD_PUT_IF_PRESENT);
}

int command_append(struct kvd *db, const struct arguments *arguments)
{
	return put_mode(db, arguments, KVD_PUT_APPEND);
}

int command_prepend(struct kvd *db, const struct arguments *arguments)
{
	return put_mode(db, arguments, KVD_PUT_PREPEND);
}

int command_cas(struct kvd *db, const struct arguments *arguments)
{
	struct kvd_put_args args = { .mode = KVD_PUT_IF_VERSION };

	if (parse_number(arguments->words[1], 0, UINT64_MAX, &args.if_version))
		return EX_USAGE;
	return put(db, arguments, 2, &args);
}
