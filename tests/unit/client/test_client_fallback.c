/* SPDX-License-Identifier: MIT */
/*
 * Lookups whose READs lead to no result, so that they ask the server: each way to look up, where
 * the answer is right, where the server is busy, and where the
 * answer is what the protocol does not allow. What is returned, also to others of the same call,
 * what kvd_error() says, and whether the handle goes on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/calls.h"

#define MIDDLE_KEY 4u
#define MIDDLE_BYTES 5000u /* it fits no response, but the ring */
#define MANY 40u	   /* more than a call looks up at once */
#define UNTOUCHED 0x5555555555555555u

static struct fake_server *server;
static struct kvd *kvd;
static const uint64_t keys[] = { 0, 1, 2, 3, MIDDLE_KEY };
static uint8_t found[CALLS_LARGE_BYTES];
static void (*breaks)(struct wire_response *response); /* what is done to an answer to a GET, */
static unsigned int answers, first, last;	       /* from this one to that one */
static bool cut;				       /* it is shorter than it says */

/* No bucket verifies. */
static void tear(struct fake_server *p, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	(void)p;
	(void)bytes;
	if (offset < FAKE_SERVER_REGION_BYTES / 4)
		to[16] ^= 1;
}

static void answer(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	if ((response->op != WIRE_GET && response->op != WIRE_TOUCH) || !breaks)
		return;
	answers++;
	if (answers >= first && answers <= last)
		breaks(response);
}

static int (*real_poll_cq)(struct ibv_cq *cq, int count, struct ibv_wc *wcs);

static int cutting_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wcs)
{
	int i, n = real_poll_cq(cq, count, wcs);

	for (i = 0; cut && i < n; i++)
		if (wcs[i].byte_len >= sizeof(struct wire_response))
			wcs[i].byte_len--;
	return n;
}

static int setup(void **state)
{
	(void)state;
	server = calls_open();
	kvd = &server->kvd;
	kvd->options.get_tries = 2;
	fake_server_put(server, MIDDLE_KEY, MIDDLE_BYTES, 0);
	server->after_read = tear;
	server->before_response = answer;
	real_poll_cq = server->fake.context.ops.poll_cq;
	server->fake.context.ops.poll_cq = cutting_poll_cq;
	breaks = NULL;
	cut = false;
	answers = 0;
	first = 1;
	last = UINT32_MAX;
	return 0;
}

/* Each returns what its operation ended with, and says whether its value is right. */
static enum kvd_status submitted(struct kvd_op *op, uint32_t bytes)
{
	struct kvd_op *list[] = { op }, *done[1];
	enum kvd_status status;
	size_t i;

	memset(found, 0, sizeof(found));
	op->item.version = UNTOUCHED;
	status = kvd_submit(kvd, list, 1);
	if (status)
		return status;
	assert_int_equal(kvd_wait(kvd, done, 1, 1, UINT32_MAX), 1);
	if (op->status) {
		assert_true(op->item.version == UNTOUCHED);
		return op->status;
	}
	assert_int_equal(op->item.value_len, bytes);
	for (i = 0; op->op != KVD_OP_EXISTS && i < bytes; i++)
		assert_int_equal(found[i], *(const uint8_t *)op->key);
	return KVD_OK;
}

static enum kvd_status submit_get(struct kvd *handle)
{
	struct kvd_op op;

	(void)handle;
	kvd_prep_get(&op, &keys[2], 8, found, sizeof(found));
	return submitted(&op, 20);
}

static enum kvd_status submit_get_middle(struct kvd *handle)
{
	struct kvd_op op;

	(void)handle;
	kvd_prep_get(&op, &keys[MIDDLE_KEY], 8, found, sizeof(found));
	return submitted(&op, MIDDLE_BYTES);
}

static enum kvd_status submit_get_large(struct kvd *handle)
{
	struct kvd_op op;

	(void)handle;
	kvd_prep_get(&op, &keys[1], 8, found, sizeof(found));
	return submitted(&op, CALLS_LARGE_BYTES);
}

static enum kvd_status submit_getv_large(struct kvd *handle)
{
	const struct iovec iov[2] = { { found, 100 }, { found + 100, sizeof(found) - 100 } };
	struct kvd_op op;

	(void)handle;
	kvd_prep_getv(&op, &keys[1], 8, iov, 2);
	return submitted(&op, CALLS_LARGE_BYTES);
}

static enum kvd_status submit_exists(struct kvd *handle)
{
	struct kvd_op op;

	(void)handle;
	kvd_prep_exists(&op, &keys[1], 8);
	return submitted(&op, CALLS_LARGE_BYTES);
}

static enum kvd_status get_middle(struct kvd *handle)
{
	return kvd_get(handle, &keys[MIDDLE_KEY], 8, found, sizeof(found), NULL);
}

static const struct call others[] = {
	{ "kvd_get of a middle value", CALL_LOOKUP, get_middle },
	{ "kvd_submit of a GET", CALL_LOOKUP, submit_get },
	{ "kvd_submit of a GET of a middle value", CALL_LOOKUP, submit_get_middle },
	{ "kvd_submit of a GET of a large value", CALL_LOOKUP, submit_get_large },
	{ "kvd_submit of a GET of a large value in pieces", CALL_LOOKUP, submit_getv_large },
	{ "kvd_submit of an EXISTS", CALL_LOOKUP, submit_exists },
};
#define OTHERS (sizeof(others) / sizeof(others[0]))

/* The lookups, and GETs that ask at once; NULL: there are no more. */
static const struct call *lookup_at(unsigned int n)
{
	for (unsigned int i = 0; i < call_count; i++)
		if ((calls[i].kind == CALL_LOOKUP || !strncmp(calls[i].name, "kvd_get_", 8)) &&
		    !n--)
			return &calls[i];
	return n < OTHERS ? &others[n] : NULL;
}

static bool is_existence(const struct call *call)
{
	return strstr(call->name, "exists") || strstr(call->name, "EXISTS");
}

static bool changes(const struct call *call)
{
	return strstr(call->name, "touch");
}

static bool by_request(const struct call *call)
{
	return strstr(call->name, "by_request") || changes(call);
}

/* Keys of such a call have statuses of their own, and it does not fail if only they do. */
static bool is_many(const struct call *call)
{
	return strstr(call->name, "many");
}

static void assert_works(const struct call *call)
{
	enum kvd_status status;

	breaks = NULL;
	cut = false;
	calls_reset();
	status = call->run(kvd);
	if (status || calls_others(KVD_OK))
		fail_msg("%s: %s: %s", call->name, kvd_status_text(status), kvd_error(kvd));
}

/* @call: what each of its keys has. */
static void judge(const struct call *call, const char *what, enum kvd_status status,
		  enum kvd_status want, enum kvd_status each, const char *text)
{
	if (status != want || calls_others(each) || !strstr(kvd_error(kvd), text) ||
	    !calls_untouched())
		fail_msg("%s, %s: %s: %s", call->name, what, kvd_status_text(status),
			 kvd_error(kvd));
	assert_int_equal(kvd_outstanding(kvd), 0);
}

static void answered(void **state)
{
	const struct call *call;
	unsigned int n;

	for (n = 0; (call = lookup_at(n)); n++) {
		calls_anew(state, setup);
		assert_works(call);
		assert_true(server->gets > 0);
		if (by_request(call))
			assert_int_equal(kvd->stats.fallbacks, 0);
		else
			assert_in_range(kvd->stats.fallbacks, 1, server->gets);
		assert_int_equal(kvd->stats.cache_hits, 0);
	}
}

/* How an answer breaks the protocol. */
static void another_request(struct wire_response *response)
{
	response->id ^= MESSAGES_MAX;
}

static void another_operation(struct wire_response *response)
{
	response->op = WIRE_PING;
	response->flags = 0;
	response->value_len = 0;
}

static void no_such_status(struct wire_response *response)
{
	response->status = 200;
}

static void no_such_flag(struct wire_response *response)
{
	response->flags |= 0x8000;
}

static void a_wide_window(struct wire_response *response)
{
	response->window = WIRE_WINDOW_MAX + 1;
}

static void too_short(struct wire_response *response)
{
	(void)response;
	cut = true;
}

static void pins(struct wire_response *response)
{
	response->flags |= WIRE_R_PINS;
}

/* No number was sent with it by which it could be known. */
static void repeated(struct wire_response *response)
{
	response->flags = WIRE_R_REPEATED;
	response->value_len = 0;
}

static void more_than_the_value(struct wire_response *response)
{
	response->result = response->value_len;
	response->value_len++;
}

/* No part of the value; where that is right, as for whether a key exists, a byte. */
static void no_part_of_it(struct wire_response *response)
{
	if (response->value_len)
		response->value_len = 0;
	else
		response->value_len = 1;
}

/* The answer to whether a key exists has no value. */
static void not_asked_for(struct wire_response *response)
{
	response->result = response->value_len = 20;
}

static void another_version(struct wire_response *response)
{
	response->status = WIRE_PROTOCOL;
	response->flags = 0;
	response->value_len = 0;
}

static const struct malformed {
	const char *name, *text;
	void (*breaks)(struct wire_response *response);
	bool ends; /* what it answers; the others answer nothing */
	bool exists_only;
} malformed[] = {
	{ "another request", "another request", another_request, false, false },
	{ "another operation", "another request", another_operation, false, false },
	{ "status", "unknown operation or status", no_such_status, false, false },
	{ "flag", "unknown flags", no_such_flag, false, false },
	{ "window", "window out of range", a_wide_window, false, false },
	{ "too short", "malformed response", too_short, false, false },
	{ "pins", "unknown flags", pins, false, false },
	{ "repeated", "malformed response", repeated, true, false },
	{ "too much", "malformed response", more_than_the_value, true, false },
	{ "nothing", "malformed response", no_part_of_it, true, false },
	{ "a value", "not asked for", not_asked_for, true, true },
	{ "another version", "same version of kvd", another_version, true, false },
};
#define MALFORMED (sizeof(malformed) / sizeof(malformed[0]))

/* Each of them, and each call that it may be the answer to, on a handle of its own. */
static void each_malformed(void **state,
			   void (*expect)(const struct call *call, const struct malformed *answer))
{
	const struct call *call;
	unsigned int i, n;

	for (i = 0; i < MALFORMED; i++)
		for (n = 0; (call = lookup_at(n)); n++) {
			if (malformed[i].exists_only && !is_existence(call))
				continue;
			calls_anew(state, setup);
			breaks = malformed[i].breaks;
			expect(call, &malformed[i]);
		}
}

/* The handle has failed for ever, and the reason stays known. */
static void expect_an_end(const struct call *call, const struct malformed *answer)
{
	judge(call, answer->name, call->run(kvd), KVD_ERR_PROTOCOL, KVD_ERR_PROTOCOL, answer->text);
	assert_non_null(strstr(kvd_error(kvd), "server"));
	breaks = NULL;
	assert_int_equal(call->run(kvd), KVD_ERR_DISCONNECTED);
	assert_non_null(strstr(kvd_error(kvd), answer->text));
	assert_int_equal(kvd->conn.lost, KVD_ERR_PROTOCOL);
}

static void malformed_answers(void **state)
{
	each_malformed(state, expect_an_end);
}

static void accept_try(struct fake_device *fake)
{
	breaks = NULL;
	cut = false;
	fake_device_event(fake, CM_ESTABLISHED, 0);
}

/* The connection is lost: the handle connects again, to a server that does better, and goes on. */
static void expect_a_loss(const struct call *call, const struct malformed *answer)
{
	enum kvd_status status, want;

	kvd->options.reconnect = 1;
	server->fake.connect = accept_try;
	status = call->run(kvd);
	want = answer->ends ? KVD_ERR_PROTOCOL : changes(call) ? KVD_ERR_UNKNOWN : KVD_OK;
	if (status != want && !(answer->ends && is_many(call)))
		fail_msg("%s, %s: %s: %s", call->name, answer->name, kvd_status_text(status),
			 kvd_error(kvd));
	assert_int_equal(kvd_outstanding(kvd), 0);
	assert_works(call);
	assert_int_equal(kvd->stats.reconnects, 1);
}

static void malformed_once(void **state)
{
	each_malformed(state, expect_a_loss);
}

static struct kvd_get_request requests[MANY];

static enum kvd_status get_many(void)
{
	unsigned int i;

	for (i = 0; i < MANY; i++)
		requests[i] = (struct kvd_get_request){
			.key = &keys[2 + i % 2],
			.key_len = 8,
			.value = found + (size_t)i * 20,
			.value_size = 20,
		};
	memset(found, 0, sizeof(found));
	return kvd_get_many(kvd, requests, MANY);
}

static void assert_request(unsigned int i, enum kvd_status want)
{
	const uint8_t *value = requests[i].value;
	size_t n;

	if (requests[i].status != want)
		fail_msg("request %u: %s", i, kvd_status_text(requests[i].status));
	assert_int_equal(requests[i].item.value_len, want ? 0 : 20);
	for (n = 0; n < 20; n++)
		assert_int_equal(value[n], want ? 0 : 2 + i % 2);
}

/* Operations that were answered before are done. */
static void malformed_among_many(void **state)
{
	unsigned int i, n;

	for (n = 0; n < MANY; n++) {
		calls_anew(state, setup);
		breaks = another_request;
		first = n + 1;
		assert_int_equal(get_many(), KVD_ERR_PROTOCOL);
		for (i = 0; i < MANY; i++)
			assert_request(i, i < n ? KVD_OK : KVD_ERR_PROTOCOL);
	}
}

static void busy(struct wire_response *response)
{
	response->status = WIRE_BUSY;
	response->flags = 0;
	response->value_len = 0;
}

/* The server refuses each request: the keys of many have the status, and the others return it. */
static void busy_answers(void **state)
{
	const struct call *call;
	unsigned int n;

	for (n = 0; (call = lookup_at(n)); n++) {
		calls_anew(state, setup);
		breaks = busy;
		judge(call, "busy", call->run(kvd), is_many(call) ? KVD_OK : KVD_ERR_BUSY,
		      KVD_ERR_BUSY, "try again later");
		assert_works(call);
	}
}

static void busy_among_many(void **state)
{
	unsigned int i, n;

	for (n = 0; n < MANY; n++) {
		calls_anew(state, setup);
		breaks = busy;
		first = last = n + 1;
		assert_int_equal(get_many(), KVD_OK);
		for (i = 0; i < MANY; i++)
			assert_request(i, i == n ? KVD_ERR_BUSY : KVD_OK);
		assert_non_null(strstr(kvd_error(kvd), "try again later"));
		breaks = NULL;
		assert_int_equal(get_many(), KVD_OK);
		assert_request(n, KVD_OK);
	}
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, calls_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(answered),	      CASE(malformed_answers),
		CASE(malformed_once), CASE(malformed_among_many),
		CASE(busy_answers),   CASE(busy_among_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
