/* SPDX-License-Identifier: MIT */
/*
 * What a client READs of a region that has several extents, and how it gets the keys of those that
 * are new. The fake server's region has 16 of them; items are after the fourth.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/libkvd/connect.h"
#include "client/libkvd/extents.h"
#include "client/libkvd/read.h"
#include "tests/support/fake_server.h"

#define LEVEL 6
#define EXTENT_BYTES (FAKE_SERVER_REGION_BYTES / EXTENTS_MAX)
#define OLD_EXTENTS (EXTENTS_MAX / 4) /* items begin after them */
#define KEY_BASE 1000u
#define VALUE_LEN 20u

static struct fake_server *server;
static struct kvd *kvd;
static uint32_t granted;     /* extents of which the server gives the key */
static unsigned int asks;    /* EXTENTS received */
static unsigned int reads;   /* of extents without a key before */
static uint32_t first_extra; /* the first of these */
static enum wire_status refusal;
static uint32_t answer_bytes;

static enum ibv_wc_status (*read_whole)(struct fake_device *fake, const struct ibv_send_wr *wr);

static uint32_t key_of(uint32_t extent)
{
	return KEY_BASE + extent;
}

/* Each extent is READ by its own key, which the client has, and none across its end. */
static enum ibv_wc_status read_extent(struct fake_device *fake, const struct ibv_send_wr *wr)
{
	uint64_t offset = wr->wr.rdma.remote_addr - (uintptr_t)server->region;
	uint64_t end = offset + wr->sg_list->length - 1;
	uint32_t extent = (uint32_t)(offset / EXTENT_BYTES);

	assert_int_equal(wr->wr.rdma.rkey, key_of(extent));
	assert_true(extent < granted);
	assert_int_equal(end / EXTENT_BYTES, extent);
	reads += extent >= first_extra;
	return read_whole(fake, wr);
}

static void respond(struct fake_server *of, const struct request *request,
		    struct wire_response *response, uint8_t *value)
{
	struct wire_extents extents = { 0 };

	(void)of;
	assert_int_equal(request->op, WIRE_EXTENTS);
	asks++;
	for (uint32_t i = 0; i < granted && i < EXTENTS_MAX; i++)
		extents.rkeys[i] = key_of(i);
	memcpy(value, &extents, sizeof(extents));
	response->status = (uint8_t)refusal;
	response->value_len = answer_bytes;
	response->result = granted;
}

static void welcome_with(uint32_t extents)
{
	struct wire_welcome welcome = server->welcome;

	welcome.extents = extents;
	welcome.extent_bytes = EXTENT_BYTES;
	for (uint32_t i = 0; i < extents; i++)
		welcome.rkeys[i] = key_of(i);
	assert_int_equal(open_welcome(kvd, &welcome), KVD_OK);
	first_extra = granted = extents;
}

static int setup(void **state)
{
	(void)state;
	server = fake_server_open(LEVEL, 4, 0, 0, NULL);
	kvd = &server->kvd;
	read_whole = server->fake.read;
	server->fake.read = read_extent;
	server->respond = respond;
	asks = reads = 0;
	refusal = WIRE_OK;
	answer_bytes = sizeof(struct wire_extents);
	welcome_with(OLD_EXTENTS);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kvd_close(kvd);
	return 0;
}

static void assert_got(uint64_t key)
{
	uint8_t value[VALUE_LEN] = { 0 };
	struct kvd_item item;

	assert_int_equal(kvd_get(kvd, &key, 8, value, sizeof(value), &item), KVD_OK);
	assert_int_equal(item.value_len, VALUE_LEN);
	for (unsigned int i = 0; i < VALUE_LEN; i++)
		assert_int_equal(value[i], (uint8_t)key);
}

/* The time after which the client asks again. */
static void time_passes(void)
{
	kvd->extents_ns = 0;
}

/* The GETs that find items in a new extent are requests until its key is there, then READs. */
static void a_new_extent(void **state)
{
	(void)state;
	fake_server_put(server, 5, VALUE_LEN, 0);
	granted = EXTENTS_MAX;
	assert_got(5);
	assert_int_equal(server->gets, 1);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(asks, 1);
	assert_int_equal(reads, 0);
	assert_got(5);
	assert_got(5);
	assert_int_equal(server->gets, 1);
	assert_int_equal(asks, 1);
	assert_true(reads >= 2);
}

/* A server that has no key to give is not asked by each GET. */
static void no_key_to_give(void **state)
{
	(void)state;
	fake_server_put(server, 5, VALUE_LEN, 0);
	for (unsigned int i = 1; i <= 10; i++) {
		assert_got(5);
		assert_int_equal(server->gets, i);
	}
	assert_int_equal(asks, 1);
	time_passes();
	granted = OLD_EXTENTS + 1;
	assert_got(5);
	assert_int_equal(asks, 2);
	assert_got(5);
	assert_int_equal(server->gets, 10);
}

/* Answers that the protocol does not allow, and refusals, change nothing. */
static void bad_answers(void **state)
{
	static const struct {
		enum wire_status status;
		uint32_t bytes, extents;
	} answers[] = {
		{ WIRE_NOT_ALLOWED, sizeof(struct wire_extents), EXTENTS_MAX },
		{ WIRE_OK, sizeof(struct wire_extents) - 4, EXTENTS_MAX },
		{ WIRE_OK, sizeof(struct wire_extents), EXTENTS_MAX + 1 },
		{ WIRE_OK, sizeof(struct wire_extents), OLD_EXTENTS - 1 },
		{ WIRE_OK, sizeof(struct wire_extents), 0 },
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		refusal = answers[i].status;
		answer_bytes = answers[i].bytes;
		granted = answers[i].extents;
		time_passes();
		extents_ask(kvd);
		assert_int_equal(kvd_ping(kvd), KVD_OK);
		assert_int_equal(asks, i + 1);
		assert_int_equal(kvd->conn.extents, OLD_EXTENTS);
	}
}

/* A slot that leads out of the region is no reason to ask. */
static void out_of_the_region(void **state)
{
	(void)state;
	assert_false(region_lacks(kvd, FAKE_SERVER_REGION_BYTES));
	assert_false(region_lacks(kvd, 0));
	assert_int_equal(region_left(kvd, FAKE_SERVER_REGION_BYTES), 0);
	assert_int_equal(region_left(kvd, EXTENT_BYTES * OLD_EXTENTS), 0);
	assert_int_equal(region_left(kvd, EXTENT_BYTES + 1), EXTENT_BYTES - 1);
	assert_int_equal(region_left(kvd, 1), EXTENT_BYTES - 1);
	assert_int_equal(asks, 0);
	assert_true(region_lacks(kvd, EXTENT_BYTES * OLD_EXTENTS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_new_extent, setup, teardown),
		cmocka_unit_test_setup_teardown(no_key_to_give, setup, teardown),
		cmocka_unit_test_setup_teardown(bad_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(out_of_the_region, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
