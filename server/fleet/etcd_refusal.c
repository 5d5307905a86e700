/* SPDX-License-Identifier: MIT */
/* Why etcd refuses a request: see etcd_refusal.h. */
#include "server/fleet/etcd_refusal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/text.h"

/* gRPC's codes, which the gateway puts in its answers. */
enum code {
	INVALID_ARGUMENT = 3,
	NOT_FOUND = 5,
	PERMISSION_DENIED = 7,
	RESOURCE_EXHAUSTED = 8,
	FAILED_PRECONDITION = 9,
	UNIMPLEMENTED = 12,
	UNAUTHENTICATED = 16,
};

/* Statuses of HTTP. */
#define OK 200
#define BAD_REQUEST 400
#define NOT_FOUND_HERE 404
#define SERVER_ERROR 500

/*
 * What etcd checks before it changes anything, by code and part of its text; the first row that
 * fits counts. Other codes (unavailable, deadline exceeded, unknown, internal, ...) say that etcd
 * does not know, or that its members do not agree.
 */
static const struct row {
	enum code code;
	const char *part;
	struct etcd_refusal refusal;
	const char *remedy;
} rows[] = {
	{ INVALID_ARGUMENT,
	  "invalid user ID or password",
	  { -EACCES, .is_definite = true },
	  "correct the file of the user" },
	{ INVALID_ARGUMENT,
	  "user name is empty",
	  { -EACCES, .is_definite = true, .renews = true },
	  "etcd wants a user: give a file with NAME:PASSWORD" },
	{ INVALID_ARGUMENT,
	  "revision of auth store is old",
	  { -EACCES, .is_definite = true, .renews = true },
	  "users of etcd are being changed" },
	{ INVALID_ARGUMENT, "", { -EINVAL, .is_definite = true }, "" },
	{ NOT_FOUND, "", { -ENOENT, .is_definite = true }, "" },
	{ PERMISSION_DENIED,
	  "",
	  { -EACCES, .is_definite = true },
	  "let a role of the user read and write the fleet's keys "
	  "(`etcdctl role grant-permission ROLE readwrite --prefix PREFIX`)" },
	{ RESOURCE_EXHAUSTED,
	  "etcdserver: mvcc: database space exceeded",
	  { -ENOSPC, .is_definite = true },
	  "compact and defragment etcd, then `etcdctl alarm disarm`" },
	{ RESOURCE_EXHAUSTED,
	  "etcdserver: too many requests",
	  { -EAGAIN, .is_definite = true },
	  "etcd is overloaded" },
	{ FAILED_PRECONDITION,
	  "authentication is not enabled",
	  { -EACCES, .is_definite = true, .has_no_auth = true },
	  "" },
	{ FAILED_PRECONDITION, "", { -EINVAL, .is_definite = true }, "" },
	{ UNIMPLEMENTED, "", { -EPROTO, .is_definite = true }, "etcd must be 3.4 or later" },
	{ UNAUTHENTICATED,
	  "",
	  { -EACCES, .is_definite = true, .renews = true },
	  "correct the file of the user" },
};

static const struct row *row_find(json_int_t code, const char *message)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if ((json_int_t)rows[i].code == code && strstr(message, rows[i].part))
			return &rows[i];
	return NULL;
}

/* Not the gateway's answer: of a proxy, another server, or an etcd that speaks something else. */
static void read_http(struct etcd_refusal *refusal, const struct etcd_reply *reply, char *why)
{
	char line[81];

	refusal->err = reply->status >= SERVER_ERROR ? -EAGAIN : -EPROTO;
	if (reply->status == NOT_FOUND_HERE) {
		snprintf(why, ETCD_WHY_MAX,
			 "it has no /v3 (HTTP 404): it is not an etcd, is older than 3.4, or runs "
			 "without --enable-grpc-gateway");
	} else if (reply->status == BAD_REQUEST && strstr(reply->text, "HTTPS server")) {
		snprintf(why, ETCD_WHY_MAX, "it speaks TLS: write https:// in its URL");
	} else if (refusal->err == -EAGAIN) {
		snprintf(line, sizeof(line), "%.*s", (int)strcspn(reply->text, "\r\n"),
			 reply->text);
		snprintf(why, ETCD_WHY_MAX, "it does not work (HTTP %ld: %s): see its log",
			 reply->status, line);
	} else {
		snprintf(why, ETCD_WHY_MAX, "it is not an etcd (HTTP %ld): correct its URL",
			 reply->status);
	}
}

static void read_code(struct etcd_refusal *refusal, const struct row *row, const char *message,
		      char *why)
{
	if (row) {
		*refusal = row->refusal;
		snprintf(why, ETCD_WHY_MAX, "it refuses: %.240s%s%s", message,
			 *row->remedy ? ": " : "", row->remedy);
		return;
	}
	refusal->err = -EAGAIN;
	snprintf(why, ETCD_WHY_MAX,
		 "it fails: %.240s: a majority of its members must run, reach each other and keep "
		 "up",
		 message);
}

bool etcd_refusal_read(struct etcd_refusal *refusal, const struct etcd_reply *reply,
		       const json_t *json, char why[ETCD_WHY_MAX])
{
	/* An error of a stream is an object, which names its code differently. */
	const json_t *error = json_object_get(json, "error");
	bool streams = json_is_object(error);
	const json_t *code = json_object_get(streams ? error : json,
					     streams ? "grpc_code" : "code");
	const json_t *text = json_object_get(streams ? error : json, "message");
	const char *message = json_string_value(text ? text : error);

	memset(refusal, 0, sizeof(*refusal));
	if (reply->status == OK && !error)
		return false;
	if (!json_is_integer(code) || !message) {
		read_http(refusal, reply, why);
	} else {
		read_code(refusal, row_find(json_integer_value(code), message), message, why);
	}
	text_mask(why, strlen(why));
	return true;
}
