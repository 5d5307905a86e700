/* SPDX-License-Identifier: MIT */
/* Errors and exit statuses: see report.h. */
#include "client/kvctl/report.h"

#include <stdio.h>
#include <sysexits.h>
#include <unistd.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/error.h"
#include "client/kvctl/json.h"
#include "client/kvctl/key.h"
#include "client/kvctl/table.h"
#include "common/util/streams.h"

static int exit_status(enum kvd_status status)
{
	switch (status) {
	case KVD_OK:
		return EX_OK;
	case KVD_NOT_FOUND:
		return EXIT_NOT_FOUND;
	case KVD_ERR_EXISTS:
		return EXIT_KEY_EXISTS;
	case KVD_ERR_NOT_A_NUMBER:
		return EXIT_NOT_A_NUMBER;
	case KVD_ERR_NOT_ALLOWED:
		return EX_NOPERM;
	case KVD_ERR_LIMIT:
		return EX_TEMPFAIL;
	case KVD_ERR_MOVED:
		return EX_UNAVAILABLE;
	default:
		return EX_SOFTWARE;
	}
}

/* Statuses whose text would only repeat libkvd's error. */
static bool is_said(enum kvd_status status)
{
	switch (status) {
	case KVD_ERR_EXISTS:
	case KVD_ERR_INVALID:
	case KVD_ERR_LIMIT:
	case KVD_ERR_MOVED:
	case KVD_ERR_NO_SPACE:
	case KVD_ERR_NOT_ALLOWED:
		return true;
	default:
		return false;
	}
}

int report_of(const struct kvd *db, const char *what, enum kvd_status status)
{
	const char *more = status == KVD_NOT_FOUND ? "" : kvd_error(db);

	if (status && *more && is_said(status))
		report_error("%s%s%s", what, *what ? ": " : "", more);
	else if (status)
		report_error("%s%s%s%s%s", what, *what ? ": " : "", kvd_status_text(status),
			     *more ? ": " : "", more);
	return exit_status(status);
}

int report(const struct kvd *db, enum kvd_status status)
{
	return report_of(db, "", status);
}

int report_change(const struct kvd *db, const struct arguments *arguments, enum kvd_status status)
{
	if (!status && !arguments->json.given && !arguments->input_is_script &&
	    isatty(STDOUT_FILENO))
		puts("OK");
	return report(db, status);
}

int report_open(enum kvd_status status, int hint)
{
	/* A server that answered is the intended one, so no hint. */
	const bool none = status == KVD_ERR_UNREACHABLE || status == KVD_ERR_DEVICE;

	report_error("%s%s", kvd_error(NULL),
		     hint && none ? " (-a URL or $KVD_URL names another server)" : "");
	if (status == KVD_ERR_LIMIT)
		return EX_TEMPFAIL;
	return status == KVD_ERR_AUTH ? EX_NOPERM : EX_UNAVAILABLE;
}

int report_memory(void)
{
	report_error("out of memory");
	return EX_OSERR;
}

static bool output_lost;

int output_flush(void)
{
	if (!streams_flush("kvctl"))
		return EX_OK;
	output_lost = true;
	return EX_IOERR;
}

bool output_is_lost(void)
{
	return output_lost;
}

void change_json(const struct arguments *arguments, const struct key *key, uint64_t version,
		 const uint64_t *number)
{
	struct json json;

	json_begin(&json, stdout);
	json_open(&json, NULL, '{');
	key_json(&json, arguments, key->bytes, key->len);
	if (number)
		json_number(&json, "number", *number);
	json_number(&json, "version", version);
	json_close(&json, '}');
	json_end(&json);
}
