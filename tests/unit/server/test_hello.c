/* SPDX-License-Identifier: MIT */
/*
 * Tests of HELLO: what the welcome says, that nothing else is executed before it, and which HELLOs
 * end their connection. The test answers in place of the control thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/stat.h"
#include "server/fleet/fleet.h"
#include "server/fleet/static_map.h"
#include "server/store/store.h"
#include "server/worker/answers.h"
#include "server/worker/deferred.h"
#include "server/worker/grant.h"
#include "server/worker/hello.h"
#include "server/worker/query.h"
#include "server/worker/window.h"
#include "tests/support/worker_fixture.h"

#define REGION_BYTES (8u << 20)
#define VALUE_MAX_BYTES (1u << 20)
#define RKEY 0x4711u
#define WINDOW_MAX 9u

static struct config config;
static struct worker_env env;
static struct answers answers;
static struct test_conn *const c = &test_conns[0];

static struct wire_hello hello_make(void)
{
	return (struct wire_hello){ .magic = WIRE_MAGIC,
				    .abi = WIRE_ABI,
				    .response_bytes = TEST_BUFFER_BYTES * 2 };
}

static int setup(void **state)
{
	(void)state;
	test_worker_create(REGION_BYTES, VALUE_MAX_BYTES);
	memset(&config, 0, sizeof(config));
	config.memory.eviction = EVICTION_NONE;
	config.memory.access_rate = 3;
	env = *test_worker.env;
	env.config = &config;
	test_worker.env = &env;
	test_poller->limits.window = WINDOW_MAX;
	test_tenant_mr.rkey = RKEY;
	test_tenant_mr.addr = test_store.region.base;
	test_tenant_mr.length = test_store.region.bytes;
	atomic_store(&c->conn.hello_done, false);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	while (mailbox_take(env.control))
		;
	test_worker_destroy();
	return 0;
}

/* HELLO arrives in a receive. True: it is done with. */
static bool receive(uint32_t recv, const struct wire_hello *hello)
{
	const struct wire_request request = { .op = WIRE_HELLO,
					      .id = 5 + recv,
					      .value_len = sizeof(*hello) };

	memcpy(test_recv(recv), &request, sizeof(request));
	memcpy(test_recv(recv) + sizeof(request), hello, sizeof(*hello));
	return test_receive(c, recv, sizeof(request) + sizeof(*hello)) || !test_turns();
}

/* The control thread's next note, and the only one, is of this connection. */
static void assert_note(enum note_kind kind)
{
	struct note *note = mailbox_take(env.control);

	assert_non_null(note);
	assert_null(note->next);
	assert_int_equal(note->kind, kind);
	assert_ptr_equal(note->conn, &c->conn);
}

/* The control thread answers, and the worker goes on. */
static void answer(bool granted, struct answers *to, bool known)
{
	assert_note(NOTE_QUERY);
	assert_int_equal(c->conn.query.op, WIRE_HELLO);
	c->conn.query.granted = granted;
	c->conn.query.hello.answers = to;
	c->conn.query.hello.known = known;
	query_answered(&c->conn);
	test_turns();
}

static struct wire_welcome welcome(void)
{
	struct wire_welcome w;

	assert_int_equal(c->response.status, WIRE_OK);
	assert_int_equal(c->value_len, sizeof(w));
	memcpy(&w, c->value, sizeof(w));
	return w;
}

/* A client that may not READ learns no key to the region, nor where keys are in it. */
static void welcome_without_the_region(void **state)
{
	const struct wire_hello hello = hello_make();

	(void)state;
	for (unsigned int by_request = 0; by_request < 2; by_request++) {
		static const struct sum_key no_key;
		struct wire_welcome w;

		test_conn_setup(c);
		atomic_store(&c->conn.hello_done, false);
		receive(0, &hello);
		c->conn.query.by_request = by_request;
		answer(true, NULL, false);
		w = welcome();
		assert_int_equal(w.by_request, by_request);
		assert_int_equal(!w.region_addr, by_request);
		assert_true(by_request ? !w.rkeys[0] : w.rkeys[0] == RKEY);
		assert_null(geometry_check(&w.geometry));
		assert_int_equal(w.geometry.hash_seed,
				 by_request ? 0 : test_store.region.geometry.hash_seed);
		assert_int_equal(!memcmp(&w.sum_key, &no_key, sizeof(no_key)), by_request);
		test_conn_complete(c);
		test_conn_end(c);
	}
}

/*
 * A member says which one it is, to every client, with the word of the client's region; a server in
 * no fleet says nothing.
 */
static void welcome_of_a_member(void **state)
{
	static const char text[] = "[fleet]\nname=f\nseed=0x77\nepoch=7\n"
				   "[member a]\nurl=softnic:///a\n[member b]\nurl=softnic:///b\n";
	/* Neither is the map's: the view may be newer than the word. */
	const struct fleet_word word = { .generation = 3, .epoch = 6, .end_ns = 12345 };
	const struct wire_hello hello = hello_make();
	char copy[sizeof(text)], why[STATIC_MAP_WHY_MAX];
	struct fleet fleet = { .view = NULL };
	struct fleet_map *map;
	struct wire_welcome w;

	(void)state;
	strcpy(copy, text);
	assert_int_equal(static_map_parse(&map, copy, strlen(copy), why), 0);
	assert_int_equal(fleet_fix(&fleet, map, (const char[FLEET_NAME_MAX]){ "b" }), 0);
	store_publish_word(&test_store, &word);
	for (unsigned int i = 0; i < 4; i++) {
		const bool member = i & 1;

		test_conn_setup(c);
		c->conn.client.fleet = member ? &fleet : NULL;
		atomic_store(&c->conn.hello_done, false);
		receive(0, &hello);
		c->conn.query.by_request = i & 2;
		answer(true, NULL, false);
		w = welcome();
		assert_true(w.fleet_generation == (member ? 3 : 0));
		assert_true(w.fleet_epoch == (member ? 6 : 0));
		assert_true(w.fleet_end_ns == (member ? 12345 : 0));
		assert_string_equal(w.fleet_member, member ? "b" : "");
		test_conn_complete(c);
		test_conn_end(c);
	}
	fleet_close(&fleet);
}

/* While the word is half written the client waits, so it never gets an end with another epoch. */
static void welcome_with_a_torn_word(void **state)
{
	struct fleet_word *word = &region_superblock(&test_store.region)->word;
	const struct fleet_word first = { .generation = 3, .epoch = 6, .end_ns = 12345 };
	const struct wire_hello hello = hello_make();
	struct fleet fleet = { .id = "b" };
	struct wire_welcome w;

	(void)state;
	test_conn_setup(c);
	c->conn.client.fleet = &fleet;
	atomic_store(&c->conn.hello_done, false);
	store_publish_word(&test_store, &first);
	word->epoch = 7;
	receive(0, &hello);
	assert_note(NOTE_QUERY);
	c->conn.query.granted = true;
	query_answered(&c->conn);
	for (unsigned int i = 0; i < 3; i++) {
		assert_true(test_turn());
		assert_int_equal(c->responses, 0);
	}
	store_publish_word(&test_store, &(struct fleet_word){ 3, 7, 23456, 0 });
	test_turns();
	w = welcome();
	assert_true(w.fleet_epoch == 7 && w.fleet_end_ns == 23456);
	test_conn_complete(c);
	test_conn_end(c);
}

/* The window is the connection's, not the largest there is; and the server knows what it said. */
static void window_of_the_welcome(void **state)
{
	const struct wire_hello hello = hello_make();

	(void)state;
	for (uint32_t window = 1; window <= TEST_WINDOW; window++) {
		struct wire_welcome w;

		test_conn_setup(c);
		atomic_store(&c->conn.hello_done, false);
		c->conn.window = window;
		receive(0, &hello);
		assert_int_equal(c->responses, 0);
		assert_true(atomic_load(&c->conn.hello_taken));
		assert_false(atomic_load(&c->conn.hello_done));
		/* The HELLO may be woken for another reason, and goes on waiting. */
		deferred_wake(&c->conn);
		test_turns();
		assert_int_equal(c->responses, 0);
		assert_false(c->conn.stopped);
		answer(true, NULL, false);
		assert_int_equal(c->responses, 1);
		assert_int_equal(c->response.op, WIRE_HELLO);
		assert_int_equal(c->response.id, 5);
		w = welcome();
		assert_int_equal(w.magic, WIRE_MAGIC);
		assert_int_equal(w.abi, WIRE_ABI);
		assert_int_equal(w.window, window);
		assert_int_equal(c->conn.window_told, window);
		assert_int_equal(w.request_bytes, TEST_BUFFER_BYTES);
		assert_int_equal(w.rkeys[0], RKEY);
		assert_int_equal(w.region_addr, (uintptr_t)test_store.region.base);
		assert_int_equal(w.change_last, 0);
		assert_int_equal(w.answers, 0);
		assert_int_equal(w.identity_known, 0);
		assert_int_equal(w.access_rate, 0);
		assert_int_equal(w.access_delay_ms, ACCESS_DELAY_MS);
		assert_null(geometry_check(&w.geometry));
		assert_int_equal(w.geometry.incarnation, test_store.region.geometry.incarnation);
		assert_memory_equal(&w.sum_key, &test_store.region.sum_key, sizeof(w.sum_key));
		assert_true(atomic_load(&c->conn.hello_done));
		/* The shorter of what either takes. */
		assert_int_equal(c->conn.response_bytes, TEST_BUFFER_BYTES);
		test_conn_complete(c);
		assert_int_equal(c->conn.buffers, 0);
	}
}

/* Access records are wanted only where something is evicted. */
static void access_rate_with_eviction(void **state)
{
	struct wire_hello hello = hello_make();

	(void)state;
	config.memory.eviction = EVICTION_OBJECT_HITS;
	hello.response_bytes = WIRE_RESPONSE_MIN;
	receive(0, &hello);
	answer(true, NULL, false);
	assert_int_equal(welcome().access_rate, 3);
	assert_int_equal(c->conn.response_bytes, WIRE_RESPONSE_MIN);
}

/* A client with an identity is told up to where its changes were executed. */
static void identity_of_the_welcome(void **state)
{
	struct wire_hello hello = hello_make();
	struct wire_welcome w;

	(void)state;
	hello.identity[3] = 1;
	hello.change_next = 43;
	answers.last = 42;
	receive(0, &hello);
	assert_int_equal(c->conn.query.hello.change_next, 43);
	assert_memory_equal(c->conn.query.hello.identity, hello.identity, WIRE_IDENTITY_BYTES);
	answer(true, &answers, true);
	w = welcome();
	assert_int_equal(w.change_last, 42);
	assert_int_equal(w.answers, ANSWERS_MAX);
	assert_int_equal(w.identity_known, 1);
	assert_int_equal(c->conn.change_admitted, 42);
	assert_ptr_equal(c->conn.answers, &answers);
}

static void assert_failed(void)
{
	assert_true(c->conn.stopped);
	assert_int_equal(c->responses, 0);
	assert_false(atomic_load(&c->conn.hello_done));
	assert_note(NOTE_FAILED);
	assert_int_equal(stat_read(&test_worker.stats.connections_failed), 1);
	assert_int_equal(c->conn.sq_used, 0);
	assert_int_equal(c->conn.buffers, 0);
}

/* The client says that it has not sent what was answered: it is another with that identity. */
static void identity_of_another(void **state)
{
	struct wire_hello hello = hello_make();

	(void)state;
	hello.identity[3] = 1;
	hello.change_next = 42;
	answers.last = 42;
	receive(0, &hello);
	answer(true, &answers, true);
	assert_failed();
	assert_null(c->conn.answers);
}

static void not_granted(void **state)
{
	const struct wire_hello hello = hello_make();

	(void)state;
	receive(0, &hello);
	answer(false, NULL, false);
	assert_failed();
}

/* Another ABI gets a response that says so, and no welcome; the connection may try again. */
static void another_abi(void **state)
{
	struct wire_hello hello = hello_make();

	(void)state;
	hello.abi++;
	receive(0, &hello);
	assert_int_equal(c->responses, 1);
	assert_int_equal(c->response.status, WIRE_PROTOCOL);
	assert_int_equal(c->value_len, 0);
	assert_null(mailbox_take(env.control));
	assert_false(atomic_load(&c->conn.hello_done));
	assert_false(atomic_load(&c->conn.hello_taken));
}

/* Values at both sides of what is allowed. */
static void wrong_values(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 9; i++) {
		struct wire_hello hello = hello_make();
		bool good = i == 0 || i == 3 || i == 5;

		test_conn_setup(c);
		atomic_store(&c->conn.hello_done, false);
		stat_set(&test_worker.stats.connections_failed, 0);
		hello.magic ^= i == 1;
		hello.change_next = i == 2; /* without an identity */
		if (i == 3 || i == 4)
			hello.response_bytes = WIRE_RESPONSE_MIN - (i == 4);
		if (i == 5 || i == 6)
			hello.response_bytes = WIRE_RESPONSE_MAX + (i == 6);
		if (i > 6)
			hello.identity[15] = 1; /* without a number, or one that is no change's */
		if (i == 8)
			hello.change_next = 1ull << 32;
		receive(0, &hello);
		assert_int_equal(c->conn.stopped, !good);
		if (good)
			answer(true, NULL, false);
		else
			assert_failed();
		assert_int_equal(c->responses, good);
		deferred_cancel(&c->conn);
		test_conn_complete(c);
	}
}

/* Only one HELLO, and nothing before it. */
static void once_and_first(void **state)
{
	const struct wire_request ping = { .op = WIRE_PING, .id = 9 };
	const struct wire_hello hello = hello_make();

	(void)state;
	receive(0, &hello);
	/* A request after a HELLO that is not done yet waits for that. */
	memcpy(test_recv(1), &ping, sizeof(ping));
	assert_false(test_receive(c, 1, sizeof(ping)));
	test_turns();
	assert_int_equal(c->responses, 0);
	answer(true, NULL, false);
	assert_int_equal(c->responses, 2);
	assert_int_equal(c->ids[0], 5);
	assert_int_equal(c->ids[1], 9);
	test_conn_complete(c);
	receive(2, &hello);
	assert_true(c->conn.stopped);
	assert_int_equal(c->responses, 2);
	assert_note(NOTE_FAILED);
	/* And nothing before it. */
	test_conn_setup(c);
	atomic_store(&c->conn.hello_done, false);
	stat_set(&test_worker.stats.connections_failed, 0);
	memcpy(test_recv(3), &ping, sizeof(ping));
	assert_true(test_receive(c, 3, sizeof(ping)));
	assert_failed();
}

/* The window is bound to the region before the welcome says its key. */
static void memory_window(void **state)
{
	const struct wire_hello hello = hello_make();
	struct ibv_mw mw = { .rkey = 0x12ff };
	const struct ibv_mw_bind_info *info = &c->bind.bind_mw.bind_info;

	(void)state;
	c->conn.mws[0] = &mw;
	test_poller->nic->windows = true;
	receive(0, &hello);
	assert_true(c->bind.wr_id == 0);
	answer(true, NULL, false);
	assert_int_equal(wr_id_kind(c->bind.wr_id), WR_BIND);
	assert_int_equal(c->bind.send_flags, IBV_SEND_SIGNALED);
	assert_ptr_equal(c->bind.bind_mw.mw, &mw);
	assert_int_equal(c->bind.bind_mw.rkey, 0x1200);
	assert_ptr_equal(info->mr, &test_tenant_mr);
	assert_true(info->addr == (uintptr_t)test_store.region.base);
	assert_true(info->length == test_store.region.bytes);
	assert_int_equal(info->mw_access_flags, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(welcome().rkeys[0], 0x1200);
	/* The bind and the response have their places, and give them back. */
	assert_int_equal(c->conn.sq_used, 2);
	response_done(test_poller, &c->conn, c->bind.wr_id);
	assert_int_equal(c->conn.sq_used, 1);
	c->conn.mws[0] = NULL;
	test_poller->nic->windows = false;
}

/* EXTENTS: asks for the keys, and returns them; how many must be @count. */
static struct wire_extents extents_asked(uint32_t recv, uint32_t count)
{
	const struct wire_request request = { .op = WIRE_EXTENTS, .id = 50 + recv };
	struct wire_extents extents;

	c->responses = 0;
	memset(&c->bind, 0, sizeof(c->bind));
	memcpy(test_recv(recv), &request, sizeof(request));
	if (!test_receive(c, recv, sizeof(request)))
		test_turns();
	assert_int_equal(c->response.status, WIRE_OK);
	assert_int_equal(c->response.result, count);
	assert_int_equal(c->value_len, sizeof(extents));
	memcpy(&extents, c->value, sizeof(extents));
	return extents;
}

/* The region has got an extent since HELLO: its window is bound when the client asks. */
static void a_later_extent(void **state)
{
	const struct wire_hello hello = hello_make();
	struct ibv_mr second = { .addr = test_store.region.base + 4096, .length = 8192 };
	struct ibv_mw mws[] = { { .rkey = 0x1200 }, { .rkey = 0x3400 } };
	const struct ibv_mw_bind_info *info = &c->bind.bind_mw.bind_info;
	struct wire_extents extents;

	(void)state;
	c->conn.mws[0] = &mws[0];
	test_poller->nic->windows = true;
	receive(0, &hello);
	answer(true, NULL, false);
	assert_int_equal(welcome().extents, 1);
	test_conn_complete(c);
	assert_int_equal(extents_asked(1, 1).rkeys[0], 0x1201);
	assert_true(c->bind.wr_id == 0);
	test_conn_complete(c);
	/* The control thread, which found no window for a third one. */
	test_tenant_mrs[1] = &second;
	c->conn.mws[1] = &mws[1];
	atomic_store(&test_tenant.now.extents, 3);
	extents = extents_asked(2, 2);
	assert_int_equal(extents.rkeys[0], 0x1201);
	assert_int_equal(extents.rkeys[1], 0x3401);
	assert_int_equal(extents.rkeys[2], 0);
	assert_ptr_equal(c->bind.bind_mw.mw, &mws[1]);
	assert_ptr_equal(info->mr, &second);
	assert_true(info->addr == (uintptr_t)second.addr);
	assert_true(info->length == second.length);
	test_conn_complete(c);
	memset(c->conn.mws, 0, sizeof(c->conn.mws));
	test_tenant_mrs[1] = NULL;
	test_poller->nic->windows = false;
}

/* Without room in the send queue, the client gets the key when it asks again. */
static void no_place_for_a_later_bind(void **state)
{
	const struct wire_hello hello = hello_make();
	struct ibv_mr second = { .addr = test_store.region.base + 4096, .length = 8192 };
	struct ibv_mw mws[] = { { .rkey = 0x1200 }, { .rkey = 0x3400 } };

	(void)state;
	c->conn.mws[0] = &mws[0];
	c->conn.mws[1] = &mws[1];
	test_poller->nic->windows = true;
	receive(0, &hello);
	answer(true, NULL, false);
	test_conn_complete(c);
	test_tenant_mrs[1] = &second;
	atomic_store(&test_tenant.now.extents, 2);
	test_poller->spare_sends = 0;
	c->conn.sq_used = sq_share(&c->conn) - 1;
	extents_asked(1, 1);
	assert_true(c->bind.wr_id == 0);
	assert_false(c->conn.stopped);
	c->conn.sq_used = 1;
	test_conn_complete(c);
	extents_asked(2, 2);
	test_conn_complete(c);
	memset(c->conn.mws, 0, sizeof(c->conn.mws));
	test_tenant_mrs[1] = NULL;
	test_poller->nic->windows = false;
}

/* A client that may not READ gets no key. */
static void no_keys_by_request(void **state)
{
	const struct wire_request request = { .op = WIRE_EXTENTS, .id = 50 };
	const struct wire_hello hello = hello_make();

	(void)state;
	receive(0, &hello);
	c->conn.query.by_request = true;
	answer(true, NULL, false);
	assert_int_equal(welcome().extents, 0);
	memcpy(test_recv(1), &request, sizeof(request));
	if (!test_receive(c, 1, sizeof(request)))
		test_turns();
	assert_int_equal(c->response.status, WIRE_NOT_ALLOWED);
	assert_int_equal(c->value_len, 0);
}

/* HELLOs of a wrong version have taken the places, the spare ones included. */
static void no_place_for_the_bind(void **state)
{
	const struct wire_hello hello = hello_make();
	uint32_t spare = test_poller->spare_sends;
	struct ibv_mw mw = { .rkey = 0x12ff };

	(void)state;
	c->conn.mws[0] = &mw;
	test_poller->nic->windows = true;
	receive(0, &hello);
	test_poller->spare_sends = 0;
	c->conn.sq_used = sq_share(&c->conn) - 1;
	answer(true, NULL, false);
	assert_true(c->conn.stopped);
	assert_true(c->bind.wr_id == 0);
	assert_int_equal(c->responses, 0);
	assert_int_equal(c->conn.sq_used, sq_share(&c->conn) - 1);
	assert_note(NOTE_FAILED);
	/* With one spare place there is room for both. */
	test_conn_setup(c);
	atomic_store(&c->conn.hello_done, false);
	c->conn.mws[0] = &mw;
	receive(1, &hello);
	test_poller->spare_sends = 1;
	c->conn.sq_used = sq_share(&c->conn) - 1;
	answer(true, NULL, false);
	assert_false(c->conn.stopped);
	assert_int_equal(c->responses, 1);
	assert_int_equal(c->conn.sq_used, sq_share(&c->conn) + 1);
	assert_int_equal(test_poller->spare_sends, 0);
	response_done(test_poller, &c->conn, c->bind.wr_id);
	assert_int_equal(test_poller->spare_sends, 1);
	test_poller->spare_sends = spare;
	c->conn.sq_used = 1;
	c->conn.mws[0] = NULL;
	test_poller->nic->windows = false;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(window_of_the_welcome),
		CASE(welcome_without_the_region),
		CASE(welcome_of_a_member),
		CASE(welcome_with_a_torn_word),
		CASE(access_rate_with_eviction),
		CASE(identity_of_the_welcome),
		CASE(identity_of_another),
		CASE(not_granted),
		CASE(another_abi),
		CASE(wrong_values),
		CASE(once_and_first),
		CASE(memory_window),
		CASE(no_place_for_the_bind),
		CASE(a_later_extent),
		CASE(no_place_for_a_later_bind),
		CASE(no_keys_by_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
