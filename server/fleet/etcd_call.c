/* SPDX-License-Identifier: MIT */
/* One call of etcd: see etcd_call.h. */
#include "server/fleet/etcd_call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/secret.h"
#include "common/util/text.h"
#include "server/fleet/etcd_refusal.h"

#define NS_PER_MS 1000000u

/* Room for a name and a password in JSON, where each byte may take 6. */
#define LOGIN_MAX ((size_t)8192)
#define LOGIN_PART_MAX 512

/* A call's attempt at an endpoint. */
struct attempt {
	struct etcd *etcd;
	unsigned int endpoint;
	bool once;
	uint64_t try_end_ns, end_ns;

	/* Results. */
	json_t *json; /* of the last request that was not refused */
	struct etcd_refusal refusal;
	bool given; /* the last request may have had an effect */
	char why[ETCD_WHY_MAX];
};

/* Sends a request; 0 with attempt->json, or an error with attempt->why. */
static int attempt_post(struct attempt *attempt, const char *path, const void *body, size_t length)
{
	struct etcd *etcd = attempt->etcd;
	const struct etcd_post post = {
		.url = etcd->urls[attempt->endpoint],
		.path = path,
		.token = etcd->token,
		.body = body,
		.length = length,
		.once = attempt->once,
		.try_end_ns = attempt->try_end_ns,
		.end_ns = attempt->end_ns,
	};
	struct etcd_reply reply;
	int err = etcd_http_post(etcd->http, &post, &reply, attempt->why);

	memset(&attempt->refusal, 0, sizeof(attempt->refusal));
	attempt->given = reply.given;
	if (err)
		return err;
	err = etcd_response_parse(&attempt->json, &reply, attempt->why);
	if (err != -ENOMEM &&
	    etcd_refusal_read(&attempt->refusal, &reply, attempt->json, attempt->why))
		err = attempt->refusal.err;
	attempt->given = !attempt->refusal.is_definite;
	if (err) {
		json_decref(attempt->json);
		attempt->json = NULL;
	}
	/* A token may be in it. */
	explicit_bzero(reply.text, reply.length);
	free(reply.text);
	return err;
}

/* The body of /v3/auth/authenticate from the file's text. Returns its length; 0: it has none. */
static size_t login_write(char body[LOGIN_MAX], const struct secret_file *file)
{
	const char *end = memchr(file->text, '\n', file->length);
	size_t line = end ? (size_t)(end - file->text) : file->length, length;
	const char *colon = memchr(file->text, ':', line);
	size_t name = colon ? (size_t)(colon - file->text) : 0;
	json_t *json;

	if (!name || name > LOGIN_PART_MAX || line - name - 1 > LOGIN_PART_MAX)
		return 0;
	json = json_pack("{s:s%,s:s%}", "name", file->text, name, "password", colon + 1,
			 line - name - 1);
	length = json_dumpb(json, body, LOGIN_MAX, JSON_COMPACT);
	json_decref(json);
	return length;
}

/* The file of the user, as a request. 0 or an error with attempt->why. */
static int login_read(struct attempt *attempt, char body[LOGIN_MAX], size_t *length)
{
	const char *file = attempt->etcd->user, *wrong;
	struct secret_file secret;

	wrong = secret_file_read(&secret, file);
	if (!wrong) {
		*length = login_write(body, &secret);
		secret_file_release(&secret);
		if (*length)
			return 0;
		wrong = "its first line must be NAME:PASSWORD, in UTF-8, each of at most 512 bytes";
	}
	snprintf(attempt->why, sizeof(attempt->why), "the file of its user, %.140s: %.200s", file,
		 wrong);
	return -EACCES;
}

/* Gets a token. What it sends changes nothing in etcd, so attempt->given is false afterwards. */
static int login(struct attempt *attempt)
{
	struct etcd *etcd = attempt->etcd;
	bool once = attempt->once;
	size_t length = 0;
	char *body;
	int err;

	*etcd->token = 0;
	body = secret_alloc(LOGIN_MAX);
	if (!body)
		return -ENOMEM;
	err = login_read(attempt, body, &length);
	if (!err) {
		attempt->once = false;
		err = attempt_post(attempt, "/v3/auth/authenticate", body, length);
		attempt->once = once;
	}
	secret_free(body, LOGIN_MAX);
	attempt->given = false;
	if (!err)
		err = etcd_response_token(etcd->token, attempt->json, attempt->why);
	json_decref(attempt->json);
	attempt->json = NULL;
	/* An etcd without users takes requests of everybody. */
	etcd->has_no_auth = attempt->refusal.has_no_auth;
	return etcd->has_no_auth ? 0 : err;
}

/* Asks one endpoint, and authenticates if need be: once more if the token is not valid any more. */
static int attempt_run(struct attempt *attempt, const struct etcd_call *call)
{
	const struct etcd *etcd = attempt->etcd;
	bool fresh = false;
	int err;

	if (etcd->user && !*etcd->token && !etcd->has_no_auth) {
		err = login(attempt);
		if (err)
			return err;
		fresh = true;
	}
	err = attempt_post(attempt, call->path, call->body->text, call->body->length);
	if (!err || !attempt->refusal.renews || !etcd->user || fresh)
		return err;
	err = login(attempt);
	return err ? err : attempt_post(attempt, call->path, call->body->text, call->body->length);
}

/* Whether another endpoint may know better. */
static bool is_of_endpoint(int err)
{
	switch (err) {
	case -EHOSTUNREACH:
	case -EKEYREJECTED:
	case -ETIMEDOUT:
	case -ECONNRESET:
	case -EPROTO:
	case -EMSGSIZE:
	case -EAGAIN:
		return true;
	default:
		return false;
	}
}

int etcd_fail_at(struct etcd *etcd, unsigned int endpoint, int err, const char *reason)
{
	snprintf(etcd->why, sizeof(etcd->why), "etcd at %.120s: %.500s", etcd->urls[endpoint],
		 reason);
	text_mask(etcd->why, strlen(etcd->why));
	etcd->err = err;
	return err;
}

int etcd_fail(struct etcd *etcd, int err, const char *reason)
{
	snprintf(etcd->why, sizeof(etcd->why), "%s", reason);
	etcd->err = err;
	return err;
}

static int call_prepare(struct etcd *etcd, struct etcd_call *call)
{
	call->is_open = false;
	return call->body->failed ? etcd_fail(etcd, -ENOMEM, "no memory") : 0;
}

/* Asks the endpoint until @try_end_ns. */
static int call_try(struct etcd *etcd, unsigned int endpoint, struct etcd_call *call,
		    uint64_t try_end_ns, uint64_t end_ns, json_t **json)
{
	struct attempt attempt = {
		.etcd = etcd,
		.endpoint = endpoint,
		.once = call->once,
		.try_end_ns = try_end_ns < end_ns ? try_end_ns : end_ns,
		.end_ns = end_ns,
	};
	int err = attempt_run(&attempt, call);

	*json = attempt.json;
	call->is_open = err && call->once && attempt.given;
	if (err == -ENOMEM && !*attempt.why)
		snprintf(attempt.why, sizeof(attempt.why), "no memory");
	return err ? etcd_fail_at(etcd, endpoint, err, attempt.why) : etcd_fail(etcd, 0, "");
}

int etcd_call_endpoint(struct etcd *etcd, unsigned int endpoint, struct etcd_call *call,
		       json_t **json)
{
	uint64_t end_ns = clock_ns() + (uint64_t)call->timeout_ms * NS_PER_MS;
	int err = call_prepare(etcd, call);

	return err ? err : call_try(etcd, endpoint, call, end_ns, end_ns, json);
}

int etcd_call(struct etcd *etcd, struct etcd_call *call, json_t **json)
{
	uint64_t now = clock_ns(), end_ns = now + (uint64_t)call->timeout_ms * NS_PER_MS;
	int err = call_prepare(etcd, call);

	if (err)
		return err;
	for (unsigned int left = etcd->url_count; left; left--) {
		/* The last one that may be asked has all the time that is left. */
		err = call_try(etcd, etcd->current, call,
			       left > 1 ? now + (uint64_t)etcd->try_ms * NS_PER_MS : end_ns, end_ns,
			       json);
		if (!err || !is_of_endpoint(err))
			break;
		etcd->current = (etcd->current + 1) % etcd->url_count;
		now = clock_ns();
		if (call->is_open || now >= end_ns)
			break;
	}
	return err;
}
