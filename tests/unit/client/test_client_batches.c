/* SPDX-License-Identifier: MIT */
/*
 * Requests that share a message: each says there what it says alone; access records go with them;
 * and a response that has not exactly one result for each closes the connection.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/fake_server.h"

#define OPS 16

static struct fake_server *server;
static struct kvd *kvd;
static struct kvd_op ops[OPS], *list[OPS], *done[OPS];
static unsigned int count;
static struct request seen[2 * OPS]; /* with their first 8 bytes of value */
static uint8_t seen_values[2 * OPS][8];
static uint64_t seen_keys[2 * OPS];
static unsigned int seen_count;
static uint64_t keys[OPS];

static void note(struct fake_server *p, const struct request *request,
		 struct wire_response *response, uint8_t *value)
{
	(void)p, (void)value;
	assert_true(seen_count < 2 * OPS);
	seen[seen_count] = *request;
	memcpy(&seen_keys[seen_count], request->key, 8);
	if (request->value_len)
		memcpy(seen_values[seen_count], request->value,
		       request->value_len < 8 ? request->value_len : 8);
	response->version = ++seen_count;
}

static int setup(void **state)
{
	unsigned int i;

	(void)state;
	server = fake_server_open(4, 4, 1, 60000, NULL);
	kvd = &server->kvd;
	server->respond = note;
	memset(seen_values, 0, sizeof(seen_values));
	seen_count = count = 0;
	for (i = 0; i < OPS; i++) {
		keys[i] = 100 + i;
		list[i] = &ops[i];
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kvd_close(kvd);
	return 0;
}

static struct kvd_op *next_op(void)
{
	return &ops[count++];
}

static void add_put(const struct kvd_put_args *args)
{
	uint64_t *key = &keys[count];

	kvd_prep_put(next_op(), key, 8, "12345678", 8, args);
}

/* Each operation that may share a message, with every argument that it can have. */
static void prepare_all(void)
{
	static const struct kvd_put_args puts[] = {
		{ .flags = 0xabcdef01, .ttl_s = 77 },
		{ .mode = KVD_PUT_IF_ABSENT, .pin_s = 1234 },
		{ .mode = KVD_PUT_IF_PRESENT, .priority = KVD_PRIORITY_LOW },
		{ .mode = KVD_PUT_IF_VERSION, .if_version = 7ull << 40 | 5 },
		{ .mode = KVD_PUT_APPEND },
		{ .mode = KVD_PUT_PREPEND },
	};
	static const struct kvd_arith_args arith = { 1, 0x1234567, 88, 9ull << 50 | 1 };
	unsigned int i;

	count = 0;
	for (i = 0; i < sizeof(puts) / sizeof(puts[0]); i++)
		add_put(&puts[i]);
	kvd_prep_delete(next_op(), &keys[6], 8);
	kvd_prep_delete_if(next_op(), &keys[7], 8, 3ull << 33 | 1);
	kvd_prep_incr(next_op(), &keys[8], 8, 5ull << 44 | 3, &arith);
	kvd_prep_decr(next_op(), &keys[9], 8, 6, NULL);
	kvd_prep_touch(next_op(), &keys[10], 8, 99);
}

static void submit_and_wait(unsigned int first, unsigned int n)
{
	unsigned int left = n;

	assert_int_equal(kvd_submit(kvd, list + first, n), KVD_OK);
	while (left)
		left -= (unsigned int)kvd_wait(kvd, done, OPS, left, UINT32_MAX);
}

static void assert_same(const struct request *a, const struct request *b)
{
	assert_int_equal(a->op, b->op);
	assert_int_equal(a->mode, b->mode);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->key_len, b->key_len);
	assert_int_equal(a->value_len, b->value_len);
	assert_int_equal(a->ttl, b->ttl);
	assert_int_equal(a->arg32, b->arg32);
	assert_true(a->arg64 == b->arg64);
	assert_true(a->arg_addr == b->arg_addr);
}

static void each_says_what_it_says_alone(void **state)
{
	unsigned int i;

	(void)state;
	prepare_all();
	for (i = 0; i < count; i++)
		submit_and_wait(i, 1);
	assert_int_equal(server->batches, 0);
	submit_and_wait(0, count);
	assert_int_equal(server->batches, 2);
	assert_int_equal(seen_count, 2 * count);
	for (i = 0; i < count; i++) {
		assert_int_equal(ops[i].status, KVD_OK);
		assert_int_equal(ops[i].item.version, count + i + 1);
		assert_same(&seen[i], &seen[count + i]);
		assert_int_equal(seen_keys[count + i], keys[i]);
		assert_memory_equal(seen_values[count + i], seen_values[i], 8);
	}
	assert_int_equal(seen[0].item_flags, 0xabcdef01);
	assert_int_equal(seen[1].pin, 1234);
	assert_memory_equal(seen_values[0], "12345678", 8);
}

/* A message that is shared is one round trip, and takes access records with it, as others do. */
static void records_go_with_them(void **state)
{
	struct kvd_stats before, after;
	uint64_t key = 1;
	uint8_t found[32];

	(void)state;
	fake_server_put(server, key, 20, 0);
	assert_int_equal(kvd_get(kvd, &key, 8, found, sizeof(found), NULL), KVD_OK);
	assert_int_equal(server->access_records, 0);
	prepare_all();
	kvd_stats(kvd, &before);
	submit_and_wait(0, 4);
	kvd_stats(kvd, &after);
	assert_int_equal(server->batches, 1);
	assert_int_equal(server->access_records, 1);
	assert_int_equal(server->last_access,
			 wire_access_hash(wire_access_make(fake_server_hash(server, key), 1)));
	assert_int_equal(after.round_trips - before.round_trips, 1);
	assert_int_equal(after.requests - before.requests, 1);
	assert_int_equal(after.access_records - before.access_records, 1);
}

/* A message takes as many requests as fit the server's receive buffer, to the byte, and no more. */
static void as_large_as_the_server_receives(void **state)
{
	static const uint8_t value[FAKE_SERVER_BUFFER_BYTES];
	unsigned int shared = 0, alone = 0;

	(void)state;
	for (uint32_t len = 900; len < 1000; len++) {
		const struct request put = { .op = WIRE_PUT, .key_len = 8, .value_len = len };
		size_t bytes = sizeof(struct wire_request) + 2 * wire_batched_bytes(&put);
		unsigned int before = server->batches;

		count = seen_count = 0;
		for (unsigned int i = 0; i < 2; i++)
			kvd_prep_put(next_op(), &keys[i], 8, value, len, NULL);
		submit_and_wait(0, 2);
		assert_int_equal(ops[0].status, KVD_OK);
		assert_int_equal(ops[1].status, KVD_OK);
		assert_int_equal(server->batches - before, bytes <= kvd->conn.request_bytes);
		shared += bytes == kvd->conn.request_bytes;
		alone += bytes > kvd->conn.request_bytes && bytes <= kvd->conn.request_bytes + 16;
	}
	assert_true(shared && alone);
}

enum spoiled { OTHER_OP, ONE_MORE, ONE_LESS, CUT, FAILED_AS_A_WHOLE, SPOILED };

static void spoil(struct fake_server_response *response, enum spoiled how)
{
	const uint32_t result = sizeof(struct wire_result);

	switch (how) {
	case OTHER_OP:
		response->value[result] = WIRE_DELETE;
		break;
	case ONE_MORE:
		memcpy(response->value + response->head.value_len, response->value, result);
		response->head.value_len += result;
		response->head.entries++;
		break;
	case ONE_LESS:
		response->head.value_len -= result;
		response->head.entries--;
		break;
	case CUT:
		response->head.value_len -= result / 2;
		break;
	case FAILED_AS_A_WHOLE:
		response->head.status = WIRE_NO_SPACE;
		response->head.value_len = 0;
		response->head.entries = 0;
		break;
	case SPOILED:
		fail();
	}
}

/* None of its results is taken, the right ones neither. */
static void results_that_do_not_fit(void **state)
{
	unsigned int how, i;

	for (how = 0; how < SPOILED; how++) {
		if (how && teardown(state) + setup(state))
			fail();
		prepare_all();
		server->hold_all = true;
		assert_int_equal(kvd_submit(kvd, list, 4), KVD_OK);
		assert_int_equal(server->queued, 1);
		spoil(&server->queue[0], (enum spoiled)how);
		fake_server_answer(server, 1);
		assert_int_equal(kvd_wait(kvd, done, OPS, 4, UINT32_MAX), 4);
		for (i = 0; i < 4; i++)
			if (ops[i].status != KVD_ERR_PROTOCOL)
				fail_msg("case %u, operation %u: %s", how, i,
					 kvd_status_text(ops[i].status));
		assert_non_null(strstr(kvd_error(kvd), "malformed response"));
	}
}

/* Observed, each is a request, with a time of service. */
static void each_is_observed(void **state)
{
	struct kvd_op_stats stats;
	unsigned int i;

	(void)state;
	for (i = 0; i < 6; i++)
		add_put(NULL);
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	submit_and_wait(0, count);
	assert_int_equal(server->batches, 1);
	assert_int_equal(kvd_op_stats(kvd, KVD_OP_PUT, KVD_PATH_REQUEST, &stats, sizeof(stats)),
			 KVD_OK);
	assert_int_equal(stats.count, count);
	assert_int_equal(stats.service.count, count);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(each_says_what_it_says_alone),
		CASE(records_go_with_them),
		CASE(as_large_as_the_server_receives),
		CASE(results_that_do_not_fit),
		CASE(each_is_observed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
