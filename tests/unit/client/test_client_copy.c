/* SPDX-License-Identifier: MIT */
/*
 * What a member sends to another one to which it gives shards: copies of items, of which some are
 * under way at once, and MOVE after all of them. Against a fake server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/libkvd/copy.h"
#include "tests/support/fake_server.h"

#define LARGE_BYTES 200000u
#define VERSION (9ull << 40 | 4)
#define DEPTH 4u

static struct fake_server *server;
static struct kvd *kvd;
static struct request sent; /* the last one */
static char keys[16];	    /* of all copies, in order: one byte each */
static unsigned int copies, moves;
static uint8_t large[LARGE_BYTES], pulled[LARGE_BYTES];
static enum wire_status answers[8]; /* of the next requests */

static void respond(struct fake_server *p, const struct request *request,
		    struct wire_response *response, uint8_t *value)
{
	(void)p, (void)value;
	sent = *request;
	if (request->op == WIRE_MOVE)
		moves++;
	else
		keys[copies++] = (char)request->key[0];
	if (request->flags & WIRE_F_PULL)
		memcpy(pulled, (const void *)(uintptr_t)request->pull_addr, request->value_len);
	response->status = (uint8_t)answers[0];
	memmove(answers, answers + 1, sizeof(answers) - sizeof(answers[0]));
	response->result = 77;
	response->epoch = 12;
}

static int setup(void **state)
{
	const struct kvd_options options = { .depth = DEPTH };

	(void)state;
	server = fake_server_open(2, 8, 0, 0, &options);
	kvd = &server->kvd;
	kvd->sent.limit = 64; /* changes have numbers */
	server->respond = respond;
	copies = moves = 0;
	memset(keys, 0, sizeof(keys));
	memset(answers, 0, sizeof(answers));
	memset(pulled, 0, sizeof(pulled));
	for (size_t i = 0; i < sizeof(large); i++)
		large[i] = (uint8_t)(i * 7 + (i >> 8));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kvd_close(kvd);
	return 0;
}

static enum kvd_status copy(const char *key)
{
	const struct copy_item item = {
		.key = key,
		.key_len = (uint32_t)strlen(key),
		.value = "value",
		.value_len = 5,
		.flags = 3,
		.version = VERSION,
		.ttl = 9,
		.use = wire_use_pack(WIRE_USE_PINNED, 1, 300),
	};

	return copy_put(kvd, &item);
}

/* As it is in the store, and without a number of a change. */
static void an_item_as_it_is(void **state)
{
	(void)state;
	assert_int_equal(copy("key"), KVD_OK);
	assert_int_equal(copy_settle(kvd), KVD_OK);
	assert_int_equal(copies, 1);
	assert_int_equal(sent.op, WIRE_PUT);
	assert_int_equal(sent.mode, WIRE_COPY);
	assert_int_equal(sent.change, 0);
	assert_true(sent.version == VERSION);
	assert_int_equal(sent.use, wire_use_pack(WIRE_USE_PINNED, 1, 300));
	assert_int_equal(sent.ttl, 9);
	assert_int_equal(sent.item_flags, 3);
	assert_int_equal(sent.value_len, 5);
	assert_int_equal(kvd->sent.next, 1);
}

static void long_values_are_pulled(void **state)
{
	struct copy_item item = {
		.key = "key",
		.key_len = 3,
		.value = large,
		.value_len = sizeof(large),
		.version = VERSION,
		.use = wire_use_pack(WIRE_USE_NORMAL, 7, 8),
	};
	struct kvd_mem *mem;

	(void)state;
	assert_int_equal(copy_put(kvd, &item), KVD_OK);
	assert_int_equal(copy_settle(kvd), KVD_OK);
	assert_memory_equal(pulled, large, sizeof(large));
	assert_int_equal(sent.use, item.use);
	/* Also from memory that the program has registered, which the copy uses no longer. */
	memset(pulled, 0, sizeof(pulled));
	assert_int_equal(kvd_register(kvd, large, sizeof(large), &mem), KVD_OK);
	assert_int_equal(copy_put(kvd, &item), KVD_OK);
	assert_int_equal(copy_settle(kvd), KVD_OK);
	assert_memory_equal(pulled, large, sizeof(large));
	assert_int_equal(kvd_deregister(mem), KVD_OK);
}

/* Up to `depth` of them, each in a message of its own; then one waits for another. */
static void many_are_under_way(void **state)
{
	(void)state;
	server->hold_all = true;
	assert_int_equal(copy("a"), KVD_OK);
	assert_int_equal(copy("b"), KVD_OK);
	assert_int_equal(copy("c"), KVD_OK);
	assert_int_equal(copy("d"), KVD_OK);
	assert_int_equal(server->queued, DEPTH);
	server->answer_idle = true;
	assert_int_equal(copy("e"), KVD_OK);
	assert_int_equal(copy("f"), KVD_OK);
	assert_int_equal(copy_settle(kvd), KVD_OK);
	assert_int_equal(server->queued, 0);
	assert_string_equal(keys, "abcdef");
	assert_int_equal(server->outstanding_max, DEPTH);
	assert_int_equal(server->batches, 0);
}

/* A newer item at the target is as good. The first failure is said until it is settled. */
static void failures(void **state)
{
	(void)state;
	answers[0] = WIRE_EXISTS;
	assert_int_equal(copy("a"), KVD_OK);
	assert_int_equal(copy_settle(kvd), KVD_OK);
	answers[0] = WIRE_AWAY;
	answers[1] = WIRE_NO_SPACE;
	server->hold_all = true;
	assert_int_equal(copy("b"), KVD_OK);
	assert_int_equal(copy("c"), KVD_OK);
	fake_server_answer(server, 2);
	server->hold_all = false;
	assert_int_equal(copy_settle(kvd), KVD_ERR_AWAY);
	assert_non_null(strstr(kvd_error(kvd), "does not accept the shards"));
	assert_int_equal(copy("d"), KVD_OK);
	assert_int_equal(copy_settle(kvd), KVD_OK);
	answers[0] = WIRE_NO_SPACE;
	assert_int_equal(copy("e"), KVD_OK);
	assert_int_equal(copy("f"), KVD_ERR_NO_SPACE);
	assert_int_equal(copy("g"), KVD_ERR_NO_SPACE);
	assert_string_equal(keys, "abcde");
	assert_int_equal(copy_settle(kvd), KVD_ERR_NO_SPACE);
	assert_int_equal(copy_settle(kvd), KVD_OK);
}

/* An answer that does not come within timeout_ms fails all. */
static void no_answer(void **state)
{
	(void)state;
	server->hold_all = true;
	kvd->options.timeout_ms = 1;
	assert_int_equal(copy("a"), KVD_OK);
	assert_int_equal(copy("b"), KVD_OK);
	assert_int_equal(copy_settle(kvd), KVD_ERR_TIMEOUT);
	assert_int_equal(kvd_outstanding(kvd), 0);
}

static void lost(void **state)
{
	(void)state;
	server->hold_all = true;
	assert_int_equal(copy("a"), KVD_OK);
	handle_fail(kvd, KVD_ERR_DISCONNECTED, "gone");
	assert_int_equal(copy_settle(kvd), KVD_ERR_DISCONNECTED);
	assert_int_equal(copy("b"), KVD_ERR_DISCONNECTED);
	assert_int_equal(copy_move(kvd, WIRE_MOVE_END, 1, 0, NULL), KVD_ERR_DISCONNECTED);
}

static void closed_with_a_copy_under_way(void **state)
{
	const struct copy_item item = {
		.key = "key",
		.key_len = 3,
		.value = large,
		.value_len = sizeof(large),
		.version = 1,
	};

	(void)state;
	server->hold_all = true;
	assert_int_equal(copy_put(kvd, &item), KVD_OK);
	assert_int_equal(kvd_outstanding(kvd), 1);
}

/* A MOVE follows all copies, and says what the server says. */
static void a_move(void **state)
{
	uint64_t result = 0;

	(void)state;
	server->hold_all = server->answer_idle = true;
	assert_int_equal(copy("a"), KVD_OK);
	assert_int_equal(copy_move(kvd, WIRE_MOVE_BEGIN, 12, 99, NULL), KVD_OK);
	assert_int_equal(sent.op, WIRE_MOVE);
	assert_int_equal(sent.mode, WIRE_MOVE_BEGIN);
	assert_int_equal(sent.change, 0);
	assert_true(sent.epoch == 12 && sent.arg_addr == 99);
	assert_int_equal(copy_move(kvd, WIRE_MOVE_END, VERSION, 0, &result), KVD_OK);
	assert_int_equal(result, 77);
	assert_true(sent.arg64 == VERSION);
	answers[0] = WIRE_BUSY;
	assert_int_equal(copy_move(kvd, WIRE_MOVE_ASK, 0, 0, NULL), KVD_ERR_BUSY);
	answers[0] = WIRE_AWAY;
	assert_int_equal(copy_move(kvd, WIRE_MOVE_CLEAR, 5, 0, NULL), KVD_ERR_AWAY);
	assert_non_null(strstr(kvd_error(kvd), "does not accept the shards"));
	assert_int_equal(moves, 4);
	/* A copy that failed fails it. */
	answers[0] = WIRE_NO_SPACE;
	assert_int_equal(copy("b"), KVD_OK);
	assert_int_equal(copy_move(kvd, WIRE_MOVE_END, 1, 0, NULL), KVD_ERR_NO_SPACE);
	assert_int_equal(moves, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_item_as_it_is, setup, teardown),
		cmocka_unit_test_setup_teardown(long_values_are_pulled, setup, teardown),
		cmocka_unit_test_setup_teardown(many_are_under_way, setup, teardown),
		cmocka_unit_test_setup_teardown(failures, setup, teardown),
		cmocka_unit_test_setup_teardown(no_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(lost, setup, teardown),
		cmocka_unit_test_setup_teardown(closed_with_a_copy_under_way, setup, teardown),
		cmocka_unit_test_setup_teardown(a_move, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
