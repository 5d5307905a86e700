/* SPDX-License-Identifier: MIT */
/*
 * The client of etcd (server/fleet/etcd.c, etcd_call.c, etcd_http.c) against peers that do what
 * they please: which endpoint is asked, what is sent once only, what each failure is called, and
 * that nothing is waited for or stored without a bound. Deadlines are short only where a peer never
 * answers.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/fleet/etcd.h"
#include "tests/support/fake_etcd.h"
#include "tests/support/tls_ca.h"

#define LONG_MS 300000
#define SHORT_MS 100
#define HEADER "\"header\":{\"cluster_id\":\"7\",\"member_id\":\"3\",\"revision\":\"9\"}"
#define EMPTY "{" HEADER "}"
#define DONE "{" HEADER ",\"succeeded\":true,\"responses\":[{}]}"
#define NOT_DONE                                                                                   \
	"{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"YQ==\","              \
	"\"create_revision\":\"4\",\"mod_revision\":\"5\",\"value\":\"Yg==\"}]}}]}"
#define REFUSED(code, message) "{\"message\":\"" message "\",\"code\":" code "}"
#define TIMED_OUT REFUSED("14", "etcdserver: request timed out")

static struct fake_etcd *one, *two;
static struct etcd *etcd;
static char why[ETCD_WHY_MAX];

static int peers_start(void **state)
{
	(void)state;
	one = fake_etcd_start();
	two = fake_etcd_start();
	return 0;
}

static int peers_stop(void **state)
{
	(void)state;
	etcd_close(etcd);
	etcd = NULL;
	fake_etcd_stop(one);
	fake_etcd_stop(two);
	return 0;
}

static void open_with(struct etcd_options *options, const char *first, const char *second,
		      unsigned int try_ms)
{
	const char *urls[] = { first, second };

	options->urls = urls;
	options->url_count = second ? 2 : 1;
	options->try_ms = try_ms;
	assert_int_equal(etcd_open(&etcd, options, why), 0);
	assert_string_equal(why, "");
}

static void open_urls(const char *first, const char *second, unsigned int try_ms)
{
	struct etcd_options options = { 0 };

	open_with(&options, first, second, try_ms);
}

/* Reads a key; 0 or an error. */
static int get(unsigned int timeout_ms)
{
	struct etcd_answer answer;
	int err = etcd_get(etcd, "a", false, timeout_ms, &answer);

	assert_int_equal(etcd_error(etcd), err);
	assert_true(err ? *etcd_why(etcd) && !answer.memory : !*etcd_why(etcd) && answer.memory);
	etcd_answer_release(&answer);
	return err;
}

static enum etcd_outcome put(unsigned int timeout_ms, size_t length)
{
	char *value = calloc(1, length + 1);
	const struct etcd_op success = {
		.kind = ETCD_PUT, .key = "a", .value = value, .value_len = length
	};
	const struct etcd_op failure = { .kind = ETCD_GET, .key = "a" };
	const struct etcd_txn txn = {
		.success = &success, .success_count = 1, .failure = &failure, .failure_count = 1
	};
	struct etcd_answer answer;
	enum etcd_outcome outcome = etcd_txn(etcd, &txn, timeout_ms, &answer);
	bool executed = outcome == ETCD_SUCCEEDED || outcome == ETCD_COMPARE_FAILED;

	assert_true(executed ? answer.range_count == 1 : !answer.memory);
	assert_int_equal(executed, !etcd_error(etcd));
	if (outcome == ETCD_COMPARE_FAILED)
		assert_string_equal(answer.ranges[0].kvs[0].value, "b");
	etcd_answer_release(&answer);
	free(value);
	return outcome;
}

static void why_has(const char *text)
{
	if (!strstr(etcd_why(etcd), text))
		fail_msg("not in \"%s\": %s", etcd_why(etcd), text);
}

static void plan(struct fake_etcd *fake, struct fake_step step)
{
	fake_etcd_plan(fake, &step);
}

static void urls(void **state)
{
	static const struct {
		const char *text, *url;
	} good[] = {
		{ "http://127.0.0.1", "http://127.0.0.1:2379" },
		{ "https://etcd.example:1/", "https://etcd.example:1" },
		{ "http://[::1]:5", "http://[::1]:5" },
		{ "HTTP://a", "http://a:2379" },
	};
	static const struct {
		const char *text, *reason;
	} bad[] = {
		{ "", "" },
		{ "127.0.0.1:2379", "http:// or https://" },
		{ "localhost:2379", "http:// or https://" },
		{ "ftp://a", "http:// or https://" },
		{ "file:///etc/passwd", "http:// or https://" },
		{ "http://user:secret@a", "write them to a file" },
		{ "http://user@a", "write them to a file" },
		{ "http://a/v3", "end after the host and the port" },
		{ "http://a?b", "end after the host and the port" },
		{ "http://a#b", "end after the host and the port" },
		{ "http://a:70000", "" },
		{ "http://a:b", "" },
		{ "http://a b", "" },
		{ "http://", "" },
	};
	char url[ETCD_URL_MAX], longest[ETCD_URL_MAX + 16];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(etcd_url_parse(url, good[i].text, why), 0);
		assert_string_equal(url, good[i].url);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(etcd_url_parse(url, bad[i].text, why), -EINVAL);
		assert_non_null(strstr(why, "is not the URL of an etcd: "));
		if (!strstr(why, bad[i].reason))
			fail_msg("%s", why);
	}
	snprintf(longest, sizeof(longest), "http://a%0240d", 0);
	assert_int_equal(etcd_url_parse(url, longest, why), 0);
	snprintf(longest, sizeof(longest), "http://a%0255d", 0);
	assert_int_equal(etcd_url_parse(url, longest, why), -EINVAL);
	assert_non_null(strstr(why, "too long"));
}

/* Options that can't be used, before anything is connected. */
static void options_refused(void **state)
{
	const char *many[ETCD_ENDPOINTS_MAX + 1] = { "http://a" };
	struct etcd_options options = { .urls = many };

	(void)state;
	assert_int_equal(etcd_open(&etcd, &options, why), -EINVAL);
	assert_string_equal(why, "give 1 to 16 URLs of etcd, not 0");
	options.url_count = ETCD_ENDPOINTS_MAX + 1;
	assert_int_equal(etcd_open(&etcd, &options, why), -EINVAL);
	options.url_count = 1;
	options.tls.ca = "/nowhere/ca";
	assert_int_equal(etcd_open(&etcd, &options, why), -EINVAL);
	assert_non_null(strstr(why, "/nowhere/ca"));
	options.tls.ca = "";
	options.user = "/nowhere/user";
	assert_int_equal(etcd_open(&etcd, &options, why), -EINVAL);
	assert_string_equal(why,
			    "the file of etcd's user, /nowhere/user: No such file or directory");
	assert_null(etcd);
	many[0] = "a";
	assert_int_equal(etcd_open(&etcd, &options, why), -EINVAL);
	etcd_close(NULL);
}

static void one_connection(void **state)
{
	(void)state;
	open_urls(fake_etcd_url(one), NULL, LONG_MS);
	for (unsigned int i = 0; i < 3; i++)
		fake_etcd_answer(one, 200, EMPTY);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(get(LONG_MS), 0);
	assert_non_null(strstr(fake_etcd_request(one, 2), "POST /v3/kv/range HTTP/1.1\r\n"));
	assert_non_null(strstr(fake_etcd_request(one, 2), "\r\n\r\n{\"key\":\"YQ==\"}"));
	assert_null(strstr(fake_etcd_request(one, 2), "Authorization"));
	assert_null(strstr(fake_etcd_request(one, 2), "serializable"));
	fake_etcd_assert_done(one);
}

static void outcomes(void **state)
{
	(void)state;
	open_urls(fake_etcd_url(one), fake_etcd_url(two), LONG_MS);
	fake_etcd_answer(one, 200, DONE);
	assert_int_equal(put(LONG_MS, 1), ETCD_SUCCEEDED);
	fake_etcd_answer(one, 200, NOT_DONE);
	assert_int_equal(put(LONG_MS, 1), ETCD_COMPARE_FAILED);
	fake_etcd_answer(one, 400, REFUSED("3", "etcdserver: duplicate key given in txn request"));
	assert_int_equal(put(LONG_MS, 1), ETCD_NOT_EXECUTED);
	assert_int_equal(etcd_error(etcd), -EINVAL);
	why_has("it refuses: etcdserver: duplicate key");
	why_has(fake_etcd_url(one));
	/* Too large for the module. */
	assert_int_equal(put(LONG_MS, ETCD_VALUE_MAX + 1), ETCD_NOT_EXECUTED);
	assert_int_equal(etcd_error(etcd), -EINVAL);
	assert_int_equal(etcd_current(etcd), 0);
	/* The second peer is asked later, but not by the same call. */
	fake_etcd_answer(one, 503, TIMED_OUT);
	assert_int_equal(put(LONG_MS, 1), ETCD_UNKNOWN);
	assert_int_equal(etcd_error(etcd), -EAGAIN);
	assert_int_equal(fake_etcd_count(two), 0);
	assert_int_equal(etcd_current(etcd), 1);
	fake_etcd_answer(two, 200, NOT_DONE);
	assert_int_equal(put(LONG_MS, 1), ETCD_COMPARE_FAILED);
	fake_etcd_assert_done(one);
	fake_etcd_assert_done(two);
}

/* What does not say what became of a transaction, each in an endpoint's answer. */
static void outcomes_unknown(void **state)
{
	static const struct fake_step steps[] = {
		{ .kind = FAKE_CUT },
		{ .kind = FAKE_RAW, .text = "HTTP/1.1 200 OK\r\nContent-Len" },
		{ .kind = FAKE_RAW, .text = "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" DONE },
		{ .kind = FAKE_RAW, .text = "HTTP/1.1 200 OK\r\n\r\n{" },
		{ .kind = FAKE_RAW, .text = "\0\1\2\3", .length = 4 },
		{ .kind = FAKE_RAW, .text = "220 mail.example ESMTP\r\n" },
		{ .kind = FAKE_ANSWER, .status = 200, .text = "<html>" },
		{ .kind = FAKE_ANSWER, .status = 200, .text = "{}" },
		{ .kind = FAKE_ANSWER, .status = 200, .text = EMPTY },
		{ .kind = FAKE_ANSWER, .status = 302, .text = "" },
		{ .kind = FAKE_ANSWER, .status = 404, .text = "404 page not found\n" },
		{ .kind = FAKE_ANSWER, .status = 502, .text = "<html>" },
		{ .kind = FAKE_ANSWER, .status = 500, .text = REFUSED("13", "internal") },
		{ .kind = FAKE_ANSWER, .status = 503, .text = TIMED_OUT },
	};

	(void)state;
	open_urls(fake_etcd_url(one), NULL, LONG_MS);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		fake_etcd_plan(one, &steps[i]);
		if (put(LONG_MS, 1) != ETCD_UNKNOWN)
			fail_msg("step %zu", i);
		why_has("etcd at http://127.0.0.1:");
		assert_int_equal(fake_etcd_count(one), i + 1);
	}
}

/* ETCD-2: libcurl sends a request again on another connection, where a kept one breaks. */
static void sent_once(void **state)
{
	(void)state;
	open_urls(fake_etcd_url(one), NULL, LONG_MS);
	fake_etcd_answer(one, 200, EMPTY);
	assert_int_equal(get(LONG_MS), 0);
	plan(one, (struct fake_step){ .kind = FAKE_CUT });
	assert_int_equal(put(LONG_MS, 1), ETCD_UNKNOWN);
	assert_int_equal(fake_etcd_count(one), 2);
	fake_etcd_answer(one, 200, EMPTY);
	assert_int_equal(get(LONG_MS), 0);
	/* A read does no harm. */
	plan(one, (struct fake_step){ .kind = FAKE_CUT });
	fake_etcd_answer(one, 200, EMPTY);
	assert_int_equal(get(LONG_MS), 0);
	fake_etcd_assert_done(one);
}

static void nobody_listens(void **state)
{
	(void)state;
	open_urls(fake_etcd_nobody(), fake_etcd_url(one), LONG_MS);
	/* That is certain, so the next one is asked. */
	fake_etcd_answer(one, 200, DONE);
	assert_int_equal(put(LONG_MS, 1), ETCD_SUCCEEDED);
	assert_int_equal(etcd_current(etcd), 1);
	fake_etcd_answer(one, 200, EMPTY);
	assert_int_equal(get(LONG_MS), 0);
	etcd_close(etcd);

	/* Or never, if the other one is asked first. */
	open_urls(fake_etcd_nobody(), fake_etcd_url(one), LONG_MS);
	etcd_prefer(etcd, 3);
	assert_int_equal(etcd_current(etcd), 1);
	fake_etcd_answer(one, 200, EMPTY);
	assert_int_equal(get(LONG_MS), 0);
	assert_int_equal(etcd_current(etcd), 1);
	etcd_close(etcd);

	open_urls(fake_etcd_nobody(), NULL, LONG_MS);
	assert_int_equal(put(LONG_MS, 1), ETCD_NOT_EXECUTED);
	assert_int_equal(etcd_error(etcd), -EHOSTUNREACH);
	why_has("start it, or correct its URL");
	assert_int_equal(get(LONG_MS), -EHOSTUNREACH);
	fake_etcd_nobody_end();
}

/* The first call waits for a peer that says nothing, and no later one. */
static void silence(void **state)
{
	(void)state;
	open_urls(fake_etcd_url(one), fake_etcd_url(two), SHORT_MS);
	plan(one, (struct fake_step){ .kind = FAKE_HOLD });
	for (unsigned int i = 0; i < 3; i++)
		fake_etcd_answer(two, 200, EMPTY);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(get(LONG_MS), 0);
	assert_int_equal(fake_etcd_count(one), 1);
	fake_etcd_assert_done(two);
	/* All are silent. The last one gets the rest of the time. */
	plan(one, (struct fake_step){ .kind = FAKE_HOLD });
	plan(two, (struct fake_step){ .kind = FAKE_HOLD });
	assert_int_equal(get(3 * SHORT_MS), -ETIMEDOUT);
	why_has("it does not answer in time");
	fake_etcd_assert_done(one);
	fake_etcd_assert_done(two);
	/* Nobody else is asked: it may be executed. */
	plan(two, (struct fake_step){ .kind = FAKE_HOLD });
	assert_int_equal(etcd_current(etcd), 1);
	assert_int_equal(put(3 * SHORT_MS, 1), ETCD_UNKNOWN);
	assert_int_equal(etcd_error(etcd), -ETIMEDOUT);
	fake_etcd_assert_done(one);
	fake_etcd_assert_done(two);
}

/* Of a large value, the part that the peer does not read. */
static void half_a_request(void **state)
{
	(void)state;
	open_urls(fake_etcd_url(one), fake_etcd_url(two), LONG_MS);
	plan(one, (struct fake_step){ .kind = FAKE_DEAF });
	assert_int_equal(put(SHORT_MS, ETCD_VALUE_MAX), ETCD_UNKNOWN);
	assert_int_equal(etcd_error(etcd), -ETIMEDOUT);
	fake_etcd_answer(two, 200, DONE);
	assert_int_equal(put(LONG_MS, ETCD_VALUE_MAX), ETCD_SUCCEEDED);
	assert_int_equal(fake_etcd_count(one), 1);
}

static void floods(void **state)
{
	static char much[65536];

	(void)state;
	open_urls(fake_etcd_url(one), NULL, LONG_MS);
	memset(much, 'x', sizeof(much) - 1);
	memcpy(much, "HTTP/1.1 200 OK\r\n\r\n", 19);
	plan(one, (struct fake_step){ .kind = FAKE_FLOOD, .text = much });
	assert_int_equal(get(LONG_MS), -EMSGSIZE);
	why_has("larger than 4 MiB");
	plan(one,
	     (struct fake_step){ .kind = FAKE_FLOOD, .text = "HTTP/1.1 100 Continue\r\n\r\n" });
	assert_true(get(LONG_MS) < 0);
	plan(one, (struct fake_step){ .kind = FAKE_FLOOD, .text = "HTTP/1.1 200 OK\r\nA: b\r\n" });
	assert_true(get(LONG_MS) < 0);
	plan(one,
	     (struct fake_step){ .kind = FAKE_FLOOD,
				 .text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
					 "ffffffffffffffff\r\n" });
	assert_true(get(LONG_MS) < 0);
	/* Not even a line. */
	plan(one, (struct fake_step){ .kind = FAKE_FLOOD, .text = "x" });
	assert_true(get(LONG_MS) < 0);
}

/* Reads go on at the next endpoint, whatever the first one is. */
static void reads_go_on(void **state)
{
	static const struct fake_step steps[] = {
		{ .kind = FAKE_CUT },
		{ .kind = FAKE_RAW, .text = "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{" },
		{ .kind = FAKE_ANSWER, .status = 200, .text = "<html>" },
		{ .kind = FAKE_ANSWER, .status = 301, .text = "" },
		{ .kind = FAKE_ANSWER, .status = 404, .text = "Not Found\n" },
		{ .kind = FAKE_ANSWER, .status = 503, .text = TIMED_OUT },
		{ .kind = FAKE_ANSWER,
		  .status = 503,
		  .text = REFUSED("14", "etcdserver: no leader") },
	};
	unsigned int count = sizeof(steps) / sizeof(steps[0]);

	(void)state;
	open_urls(fake_etcd_url(one), fake_etcd_url(two), LONG_MS);
	for (unsigned int i = 0; i < count; i++) {
		struct fake_etcd *first = etcd_current(etcd) ? two : one;

		fake_etcd_plan(first, &steps[i]);
		fake_etcd_answer(first == one ? two : one, 200, EMPTY);
		assert_int_equal(get(LONG_MS), 0);
	}
	/* What is of no endpoint alone ends the call. */
	fake_etcd_answer(etcd_current(etcd) ? two : one, 403, REFUSED("7", "permission denied"));
	assert_int_equal(get(LONG_MS), -EACCES);
	why_has("grant-permission");
	fake_etcd_assert_done(one);
	fake_etcd_assert_done(two);
	/* Each endpoint once. */
	fake_etcd_answer(one, 503, TIMED_OUT);
	fake_etcd_answer(two, 503, TIMED_OUT);
	assert_int_equal(get(LONG_MS), -EAGAIN);
	fake_etcd_assert_done(one);
	fake_etcd_assert_done(two);
}

static void has_token(struct fake_etcd *fake, unsigned int number, const char *token)
{
	char line[64];

	snprintf(line, sizeof(line), "\r\nAuthorization: %s\r\n", token);
	assert_non_null(strstr(fake_etcd_request(fake, number), line));
}

static void user_open(const char *text)
{
	struct etcd_options options = { .user = tls_ca_write("user", text, 0600) };

	open_with(&options, fake_etcd_url(one), NULL, LONG_MS);
}

static void users(void **state)
{
	(void)state;
	tls_ca_folder_make();
	user_open("kvd:a\"b:\\\t\xc3\xa4\nmore\n");
	fake_etcd_answer(one, 200, "{" HEADER ",\"token\":\"first.1\"}");
	fake_etcd_answer(one, 200, EMPTY);
	fake_etcd_answer(one, 200, DONE);
	assert_int_equal(get(LONG_MS), 0);
	assert_int_equal(put(LONG_MS, 1), ETCD_SUCCEEDED);
	assert_non_null(
		strstr(fake_etcd_request(one, 0), "POST /v3/auth/authenticate HTTP/1.1\r\n"));
	assert_non_null(strstr(fake_etcd_request(one, 0), "\r\n\r\n{\"name\":\"kvd\",\"password\":"
							  "\"a\\\"b:\\\\\\t\xc3\xa4\"}"));
	assert_null(strstr(fake_etcd_request(one, 0), "Authorization"));
	has_token(one, 1, "first.1");
	has_token(one, 2, "first.1");

	/* Not valid any more: once more with another one; what was refused had no effect. */
	tls_ca_write("user", "kvd:new", 0600);
	fake_etcd_answer(one, 401, REFUSED("16", "etcdserver: invalid auth token"));
	fake_etcd_answer(one, 200, "{" HEADER ",\"token\":\"second.2\"}");
	fake_etcd_answer(one, 200, DONE);
	assert_int_equal(put(LONG_MS, 1), ETCD_SUCCEEDED);
	assert_non_null(strstr(fake_etcd_request(one, 4), "\"password\":\"new\"}"));
	assert_null(strstr(fake_etcd_request(one, 4), "Authorization"));
	has_token(one, 5, "second.2");

	/* But only once. */
	for (unsigned int i = 0; i < 2; i++) {
		fake_etcd_answer(one, 401, REFUSED("16", "etcdserver: invalid auth token"));
		if (!i)
			fake_etcd_answer(one, 200, "{" HEADER ",\"token\":\"third.3\"}");
	}
	assert_int_equal(put(LONG_MS, 1), ETCD_NOT_EXECUTED);
	assert_int_equal(etcd_error(etcd), -EACCES);
	fake_etcd_assert_done(one);
	tls_ca_folder_remove();
}

static void users_refused(void **state)
{
	static const char wrong[] = REFUSED("3",
					    "etcdserver: authentication failed, invalid user ID "
					    "or password");

	(void)state;
	tls_ca_folder_make();
	user_open("kvd:secret");
	/* No transaction was sent, whatever became of the authentication. */
	plan(one, (struct fake_step){ .kind = FAKE_CUT });
	assert_int_equal(put(LONG_MS, 1), ETCD_NOT_EXECUTED);
	assert_int_equal(etcd_error(etcd), -ECONNRESET);
	fake_etcd_answer(one, 400, wrong);
	assert_int_equal(put(LONG_MS, 1), ETCD_NOT_EXECUTED);
	assert_int_equal(etcd_error(etcd), -EACCES);
	why_has("correct the file of the user");
	fake_etcd_answer(one, 200, EMPTY);
	assert_int_equal(put(LONG_MS, 1), ETCD_NOT_EXECUTED);
	assert_int_equal(etcd_error(etcd), -EPROTO);
	fake_etcd_answer(one, 503, TIMED_OUT);
	assert_int_equal(put(LONG_MS, 1), ETCD_NOT_EXECUTED);
	assert_null(strstr(etcd_why(etcd), "secret"));

	/* etcd asks for no user, and then for one. */
	fake_etcd_answer(one, 412, REFUSED("9", "etcdserver: authentication is not enabled"));
	fake_etcd_answer(one, 200, DONE);
	fake_etcd_answer(one, 200, DONE);
	assert_int_equal(put(LONG_MS, 1), ETCD_SUCCEEDED);
	assert_int_equal(put(LONG_MS, 1), ETCD_SUCCEEDED);
	fake_etcd_answer(one, 400, REFUSED("3", "etcdserver: user name is empty"));
	fake_etcd_answer(one, 200, "{" HEADER ",\"token\":\"now.1\"}");
	fake_etcd_answer(one, 200, DONE);
	assert_int_equal(put(LONG_MS, 1), ETCD_SUCCEEDED);
	has_token(one, fake_etcd_count(one) - 1, "now.1");
	fake_etcd_assert_done(one);
	tls_ca_folder_remove();
}

static void bad_user_files(void **state)
{
	static char longest[2000];
	static const char *const texts[] = { "", "\n", "kvd\n", ":secret\n", "kvd:\xff", longest };
	unsigned int i;

	(void)state;
	tls_ca_folder_make();
	memset(longest, 'x', sizeof(longest) - 1);
	longest[10] = ':';
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		user_open(texts[i]);
		assert_int_equal(get(LONG_MS), -EACCES);
		why_has("its first line must be NAME:PASSWORD");
		etcd_close(etcd);
		etcd = NULL;
	}
	/* 512 bytes each, of which each takes 6. */
	memset(longest, '\1', 1025);
	longest[512] = ':';
	longest[1025] = 0;
	user_open(longest);
	fake_etcd_answer(one, 200, "{" HEADER ",\"token\":\"x\"}");
	fake_etcd_answer(one, 200, EMPTY);
	assert_int_equal(get(LONG_MS), 0);
	assert_int_equal(fake_etcd_count(one), 2);
	tls_ca_folder_remove();
}

static void leases(void **state)
{
	int64_t lease = 0, ttl_s = 0;

	(void)state;
	open_urls(fake_etcd_url(one), NULL, LONG_MS);
	fake_etcd_answer(one, 200, "{" HEADER ",\"ID\":\"5\",\"TTL\":\"2\"}");
	assert_int_equal(etcd_lease_grant(etcd, 1, LONG_MS, &lease, &ttl_s), 0);
	assert_int_equal(lease, 5);
	assert_int_equal(ttl_s, 2);
	assert_non_null(strstr(fake_etcd_request(one, 0), "{\"TTL\":\"1\"}"));
	fake_etcd_answer(one, 200, EMPTY);
	assert_int_equal(etcd_lease_grant(etcd, 1, LONG_MS, &lease, &ttl_s), -EPROTO);

	fake_etcd_answer(one, 200, "{\"result\":{" HEADER ",\"ID\":\"5\",\"TTL\":\"2\"}}\n");
	assert_int_equal(etcd_lease_keepalive(etcd, 5, LONG_MS, &ttl_s), 0);
	assert_int_equal(ttl_s, 2);
	/* Without TTL: lost. */
	fake_etcd_answer(one, 200, "{\"result\":{" HEADER ",\"ID\":\"5\"}}\n");
	assert_int_equal(etcd_lease_keepalive(etcd, 5, LONG_MS, &ttl_s), -ENOENT);
	why_has("the lease has ended");

	/* Less than a second is left. */
	fake_etcd_answer(one, 200, "{" HEADER ",\"ID\":\"5\",\"grantedTTL\":\"2\"}");
	assert_int_equal(etcd_lease_ttl(etcd, 5, LONG_MS, &ttl_s), 0);
	assert_int_equal(ttl_s, 0);
	fake_etcd_answer(one, 200, "{" HEADER ",\"ID\":\"5\",\"TTL\":\"-1\"}");
	assert_int_equal(etcd_lease_ttl(etcd, 5, LONG_MS, &ttl_s), -ENOENT);

	fake_etcd_answer(one, 200, EMPTY);
	assert_int_equal(etcd_lease_revoke(etcd, 5, LONG_MS), 0);
	fake_etcd_answer(one, 404, REFUSED("5", "etcdserver: requested lease not found"));
	assert_int_equal(etcd_lease_revoke(etcd, 5, LONG_MS), -ENOENT);
	fake_etcd_assert_done(one);
}

static void statuses(void **state)
{
	struct etcd_status status;

	(void)state;
	open_urls(fake_etcd_url(one), fake_etcd_url(two), LONG_MS);
	fake_etcd_answer(two, 200, "{" HEADER ",\"version\":\"3.5.0\"}");
	assert_int_equal(etcd_status(etcd, 1, LONG_MS, &status), 0);
	assert_string_equal(status.version, "3.5.0");
	fake_etcd_answer(two, 503, TIMED_OUT);
	assert_int_equal(etcd_status(etcd, 1, LONG_MS, &status), -EAGAIN);
	why_has(fake_etcd_url(two));
	fake_etcd_answer(two, 200, "{}");
	assert_int_equal(etcd_status(etcd, 1, LONG_MS, &status), -EPROTO);
	why_has(fake_etcd_url(two));
	assert_int_equal(fake_etcd_count(one), 0);
	assert_int_equal(etcd_current(etcd), 0);
}

static void *interrupt(void *user)
{
	fake_etcd_await(user, 1);
	etcd_interrupt(etcd);
	return NULL;
}

static void interrupted(void **state)
{
	pthread_t thread;

	(void)state;
	open_urls(fake_etcd_url(one), fake_etcd_url(two), LONG_MS);
	plan(one, (struct fake_step){ .kind = FAKE_HOLD });
	assert_int_equal(pthread_create(&thread, NULL, interrupt, one), 0);
	assert_int_equal(put(LONG_MS, 1), ETCD_UNKNOWN);
	assert_int_equal(etcd_error(etcd), -ECANCELED);
	pthread_join(thread, NULL);
	/* Later calls send nothing. */
	assert_int_equal(put(LONG_MS, 1), ETCD_NOT_EXECUTED);
	assert_int_equal(get(LONG_MS), -ECANCELED);
	assert_int_equal(fake_etcd_count(one) + fake_etcd_count(two), 1);
	etcd_resume(etcd);
	fake_etcd_answer(one, 200, EMPTY);
	assert_int_equal(get(LONG_MS), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(urls),
		cmocka_unit_test(options_refused),
		cmocka_unit_test_setup_teardown(one_connection, peers_start, peers_stop),
		cmocka_unit_test_setup_teardown(outcomes, peers_start, peers_stop),
		cmocka_unit_test_setup_teardown(outcomes_unknown, peers_start, peers_stop),
		cmocka_unit_test_setup_teardown(sent_once, peers_start, peers_stop),
		cmocka_unit_test_setup_teardown(nobody_listens, peers_start, peers_stop),
		cmocka_unit_test_setup_teardown(silence, peers_start, peers_stop),
		cmocka_unit_test_setup_teardown(half_a_request, peers_start, peers_stop),
		cmocka_unit_test_setup_teardown(floods, peers_start, peers_stop),
		cmocka_unit_test_setup_teardown(reads_go_on, peers_start, peers_stop),
		cmocka_unit_test_setup_teardown(users, peers_start, peers_stop),
		cmocka_unit_test_setup_teardown(users_refused, peers_start, peers_stop),
		cmocka_unit_test_setup_teardown(bad_user_files, peers_start, peers_stop),
		cmocka_unit_test_setup_teardown(leases, peers_start, peers_stop),
		cmocka_unit_test_setup_teardown(statuses, peers_start, peers_stop),
		cmocka_unit_test_setup_teardown(interrupted, peers_start, peers_stop),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
