/* SPDX-License-Identifier: MIT */
/*
 * What etcd answers (server/fleet/etcd_response.c, etcd_refusal.c): bodies as etcd 3.4 sends them,
 * malformed ones, and all that begin like one.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/fleet/etcd_refusal.h"

#define HEADER                                                                                     \
	"\"header\":{\"cluster_id\":\"14841639068965178418\",\"member_id\":\"3\","                 \
	"\"revision\":\"9007199254740993\",\"raft_term\":\"2\"}"
#define KV                                                                                         \
	"{\"key\":\"Zm9v\",\"create_revision\":\"2\",\"mod_revision\":\"9223372036854775807\","    \
	"\"version\":\"1\",\"value\":\"AAH/\",\"lease\":\"7\"}"

#define LONG "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXphYmNkZWZnaGlqa2xtbm9wcXJzdHV2"

static char why[ETCD_WHY_MAX];

static int parse_bytes(json_t **json, const char *text, size_t length)
{
	/* Of exactly that size, so that AddressSanitizer sees a read past the end. */
	char *copy = malloc(length + 1);
	const struct etcd_reply reply = { .text = copy, .length = length, .status = 200 };
	int err;

	memcpy(copy, text, length);
	copy[length] = 0;
	*why = 0;
	err = etcd_response_parse(json, &reply, why);
	free(copy);
	assert_true(err ? !*json && *why : *json && !*why);
	return err;
}

static json_t *parsed(const char *text)
{
	json_t *json;

	assert_int_equal(parse_bytes(&json, text, strlen(text)), 0);
	return json;
}

static int range_of(struct etcd_answer *answer, const char *text)
{
	json_t *json;
	int err = parse_bytes(&json, text, strlen(text));

	memset(answer, 0, sizeof(*answer));
	if (!err) {
		err = etcd_response_range(answer, json, why);
		json_decref(json);
	}
	if (err)
		assert_null(answer->memory);
	return err;
}

static void range(void **state)
{
	struct etcd_answer answer;
	const struct etcd_kv *kv;

	(void)state;
	assert_int_equal(range_of(&answer, "{" HEADER ",\"kvs\":[" KV ",{\"key\":\"YQ==\","
					   "\"create_revision\":\"1\",\"mod_revision\":1}],"
					   "\"count\":\"2\",\"later\":[{}]}"),
			 0);
	assert_true(answer.cluster_id == 14841639068965178418u);
	assert_true(answer.revision == 9007199254740993);
	assert_int_equal(answer.member_id, 3);
	assert_int_equal(answer.range_count, 1);
	assert_int_equal(answer.ranges[0].count, 2);
	kv = answer.ranges[0].kvs;
	assert_string_equal(kv->key, "foo");
	assert_int_equal(kv->key_len, 3);
	assert_int_equal(kv->value_len, 3);
	assert_memory_equal(kv->value, "\0\1\xff\0", 4);
	assert_int_equal(kv->create_revision, 2);
	assert_true(kv->mod_revision == INT64_MAX);
	assert_int_equal(kv->lease, 7);
	kv++;
	assert_string_equal(kv->key, "a");
	assert_string_equal(kv->value, "");
	assert_int_equal(kv->value_len, 0);
	assert_int_equal(kv->mod_revision, 1);
	assert_int_equal(kv->lease, 0);
	etcd_answer_release(&answer);
	assert_null(answer.ranges);

	/* Longer than what is spare in the answer's memory. */
	assert_int_equal(range_of(&answer, "{" HEADER ",\"kvs\":[{\"key\":\"" LONG "\","
					   "\"create_revision\":\"1\",\"mod_revision\":\"1\","
					   "\"value\":\"" LONG "\"}]}"),
			 0);
	assert_int_equal(answer.ranges[0].kvs[0].key_len, 48);
	assert_memory_equal(answer.ranges[0].kvs[0].key, answer.ranges[0].kvs[0].value, 49);
	etcd_answer_release(&answer);

	assert_int_equal(range_of(&answer, "{" HEADER "}\n"), 0);
	assert_int_equal(answer.range_count, 1);
	assert_int_equal(answer.ranges[0].count, 0);
	etcd_answer_release(&answer);
	etcd_answer_release(&answer);
}

/* Whatever one field holds. */
static void malformed_fields(void **state)
{
	static const struct {
		const char *body, *reason;
	} cases[] = {
		{ "{}", "does not name cluster and revision" },
		{ "{\"header\":{}}", "does not name cluster and revision" },
		{ "{\"header\":[]}", "another type" },
		{ "{\"header\":{\"cluster_id\":\"1\"}}", "does not name cluster and revision" },
		{ "{\"header\":{\"cluster_id\":\"0\",\"revision\":\"1\"}}", "does not name" },
		{ "{\"header\":{\"cluster_id\":\"1\",\"revision\":\"-1\"}}", "does not name" },
		{ "{\"header\":{\"cluster_id\":\"-1\",\"revision\":\"1\"}}", "is malformed" },
		{ "{\"header\":{\"cluster_id\":-1,\"revision\":\"1\"}}", "is malformed" },
		{ "{\"header\":{\"cluster_id\":\"1\",\"revision\":\"\"}}", "is malformed" },
		{ "{\"header\":{\"cluster_id\":\"1\",\"revision\":\" 1\"}}", "is malformed" },
		{ "{\"header\":{\"cluster_id\":\"1\",\"revision\":\"+1\"}}", "is malformed" },
		{ "{\"header\":{\"cluster_id\":\"1\",\"revision\":\"1x\"}}", "is malformed" },
		{ "{\"header\":{\"cluster_id\":\"1\",\"revision\":\"--1\"}}", "is malformed" },
		{ "{\"header\":{\"cluster_id\":\"1\",\"revision\":\"1-\"}}", "is malformed" },
		{ "{\"header\":{\"cluster_id\":\"1\",\"revision\":1.5}}", "is malformed" },
		{ "{\"header\":{\"cluster_id\":\"1\",\"revision\":null}}", "is malformed" },
		{ "{\"header\":{\"cluster_id\":\"1\",\"revision\":\"9223372036854775808\"}}",
		  "more than 64 bits" },
		{ "{\"header\":{\"cluster_id\":\"18446744073709551616\",\"revision\":\"1\"}}",
		  "more than 64 bits" },
		{ "{" HEADER ",\"kvs\":{}}", "another type" },
		{ "{" HEADER ",\"kvs\":\"\"}", "another type" },
		{ "{" HEADER ",\"kvs\":[null]}", "no name or revision" },
		{ "{" HEADER ",\"kvs\":[{}]}", "no name or revision" },
		{ "{" HEADER ",\"kvs\":[[]]}", "no name or revision" },
		{ "{" HEADER ",\"kvs\":[{\"key\":\"YQ==\",\"mod_revision\":\"1\"}]}",
		  "no name or revision" },
		{ "{" HEADER ",\"kvs\":[{\"key\":\"YQ==\",\"create_revision\":\"1\"}]}",
		  "no name or revision" },
		{ "{" HEADER ",\"kvs\":[{\"key\":1}]}", "another type" },
		{ "{" HEADER ",\"kvs\":[{\"key\":\"YQ==\",\"value\":{}}]}", "another type" },
		{ "{" HEADER ",\"kvs\":[{\"key\":\"YQ=\"}]}", "not base64" },
		{ "{" HEADER ",\"kvs\":[{\"key\":\"=\"}]}", "not base64" },
		{ "{" HEADER ",\"kvs\":[{\"key\":\"====\"}]}", "not base64" },
		{ "{" HEADER ",\"kvs\":[{\"key\":\"Y===\"}]}", "not base64" },
		{ "{" HEADER ",\"kvs\":[{\"key\":\"YQ==YQ==\"}]}", "not base64" },
		{ "{" HEADER ",\"kvs\":[{\"key\":\"    \"}]}", "not base64" },
		{ "{" HEADER ",\"kvs\":[{\"key\":\" YQ==   \"}]}", "not base64" },
		{ "{" HEADER ",\"kvs\":[{\"key\":\"YQ-_\"}]}", "not base64" },
		{ "{" HEADER ",\"kvs\":[{\"key\":\"a\"}]}", "not base64" },
		{ "{" HEADER ",\"kvs\":[" KV ",{\"key\":\"\\u00e4==\"}]}", "not base64" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct etcd_answer answer;

		assert_int_equal(range_of(&answer, cases[i].body), -EPROTO);
		if (!strstr(why, cases[i].reason))
			fail_msg("%s: %s", cases[i].body, why);
	}
}

static void no_json(void **state)
{
	static const char zero[] = "{\"a\0\":1}";
	static const char *const texts[] = {
		"",
		"<html><body>502 Bad Gateway</body></html>",
		"[]",
		"1",
		"null",
		"\"a\"",
		"{",
		"{\"a\"",
		"{\"a\":}",
		"{\"a\":1,}",
		"{\"a\":1}{\"b\":2}",
		"{\"a\":1} x",
		"{\"a\":1,\"a\":2}",
		"{\"a\":\"\xff\"}",
		"{\"a\":\"\\u0000\"}",
		"{\"a\":\"\\ud800\"}",
		"{\"a\":99999999999999999999999999}",
		"{\"a\":1e999}",
		"{\"a\":\"",
		"{\"a\":\"\\",
	};
	json_t *json;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(parse_bytes(&json, texts[i], strlen(texts[i])), -EPROTO);
	assert_int_equal(parse_bytes(&json, zero, sizeof(zero) - 1), -EPROTO);
	assert_non_null(strstr(why, "it is not an etcd, or broken: its answer is not JSON"));
}

/* A body that repeats a piece between a head and a tail. */
static int repeated(const char *head, const char *piece, size_t count, const char *tail)
{
	size_t length = strlen(piece), at = strlen(head);
	char *text = malloc(at + length * count + strlen(tail) + 1);
	json_t *json;
	int err;

	memcpy(text, head, at);
	for (size_t i = 0; i < count; i++, at += length)
		memcpy(text + at, piece, length);
	strcpy(text + at, tail);
	err = parse_bytes(&json, text, at + strlen(tail));
	json_decref(json);
	free(text);
	return err;
}

static void too_much(void **state)
{
	(void)state;
	assert_int_equal(repeated("", "{\"a\":", ETCD_DEPTH_MAX, "1}}}}}}}}}}}}}}}}"), 0);
	assert_int_equal(repeated("", "{\"a\":", ETCD_DEPTH_MAX + 1, "1}}}}}}}}}}}}}}}}}"),
			 -EPROTO);
	assert_non_null(strstr(why, "nested too deeply"));
	assert_int_equal(repeated("", "[", ETCD_REPLY_MAX, ""), -EPROTO);
	assert_non_null(strstr(why, "nested too deeply"));

	assert_int_equal(repeated("{\"a\":[", "1,", ETCD_VALUES_MAX - 3, "1]}"), 0);
	assert_int_equal(repeated("{\"a\":[", "1,", ETCD_VALUES_MAX - 2, "1]}"), -EPROTO);
	assert_non_null(strstr(why, "too many values"));
	assert_int_equal(repeated("{\"a\":[", "{},", ETCD_REPLY_MAX / 3, "1]}"), -EPROTO);
	/* What is in a text counts for nothing. */
	assert_int_equal(repeated("{\"a\":\"", "[,{\\\"", ETCD_VALUES_MAX, "\"}"), 0);
	assert_int_equal(repeated("{\"a\":\"", "\\\\", ETCD_VALUES_MAX, "\"}"), 0);
}

/* Each beginning of a good body is a bad one, and so is it without any of its bytes, or not. */
static void cut_and_damaged(void **state)
{
	static const char whole[] = "{" HEADER ",\"succeeded\":true,\"responses\":["
				    "{\"response_put\":{}},{\"response_range\":{\"kvs\":[" KV
				    "]}}]}";
	static const unsigned int count[] = { 0, 2 };
	struct etcd_answer answer;
	bool succeeded;
	json_t *json;

	(void)state;
	for (size_t length = 0; length < sizeof(whole) - 1; length++)
		assert_int_equal(parse_bytes(&json, whole, length), -EPROTO);
	for (size_t at = 0; at < sizeof(whole) - 1; at++) {
		for (unsigned int byte = 0; byte < 256; byte++) {
			char damaged[sizeof(whole)];

			memcpy(damaged, whole, sizeof(whole));
			damaged[at] = (char)byte;
			if (parse_bytes(&json, damaged, sizeof(whole) - 1))
				continue;
			if (!etcd_response_txn(&answer, &succeeded, count, json, why))
				etcd_answer_release(&answer);
			assert_null(answer.memory);
			json_decref(json);
		}
	}
}

static void transaction(void **state)
{
	static const unsigned int count[] = { 1, 3 };
	struct etcd_answer answer;
	bool succeeded;
	json_t *json = parsed("{" HEADER ",\"succeeded\":true,\"responses\":[{\"response_put\":"
			      "{\"header\":{}}},{\"response_range\":{\"kvs\":[" KV "," KV "]}},"
			      "{\"response_delete_range\":{\"deleted\":\"1\"}}]}");

	(void)state;
	assert_int_equal(etcd_response_txn(&answer, &succeeded, count, json, why), 0);
	assert_true(succeeded);
	assert_int_equal(answer.range_count, 3);
	assert_int_equal(answer.ranges[0].count, 0);
	assert_int_equal(answer.ranges[1].count, 2);
	assert_string_equal(answer.ranges[1].kvs[1].key, "foo");
	assert_int_equal(answer.ranges[2].count, 0);
	etcd_answer_release(&answer);
	json_decref(json);

	json = parsed("{" HEADER ",\"responses\":[{\"response_range\":{}}]}");
	assert_int_equal(etcd_response_txn(&answer, &succeeded, count, json, why), 0);
	assert_false(succeeded);
	assert_int_equal(answer.range_count, 1);
	etcd_answer_release(&answer);
	json_decref(json);
}

/* What would say that a compare failed, if one did not look. */
static void half_a_transaction(void **state)
{
	static const char *const bodies[] = {
		"{}",
		"{" HEADER "}",
		"{" HEADER ",\"responses\":[]}",
		"{" HEADER ",\"responses\":[{},{}]}",
		"{" HEADER ",\"succeeded\":true,\"responses\":[{}]}",
		"{" HEADER ",\"succeeded\":\"true\",\"responses\":[{}]}",
		"{\"responses\":[{}]}",
		"{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":1}}]}",
		"{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{}]}}]}",
	};
	static const unsigned int count[] = { 1, 3 };

	(void)state;
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		json_t *json = parsed(bodies[i]);
		struct etcd_answer answer;
		bool succeeded;

		assert_int_equal(etcd_response_txn(&answer, &succeeded, count, json, why), -EPROTO);
		assert_null(answer.memory);
		json_decref(json);
	}
}

static void leases(void **state)
{
	json_t *json = parsed("{" HEADER ",\"ID\":\"9223372036854775807\",\"TTL\":\"2\"}");
	int64_t lease, ttl_s;

	(void)state;
	assert_int_equal(etcd_response_lease(&lease, &ttl_s, json, why), 0);
	assert_true(lease == INT64_MAX);
	assert_int_equal(ttl_s, 2);
	json_decref(json);
	/* A stream's answer, of a lease that has ended. */
	json = parsed("{\"result\":{" HEADER ",\"ID\":\"5\"}}\n");
	assert_int_equal(etcd_response_lease(&lease, &ttl_s, json, why), 0);
	assert_int_equal(lease, 5);
	assert_int_equal(ttl_s, 0);
	json_decref(json);
	json = parsed("{" HEADER ",\"ID\":\"5\",\"TTL\":\"-1\"}");
	assert_int_equal(etcd_response_lease(&lease, &ttl_s, json, why), 0);
	assert_int_equal(ttl_s, -1);
	json_decref(json);
	json = parsed("{\"result\":[]}");
	assert_int_equal(etcd_response_lease(&lease, &ttl_s, json, why), -EPROTO);
	json_decref(json);
	json = parsed("{" HEADER ",\"ID\":{}}");
	assert_int_equal(etcd_response_lease(&lease, &ttl_s, json, why), -EPROTO);
	json_decref(json);
}

static void statuses(void **state)
{
	struct etcd_status status;
	json_t *json = parsed("{" HEADER ",\"version\":\"3.4.23\",\"dbSize\":\"20480\","
			      "\"leader\":\"9\",\"raftIndex\":\"7\",\"raftTerm\":\"2\","
			      "\"raftAppliedIndex\":\"6\",\"dbSizeInUse\":\"16384\","
			      "\"errors\":[\"etcdserver: no \\u0007leader\",5]}");

	(void)state;
	assert_int_equal(etcd_response_status(&status, json, why), 0);
	assert_string_equal(status.version, "3.4.23");
	assert_int_equal(status.member_id, 3);
	assert_int_equal(status.leader, 9);
	assert_int_equal(status.raft_term, 2);
	assert_int_equal(status.raft_index, 7);
	assert_int_equal(status.raft_applied_index, 6);
	assert_int_equal(status.db_bytes, 20480);
	assert_int_equal(status.db_used_bytes, 16384);
	assert_string_equal(status.problem, "etcdserver: no ?leader");
	json_decref(json);
	json = parsed("{" HEADER ",\"version\":\"a much longer version than any that there is\"}");
	assert_int_equal(etcd_response_status(&status, json, why), 0);
	assert_int_equal(strlen(status.version), ETCD_VERSION_MAX - 1);
	assert_string_equal(status.problem, "");
	json_decref(json);
	json = parsed("{" HEADER ",\"version\":3}");
	assert_int_equal(etcd_response_status(&status, json, why), -EPROTO);
	json_decref(json);
}

static int token_of(char token[ETCD_TOKEN_MAX], const char *text)
{
	json_t *json = parsed(text);
	int err = etcd_response_token(token, json, why);

	json_decref(json);
	return err;
}

static void tokens(void **state)
{
	char token[ETCD_TOKEN_MAX], text[ETCD_TOKEN_MAX + 64];

	(void)state;
	assert_int_equal(token_of(token, "{\"token\":\"FhcI.8\"}"), 0);
	assert_string_equal(token, "FhcI.8");
	assert_int_equal(token_of(token, "{}"), -EPROTO);
	assert_int_equal(token_of(token, "{\"token\":\"\"}"), -EPROTO);
	assert_int_equal(token_of(token, "{\"token\":1}"), -EPROTO);
	/* A header of HTTP would end. */
	assert_int_equal(token_of(token, "{\"token\":\"a\\r\\nHost: b\"}"), -EPROTO);
	assert_int_equal(token_of(token, "{\"token\":\"\\u00e4\"}"), -EPROTO);
	assert_string_equal(token, "");
	snprintf(text, sizeof(text), "{\"token\":\"%0*d\"}", ETCD_TOKEN_MAX - 1, 0);
	assert_int_equal(token_of(token, text), 0);
	snprintf(text, sizeof(text), "{\"token\":\"%0*d\"}", ETCD_TOKEN_MAX, 0);
	assert_int_equal(token_of(token, text), -EPROTO);
}

static bool refuses(struct etcd_refusal *refusal, long status, const char *text)
{
	char copy[512];
	const struct etcd_reply reply = { .status = status, .text = copy, .length = strlen(text) };
	json_t *json;
	bool refused;

	strcpy(copy, text);
	(void)parse_bytes(&json, text, strlen(text));
	*why = 0;
	refused = etcd_refusal_read(refusal, &reply, json, why);
	json_decref(json);
	assert_int_equal(refused, *why != 0);
	return refused;
}

static void refusals(void **state)
{
	static const struct {
		long status;
		const char *body;
		int err;
		bool is_definite, renews;
		const char *text;
	} cases[] = {
		{ 400,
		  "{\"error\":\"etcdserver: authentication failed, invalid user ID or password\","
		  "\"message\":\"etcdserver: authentication failed, invalid user ID or "
		  "password\",\"code\":3}",
		  -EACCES, true, false, "correct the file of the user" },
		{ 400, "{\"message\":\"etcdserver: user name is empty\",\"code\":3}", -EACCES, true,
		  true, "NAME:PASSWORD" },
		{ 400, "{\"message\":\"etcdserver: revision of auth store is old\",\"code\":3}",
		  -EACCES, true, true, "are being changed" },
		{ 400, "{\"message\":\"etcdserver: request is too large\",\"code\":3}", -EINVAL,
		  true, false, "request is too large" },
		{ 404, "{\"error\":\"etcdserver: requested lease not found\",\"code\":5}", -ENOENT,
		  true, false, "requested lease not found" },
		{ 403, "{\"message\":\"etcdserver: permission denied\",\"code\":7}", -EACCES, true,
		  false, "grant-permission" },
		{ 429, "{\"message\":\"etcdserver: mvcc: database space exceeded\",\"code\":8}",
		  -ENOSPC, true, false, "alarm disarm" },
		{ 429, "{\"message\":\"etcdserver: too many requests\",\"code\":8}", -EAGAIN, true,
		  false, "overloaded" },
		/* Perhaps the answer was too large: not known. */
		{ 429, "{\"message\":\"grpc: trying to send message larger than max\",\"code\":8}",
		  -EAGAIN, false, false, "trying to send" },
		{ 501, "{\"message\":\"unknown method\",\"code\":12}", -EPROTO, true, false,
		  "3.4 or later" },
		{ 401,
		  "{\"message\":\"etcdserver: invalid auth token\",\"code\":16,\"details\":[]}",
		  -EACCES, true, true, "invalid auth token" },
		{ 503, "{\"message\":\"etcdserver: request timed out\",\"code\":14}", -EAGAIN,
		  false, false, "a majority of its members must run" },
		{ 503, "{\"message\":\"etcdserver: leader changed\",\"code\":14}", -EAGAIN, false,
		  false, "leader changed" },
		{ 504, "{\"message\":\"context deadline exceeded\",\"code\":4}", -EAGAIN, false,
		  false, "deadline" },
		{ 500, "{\"message\":\"x\",\"code\":2}", -EAGAIN, false, false, "x" },
		{ 500, "{\"message\":\"x\",\"code\":-1}", -EAGAIN, false, false, "x" },
		/* Of a stream. */
		{ 200,
		  "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: no "
		  "leader\",\"http_status\":\"Service Unavailable\"}}",
		  -EAGAIN, false, false, "no leader" },
		/* Not the gateway's. */
		{ 400, "{\"message\":5,\"code\":3}", -EPROTO, false, false, "HTTP 400" },
		{ 400, "{\"message\":\"x\",\"code\":\"3\"}", -EPROTO, false, false, "HTTP 400" },
		{ 200, "{\"error\":[]}", -EPROTO, false, false, "not an etcd" },
		{ 404, "404 page not found\n", -EPROTO, false, false, "older than 3.4" },
		{ 404, "<html>", -EPROTO, false, false, "--enable-grpc-gateway" },
		{ 301, "<a href=\"/x\">Moved</a>", -EPROTO, false, false, "HTTP 301" },
		{ 400, "Client sent an HTTP request to an HTTPS server.\n", -EPROTO, false, false,
		  "write https://" },
		{ 502, "<html>\n", -EAGAIN, false, false, "HTTP 502: <html>)" },
		{ 500, "\x1b[31m\n", -EAGAIN, false, false, "HTTP 500: ?[31m)" },
	};
	struct etcd_refusal refusal;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(refuses(&refusal, cases[i].status, cases[i].body));
		if (refusal.err != cases[i].err || refusal.is_definite != cases[i].is_definite ||
		    refusal.renews != cases[i].renews || !strstr(why, cases[i].text))
			fail_msg("%s: %d %d %d %s", cases[i].body, refusal.err, refusal.is_definite,
				 refusal.renews, why);
	}
	assert_true(refuses(&refusal, 412,
			    "{\"message\":\"etcdserver: authentication is not enabled\","
			    "\"code\":9}"));
	assert_true(refusal.has_no_auth);
	assert_false(refuses(&refusal, 200, "{\"code\":5,\"message\":\"x\"}"));
	assert_false(refuses(&refusal, 200, "{}"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(range),
		cmocka_unit_test(malformed_fields),
		cmocka_unit_test(no_json),
		cmocka_unit_test(too_much),
		cmocka_unit_test(cut_and_damaged),
		cmocka_unit_test(transaction),
		cmocka_unit_test(half_a_transaction),
		cmocka_unit_test(leases),
		cmocka_unit_test(statuses),
		cmocka_unit_test(tokens),
		cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
