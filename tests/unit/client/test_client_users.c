/* SPDX-License-Identifier: MIT */
/*
 * Handles whose user the server limits: one that may not READ sends its GETs as requests, whatever
 * it knows of the keys; and what is not allowed, or over a limit, ends with a status of its own and
 * leaves the handle as it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/libkvd/connect.h"
#include "common/sum.h"
#include "tests/support/calls.h"

static struct fake_server *server;
static struct kvd *kvd;
static enum wire_status refuses; /* each request, if it is not 0 */

static void no_reads(struct fake_server *of, uint64_t offset, uint32_t bytes)
{
	(void)of;
	fail_msg("a READ of %u bytes at %llu", bytes, (unsigned long long)offset);
}

static void refuse(struct fake_server *of, struct wire_response *response)
{
	(void)of;
	if (refuses && response->op != WIRE_BATCH && response->op != WIRE_ACCESS)
		*response = (struct wire_response){
			.op = response->op,
			.status = (uint8_t)refuses,
			.id = response->id,
			.clock_ns = response->clock_ns,
			.window = response->window,
		};
}

static int setup(void **state)
{
	(void)state;
	server = calls_open();
	kvd = &server->kvd;
	refuses = WIRE_OK;
	server->before_response = refuse;
	return 0;
}

/*
 * The server says in another welcome that the handle may not READ. It is the same start of the
 * server, so other handles of the process go on to know the hash seed.
 */
static void take_reads_away(void)
{
	struct wire_welcome welcome = server->welcome;

	welcome.geometry = server->geometry;
	welcome.geometry.hash_seed = 0;
	welcome.geometry.sum = geometry_sum(&welcome.geometry);
	welcome.by_request = 1;
	welcome.extents = 0;
	welcome.extent_bytes = 0;
	welcome.region_addr = 0;
	assert_int_equal(open_welcome(kvd, &welcome), KVD_OK);
	server->before_read = no_reads;
}

static enum kvd_status get(uint64_t key)
{
	uint8_t found[64];

	return kvd_get(kvd, &key, 8, found, sizeof(found), NULL);
}

static void gets_are_requests(void **state)
{
	struct kvd_key keys[2];
	uint64_t names[] = { 2, 77 }, before;
	struct kvd_stats stats;
	size_t present;

	(void)state;
	/* The client knows where key 2 is. */
	assert_int_equal(get(2), KVD_OK);
	take_reads_away();
	before = server->gets;
	assert_int_equal(get(2), KVD_OK);
	assert_int_equal(get(77), KVD_NOT_FOUND);
	assert_int_equal(server->gets, before + 2);
	assert_int_equal(kvd_put(kvd, &names[0], 8, "x", 1, NULL, NULL), KVD_OK);
	assert_int_equal(get(2), KVD_OK);
	for (unsigned int i = 0; i < 2; i++)
		keys[i] = (struct kvd_key){ .key = &names[i], .key_len = 8 };
	assert_int_equal(kvd_exists_many(kvd, keys, 2, NULL, &present), KVD_OK);
	assert_int_equal(present, 1);
	kvd_stats(kvd, &stats);
	assert_int_equal(stats.fallbacks, 5);
}

/* Handles of one process: one has lost the right to READ, and may get it again. */
static void rights_that_change(void **state)
{
	struct shared_server *reads = kvd->server, *other;
	struct wire_welcome welcome = server->welcome;
	struct geometry geometry = server->geometry;

	(void)state;
	assert_int_equal(shared_server_get(&other, kvd->shared_device->url, &geometry), 0);
	assert_ptr_equal(other, reads);
	take_reads_away();
	assert_ptr_not_equal(kvd->server, reads);
	assert_int_equal(get(2), KVD_OK);
	server->before_read = NULL;
	welcome.geometry = geometry;
	assert_int_equal(open_welcome(kvd, &welcome), KVD_OK);
	assert_ptr_equal(kvd->server, reads);
	shared_server_put(other);
	assert_int_equal(get(2), KVD_OK);
	assert_int_equal(get(77), KVD_NOT_FOUND);
}

/* What the answers to GETs are made; called for each part, from the first on. */
static void (*parts_change)(struct wire_response *response, unsigned int part);
static unsigned int parts;

static void change_part(struct fake_server *of, struct wire_response *response)
{
	refuse(of, response);
	if (response->op == WIRE_GET && !response->status && parts_change)
		parts_change(response, parts++);
}

static uint8_t large[CALLS_LARGE_BYTES + 1];

static enum kvd_status get_large(size_t size)
{
	const uint64_t key = 1;
	struct kvd_item item = { 0 };
	enum kvd_status status;

	memset(large, 0, sizeof(large));
	status = kvd_get(kvd, &key, 8, large, size, &item);
	if (status == KVD_OK || status == KVD_ERR_BUFFER)
		assert_int_equal(item.value_len, CALLS_LARGE_BYTES);
	return status;
}

/* A value that fits no response comes in parts. */
static void values_in_parts(void **state)
{
	const size_t fits = FAKE_SERVER_BUFFER_BYTES - sizeof(struct wire_response);
	uint64_t before, key = 1;
	struct iovec iov[3] = { { large, 70000 }, { large + 70000, 1 }, { large + 70001, 130000 } };
	struct kvd_op op, *list[] = { &op }, *done[1];

	(void)state;
	take_reads_away();
	before = server->gets;
	assert_int_equal(get_large(CALLS_LARGE_BYTES), KVD_OK);
	assert_int_equal(server->gets - before, (CALLS_LARGE_BYTES + fits - 1) / fits);
	for (size_t i = 0; i < CALLS_LARGE_BYTES; i++)
		assert_int_equal(large[i], 1);
	assert_int_equal(large[CALLS_LARGE_BYTES], 0);
	before = server->gets;
	assert_int_equal(get_large(CALLS_LARGE_BYTES - 1), KVD_ERR_BUFFER);
	assert_int_equal(server->gets - before, 1);
	memset(large, 0, sizeof(large));
	kvd_prep_getv(&op, &key, 8, iov, 3);
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
	assert_int_equal(kvd_wait(kvd, done, 1, 1, UINT32_MAX), 1);
	assert_int_equal(op.status, KVD_OK);
	assert_int_equal(op.item.value_len, CALLS_LARGE_BYTES);
	for (size_t i = 0; i < CALLS_LARGE_BYTES; i++)
		assert_int_equal(large[i], 1);
	assert_int_equal(large[CALLS_LARGE_BYTES], 0);
}

static void other_version(struct wire_response *response, unsigned int part)
{
	if (part == 3)
		response->version++;
}

/* The version's end is before the part that is asked for. */
static void shorter_version(struct wire_response *response, unsigned int part)
{
	other_version(response, part);
	if (part == 3)
		response->result = response->value_len = 0;
}

static void another_each_time(struct wire_response *response, unsigned int part)
{
	response->version += part;
}

/* Parts of two values are never put together. */
static void values_that_change(void **state)
{
	uint64_t before;

	(void)state;
	take_reads_away();
	server->before_response = change_part;
	parts_change = shorter_version;
	parts = 0;
	assert_int_equal(get_large(CALLS_LARGE_BYTES), KVD_OK);
	parts_change = other_version;
	parts = 0;
	before = server->gets;
	assert_int_equal(get_large(CALLS_LARGE_BYTES), KVD_OK);
	/* Three, one of another value, and all again. */
	assert_in_range(server->gets - before, 4 + CALLS_LARGE_BYTES / FAKE_SERVER_BUFFER_BYTES,
			4 + CALLS_LARGE_BYTES / 1900);
	for (size_t i = 0; i < CALLS_LARGE_BYTES; i++)
		assert_int_equal(large[i], 1);
	parts_change = another_each_time;
	kvd->options.get_tries = 3;
	assert_int_equal(get_large(CALLS_LARGE_BYTES), KVD_ERR_BUSY);
	assert_non_null(strstr(kvd_error(kvd), "kept changing"));
	parts_change = NULL;
	assert_int_equal(get_large(CALLS_LARGE_BYTES), KVD_OK);
}

static void too_long(struct wire_response *response, unsigned int part)
{
	if (part == 1)
		response->result = 1;
}

static void shorter(struct wire_response *response, unsigned int part)
{
	if (part == 1)
		response->result = 2500;
}

static void longest(struct wire_response *response, unsigned int part)
{
	(void)part;
	response->result = VALUE_MAX + 1ull;
}

/* No byte is written past what the caller has room for. */
static void parts_that_are_none(void **state)
{
	static void (*const changes[])(struct wire_response *, unsigned int) = { too_long, shorter,
										 longest };

	(void)state;
	for (unsigned int i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		take_reads_away();
		server->before_response = change_part;
		parts_change = changes[i];
		parts = 0;
		assert_int_equal(get_large(CALLS_LARGE_BYTES), KVD_ERR_PROTOCOL);
		if (!strstr(kvd_error(kvd), "more than the value"))
			fail_msg("%u: %s", i, kvd_error(kvd));
		assert_int_equal(large[CALLS_LARGE_BYTES], 0);
		parts_change = NULL;
		calls_anew(state, setup);
	}
}

/* Every call that asks the server. */
static void refusals(enum wire_status status, enum kvd_status expected, const char *text)
{
	refuses = status;
	for (unsigned int i = 0; i < call_count; i++) {
		if (calls[i].kind != CALL_REQUEST && calls[i].kind != CALL_CHANGE &&
		    calls[i].kind != CALL_KILL)
			continue;
		calls_reset();
		assert_int_equal(kvd_ping(kvd), expected);
		if (calls[i].run(kvd) != expected)
			fail_msg("%s: %s", calls[i].name, kvd_error(kvd));
		if (!strstr(kvd_error(kvd), text))
			fail_msg("%s says: %s", calls[i].name, kvd_error(kvd));
		assert_true(calls_untouched());
		assert_true(kvd->up);
	}
	refuses = WIRE_OK;
	assert_int_equal(kvd_ping(kvd), KVD_OK);
}

static void not_allowed(void **state)
{
	(void)state;
	refusals(WIRE_NOT_ALLOWED, KVD_ERR_NOT_ALLOWED, "users.file");
	take_reads_away();
	refuses = WIRE_NOT_ALLOWED;
	assert_int_equal(get(2), KVD_ERR_NOT_ALLOWED);
	refuses = WIRE_OK;
	assert_int_equal(get(2), KVD_OK);
}

static void over_the_limit(void **state)
{
	(void)state;
	refusals(WIRE_LIMIT, KVD_ERR_LIMIT, "over its limit");
	take_reads_away();
	refuses = WIRE_LIMIT;
	assert_int_equal(get(2), KVD_ERR_LIMIT);
	refuses = WIRE_OK;
	assert_int_equal(get(2), KVD_OK);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, calls_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(gets_are_requests),   CASE(values_in_parts), CASE(values_that_change),
		CASE(parts_that_are_none), CASE(not_allowed),	  CASE(over_the_limit),
		CASE(rights_that_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
