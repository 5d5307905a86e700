/* SPDX-License-Identifier: MIT */
/*
 * What an observer is told of each operation: its kind, key, times and how it ended, whichever way
 * it was called; scans; the lines and histograms of times; latencies, each of its own kind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/libkvd/observe.h"
#include "tests/support/fake_server.h"

#define EVENTS_MAX 32
#define TEXT_BYTES (256u << 10)

static struct fake_server *server;
static struct kvd *kvd;
static uint64_t key = 1;
static uint8_t value[32];
static struct kvd_trace_event events[EVENTS_MAX];
static unsigned int event_count;
static char text[TEXT_BYTES];
static struct kvd_entry scanned;

static void respond(struct fake_server *p, const struct request *request,
		    struct wire_response *response, uint8_t *to)
{
	struct wire_entry entry = {
		.version = 7ull << 33 | 1, .value_len = 5, .item_flags = 3, .key_len = 1
	};

	(void)p;
	response->version = 1;
	if (request->op != WIRE_SCAN)
		return;
	response->version = 0;
	response->entries = 1;
	response->value_len = sizeof(entry) + 1;
	memcpy(to, &entry, sizeof(entry));
	to[sizeof(entry)] = 'k';
}

static int setup(void **state)
{
	struct kvd_options options;

	(void)state;
	kvd_options_init(&options);
	options.depth = 1;
	server = fake_server_open(4, 4, 0, 0, &options);
	kvd = &server->kvd;
	server->respond = respond;
	fake_server_put(server, key, 20, 0);
	event_count = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kvd_close(kvd);
	kvd_observe(NULL, 0);
	return 0;
}

static void note(void *user, const struct kvd_trace_event *event)
{
	(void)user;
	assert_true(event_count < EVENTS_MAX);
	events[event_count++] = *event;
}

static int note_entry(void *arg, const struct kvd_entry *entry)
{
	(void)arg;
	scanned = *entry;
	return 0;
}

/* The events of the last operation: its start and its end. */
static void assert_told(enum kvd_opcode op, const void *key_of, enum kvd_status status)
{
	const struct kvd_trace_event *e = events;
	unsigned int i;

	assert_int_equal(event_count, 2);
	for (i = 0; i < 2; i++) {
		assert_int_equal(e[i].ended, i);
		assert_int_equal(e[i].op, op);
		assert_ptr_equal(e[i].key, key_of);
		assert_int_equal(e[i].key_len, key_of ? 8 : 0);
		assert_true(e[i].start_ns > 0);
		assert_true(e[i].start_ns == e[0].start_ns);
		assert_ptr_equal(e[i].submitted, NULL);
	}
	assert_int_equal(e[1].status, status);
	assert_true(e[1].posted_ns >= e[1].start_ns);
	assert_true(e[1].end_ns >= e[1].posted_ns);
	event_count = 0;
}

static void each_call(void **state)
{
	struct kvd_get_request request = { &key, 8, value, sizeof(value), KVD_OK, { 0 } };
	struct kvd_key one = { &key, 8 };
	uint64_t cursor = 0;

	(void)state;
	assert_int_equal(kvd_trace(kvd, note, NULL), KVD_OK);
	assert_int_equal(kvd_get(kvd, &key, 8, value, sizeof(value), NULL), KVD_OK);
	assert_told(KVD_OP_GET, &key, KVD_OK);
	assert_int_equal(kvd_get_many(kvd, &request, 1), KVD_OK);
	assert_told(KVD_OP_GET, &key, KVD_OK);
	assert_int_equal(kvd_exists_many(kvd, &one, 1, NULL, NULL), KVD_OK);
	assert_told(KVD_OP_EXISTS, &key, KVD_OK);
	assert_int_equal(kvd_get_by_request(kvd, &key, 8, value, sizeof(value), NULL), KVD_OK);
	assert_told(KVD_OP_GET_BY_REQUEST, &key, KVD_OK);
	assert_int_equal(kvd_get_and_touch(kvd, &key, 8, 5, value, 1, NULL), KVD_ERR_BUFFER);
	assert_told(KVD_OP_GET_AND_TOUCH, &key, KVD_ERR_BUFFER);
	assert_int_equal(kvd_put(kvd, &key, 8, "a", 1, NULL, NULL), KVD_OK);
	assert_told(KVD_OP_PUT, &key, KVD_OK);
	assert_int_equal(kvd_delete(kvd, &key, 8), KVD_OK);
	assert_told(KVD_OP_DELETE, &key, KVD_OK);
	assert_int_equal(kvd_incr(kvd, &key, 8, 1, NULL, NULL, NULL), KVD_OK);
	assert_told(KVD_OP_INCR, &key, KVD_OK);
	assert_int_equal(kvd_decr(kvd, &key, 8, 1, NULL, NULL, NULL), KVD_OK);
	assert_told(KVD_OP_DECR, &key, KVD_OK);
	assert_int_equal(kvd_touch(kvd, &key, 8, 1, NULL), KVD_OK);
	assert_told(KVD_OP_TOUCH, &key, KVD_OK);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_told(KVD_OP_PING, NULL, KVD_OK);
	assert_int_equal(kvd_scan(kvd, &cursor, NULL, note_entry, NULL), KVD_OK);
	assert_int_equal(events[1].messages, 1);
	assert_int_equal(events[1].path, KVD_PATH_REQUEST);
	assert_told(KVD_OP_SCAN, NULL, KVD_OK);
}

/* A scan is an operation, and delivers all that is known of a key. */
static void scans(void **state)
{
	struct kvd_op_stats stats;
	struct kvd_stats all;
	uint64_t cursor = 0;

	(void)state;
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	assert_int_equal(kvd_scan(kvd, &cursor, NULL, note_entry, NULL), KVD_OK);
	assert_int_equal(scanned.key_len, 1);
	assert_int_equal(scanned.item.value_len, 5);
	assert_int_equal(scanned.item.flags, 3);
	assert_true(scanned.item.version == (7ull << 33 | 1));
	assert_int_equal(kvd_op_stats(kvd, KVD_OP_SCAN, KVD_PATH_REQUEST, &stats, sizeof(stats)),
			 KVD_OK);
	assert_int_equal(stats.count, 1);
	assert_int_equal(stats.errors, 0);
	assert_int_equal(stats.service.count, 1);
	/* The process has what its handles did, whatever they did last. */
	assert_int_equal(kvd_process_stats(&all, sizeof(all)), 1);
	assert_int_equal(all.requests, 1);
}

static void what_the_process_has_of_existence(void **state)
{
	struct kvd_key one = { &key, 8 };
	struct kvd_stats all;

	(void)state;
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	assert_int_equal(kvd_exists_many(kvd, &one, 1, NULL, NULL), KVD_OK);
	assert_int_equal(kvd_process_stats(&all, sizeof(all)), 1);
	assert_int_equal(all.exists, 1);
	assert_int_equal(all.exists_found, 1);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(kvd_process_stats(&all, sizeof(all)), 1);
	assert_int_equal(all.requests, 1);
}

/* One that ends before it has a slot is told with itself, too. */
static void one_that_waited_for_a_slot(void **state)
{
	struct kvd_op ops[2], *list[] = { &ops[0], &ops[1] }, *done[2];

	(void)state;
	assert_int_equal(kvd_trace(kvd, note, NULL), KVD_OK);
	server->hold_all = true;
	kvd_prep_put(&ops[0], &key, 8, "a", 1, NULL);
	kvd_prep_delete(&ops[1], &key, 8);
	assert_int_equal(kvd_submit(kvd, list, 2), KVD_OK);
	assert_int_equal(kvd_cancel(kvd, &ops[1]), KVD_OK);
	assert_int_equal(event_count, 3);
	assert_int_equal(events[2].ended, 1);
	assert_ptr_equal(events[2].submitted, &ops[1]);
	assert_int_equal(events[2].op, KVD_OP_DELETE);
	assert_ptr_equal(events[2].key, &key);
	assert_int_equal(events[2].status, KVD_ERR_CANCELED);
	assert_int_equal(events[2].path, KVD_PATH_NONE);
	assert_true(events[2].start_ns == events[1].start_ns && events[1].start_ns);
	fake_server_answer(server, 1);
	assert_int_equal(kvd_wait(kvd, done, 2, 2, FAKE_TIMEOUT_MS), 2);
}

static uint64_t line_of(const char *name)
{
	const char *at = strstr(text, name);
	unsigned long long number = 0;

	if (!at || sscanf(at + strlen(name), " %llu", &number) != 1)
		fail_msg("no line %s in\n%s", name, text);
	return number;
}

/* Each line has its own figure, of the time before the first post and of that after it. */
static void lines_of_times(void **state)
{
	static const struct {
		const char *name;
		uint64_t low, high;
	} lines[] = {
		{ "\nget_cold_queue_p50_ns", 500, 508 },
		{ "\nget_cold_queue_p99_ns", 990, 1000 },
		{ "\nget_cold_queue_p999_ns", 999, 1000 },
		{ "\nget_cold_queue_max_ns", 1000, 1000 },
		{ "\nget_cold_service_p50_ns", 500000, 508000 },
		{ "\nget_cold_service_p99_ns", 990000, 1000000 },
		{ "\nget_cold_service_p999_ns", 999000, 1000000 },
		{ "\nget_cold_service_max_ns", 1000000, 1000000 },
	};
	struct cell *cell;
	uint64_t i;

	(void)state;
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	assert_int_equal(kvd_get(kvd, &key, 8, value, sizeof(value), NULL), KVD_OK);
	cell = atomic_load(&kvd->observer->cells[KVD_OP_GET][KVD_PATH_COLD]);
	cell_init(cell);
	cell->statuses[KVD_OK] = 1000;
	for (i = 1; i <= 1000; i++) {
		hist_record(&cell->queue, i);
		hist_record(&cell->service, i * 1000);
	}
	assert_int_equal(kvd_stats_text(kvd, KVD_STATS_LINES, text, sizeof(text), NULL), KVD_OK);
	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_in_range(line_of(lines[i].name), lines[i].low, lines[i].high);
	assert_int_equal(kvd_stats_text(kvd, KVD_STATS_PROMETHEUS, text, sizeof(text), NULL),
			 KVD_OK);
	assert_non_null(strstr(text, "# TYPE kvd_client_queue_seconds histogram\n"));
	assert_int_equal(line_of("kvd_client_queue_seconds_count{op=\"get\",path=\"cold\"}"), 1000);
	assert_int_equal(line_of("kvd_client_service_seconds_count{op=\"get\",path=\"cold\"}"),
			 1000);
	assert_non_null(strstr(text, "kvd_client_queue_seconds_sum{op=\"get\",path=\"cold\"} "
				     "0.00050049"));
}

/* Kinds without an operation have no latency, nor have kinds that do not exist. */
static void latencies_by_kind(void **state)
{
	struct kvd_key one = { &key, 8 };
	struct kvd_op op, *list[] = { &op }, *done[1];

	(void)state;
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	kvd_prep_exists(&op, &key, 8);
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
	assert_int_equal(kvd_wait(kvd, done, 1, 1, FAKE_TIMEOUT_MS), 1);
	assert_int_equal(kvd_exists_many(kvd, &one, 1, NULL, NULL), KVD_OK);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_true(kvd_latency_ns(kvd, KVD_OP_PUT, 0.5) == 0);
	assert_int_equal(kvd_delete(kvd, &key, 8), KVD_OK);
	assert_true(kvd_latency_ns(kvd, KVD_OP_DELETE, 0.5) > 0);
	assert_true(kvd_latency_ns(kvd, KVD_OP_PUT, 0.5) == 0);
	assert_true(kvd_latency_ns(kvd, KVD_OP_SCAN, 0.5) == 0);
	assert_int_equal(kvd_touch(kvd, &key, 8, 1, NULL), KVD_OK);
	assert_true(kvd_latency_ns(kvd, KVD_OP_PUT, 0.5) > 0);
	/* With a text, which follows the last of them in memory. */
	assert_int_equal(kvd_delete(kvd, NULL, 8), KVD_ERR_INVALID);
	assert_true(kvd_latency_ns(kvd, KVD_OP_INCR, 0.5) == 0);
	assert_true(kvd_latency_ns(kvd, (enum kvd_opcode) - 1, 0.5) == 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(each_call),
		CASE(scans),
		CASE(what_the_process_has_of_existence),
		CASE(one_that_waited_for_a_slot),
		CASE(lines_of_times),
		CASE(latencies_by_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
