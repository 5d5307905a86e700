/* SPDX-License-Identifier: MIT */
/*
 * Access records (client/libkvd/access.h): which hits are sampled and how many, when and in which
 * messages they are reported, and that the window and the receive buffers are never exceeded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/fake_server.h"

#define MS 1000000ull

static struct fake_server *server;
static struct kvd *kvd;
static uint8_t found[256];

/* Access fields of items: used and young, used and old, never used, of low priority, pinned. */
#define TICK 100u
#define KNOWN (1u << ACCESS_USES_SHIFT | TICK)
#define OLD (1u << ACCESS_USES_SHIFT | ((TICK - ACCESS_YOUNG_MAX - 1) & ACCESS_TIME))
#define UNUSED TICK
#define KEY_HASH 0x5a5a5a5a5a5a5a50ull
#define LOW (ACCESS_LOW | TICK)
#define PINNED (ACCESS_PIN | TICK)

static void setup_access(struct access *access, uint32_t rate, uint64_t seed)
{
	*access = (struct access){ .tick = TICK };
	access_init(access, rate, 1000, seed);
}

/* For how many hits a record of this one stands; 0: there is none. */
static uint32_t hit(struct access *access, uint16_t field)
{
	return access_hit(access, field, KEY_HASH) ? access_choose(access) : 0;
}

static void rate_zero_takes_none(void **state)
{
	struct access access;

	(void)state;
	setup_access(&access, 0, 1);
	for (unsigned int i = 0; i < 1000000; i++)
		assert_false(access_hit(&access, i % 2 ? UNUSED : KNOWN, KEY_HASH));
	assert_false(access.due);
	/* But the hits are told. */
	assert_int_equal(access.hits, 1000000);
}

/* What tells the server something is reported, until it is more than one of `rate`. */
static void what_is_new_is_reported(void **state)
{
	static const uint16_t fields[] = { OLD, UNUSED, PINNED };
	static const uint32_t rates[] = { 1, 4, 100 };
	struct access access;
	unsigned int r, f, i, n;
	uint64_t told;

	(void)state;
	for (r = 0; r < 3; r++)
		for (f = 0; f < 3; f++) {
			setup_access(&access, rates[r], 7 + r);
			for (i = 0; i < 32; i++)
				assert_int_equal(hit(&access, fields[f]), 1);
			for (i = 0; i < 200 * rates[r]; i++)
				hit(&access, fields[f]);
			for (told = n = i = 0; i < 10000 * rates[r]; i++) {
				uint32_t hits = hit(&access, fields[f]);

				n += hits > 0;
				told += hits;
			}
			assert_in_range(n, 9500, rates[r] > 1 ? 10500 : 10000);
			/* The sampled hits stand for all, on average. */
			assert_in_range(told, 9000ull * rates[r], 11000ull * rates[r]);
		}
}

/* One in 64 hits that change nothing is reported, or one in `rate`. */
static void what_is_known_is_sampled(void **state)
{
	static const uint16_t fields[] = { KNOWN, LOW };
	static const uint32_t rates[] = { 1, 4, 1000 }, every[] = { 64, 64, 1000 };
	struct access access;
	unsigned int r, f, i, n;

	(void)state;
	for (r = 0; r < 3; r++)
		for (f = 0; f < 2; f++) {
			setup_access(&access, rates[r], 12345 + r);
			for (n = i = 0; i < 1000 * every[r]; i++) {
				uint32_t hits = hit(&access, fields[f]);

				assert_true(!hits || hits == every[r]);
				n += hits > 0;
			}
			assert_in_range(n, 900, 1100);
		}
}

/* The age counts from the tick of the last response, around 0, too. */
static void the_age_goes_by_the_tick(void **state)
{
	struct access access;

	(void)state;
	setup_access(&access, 1, 1);
	access.known_left = UINT64_MAX;
	for (unsigned int tick = 0; tick <= ACCESS_TIME; tick++) {
		uint16_t field = (uint16_t)(1u << ACCESS_USES_SHIFT | tick);

		access.tick = (uint16_t)((tick + ACCESS_YOUNG_MAX) & ACCESS_TIME);
		assert_int_equal(hit(&access, field), 0);
		access.tick = (uint16_t)((tick + ACCESS_YOUNG_MAX + 1) & ACCESS_TIME);
		assert_int_equal(hit(&access, field), 1);
		/* Of one that was used after the last response. */
		access.tick = (uint16_t)((tick - ACCESS_TICKS) & ACCESS_TIME);
		assert_int_equal(hit(&access, field), 0);
		access.tick = (uint16_t)((tick - ACCESS_TICKS - 1) & ACCESS_TIME);
		assert_int_equal(hit(&access, field), 1);
	}
}

/* Keys that are read in turn are sampled equally, even if their number divides the rate. */
static void a_period_hides_no_key(void **state)
{
	static const uint16_t fields[] = { KNOWN, OLD };
	struct access access;

	(void)state;
	for (unsigned int f = 0; f < 2; f++) {
		unsigned int i, samples[10] = { 0 };

		setup_access(&access, 100, 7);
		for (i = 0; i < 20000; i++)
			hit(&access, fields[f]);
		for (i = 0; i < 1000000; i++)
			samples[i % 10] += hit(&access, fields[f]) > 0;
		for (i = 0; i < 10; i++)
			assert_in_range(samples[i], 800, 1200);
	}
}

static void seeds_differ(void **state)
{
	struct access a, b;

	(void)state;
	setup_access(&a, 1000000, 1);
	setup_access(&b, 1000000, 2);
	assert_true(a.known_left != b.known_left);
	setup_access(&a, 1000000, 0);
	assert_true(a.known_left > 0);
}

/* GETs are moved once; they alone are never due. */
static void gets_are_moved(void **state)
{
	struct wire_gets gets;
	struct access access;
	uint8_t to[8];

	(void)state;
	setup_access(&access, 4, 1);
	assert_true(access_is_empty(&access));
	assert_false(access_take_gets(&access, to, sizeof(to)));
	hit(&access, KNOWN);
	assert_false(access_miss(&access, KEY_HASH));
	assert_false(access_miss(&access, KEY_HASH));
	assert_false(access_is_empty(&access));
	assert_false(access_take_gets(&access, to, sizeof(to) - 1));
	assert_true(access_take_gets(&access, to, sizeof(to)));
	memcpy(&gets, to, sizeof(gets));
	assert_int_equal(gets.hits, 1);
	assert_int_equal(gets.misses, 2);
	assert_false(access_take_gets(&access, to, sizeof(to)));
	for (unsigned int i = 0; i < 1000000; i++)
		access_miss(&access, KEY_HASH);
	assert_false(access.due);
	/* A connection that is new takes them along. */
	access_init(&access, 4, 1000, 1);
	assert_true(access_take_gets(&access, to, sizeof(to)));
	assert_true(access_is_empty(&access));
	/* More than a message can say go in two. */
	access.misses = UINT32_MAX + 3ull;
	assert_true(access_take_gets(&access, to, sizeof(to)));
	memcpy(&gets, to, sizeof(gets));
	assert_int_equal(gets.misses, UINT32_MAX);
	assert_int_equal(access.misses, 3);
}

/* Each GET of a key that the server samples is reported, whatever the rate. */
static void samples(void **state)
{
	struct access access;

	(void)state;
	setup_access(&access, 0, 1);
	access_learn(&access, TICK);
	assert_false(access_is_sampled(&access, KEY_HASH));
	/* The low 4 bits are 0. */
	access_learn(&access, 5u << WIRE_SAMPLE_SHIFT | TICK);
	assert_true(access_is_known(KNOWN, access.tick));
	for (unsigned int i = 0; i < 1000; i++) {
		assert_true(access_hit(&access, KNOWN, KEY_HASH));
		assert_true(access_miss(&access, KEY_HASH));
		assert_false(access_hit(&access, UNUSED, KEY_HASH + 8));
		assert_false(access_miss(&access, KEY_HASH + 1));
	}
	assert_int_equal(access.hits, 2000);
	assert_int_equal(access.misses, 2000);
	/* A connection that is new knows as much as the last response. */
	access_init(&access, 1, 1000, 1);
	assert_true(access_is_sampled(&access, KEY_HASH));
	access_learn(&access, TICK);
	assert_false(access_is_sampled(&access, KEY_HASH));
}

static void a_message_is_due(void **state)
{
	uint8_t message[1024];
	struct access access;
	struct wire_access record;
	uint32_t i;

	(void)state;
	setup_access(&access, 1, 1);
	access_init(&access, 1, 10, 1);
	assert_int_equal(access_take(&access, message, sizeof(message)), 0);
	for (i = 0; i < WIRE_ACCESS_MAX; i++) {
		assert_false(access.due);
		access_add(&access, 100 + i, 1, 5);
	}
	assert_true(access.due);
	for (; i < ACCESS_MAX; i++)
		access_add(&access, 100 + i, 1, 5);
	/* Full: the oldest is dropped. */
	access_add(&access, 100 + i, 1, 5);
	assert_int_equal(access_take(&access, message, sizeof(message)), WIRE_ACCESS_MAX);
	memcpy(&record, message, sizeof(record));
	assert_int_equal(record.hash, 101);
	assert_false(access.due);
	assert_int_equal(access_take(&access, message, 23), 2);
	memcpy(&record, message + 8, sizeof(record));
	assert_int_equal(record.hash, 101 + WIRE_ACCESS_MAX + 1);
	assert_false(access.due);
	assert_int_equal(access_take(&access, message, 7), 0);
	assert_int_equal(access_take(&access, message, sizeof(message)),
			 ACCESS_MAX - WIRE_ACCESS_MAX - 2);
	assert_int_equal(access.count, 0);
	/* By age. */
	access_add(&access, 1, 1, 20 * MS);
	access_add(&access, 2, 1, 30 * MS - 1);
	assert_false(access.due);
	access_add(&access, 3, 1, 30 * MS);
	assert_true(access.due);
	/* What is left when a message had room for few is due still. */
	for (i = 3; i < WIRE_ACCESS_MAX + 2; i++)
		access_add(&access, i, 1, 30 * MS);
	assert_int_equal(access_take(&access, message, 2 * WIRE_ACCESS_BYTES), 2);
	assert_true(access.due);
	assert_int_equal(access_take(&access, message, WIRE_ACCESS_BYTES), 1);
	assert_false(access.due);
}

static void open_with(uint32_t window, uint32_t rate, uint32_t delay_ms)
{
	server = fake_server_open(2, window, rate, delay_ms, NULL);
	kvd = &server->kvd;
	for (uint64_t key = 0; key < 10; key++)
		fake_server_put(server, key, 20, 0);
}

static void get(uint64_t key, enum kvd_status status)
{
	assert_int_equal(kvd_get(kvd, &key, 8, found, sizeof(found), NULL), status);
}

/* The last record is the key's. */
static void assert_access(uint64_t key)
{
	const uint64_t hash = fake_server_hash(server, key);

	assert_int_equal(server->last_access, wire_access_hash(wire_access_make(hash, 1)));
}

/* One-sided hits are reported, and counted as misses are; GETs by request are not. */
static void hits_are_reported(void **state)
{
	uint64_t key = 3;

	(void)state;
	open_with(4, 1, 60000);
	get(1, KVD_OK);
	get(99, KVD_NOT_FOUND);
	assert_int_equal(kvd_get_by_request(kvd, &key, 8, found, sizeof(found), NULL), KVD_OK);
	/* That request carried the record. */
	assert_int_equal(server->access_records, 1);
	assert_access(1);
	assert_int_equal(server->get_hits, 1);
	assert_int_equal(server->get_misses, 1);
	get(2, KVD_OK);
	assert_int_equal(server->access_records, 1);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(server->access_records, 2);
	assert_access(2);
	assert_int_equal(server->get_hits, 2);
	assert_int_equal(server->get_misses, 1);
	assert_int_equal(kvd->stats.access_records, 2);
	assert_int_equal(kvd->stats.access_messages, 0);
	kvd_close(kvd);
}

/* Where all keys are sampled each GET is reported, and of a miss that it was one. */
static void sampled_gets_are_reported(void **state)
{
	(void)state;
	open_with(4, 100, 60000);
	server->tick = 1u << WIRE_SAMPLE_SHIFT;
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	for (unsigned int i = 0; i < 5; i++)
		get(i, KVD_OK);
	get(99, KVD_NOT_FOUND);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(server->access_records, 6);
	assert_int_equal(server->last_hits, 0);
	assert_access(99);
	get(3, KVD_OK);
	server->tick = 0;
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(server->access_records, 7);
	assert_int_equal(server->last_hits, 1);
	assert_access(3);
	get(99, KVD_NOT_FOUND);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(server->access_records, 7);
	kvd_close(kvd);
}

static void a_full_buffer_is_sent(void **state)
{
	unsigned int i;

	(void)state;
	open_with(4, 1, 60000);
	server->hold_access = true;
	for (i = 0; i < WIRE_ACCESS_MAX; i++)
		get(i % 10, KVD_OK);
	assert_int_equal(server->access_messages, 1);
	assert_int_equal(server->access_records, WIRE_ACCESS_MAX);
	/* No call waits for the response; other requests are sent meanwhile. */
	assert_true(server->holding);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_true(server->holding);
	assert_int_equal(server->outstanding_max, 2);
	/* The next such message waits for it. */
	for (i = 0; i < WIRE_ACCESS_MAX; i++)
		get(i % 10, KVD_OK);
	assert_int_equal(server->access_messages, 2);
	assert_int_equal(server->access_records, 2 * WIRE_ACCESS_MAX);
	assert_int_equal(server->outstanding_max, 2);
	assert_int_equal(kvd->stats.access_messages, 2);
	server->hold_access = false;
	fake_server_release(server);
	get(1, KVD_OK);
	assert_int_equal(kvd->conn.accesses, 0);
	kvd_close(kvd);
}

/* A window of one: the next request waits for the response to the ACCESS message. */
static void a_window_of_one(void **state)
{
	(void)state;
	open_with(1, 1, 60000);
	server->hold_access = true;
	for (unsigned int i = 0; i < 10 * WIRE_ACCESS_MAX; i++) {
		get(i % 10, KVD_OK);
		if (i % 7 == 0)
			assert_int_equal(kvd_ping(kvd), KVD_OK);
	}
	assert_int_equal(server->outstanding_max, 1);
	/* Each PING takes the records of 7 GETs with it. */
	assert_int_equal(server->access_records, 10 * WIRE_ACCESS_MAX);
	assert_int_equal(server->access_messages, 0);
	assert_int_equal(kvd->access.count, 0);
	kvd_close(kvd);
}

static void a_window_of_one_and_messages(void **state)
{
	(void)state;
	open_with(1, 1, 60000);
	server->hold_access = true;
	for (unsigned int i = 0; i < 3 * WIRE_ACCESS_MAX; i++)
		get(i % 10, KVD_OK);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(server->access_messages, 3);
	assert_int_equal(server->outstanding_max, 1);
	kvd_close(kvd);
}

/* A delay of 0: each sample is reported at the end of its GET. */
static void the_delay_is_kept(void **state)
{
	(void)state;
	open_with(2, 1, 0);
	get(1, KVD_OK);
	assert_int_equal(server->access_messages, 1);
	get(2, KVD_OK);
	assert_int_equal(server->access_messages, 2);
	assert_int_equal(server->access_records, 2);
	kvd_close(kvd);
}

/* With the window full the message waits for its turn. */
static void a_message_that_has_to_wait(void **state)
{
	struct kvd_op op, *list[] = { &op }, *done[1];
	unsigned int i;

	(void)state;
	open_with(1, 1, 0);
	server->hold_all = true;
	kvd_prep_ping(&op);
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
	access_add(&kvd->access, 1, 1, 1);
	kvd->attention = true;
	for (i = 0; i < 10; i++)
		assert_int_equal(kvd_poll(kvd, done, 1), 0);
	assert_int_equal(server->access_messages, 0);
	server->hold_all = false;
	fake_server_answer(server, 1);
	assert_int_equal(kvd_wait(kvd, done, 1, 1, FAKE_TIMEOUT_MS), 1);
	kvd_poll(kvd, done, 1);
	assert_int_equal(server->access_messages, 1);
	assert_int_equal(server->outstanding_max, 1);
	kvd_close(kvd);
}

/* More samples in a batch than fit a message: none is lost. */
static void batches_lose_no_record(void **state)
{
	static struct kvd_get_request list[100];
	static uint64_t keys[100];
	static uint8_t values[100][32];
	unsigned int i;

	(void)state;
	open_with(2, 1, 60000);
	for (i = 0; i < WIRE_ACCESS_MAX - 1; i++)
		get(i % 10, KVD_OK);
	for (i = 0; i < 100; i++) {
		keys[i] = i % 10;
		list[i] =
			(struct kvd_get_request){ &keys[i], 8, values[i], 32, KVD_ERR_BUSY, { 0 } };
	}
	assert_int_equal(kvd_get_many(kvd, list, 100), KVD_OK);
	assert_int_equal(server->access_records + kvd->access.count, WIRE_ACCESS_MAX - 1 + 100);
	assert_true(server->access_messages >= 1);
	assert_true(server->access_records >= WIRE_ACCESS_MAX);
	kvd_close(kvd);
}

static unsigned int told_at_close;

static void note_close(struct fake_server *p, const struct request *request,
		       struct wire_response *response, uint8_t *value)
{
	(void)p, (void)request, (void)response, (void)value;
}

static int (*destroyed_before)(struct cm_id *id);

static int count_at_disconnect(struct cm_id *id)
{
	told_at_close = server->access_records;
	return destroyed_before(id);
}

static void closing_reports_the_rest(void **state)
{
	static struct device_ops ops;

	(void)state;
	open_with(2, 1, 60000);
	server->respond = note_close;
	ops = *server->fake.device.ops;
	destroyed_before = ops.disconnect;
	ops.disconnect = count_at_disconnect;
	server->fake.device.ops = &ops;
	server->hold_access = true;
	for (unsigned int i = 0; i < 5; i++)
		get(i, KVD_OK);
	assert_int_equal(server->access_records, 0);
	kvd_close(kvd);
	assert_int_equal(told_at_close, 5);
}

/* A request without room for them leaves them to the next one. */
static void large_requests_take_what_fits(void **state)
{
	static const uint8_t value[FAKE_SERVER_BUFFER_BYTES];
	uint64_t key = 1;

	(void)state;
	open_with(2, 1, 60000);
	server->respond = note_close;
	for (unsigned int i = 0; i < 10; i++)
		get(i, KVD_OK);
	assert_int_equal(kvd_put(kvd, &key, 8, value, FAKE_SERVER_BUFFER_BYTES - 48 - 8 - 28, NULL,
				 NULL),
			 KVD_OK);
	assert_int_equal(server->access_records, 2);
	assert_int_equal(kvd_put(kvd, &key, 8, value, FAKE_SERVER_BUFFER_BYTES - 48 - 8, NULL,
				 NULL),
			 KVD_OK);
	assert_int_equal(server->access_records, 2);
	/* A value that is pulled leaves room. */
	assert_int_equal(kvd_put(kvd, &key, 8, value, FAKE_SERVER_BUFFER_BYTES, NULL, NULL),
			 KVD_OK);
	assert_int_equal(server->access_records, 10);
	kvd_close(kvd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rate_zero_takes_none),
		cmocka_unit_test(what_is_new_is_reported),
		cmocka_unit_test(what_is_known_is_sampled),
		cmocka_unit_test(the_age_goes_by_the_tick),
		cmocka_unit_test(a_period_hides_no_key),
		cmocka_unit_test(seeds_differ),
		cmocka_unit_test(gets_are_moved),
		cmocka_unit_test(a_message_is_due),
		cmocka_unit_test(samples),
		cmocka_unit_test(hits_are_reported),
		cmocka_unit_test(sampled_gets_are_reported),
		cmocka_unit_test(a_full_buffer_is_sent),
		cmocka_unit_test(a_window_of_one),
		cmocka_unit_test(a_window_of_one_and_messages),
		cmocka_unit_test(the_delay_is_kept),
		cmocka_unit_test(a_message_that_has_to_wait),
		cmocka_unit_test(batches_lose_no_record),
		cmocka_unit_test(closing_reports_the_rest),
		cmocka_unit_test(large_requests_take_what_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
