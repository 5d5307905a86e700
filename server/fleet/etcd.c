/* SPDX-License-Identifier: MIT */
/* A client of etcd, for the fleet: see etcd.h. */
#include "server/fleet/etcd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/secret.h"

/* A copy of an option; NULL if it is "" or NULL. False: no memory. */
static bool text_copy(char **copy, const char *text)
{
	*copy = text && *text ? strdup(text) : NULL;
	return *copy || !text || !*text;
}

static int options_copy(struct etcd *etcd, const struct etcd_options *options)
{
	etcd->try_ms = options->try_ms;
	if (!text_copy(&etcd->ca, options->tls.ca) ||
	    !text_copy(&etcd->certificate, options->tls.certificate) ||
	    !text_copy(&etcd->key, options->tls.key) || !text_copy(&etcd->user, options->user))
		return -ENOMEM;
	etcd->tls.ca = etcd->ca;
	etcd->tls.certificate = etcd->certificate;
	etcd->tls.key = etcd->key;
	return 0;
}

static int urls_parse(struct etcd *etcd, const struct etcd_options *options, char *why)
{
	int err = 0;

	if (!options->url_count || options->url_count > ETCD_ENDPOINTS_MAX) {
		snprintf(why, ETCD_WHY_MAX, "give 1 to 16 URLs of etcd, not %u",
			 options->url_count);
		return -EINVAL;
	}
	etcd->url_count = options->url_count;
	for (unsigned int i = 0; !err && i < options->url_count; i++)
		err = etcd_url_parse(etcd->urls[i], options->urls[i], why);
	return err;
}

/* libcurl reads the files again for each connection; here their errors get a text in time. */
static int tls_check(const struct etcd *etcd, char *why)
{
	struct tls_context *context;
	char reason[TLS_WHY_MAX];
	int err;

	if (!etcd->ca && !etcd->certificate && !etcd->key)
		return 0;
	err = tls_context_make(&context, &etcd->tls, "etcd", reason);
	if (!err)
		tls_context_put(context);
	else if (err != -ENOMEM)
		snprintf(why, ETCD_WHY_MAX, "%s", reason);
	return err;
}

static int user_check(const struct etcd *etcd, char *why)
{
	struct secret_file secret;
	const char *wrong;

	if (!etcd->user)
		return 0;
	wrong = secret_file_read(&secret, etcd->user);
	if (!wrong) {
		secret_file_release(&secret);
		return 0;
	}
	snprintf(why, ETCD_WHY_MAX, "the file of etcd's user, %.140s: %.200s", etcd->user, wrong);
	return -EINVAL;
}

int etcd_open(struct etcd **etcd, const struct etcd_options *options, char why[ETCD_WHY_MAX])
{
	struct etcd *opened = calloc(1, sizeof(*opened));
	int err;

	*etcd = NULL;
	snprintf(why, ETCD_WHY_MAX, "no memory");
	if (!opened)
		return -ENOMEM;
	err = etcd_memory_protect();
	if (err)
		goto free_handle;
	opened->token = secret_alloc(ETCD_TOKEN_MAX);
	err = opened->token ? options_copy(opened, options) : -ENOMEM;
	if (!err)
		err = urls_parse(opened, options, why);
	if (!err)
		err = tls_check(opened, why);
	if (!err)
		err = user_check(opened, why);
	if (!err)
		err = etcd_http_create(&opened->http, &opened->tls);
	if (err) {
		etcd_close(opened);
		return err;
	}
	*why = 0;
	*etcd = opened;
	return 0;

free_handle:
	free(opened);
	return err;
}

void etcd_close(struct etcd *etcd)
{
	if (!etcd)
		return;
	etcd_http_destroy(etcd->http);
	secret_free(etcd->token, ETCD_TOKEN_MAX);
	free(etcd->ca);
	free(etcd->certificate);
	free(etcd->key);
	free(etcd->user);
	free(etcd);
	etcd_memory_release();
}

void etcd_interrupt(struct etcd *etcd)
{
	etcd_http_interrupt(etcd->http);
}

void etcd_resume(struct etcd *etcd)
{
	etcd_http_resume(etcd->http);
}

int etcd_error(const struct etcd *etcd)
{
	return etcd->err;
}

const char *etcd_why(const struct etcd *etcd)
{
	return etcd->why;
}

const char *etcd_url(const struct etcd *etcd, unsigned int endpoint)
{
	return etcd->urls[endpoint];
}

unsigned int etcd_current(const struct etcd *etcd)
{
	return etcd->current;
}

void etcd_prefer(struct etcd *etcd, uint64_t number)
{
	etcd->current = (unsigned int)(number % etcd->url_count);
}

/* After etcd_call(): what is wrong with the answer of the current endpoint. Returns @err. */
static int answer_check(struct etcd *etcd, int err, const char *reason)
{
	unsigned int endpoint = etcd->current;

	if (err == -EPROTO)
		etcd->current = (endpoint + 1) % etcd->url_count;
	return err ? etcd_fail_at(etcd, endpoint, err, reason) : 0;
}

int etcd_get(struct etcd *etcd, const char *key, bool prefix, unsigned int timeout_ms,
	     struct etcd_answer *answer)
{
	const char *wrong = etcd_key_check(key);
	struct etcd_body body = { 0 };
	struct etcd_call call = {
		.path = "/v3/kv/range",
		.body = &body,
		.timeout_ms = timeout_ms,
	};
	char why[ETCD_WHY_MAX];
	json_t *json;
	int err;

	memset(answer, 0, sizeof(*answer));
	if (wrong)
		return etcd_fail(etcd, -EINVAL, wrong);
	etcd_request_range(&body, key, prefix);
	err = etcd_call(etcd, &call, &json);
	if (!err) {
		err = answer_check(etcd, etcd_response_range(answer, json, why), why);
		json_decref(json);
	}
	etcd_body_release(&body);
	return err;
}

/* Takes the answer of an executed transaction apart. */
static enum etcd_outcome txn_outcome(struct etcd *etcd, const struct etcd_txn *txn,
				     const json_t *json, struct etcd_answer *answer)
{
	const unsigned int count[] = { txn->failure_count, txn->success_count };
	char why[ETCD_WHY_MAX];
	bool succeeded;

	if (answer_check(etcd, etcd_response_txn(answer, &succeeded, count, json, why), why))
		return ETCD_UNKNOWN;
	return succeeded ? ETCD_SUCCEEDED : ETCD_COMPARE_FAILED;
}

enum etcd_outcome etcd_txn(struct etcd *etcd, const struct etcd_txn *txn, unsigned int timeout_ms,
			   struct etcd_answer *answer)
{
	const char *wrong = etcd_txn_check(txn);
	enum etcd_outcome outcome = ETCD_NOT_EXECUTED;
	struct etcd_body body = { 0 };
	struct etcd_call call = {
		.path = "/v3/kv/txn",
		.body = &body,
		.once = true,
		.timeout_ms = timeout_ms,
	};
	json_t *json;

	memset(answer, 0, sizeof(*answer));
	if (wrong) {
		etcd_fail(etcd, -EINVAL, wrong);
		return outcome;
	}
	etcd_request_txn(&body, txn);
	if (!etcd_call(etcd, &call, &json)) {
		outcome = txn_outcome(etcd, txn, json, answer);
		json_decref(json);
	} else if (call.is_open) {
		outcome = ETCD_UNKNOWN;
	}
	etcd_body_release(&body);
	return outcome;
}

/* A request about a lease; what its answer has is 0 if it is absent. */
static int lease_call(struct etcd *etcd, const char *path, struct etcd_body *body,
		      unsigned int timeout_ms, int64_t *lease, int64_t *ttl_s)
{
	struct etcd_call call = { .path = path, .body = body, .timeout_ms = timeout_ms };
	char why[ETCD_WHY_MAX];
	json_t *json;
	int err = etcd_call(etcd, &call, &json);

	*lease = *ttl_s = 0;
	if (!err) {
		err = answer_check(etcd, etcd_response_lease(lease, ttl_s, json, why), why);
		json_decref(json);
	}
	etcd_body_release(body);
	return err;
}

int etcd_lease_grant(struct etcd *etcd, int64_t ttl_s, unsigned int timeout_ms, int64_t *lease,
		     int64_t *granted_s)
{
	struct etcd_body body = { 0 };
	int err;

	etcd_request_number(&body, "TTL", ttl_s);
	err = lease_call(etcd, "/v3/lease/grant", &body, timeout_ms, lease, granted_s);
	if (!err && (*lease <= 0 || *granted_s <= 0))
		err = answer_check(etcd, -EPROTO, "its answer has no lease");
	return err;
}

/* Of a lease that has ended etcd answers less than @least_s. */
static int lease_ask(struct etcd *etcd, const char *path, int64_t lease, int64_t least_s,
		     unsigned int timeout_ms, int64_t *ttl_s)
{
	struct etcd_body body = { 0 };
	int64_t same;
	int err;

	etcd_request_number(&body, "ID", lease);
	err = lease_call(etcd, path, &body, timeout_ms, &same, ttl_s);
	/* etcd rounds down what is left. */
	if (!err && *ttl_s < least_s)
		err = answer_check(etcd, -ENOENT, "the lease has ended");
	return err;
}

int etcd_lease_keepalive(struct etcd *etcd, int64_t lease, unsigned int timeout_ms, int64_t *ttl_s)
{
	/* The field is absent then. */
	return lease_ask(etcd, "/v3/lease/keepalive", lease, 1, timeout_ms, ttl_s);
}

int etcd_lease_ttl(struct etcd *etcd, int64_t lease, unsigned int timeout_ms, int64_t *ttl_s)
{
	/* The field is -1 then. */
	return lease_ask(etcd, "/v3/lease/timetolive", lease, 0, timeout_ms, ttl_s);
}

int etcd_lease_revoke(struct etcd *etcd, int64_t lease, unsigned int timeout_ms)
{
	struct etcd_body body = { 0 };
	int64_t absent;

	etcd_request_number(&body, "ID", lease);
	return lease_call(etcd, "/v3/lease/revoke", &body, timeout_ms, &absent, &absent);
}

int etcd_status(struct etcd *etcd, unsigned int endpoint, unsigned int timeout_ms,
		struct etcd_status *status)
{
	static const char empty[] = "{}";
	struct etcd_body body = { .text = (char *)empty, .length = sizeof(empty) - 1 };
	struct etcd_call call = {
		.path = "/v3/maintenance/status",
		.body = &body,
		.timeout_ms = timeout_ms,
	};
	char why[ETCD_WHY_MAX];
	json_t *json;
	int err = etcd_call_endpoint(etcd, endpoint, &call, &json);

	memset(status, 0, sizeof(*status));
	if (err)
		return err;
	err = etcd_response_status(status, json, why);
	json_decref(json);
	return err ? etcd_fail_at(etcd, endpoint, err, why) : 0;
}
