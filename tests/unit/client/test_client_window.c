/* SPDX-License-Identifier: MIT */
/*
 * Tests of the client's window: taken from each response, lapsed after an idle second, respected by
 * requests beside an ACCESS message. And of the send queue, which requests and READs share.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/libkvd/connect.h"
#include "client/libkvd/read.h"
#include "client/libkvd/rpc.h"
#include "common/util/clock.h"
#include "tests/support/fake_server.h"
#include "tests/support/test_clock.h"

#define SECOND 1000000000ull

static struct fake_server *server;
static struct kvd *kvd;
static uint16_t window; /* of the next responses */

static void tell_window(struct fake_server *of, struct wire_response *response)
{
	(void)of;
	response->window = window;
}

/* Every GET is reported, in a message of its own whose response is held back. */
static void open_with(uint32_t first)
{
	test_clock_stop();
	server = fake_server_open(2, first, 1, 0, NULL);
	kvd = &server->kvd;
	window_posted(&kvd->conn, clock_raw_ns());
	server->before_response = tell_window;
	server->hold_access = true;
	fake_server_put(server, 1, 20, 0);
}

static uint32_t shown(void)
{
	struct kvd_info info;

	kvd_info(kvd, &info);
	return info.window;
}

static void get(void)
{
	static uint8_t found[32];
	uint64_t key = 1;

	assert_int_equal(kvd_get(kvd, &key, 8, found, sizeof(found), NULL), KVD_OK);
}

static void each_response_tells_it(void **state)
{
	(void)state;
	open_with(8);
	assert_int_equal(shown(), 8);
	window = 5;
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(shown(), 5);
	window = WIRE_WINDOW_MAX;
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(shown(), WIRE_WINDOW_MAX);
	/* The response to an ACCESS message, too, when it is taken. */
	window = 3;
	get();
	assert_true(server->holding);
	fake_server_release(server);
	window = 4;
	get();
	assert_int_equal(kvd->conn.window, 3);
	kvd_close(kvd);
}

/* With an ACCESS message outstanding a request needs a window of 2. */
static void it_is_respected(void **state)
{
	(void)state;
	open_with(8);
	window = 2;
	get();
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(server->outstanding_max, 2);
	/* The response that was held back has the window of 2 still. */
	window = 1;
	fake_server_release(server);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	server->outstanding_max = 0;
	for (int i = 0; i < 10; i++) {
		get();
		assert_int_equal(kvd_ping(kvd), KVD_OK);
	}
	assert_int_equal(server->outstanding_max, 1);
	kvd_close(kvd);
}

/* An idle second later it is 1, until the next response. */
static void it_lapses(void **state)
{
	uint64_t before_ns;

	(void)state;
	open_with(8);
	window = 8;
	get();
	assert_true(server->holding);
	kvd->conn.posted_ns -= 2 * SECOND;
	assert_int_equal(shown(), 1);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(server->outstanding_max, 1);
	assert_int_equal(shown(), 8);
	get();
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(server->outstanding_max, 2);
	/* A request that was posted keeps it, an ACCESS message does as well. */
	fake_server_release(server);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	kvd->conn.posted_ns -= 2 * SECOND;
	before_ns = clock_raw_ns();
	get();
	assert_int_equal(kvd->conn.window, 1);
	assert_true(kvd->conn.posted_ns >= before_ns);
	kvd_close(kvd);
}

static void a_missing_window_is_refused(void **state)
{
	(void)state;
	open_with(3);
	window = 0;
	assert_int_equal(kvd_ping(kvd), KVD_ERR_PROTOCOL);
	kvd_close(kvd);
	open_with(3);
	window = WIRE_WINDOW_MAX + 1;
	assert_int_equal(kvd_ping(kvd), KVD_ERR_PROTOCOL);
	kvd_close(kvd);
}

/* The first is in the welcome, and so not in the response that has it. */
static void a_second_first_window_is_refused(void **state)
{
	struct response response = { .op = WIRE_HELLO };

	(void)state;
	open_with(3);
	assert_int_equal(window_learn(kvd, &response), KVD_OK);
	assert_int_equal(shown(), 3);
	response.window = 4;
	assert_int_equal(window_learn(kvd, &response), KVD_ERR_PROTOCOL);
	assert_int_equal(shown(), 3);
	kvd_close(kvd);
}

/* A chain that was told how long it may be before a request was posted does not rely on it. */
static void requests_leave_less_room_for_reads(void **state)
{
	struct connection *conn;

	(void)state;
	window = 4;
	open_with(4);
	conn = &kvd->conn;
	assert_true(chain_room(conn));
	assert_int_equal(conn->chain_max, GETS_MAX);
	conn->sq_posted = conn->sq_done + SENDS_MAX - 3;
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_true(chain_room(conn));
	assert_int_equal(conn->chain_max, 2);
	kvd_close(kvd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_response_tells_it),
		cmocka_unit_test(it_is_respected),
		cmocka_unit_test(it_lapses),
		cmocka_unit_test(a_missing_window_is_refused),
		cmocka_unit_test(a_second_first_window_is_refused),
		cmocka_unit_test(requests_leave_less_room_for_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
