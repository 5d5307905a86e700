/* SPDX-License-Identifier: MIT */
/*
 * What kvd.h says of what is the caller's after a failure: buffers and values of calls that timed
 * out, operations that were refused or whose handle was closed; and that what is refused changes
 * nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/calls.h"

#define MARK 0xee
#define PULLS 4u

static struct fake_server *server;
static struct kvd *kvd;
static const uint64_t keys[] = { 0, 1, 2, 3 };
static uint8_t *buffer; /* of CALLS_LARGE_BYTES; it may be freed, and is allocated anew */
static uint64_t pulled_at[PULLS];
static unsigned int pulls;

static void respond(struct fake_server *p, const struct request *request,
		    struct wire_response *response, uint8_t *value)
{
	calls_respond(p, request, response, value);
	if (request->flags & WIRE_F_PULL)
		pulled_at[pulls++ % PULLS] = request->pull_addr;
}

static int setup(void **state)
{
	(void)state;
	server = calls_open();
	kvd = &server->kvd;
	server->respond = respond;
	buffer = calloc(1, CALLS_LARGE_BYTES);
	pulls = 0;
	return !buffer;
}

static int teardown(void **state)
{
	(void)state;
	kvd_close(kvd);
	kvd_observe(NULL, 0);
	free(buffer);
	return 0;
}

/* Each GET that has a buffer: synchronous, and submitted. */
static enum kvd_status get(void)
{
	return kvd_get(kvd, &keys[2], 8, buffer, CALLS_LARGE_BYTES, NULL);
}

static enum kvd_status get_large(void)
{
	return kvd_get(kvd, &keys[1], 8, buffer, CALLS_LARGE_BYTES, NULL);
}

static enum kvd_status getv(void)
{
	const struct iovec iov[2] = { { buffer + 9000, CALLS_LARGE_BYTES - 9000 },
				      { buffer, 9000 } };

	return kvd_getv(kvd, &keys[1], 8, iov, 2, NULL);
}

static enum kvd_status get_by_request(void)
{
	return kvd_get_by_request(kvd, &keys[2], 8, buffer, CALLS_LARGE_BYTES, NULL);
}

static enum kvd_status get_by_request_large(void)
{
	return kvd_get_by_request(kvd, &keys[1], 8, buffer, CALLS_LARGE_BYTES, NULL);
}

static enum kvd_status get_and_touch(void)
{
	return kvd_get_and_touch(kvd, &keys[2], 8, 5, buffer, CALLS_LARGE_BYTES, NULL);
}

static enum kvd_status get_many(void)
{
	struct kvd_get_request requests[2] = {
		{ .key = &keys[2], .key_len = 8, .value = buffer, .value_size = 20 },
		{ .key = &keys[3], .key_len = 8, .value = buffer + 20, .value_size = 20 },
	};

	return kvd_get_many(kvd, requests, 2);
}

static enum kvd_status submitted(enum kvd_opcode code, const uint64_t *key)
{
	struct kvd_op *op = calloc(1, sizeof(*op)), *done[1];
	enum kvd_status status;

	assert_non_null(op);
	kvd_prep(op, code, key, 8);
	op->value = buffer;
	op->value_len = CALLS_LARGE_BYTES;
	assert_int_equal(kvd_submit(kvd, &op, 1), KVD_OK);
	assert_int_equal(kvd_wait(kvd, done, 1, 1, UINT32_MAX), 1);
	status = op->status;
	free(op);
	return status;
}

static enum kvd_status submit_get(void)
{
	return submitted(KVD_OP_GET, &keys[2]);
}

static enum kvd_status submit_get_large(void)
{
	return submitted(KVD_OP_GET, &keys[1]);
}

static enum kvd_status submit_get_by_request(void)
{
	return submitted(KVD_OP_GET_BY_REQUEST, &keys[2]);
}

static enum kvd_status submit_get_and_touch(void)
{
	return submitted(KVD_OP_GET_AND_TOUCH, &keys[1]);
}

static const struct {
	const char *name;
	enum kvd_status (*run)(void);
} gets[] = {
	{ "kvd_get", get },
	{ "kvd_get of a large value", get_large },
	{ "kvd_getv", getv },
	{ "kvd_get_by_request", get_by_request },
	{ "kvd_get_by_request of a large value", get_by_request_large },
	{ "kvd_get_and_touch", get_and_touch },
	{ "kvd_get_many", get_many },
	{ "kvd_submit of a GET", submit_get },
	{ "kvd_submit of a GET of a large value", submit_get_large },
	{ "kvd_submit of a GET_BY_REQUEST", submit_get_by_request },
	{ "kvd_submit of a GET_AND_TOUCH of a large value", submit_get_and_touch },
};
#define GETS (sizeof(gets) / sizeof(gets[0]))

static void release(void)
{
	server->hold_all = server->fake.hold_reads = false;
	fake_server_answer(server, server->queued);
	fake_device_release(&server->fake);
}

/* What comes late goes nowhere; the same buffer may be used again at once, or freed. */
static void buffers_after_a_timeout(void **state)
{
	unsigned int i, n, freed;
	enum kvd_status status;

	for (i = 0; i < 2 * GETS; i++) {
		if (teardown(state) + setup(state))
			fail();
		n = i / 2;
		freed = i % 2;
		kvd->options.timeout_ms = 1;
		server->hold_all = server->fake.hold_reads = true;
		status = gets[n].run();
		if (status != KVD_ERR_TIMEOUT)
			fail_msg("%s: %s: %s", gets[n].name, kvd_status_text(status),
				 kvd_error(kvd));
		kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
		if (freed) {
			free(buffer);
			buffer = NULL;
		} else {
			memset(buffer, MARK, CALLS_LARGE_BYTES);
		}
		release();
		assert_int_equal(kvd_ping(kvd), KVD_OK);
		assert_int_equal(kvd_poll(kvd, NULL, 0), 0);
		for (size_t at = 0; !freed && at < CALLS_LARGE_BYTES; at++)
			if (buffer[at] != MARK)
				fail_msg("%s wrote byte %zu", gets[n].name, at);
		if (freed)
			buffer = calloc(1, CALLS_LARGE_BYTES);
		assert_non_null(buffer);
		status = gets[n].run();
		if (status)
			fail_msg("%s: %s: %s", gets[n].name, kvd_status_text(status),
				 kvd_error(kvd));
	}
}

static void assert_pulled(unsigned int n, uint8_t byte)
{
	const uint8_t *value = (const uint8_t *)(uintptr_t)pulled_at[n];

	assert_true(n < pulls);
	for (size_t at = 0; at < CALLS_LARGE_BYTES; at++)
		if (value[at] != byte)
			fail_msg("value %u, byte %zu", n, at);
}

/*
 * The server may READ a value whose PUT has timed out: it finds what was stored, whatever the
 * caller does with its memory, and whatever is stored next.
 */
static void values_after_a_timeout(void **state)
{
	unsigned int i;

	(void)state;
	server->hold_all = true;
	kvd->options.timeout_ms = 1;
	for (i = 0; i < PULLS; i++) {
		memset(buffer, (int)i + 1, CALLS_LARGE_BYTES);
		assert_int_equal(kvd_put(kvd, &keys[0], 8, buffer, CALLS_LARGE_BYTES, NULL, NULL),
				 KVD_ERR_TIMEOUT);
	}
	memset(buffer, MARK, CALLS_LARGE_BYTES);
	assert_int_equal(pulls, PULLS);
	for (i = 0; i < PULLS; i++)
		assert_pulled(i, (uint8_t)(i + 1));
	kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
	release();
	assert_int_equal(kvd_put(kvd, &keys[0], 8, buffer, CALLS_LARGE_BYTES, NULL, NULL), KVD_OK);
	assert_int_equal(kvd->bounces, 0);
}

static void never_done(struct kvd_op *op, void *user)
{
	(void)op, (void)user;
	fail();
}

#define OPS 40u /* more than are in flight, of which some have ended */

static void prepare_each(struct kvd_op *ops)
{
	unsigned int i;

	for (i = 0; i < OPS; i++)
		if (i % 3 == 0)
			kvd_prep_put(&ops[i], &keys[0], 8, buffer, i % 2 ? 5000 : 5, NULL);
		else if (i % 3 == 1)
			kvd_prep_get(&ops[i], &keys[1], 8, buffer, CALLS_LARGE_BYTES);
		else
			kvd_prep_get_by_request(&ops[i], &keys[2], 8, buffer, 20);
}

/* kvd_close() hands nothing back; each may then be prepared for another handle, or freed. */
static void operations_of_a_closed_handle(void **state)
{
	struct kvd_op *ops, *list[OPS], *done[OPS];
	unsigned int i;

	ops = calloc(OPS, sizeof(*ops));
	assert_non_null(ops);
	kvd->options.depth = 16;
	prepare_each(ops);
	for (i = 0; i < OPS; i++) {
		list[i] = &ops[i];
		if (i >= 4 && i % 4 == 0)
			ops[i].done = never_done;
	}
	/* Four have ended and are not handed back, of which two would be called back. */
	ops[1].done = ops[2].done = never_done;
	assert_int_equal(kvd_submit(kvd, list, 4), KVD_OK);
	while (kvd->ended < 4)
		assert_int_equal(kvd_ping(kvd), KVD_OK);
	server->hold_all = server->fake.hold_reads = true;
	assert_int_equal(kvd_submit(kvd, list + 4, OPS - 4), KVD_OK);
	assert_int_equal(kvd_outstanding(kvd), OPS);
	kvd_close(kvd);

	free(buffer);
	if (setup(state))
		fail();
	prepare_each(ops);
	assert_int_equal(kvd_submit(kvd, list, OPS), KVD_OK);
	assert_int_equal(kvd_wait(kvd, done, OPS, OPS, UINT32_MAX), OPS);
	for (i = 0; i < OPS; i++)
		assert_int_equal(ops[i].status, KVD_OK);
	free(ops);
}

/* All or none: one that could not be submitted is as it was before, and so are those beside it. */
static void operations_that_are_refused(void **state)
{
	struct kvd_op ops[3], *list[] = { &ops[0], &ops[1], &ops[2] }, *done[3];
	static const enum kvd_status wants[] = {
		KVD_ERR_INVALID,
		KVD_ERR_TOO_LARGE,
		KVD_ERR_DISCONNECTED,
	};
	unsigned int i;

	for (i = 0; i < 3; i++) {
		if (teardown(state) + setup(state))
			fail();
		kvd_prep_put(&ops[0], &keys[0], 8, buffer, 5, NULL);
		kvd_prep_put(&ops[1], &keys[0], 8, buffer, 5, NULL);
		kvd_prep_get(&ops[2], &keys[2], 8, buffer, 20);
		if (wants[i] == KVD_ERR_INVALID)
			ops[1].mode = (enum kvd_put_mode)6;
		else if (wants[i] == KVD_ERR_TOO_LARGE)
			ops[1].value_len = server->geometry.value_max + 1;
		else
			fake_device_lose(&server->fake);
		assert_int_equal(kvd_poll(kvd, NULL, 0), 0);
		assert_int_equal(kvd_submit(kvd, list, 3), wants[i]);
		assert_int_equal(kvd_outstanding(kvd), 0);
		assert_int_equal(server->requests, 0);
		if (wants[i] == KVD_ERR_DISCONNECTED && teardown(state) + setup(state))
			fail();
		ops[0].value = ops[1].value = ops[2].value = buffer;
		ops[1].mode = KVD_PUT_SET;
		ops[1].value_len = 5;
		assert_int_equal(kvd_submit(kvd, list, 3), KVD_OK);
		assert_int_equal(kvd_wait(kvd, done, 3, 3, UINT32_MAX), 3);
		assert_true(!ops[0].status && !ops[1].status && !ops[2].status);
	}
}

static void count(void *user, const struct kvd_trace_event *event)
{
	*(unsigned int *)user += event->ended;
}

static void count_others(void *user, const struct kvd_trace_event *event)
{
	(void)user, (void)event;
	fail();
}

/* KVD_ERR_BUSY: what was observed and traced before is so still. */
static void observing_while_it_is_busy(void **state)
{
	struct kvd_op ping, *list[] = { &ping };
	struct kvd_op_stats stats;
	unsigned int traced = 0;

	(void)state;
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	assert_int_equal(kvd_trace(kvd, count, &traced), KVD_OK);
	server->hold_all = true;
	kvd_prep_ping(&ping);
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OFF), KVD_ERR_BUSY);
	assert_int_equal(kvd_trace(kvd, NULL, NULL), KVD_ERR_BUSY);
	assert_int_equal(kvd_trace(kvd, count_others, NULL), KVD_ERR_BUSY);
	release();
	assert_int_equal(kvd_wait(kvd, list, 1, 1, UINT32_MAX), 1);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(traced, 2);
	assert_int_equal(kvd_op_stats(kvd, KVD_OP_PING, KVD_PATH_REQUEST, &stats, sizeof(stats)),
			 KVD_OK);
	assert_int_equal(stats.count, 2);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(buffers_after_a_timeout),	     CASE(values_after_a_timeout),
		CASE(operations_of_a_closed_handle), CASE(operations_that_are_refused),
		CASE(observing_while_it_is_busy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
