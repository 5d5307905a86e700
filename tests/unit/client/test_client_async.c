/* SPDX-License-Identifier: MIT */
/*
 * Submitted operations: more than there are slots, their order, GETs after changes, cancellation
 * and deadlines in each state, callbacks, the descriptor, and what is refused.
 */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/fake_server.h"

#define DEPTH 8
#define WINDOW 4
#define OPS 100

static struct fake_server *server;
static struct kvd *kvd;
static struct kvd_op ops[OPS], *list[OPS], *done[OPS];
static uint64_t keys[OPS];
static uint8_t values[OPS][32];
static uint64_t seen[2 * OPS]; /* keys of the changes, in the order in which they were executed */
static unsigned int seen_count, reads;

/* Executes changes: PUTs store 20 bytes. */
static void execute(struct fake_server *p, const struct request *request,
		    struct wire_response *response, uint8_t *value)
{
	uint64_t key;

	(void)value;
	memcpy(&key, request->key, 8);
	if (seen_count < 2 * OPS)
		seen[seen_count] = key;
	seen_count++;
	response->status = WIRE_OK;
	response->version = seen_count;
	if (request->op == WIRE_PUT)
		fake_server_put(p, key, 20, 0);
	if (request->op == WIRE_DELETE)
		fake_server_delete(p, key);
}

static void count_read(struct fake_server *p, uint64_t offset, uint32_t bytes)
{
	(void)p, (void)offset, (void)bytes;
	reads++;
}

static void open_with(unsigned int depth)
{
	struct kvd_options options;

	kvd_options_init(&options);
	options.depth = depth;
	server = fake_server_open(4, WINDOW, 0, 0, &options);
	kvd = &server->kvd;
	server->respond = execute;
	server->before_read = count_read;
	seen_count = reads = 0;
}

/* Each request goes alone, as where there is no memory for batches. */
static void without_batches(void)
{
	assert_int_equal(kvd_submit(kvd, NULL, 0), KVD_OK);
	free(kvd->conn.batches);
	kvd->conn.batches = NULL;
}

static int setup(void **state)
{
	unsigned int i;

	(void)state;
	open_with(DEPTH);
	without_batches();
	memset(values, 0, sizeof(values));
	for (i = 0; i < OPS; i++) {
		keys[i] = i;
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

static void prep_put(unsigned int i)
{
	kvd_prep_put(&ops[i], &keys[i], 8, "12345678901234567890", 20, NULL);
}

static void prep_get(unsigned int i, unsigned int key)
{
	kvd_prep_get(&ops[i], &keys[key], 8, values[i], sizeof(values[i]));
}

static void submit(unsigned int first, unsigned int count)
{
	assert_int_equal(kvd_submit(kvd, list + first, count), KVD_OK);
}

/* Takes one operation that has ended, which has to be this one. */
static void assert_ended(unsigned int i, enum kvd_status status)
{
	assert_int_equal(kvd_poll(kvd, done, 1), 1);
	assert_int_equal(done[0] - ops, i);
	assert_int_equal(ops[i].status, status);
}

static void assert_none_ended(void)
{
	assert_int_equal(kvd_poll(kvd, done, OPS), 0);
}

/* Never more than the window outstanding; all in the order of submission. */
static void changes_beyond_depth(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < OPS; i++)
		prep_put(i);
	server->hold_all = true;
	submit(0, 50);
	submit(50, 50);
	assert_int_equal(kvd_outstanding(kvd), OPS);
	for (i = 0; i < OPS; i++) {
		assert_int_equal(server->queued, OPS - i < WINDOW ? OPS - i : WINDOW);
		assert_none_ended();
		fake_server_answer(server, 1);
		assert_ended(i, KVD_OK);
		assert_int_equal(ops[i].item.version, i + 1);
	}
	assert_int_equal(server->outstanding_max, WINDOW);
	assert_int_equal(seen_count, OPS);
	for (i = 0; i < OPS; i++)
		assert_int_equal(seen[i], i);
	assert_int_equal(kvd_outstanding(kvd), 0);
	assert_int_equal(kvd->stats.puts, OPS);
	assert_true(kvd_latency_ns(kvd, KVD_OP_PUT, 0.5) > 0);
}

static void gets_beyond_depth(void **state)
{
	unsigned int i, n = 0;

	(void)state;
	for (i = 0; i < OPS; i++) {
		if (i % 3)
			fake_server_put(server, i, 20, 0);
		prep_get(i, i);
	}
	submit(0, OPS);
	while (n < OPS)
		n += (unsigned int)kvd_wait(kvd, done, 7, 5, FAKE_TIMEOUT_MS);
	for (i = 0; i < OPS; i++) {
		assert_int_equal(ops[i].status, i % 3 ? KVD_OK : KVD_NOT_FOUND);
		if (i % 3)
			assert_int_equal(values[i][19], i);
	}
	assert_int_equal(kvd->stats.gets, OPS);
	assert_int_equal(kvd->stats.misses, 34);
	/* As many as there are slots share a chain. */
	assert_true(kvd->stats.round_trips <= 2 * (OPS / DEPTH + 1));
}

/* Several chains are in flight, and a READ that does not fit them waits. */
static void many_reads_in_flight(void **state)
{
	static struct kvd_op more[200], *each[200], *out[200];
	static uint8_t buffers[200][2048];
	unsigned int i, n = 0;

	(void)state;
	kvd_close(kvd);
	open_with(200);
	for (i = 0; i < 10; i++)
		fake_server_put(server, i, 2000, 0);
	server->fake.hold_reads = true;
	for (i = 0; i < 200; i++) {
		each[i] = &more[i];
		kvd_prep_get(&more[i], &keys[i % 10], 8, buffers[i], 2048);
	}
	assert_int_equal(kvd_submit(kvd, each, 200), KVD_OK);
	assert_int_equal(server->fake.held_count, 2);
	assert_int_equal(kvd->stats.reads, READS_IN_FLIGHT_MAX);
	while (n < 200) {
		fake_device_release(&server->fake);
		n += (unsigned int)kvd_poll(kvd, out, 200);
	}
	for (i = 0; i < 200; i++) {
		assert_int_equal(more[i].status, KVD_OK);
		assert_int_equal(buffers[i][0], i % 10);
		assert_int_equal(buffers[i][1999], i % 10);
	}
	assert_int_equal(kvd->conn.ring.bytes, RING_BYTES_MAX);
}

/* A chain that completes frees the entries of the send queue up to its own end, and no more. */
static void chains_that_complete_one_by_one(void **state)
{
	static struct kvd_op more[96], *each[96], *out[96];
	static uint8_t buffers[96][32];
	struct ibv_wc second;
	unsigned int i, n = 0;

	(void)state;
	kvd_close(kvd);
	open_with(96);
	fake_server_put(server, 1, 20, 0);
	/* Found in the bucket cache, each takes one READ. */
	assert_int_equal(kvd_get(kvd, &keys[1], 8, buffers[0], 32, NULL), KVD_OK);
	assert_int_equal(kvd->conn.sq_posted, kvd->conn.sq_done);
	server->fake.hold_reads = true;
	for (i = 0; i < 96; i++) {
		each[i] = &more[i];
		kvd_prep_get(&more[i], &keys[1], 8, buffers[i], 32);
	}
	assert_int_equal(kvd_submit(kvd, each, 96), KVD_OK);
	assert_int_equal(server->fake.held_count, 2);
	assert_int_equal(kvd->conn.sq_posted - kvd->conn.sq_done, READS_IN_FLIGHT_MAX);
	/* The first ends; the third is posted. */
	second = server->fake.held[1];
	server->fake.held_count = 1;
	fake_device_release(&server->fake);
	server->fake.held[server->fake.held_count++] = second;
	n += (unsigned int)kvd_poll(kvd, out, 96);
	assert_int_equal(n, GETS_MAX);
	assert_int_equal(server->fake.held_count, 2);
	assert_int_equal(kvd->conn.sq_posted - kvd->conn.sq_done, READS_IN_FLIGHT_MAX);
	while (n < 96) {
		fake_device_release(&server->fake);
		n += (unsigned int)kvd_poll(kvd, out, 96);
	}
	assert_int_equal(kvd->conn.sq_posted, kvd->conn.sq_done);
	for (i = 0; i < 96; i++)
		assert_int_equal(more[i].status, KVD_OK);
}

/* A GET of the changed key waits for the response, others do not; then it sees the change. */
static void a_get_sees_earlier_changes(void **state)
{
	(void)state;
	fake_server_put(server, 1, 20, 0);
	server->hold_all = true;
	kvd_prep_delete(&ops[0], &keys[1], 8);
	prep_get(1, 1);
	prep_get(2, 2);
	prep_put(3);
	prep_get(4, 3);
	submit(0, 5);
	assert_ended(2, KVD_NOT_FOUND);
	assert_none_ended();
	assert_int_equal(reads, 1);
	fake_server_answer(server, 1);
	assert_ended(0, KVD_OK);
	assert_ended(1, KVD_NOT_FOUND);
	assert_none_ended();
	fake_server_answer(server, 1);
	assert_ended(3, KVD_OK);
	assert_ended(4, KVD_OK);
	assert_int_equal(kvd->changes, 0);
}

/* Synchronous calls come after what was submitted before them, and before what comes later. */
static void synchronous_calls_keep_the_order(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 50; i++)
		prep_put(i);
	submit(0, 50);
	assert_int_equal(kvd_put(kvd, &keys[60], 8, "x", 1, NULL, NULL), KVD_OK);
	assert_int_equal(seen_count, 51);
	assert_int_equal(seen[50], 60);
	assert_int_equal(kvd_get(kvd, &keys[7], 8, values[0], 32, NULL), KVD_OK);
	assert_int_equal(kvd_wait(kvd, done, OPS, OPS, FAKE_TIMEOUT_MS), 50);
}

static void what_is_refused(void **state)
{
	struct kvd_op *twice[] = { &ops[0], &ops[0] };

	(void)state;
	prep_put(0);
	prep_put(1);
	ops[1].key_len = 0;
	assert_int_equal(kvd_submit(kvd, list, 2), KVD_ERR_INVALID);
	ops[1].key_len = 8;
	ops[1].ttl_s = KVD_TTL_MAX + 1;
	assert_int_equal(kvd_submit(kvd, list, 2), KVD_ERR_INVALID);
	ops[1].ttl_s = 0;
	ops[1].value_len = KVD_VALUE_MAX;
	assert_int_equal(kvd_submit(kvd, list, 2), KVD_ERR_TOO_LARGE);
	ops[1].value_len = 1;
	ops[1].op = KVD_OP_SCAN;
	assert_int_equal(kvd_submit(kvd, list, 2), KVD_ERR_INVALID);
	assert_int_equal(kvd_submit(kvd, twice, 2), KVD_ERR_INVALID);
	assert_int_equal(kvd_outstanding(kvd), 0);
	assert_int_equal(seen_count, 0);
	server->hold_all = true;
	submit(0, 1);
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_ERR_INVALID);
	assert_non_null(strstr(kvd_error(kvd), "submitted already"));
	fake_server_answer(server, 1);
	assert_ended(0, KVD_OK);
}

/* All operations, by their requests and results. */
static void every_operation(void **state)
{
	struct kvd_arith_args create = { .create = 1, .initial = 5, .ttl_s = 9, .flags = 3 };
	unsigned int i;

	(void)state;
	fake_server_put(server, 4, 20, 0);
	kvd_prep_incr(&ops[0], &keys[0], 8, 7, &create);
	kvd_prep_decr(&ops[1], &keys[1], 8, 7, NULL);
	kvd_prep_touch(&ops[2], &keys[2], 8, 100);
	kvd_prep_delete_if(&ops[3], &keys[3], 8, 42);
	kvd_prep_get_by_request(&ops[4], &keys[4], 8, values[4], 32);
	kvd_prep_get_and_touch(&ops[5], &keys[4], 8, 60, values[5], 32);
	kvd_prep_ping(&ops[6]);
	submit(0, 7);
	assert_int_equal(kvd_wait(kvd, done, 7, 7, FAKE_TIMEOUT_MS), 7);
	for (i = 0; i < 7; i++)
		assert_int_equal(ops[i].status, KVD_OK);
	assert_int_equal(ops[2].item.version, 3);
	assert_int_equal(values[4][19], 4);
	assert_int_equal(ops[5].item.value_len, 20);
	assert_int_equal(server->gets, 2);
	assert_int_equal(server->pings, 1);
	assert_int_equal(seen_count, 4);
}

static void make_batches(unsigned int depth)
{
	kvd_close(kvd);
	open_with(depth);
}

/* What waits together shares messages of at most 32 requests, and keeps its order. */
static void requests_share_messages(void **state)
{
	unsigned int i;

	(void)state;
	make_batches(OPS);
	for (i = 0; i < OPS; i++)
		prep_put(i);
	submit(0, OPS);
	assert_int_equal(kvd_wait(kvd, done, OPS, OPS, FAKE_TIMEOUT_MS), OPS);
	for (i = 0; i < OPS; i++) {
		assert_ptr_equal(done[i], &ops[i]);
		assert_int_equal(ops[i].status, KVD_OK);
		assert_int_equal(ops[i].item.version, i + 1);
		assert_int_equal(seen[i], i);
	}
	/* 48 bytes of header, and 16 + 8 + 20 for each. */
	assert_int_equal(kvd->stats.requests, 4);
	assert_int_equal(server->batches, 4);
	assert_int_equal(kvd->conn.outstanding, 0);
	/* One alone is a request of its own. */
	submit(0, 1);
	assert_int_equal(kvd_wait(kvd, done, 1, 1, FAKE_TIMEOUT_MS), 1);
	assert_int_equal(server->batches, 4);
}

/* A message is no longer than the server takes; a value that is pulled goes alone. */
static void batches_end_in_time(void **state)
{
	static const uint8_t long_value[FAKE_SERVER_BUFFER_BYTES];
	unsigned int i;

	(void)state;
	make_batches(OPS);
	for (i = 0; i < 10; i++)
		kvd_prep_put(&ops[i], &keys[i], 8, long_value,
			     i == 5 ? FAKE_SERVER_BUFFER_BYTES : 800, NULL);
	submit(0, 10);
	assert_int_equal(kvd_wait(kvd, done, OPS, 10, FAKE_TIMEOUT_MS), 10);
	for (i = 0; i < 10; i++) {
		assert_int_equal(ops[i].status, KVD_OK);
		assert_int_equal(seen[i], i);
	}
	assert_int_equal(server->batches, 4);
	assert_int_equal(kvd->stats.requests, 6);
}

/* Each has its own result; a GET whose value did not fit is sent again, alone. */
static void results_of_a_batch(void **state)
{
	unsigned int i;

	(void)state;
	make_batches(DEPTH);
	fake_server_put(server, 4, 20, 0);
	fake_server_put(server, 5, 30, 0);
	server->batch_value_max = 20;
	kvd_prep_incr(&ops[0], &keys[0], 8, 7, NULL);
	kvd_prep_delete_if(&ops[1], &keys[3], 8, 42);
	kvd_prep_get_by_request(&ops[2], &keys[4], 8, values[2], 32);
	kvd_prep_get_by_request(&ops[3], &keys[5], 8, values[3], 32);
	kvd_prep_get_by_request(&ops[4], &keys[6], 8, values[4], 32);
	kvd_prep_get_and_touch(&ops[5], &keys[4], 8, 60, values[5], 32);
	kvd_prep_ping(&ops[6]);
	kvd_prep_touch(&ops[7], &keys[7], 8, 60);
	submit(0, 8);
	assert_int_equal(kvd_wait(kvd, done, 8, 8, FAKE_TIMEOUT_MS), 8);
	for (i = 0; i < 8; i++)
		assert_int_equal(ops[i].status, i == 4 ? KVD_NOT_FOUND : KVD_OK);
	assert_int_equal(ops[0].item.version, 1);
	assert_int_equal(values[2][19], 4);
	assert_int_equal(values[3][29], 5);
	assert_int_equal(ops[3].item.value_len, 30);
	assert_int_equal(values[5][19], 4);
	assert_int_equal(server->gets, 5);
	assert_int_equal(server->batches, 2);
	assert_int_equal(kvd->conn.outstanding, 0);
}

/* Several GETs that did not fit are sent again, each alone. */
static void several_that_do_not_fit(void **state)
{
	unsigned int i;

	(void)state;
	make_batches(DEPTH);
	server->batch_value_max = 20;
	for (i = 0; i < 4; i++) {
		fake_server_put(server, i, 30, 0);
		kvd_prep_get_by_request(&ops[i], &keys[i], 8, values[i], 32);
	}
	submit(0, 4);
	assert_int_equal(kvd_wait(kvd, done, 4, 4, FAKE_TIMEOUT_MS), 4);
	for (i = 0; i < 4; i++) {
		assert_int_equal(ops[i].status, KVD_OK);
		assert_int_equal(ops[i].item.value_len, 30);
		assert_int_equal(values[i][29], i);
	}
	assert_int_equal(server->batches, 1);
	assert_int_equal(kvd->stats.requests, 1 + 4);
}

/* One that ended early leaves its place in the message. */
static void canceled_in_a_batch(void **state)
{
	unsigned int i;

	(void)state;
	make_batches(DEPTH);
	fake_server_put(server, 4, 20, 0);
	server->hold_all = true;
	for (i = 0; i < 4; i++)
		prep_put(i + 10);
	kvd_prep_get_by_request(&ops[14], &keys[4], 8, values[14], 32);
	ops[11].timeout_ms = 1;
	submit(10, 5);
	assert_int_equal(kvd_cancel(kvd, &ops[12]), KVD_ERR_BUSY);
	assert_int_equal(kvd_cancel(kvd, &ops[14]), KVD_OK);
	assert_ended(14, KVD_ERR_CANCELED);
	assert_int_equal(kvd_wait(kvd, done, 1, 1, FAKE_TIMEOUT_MS), 1);
	assert_ptr_equal(done[0], &ops[11]);
	assert_int_equal(ops[11].status, KVD_ERR_TIMEOUT);
	fake_server_answer(server, 1);
	assert_int_equal(kvd_poll(kvd, done, OPS), 3);
	for (i = 10; i < 14; i++)
		assert_int_equal(ops[i].status, i == 11 ? KVD_ERR_TIMEOUT : KVD_OK);
	assert_int_equal(values[14][0], 0);
	assert_int_equal(kvd->conn.outstanding, 0);
}

static void spoil(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	response->value_len -= (uint32_t)sizeof(struct wire_result);
	response->entries--;
}

static void a_result_that_is_missing(void **state)
{
	unsigned int i;

	(void)state;
	make_batches(DEPTH);
	server->before_response = spoil;
	for (i = 0; i < 4; i++)
		prep_put(i);
	submit(0, 4);
	assert_int_equal(kvd_wait(kvd, done, OPS, 4, FAKE_TIMEOUT_MS), 4);
	for (i = 0; i < 4; i++)
		assert_int_equal(ops[i].status, KVD_ERR_PROTOCOL);
}

static void a_canceled_get(void **state)
{
	(void)state;
	fake_server_put(server, 1, 20, 0);
	/* While its READ is in flight: the memory is the library's. */
	server->fake.hold_reads = true;
	prep_get(0, 1);
	prep_get(1, 1);
	submit(0, 2);
	assert_int_equal(kvd_cancel(kvd, &ops[0]), KVD_OK);
	assert_ended(0, KVD_ERR_CANCELED);
	assert_int_equal(kvd_cancel(kvd, &ops[0]), KVD_ERR_INVALID);
	server->fake.hold_reads = false;
	fake_device_release(&server->fake);
	assert_int_equal(kvd_wait(kvd, done, 2, 1, FAKE_TIMEOUT_MS), 1);
	assert_int_equal(ops[1].status, KVD_OK);
	assert_int_equal(values[0][0], 0);
	/* While it waits for a change, whose response does not start it then. */
	server->hold_all = true;
	prep_put(2);
	prep_get(3, 2);
	submit(2, 2);
	assert_int_equal(kvd_cancel(kvd, &ops[3]), KVD_OK);
	assert_ended(3, KVD_ERR_CANCELED);
	/* While the server does it. */
	kvd_prep_get_by_request(&ops[4], &keys[9], 8, values[4], 32);
	submit(4, 1);
	assert_int_equal(kvd_cancel(kvd, &ops[4]), KVD_OK);
	assert_ended(4, KVD_ERR_CANCELED);
	fake_server_answer(server, 2);
	assert_ended(2, KVD_OK);
	assert_none_ended();
	server->hold_all = false;
	assert_int_equal(kvd_ping(kvd), KVD_OK);
}

/* A handle leaves alone what was submitted to another one. */
static void canceled_at_another_handle(void **state)
{
	struct kvd *other = &fake_server_open(4, WINDOW, 0, 0, NULL)->kvd;

	(void)state;
	server->hold_all = true;
	prep_put(0);
	kvd_prep_get_by_request(&ops[1], &keys[1], 8, values[1], 32);
	submit(0, 2);
	assert_int_equal(kvd_cancel(other, &ops[1]), KVD_ERR_INVALID);
	assert_int_equal(kvd_outstanding(kvd), 2);
	assert_none_ended();
	assert_int_equal(kvd_cancel(kvd, &ops[1]), KVD_OK);
	assert_ended(1, KVD_ERR_CANCELED);
	kvd_close(other);
}

static void a_canceled_change(void **state)
{
	unsigned int i;

	(void)state;
	server->hold_all = true;
	for (i = 0; i < 20; i++)
		prep_put(i);
	submit(0, 20);
	/* Sent; has a slot, but no room in the window; has no slot. */
	assert_int_equal(kvd_cancel(kvd, &ops[0]), KVD_ERR_BUSY);
	assert_int_equal(kvd_cancel(kvd, &ops[WINDOW]), KVD_OK);
	assert_ended(WINDOW, KVD_ERR_CANCELED);
	assert_int_equal(kvd_cancel(kvd, &ops[19]), KVD_OK);
	/* The operation has ended, and is not handed back. */
	assert_int_equal(kvd_cancel(kvd, &ops[19]), KVD_ERR_BUSY);
	assert_ended(19, KVD_ERR_CANCELED);
	server->hold_all = false;
	fake_server_answer(server, WINDOW);
	assert_int_equal(kvd_wait(kvd, done, OPS, OPS, FAKE_TIMEOUT_MS), 18);
	assert_int_equal(seen_count, 18);
	for (i = 0; i < 20; i++)
		assert_int_equal(ops[i].status, i == WINDOW || i == 19 ? KVD_ERR_CANCELED : KVD_OK);
	assert_int_equal(kvd->changes, 0);
	/* A canceled one may be submitted again. */
	submit(19, 1);
	assert_int_equal(kvd_wait(kvd, done, 1, 1, FAKE_TIMEOUT_MS), 1);
	assert_int_equal(ops[19].status, KVD_OK);
}

/* In each state; the handle goes on, and what comes late is dropped. */
static void deadlines(void **state)
{
	unsigned int i;

	(void)state;
	kvd->options.timeout_ms = 20;
	server->hold_all = true;
	server->fake.hold_reads = true;
	for (i = 0; i < 20; i++)
		prep_put(i);
	prep_get(20, 50);
	prep_get(21, 0);
	kvd_prep_get(&ops[22], &keys[60], 8, values[22], 32);
	ops[22].timeout_ms = 3600000;
	submit(20, 1);
	submit(0, 20);
	submit(21, 2);
	assert_int_equal(kvd_wait(kvd, done, OPS, 22, FAKE_TIMEOUT_MS), 22);
	for (i = 0; i < 22; i++)
		assert_int_equal(ops[i].status, KVD_ERR_TIMEOUT);
	assert_int_equal(kvd_outstanding(kvd), 1);
	assert_int_equal(kvd->changes, 0);
	/* Four requests are outstanding still, for nobody. */
	assert_int_equal(kvd_ping(kvd), KVD_ERR_TIMEOUT);
	assert_int_equal(kvd_get(kvd, &keys[1], 8, values[1], 32, NULL), KVD_ERR_TIMEOUT);
	kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
	server->hold_all = server->fake.hold_reads = false;
	fake_server_answer(server, WINDOW);
	fake_device_release(&server->fake);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(kvd_get(kvd, &keys[1], 8, values[1], 32, NULL), KVD_OK);
	assert_int_equal(kvd_wait(kvd, done, OPS, 1, FAKE_TIMEOUT_MS), 1);
	assert_int_equal(ops[22].status, KVD_NOT_FOUND);
	assert_int_equal(seen_count, WINDOW);
	assert_int_equal(kvd->conn.outstanding, 0);
}

static unsigned int calls;
static enum kvd_status in_callback;
static size_t polled;

static void again(struct kvd_op *op, void *user)
{
	uint8_t found[32];

	assert_ptr_equal(user, &calls);
	assert_int_equal(op->status, KVD_OK);
	if (++calls < 1000) {
		assert_int_equal(kvd_submit(kvd, &op, 1), KVD_OK);
		return;
	}
	in_callback = kvd_get(kvd, &keys[0], 8, found, 32, NULL);
	polled = kvd_poll(kvd, NULL, 0) + kvd_wait(kvd, NULL, 0, 1, 100);
	prep_get(1, 0);
	assert_int_equal(kvd_submit(kvd, list + 1, 1), KVD_OK);
	assert_int_equal(kvd_ping(kvd), KVD_ERR_INVALID);
	assert_int_equal(kvd_cancel(kvd, &ops[1]), KVD_OK);
	assert_int_equal(kvd_ping(kvd), KVD_ERR_INVALID);
}

static enum kvd_status traced;

static void submit_in_trace(void *user, const struct kvd_trace_event *event)
{
	(void)user, (void)event;
	prep_get(2, 0);
	traced = kvd_submit(kvd, list + 2, 1);
	assert_int_equal(traced, KVD_ERR_INVALID);
}

static void callbacks(void **state)
{
	unsigned int turns;

	(void)state;
	calls = 0;
	server->fake.hold_reads = true;
	prep_put(0);
	ops[0].done = again;
	ops[0].user = &calls;
	submit(0, 1);
	assert_int_equal(calls, 0);
	for (turns = 0; calls < 1000; turns++)
		assert_int_equal(kvd_poll(kvd, NULL, 0), 0);
	/* One that a callback submits, and that ends at once, is for the next poll. */
	assert_true(turns >= 1000);
	assert_int_equal(in_callback, KVD_ERR_INVALID);
	assert_int_equal(polled, 0);
	assert_ended(1, KVD_ERR_CANCELED);
	/* A synchronous call runs none. */
	submit(0, 1);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(calls, 1000);
	in_callback = KVD_OK;
	assert_int_equal(kvd_poll(kvd, NULL, 0), 0);
	assert_int_equal(calls, 1001);
	assert_int_equal(in_callback, KVD_ERR_INVALID);
	server->fake.hold_reads = false;
	fake_device_release(&server->fake);
	assert_ended(1, KVD_ERR_CANCELED);
	/* What they may do is not for a trace, of what a callback submits either. */
	assert_int_equal(kvd_trace(kvd, submit_in_trace, NULL), KVD_OK);
	submit(0, 1);
	traced = KVD_OK;
	assert_int_equal(kvd_wait(kvd, NULL, 0, 1, FAKE_TIMEOUT_MS), 0);
	assert_int_equal(calls, 1002);
	assert_int_equal(traced, KVD_ERR_INVALID);
	assert_ended(1, KVD_ERR_CANCELED);
}

/* A program that only polls learns that the connection has ended, though nothing completes. */
static void an_end_that_only_polls_see(void **state)
{
	size_t n = 0;

	(void)state;
	server->hold_all = true;
	prep_put(0);
	submit(0, 1);
	assert_none_ended();
	fake_device_event(&server->fake, CM_DISCONNECTED, 0);
	while (!n)
		n = kvd_poll(kvd, done, OPS);
	assert_int_equal(ops[0].status, KVD_ERR_DISCONNECTED);
}

static bool readable(void)
{
	struct pollfd fd = { .fd = kvd_fd(kvd), .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

/* A response that comes before the poll, between poll and arm, after arm. */
static void the_descriptor(void **state)
{
	(void)state;
	assert_int_equal(kvd_arm(kvd), KVD_ERR_INVALID);
	assert_true(kvd_fd(kvd) >= 0);
	assert_int_equal(kvd_fd(kvd), kvd->epoll_fd);
	server->hold_all = true;
	prep_put(0);
	prep_put(1);
	prep_put(2);
	submit(0, 3);
	assert_none_ended();
	assert_int_equal(kvd_arm(kvd), KVD_OK);
	assert_false(readable());
	fake_server_answer(server, 1);
	assert_true(readable());
	assert_ended(0, KVD_OK);
	assert_none_ended();
	assert_false(readable());
	fake_server_answer(server, 1);
	assert_int_equal(kvd_arm(kvd), KVD_ERR_BUSY);
	assert_ended(1, KVD_OK);
	assert_int_equal(kvd_arm(kvd), KVD_OK);
	assert_int_equal(kvd_arm(kvd), KVD_OK);
	assert_false(readable());
	fake_server_answer(server, 1);
	assert_true(readable());
	assert_ended(2, KVD_OK);
	assert_int_equal(kvd_arm(kvd), KVD_OK);
	assert_false(readable());
}

static void answer_one(struct fake_device *fake)
{
	(void)fake;
	if (server->queued)
		fake_server_answer(server, 1);
}

/*
 * Responses that come right before the device takes the request for a notification cause none, so
 * kvd_arm() has to find them.
 */
static void a_response_while_it_is_armed(void **state)
{
	unsigned int i;

	(void)state;
	assert_true(kvd_fd(kvd) >= 0);
	server->hold_all = true;
	for (i = 0; i < WINDOW; i++)
		prep_put(i);
	submit(0, WINDOW);
	assert_none_ended();
	for (i = 0; i < WINDOW; i++) {
		server->fake.before_notify = answer_one;
		assert_int_equal(kvd_arm(kvd), KVD_ERR_BUSY);
		server->fake.before_notify = NULL;
		assert_ended(i, KVD_OK);
		assert_int_equal(server->queued, WINDOW - 1 - i);
	}
	assert_int_equal(kvd_arm(kvd), KVD_OK);
	assert_false(readable());
}

#define LONG_BYTES 3000 /* more than a response has room for */
static uint8_t long_value[LONG_BYTES];
static unsigned int touches; /* that came with a GET */

static void count_touch(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	touches += response->op == WIRE_TOUCH;
}

static void replace_key(void)
{
	fake_server_put(server, 1, LONG_BYTES, 0);
}

static void nothing(void)
{
}

/* A GET and touch of a value in two parts, of which the first has come, and changes after it. */
static void touch_and_change(uint64_t *changed, void (*between)(void))
{
	touches = 0;
	fake_server_put(server, 1, LONG_BYTES, 0);
	server->before_response = count_touch;
	server->hold_all = true;
	kvd_prep_get_and_touch(&ops[0], &keys[1], 8, 5, long_value, LONG_BYTES);
	kvd_prep_put(&ops[1], changed, 8, "x", 1, NULL);
	kvd_prep_put(&ops[2], &keys[60], 8, "x", 1, NULL);
	submit(0, 3);
	between();
	fake_server_answer(server, 1);
	assert_none_ended();
}

/* A change of the key, what is sent after it, and a GET wait until all of the value has come. */
static void changes_of_a_touched_key_wait(void **state)
{
	(void)state;
	touch_and_change(&keys[1], nothing);
	kvd_prep_get(&ops[3], &keys[1], 8, values[3], 32);
	submit(3, 1);
	assert_none_ended();
	assert_int_equal(server->gets, 2);
	assert_int_equal(seen_count + reads, 0);
	fake_server_answer(server, 1);
	assert_ended(0, KVD_OK);
	assert_int_equal(long_value[LONG_BYTES - 1], 1);
	assert_int_equal(seen_count, 2);
	assert_int_equal(touches, 1);
	fake_server_answer(server, server->queued);
	assert_int_equal(kvd_wait(kvd, done, OPS, 3, FAKE_TIMEOUT_MS), 3);
	assert_int_equal(ops[3].status, KVD_OK);
	assert_int_equal(values[3][19], 1);
}

static void changes_of_other_keys_do_not_wait(void **state)
{
	(void)state;
	touch_and_change(&keys[2], nothing);
	assert_int_equal(seen_count, 2);
	fake_server_answer(server, server->queued);
	assert_int_equal(kvd_wait(kvd, done, OPS, 3, FAKE_TIMEOUT_MS), 3);
	assert_int_equal(touches, 1);
}

/* Another client's value is touched, too, and this handle's change comes after that. */
static void a_touched_value_is_replaced(void **state)
{
	uint64_t replaced;

	(void)state;
	touch_and_change(&keys[1], replace_key);
	replaced = fake_server_item(server, 1)->version;
	for (unsigned int i = 0; i < 2; i++) {
		fake_server_answer(server, 1);
		assert_none_ended();
		assert_int_equal(touches, 2);
	}
	assert_int_equal(kvd_cancel(kvd, &ops[0]), KVD_ERR_BUSY);
	assert_int_equal(seen_count, 0);
	fake_server_answer(server, 1);
	assert_ended(0, KVD_OK);
	assert_int_equal(ops[0].item.version, replaced);
	assert_int_equal(seen_count, 2);
	fake_server_answer(server, server->queued);
	assert_int_equal(kvd_wait(kvd, done, OPS, 2, FAKE_TIMEOUT_MS), 2);
}

/* Operations that wait for a place keep their own deadlines. */
static void deadlines_of_those_that_wait(void **state)
{
	unsigned int i;

	(void)state;
	make_batches(1);
	server->hold_all = true;
	for (i = 0; i < 3; i++)
		prep_put(i);
	ops[0].timeout_ms = 3600000;
	ops[1].timeout_ms = 20;
	ops[2].timeout_ms = 60;
	submit(0, 3);
	assert_int_equal(kvd_wait(kvd, done, OPS, 2, FAKE_TIMEOUT_MS), 2);
	assert_ptr_equal(done[0], &ops[1]);
	assert_ptr_equal(done[1], &ops[2]);
	assert_int_equal(ops[1].status, KVD_ERR_TIMEOUT);
	assert_int_equal(ops[2].status, KVD_ERR_TIMEOUT);
	fake_server_answer(server, 1);
	assert_int_equal(kvd_wait(kvd, done, OPS, 1, FAKE_TIMEOUT_MS), 1);
	assert_int_equal(ops[0].status, KVD_OK);
}

static int answered_in_sleep(struct ibv_comp_channel *channel, int fd, int timeout_ms)
{
	(void)channel, (void)fd, (void)timeout_ms;
	fake_server_answer(server, 1);
	return 1;
}

/* Only a look, which waits for nothing. */
static void no_time_to_wait(void **state)
{
	(void)state;
	server->hold_all = true;
	prep_put(0);
	ops[0].timeout_ms = 60000;
	submit(0, 1);
	assert_int_equal(kvd_wait(kvd, done, OPS, 1, 0), 0);
	fake_server_answer(server, 1);
	assert_int_equal(kvd_wait(kvd, done, OPS, 1, 0), 1);
	assert_int_equal(ops[0].status, KVD_OK);
}

/* Nothing is over at once of times whose ns do not fit 32 bits. */
static void long_timeouts(void **state)
{
	const uint32_t long_ms = 1u << 26; /* in ns it ends with 32 zero bits */
	const struct device_ops *before = kvd->dev->ops;
	struct device_ops slow = *before;

	(void)state;
	server->hold_all = true;
	prep_put(0);
	prep_put(1);
	ops[0].timeout_ms = long_ms;
	ops[1].timeout_ms = 20;
	submit(0, 2);
	assert_int_equal(kvd_wait(kvd, done, OPS, 1, long_ms), 1);
	assert_ptr_equal(done[0], &ops[1]);
	assert_int_equal(ops[1].status, KVD_ERR_TIMEOUT);
	fake_server_answer(server, 2);
	assert_int_equal(kvd_wait(kvd, done, OPS, 1, long_ms), 1);
	assert_int_equal(ops[0].status, KVD_OK);
	kvd->options.timeout_ms = long_ms;
	slow.sleep = answered_in_sleep;
	kvd->dev->ops = &slow;
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	kvd->dev->ops = before;
}

static void the_descriptor_has_deadlines(void **state)
{
	struct pollfd fd = { .fd = kvd_fd(kvd), .events = POLLIN };

	(void)state;
	server->hold_all = true;
	prep_put(0);
	ops[0].timeout_ms = 20;
	submit(0, 1);
	assert_int_equal(kvd_arm(kvd), KVD_OK);
	assert_int_equal(poll(&fd, 1, FAKE_TIMEOUT_MS), 1);
	while (!kvd_poll(kvd, done, 1))
		;
	assert_int_equal(ops[0].status, KVD_ERR_TIMEOUT);
	/* One that has passed is no reason to wake up any more. */
	assert_int_equal(kvd_arm(kvd), KVD_OK);
	assert_false(readable());
}

/* The chain of the key is being changed until it was READ so often. */
static void changed_for_a_while(struct fake_server *p, uint64_t offset, uint32_t bytes)
{
	(void)offset, (void)bytes;
	if (++reads == 40) {
		p->epoch++;
		fake_server_lay_out(p);
	}
}

/* Only the pause before a READ is repeated wakes up a caller that waits for the descriptor. */
static void the_descriptor_has_pauses(void **state)
{
	struct pollfd fd = { .fd = kvd_fd(kvd), .events = POLLIN };

	(void)state;
	fake_server_put(server, 1, 20, 0);
	server->epoch++;
	fake_server_lay_out(server);
	server->before_read = changed_for_a_while;
	kvd->options.get_tries = 100;
	prep_get(0, 1);
	ops[0].timeout_ms = 3600000;
	submit(0, 1);
	while (kvd_outstanding(kvd)) {
		if (kvd_poll(kvd, done, 1) || kvd_arm(kvd))
			continue;
		assert_int_equal(poll(&fd, 1, FAKE_TIMEOUT_MS), 1);
	}
	assert_int_equal(ops[0].status, KVD_OK);
	assert_true(reads >= 40);
}

/* A lost connection ends all of them, wherever they are, and they are handed back. */
static void a_lost_connection(void **state)
{
	unsigned int i;

	(void)state;
	server->hold_all = true;
	server->fake.hold_reads = true;
	for (i = 0; i < 20; i++)
		prep_put(i);
	prep_get(20, 30);
	prep_get(21, 0);
	submit(20, 1);
	submit(0, 20);
	submit(21, 1);
	server->queue[0].head.status = WIRE_PROTOCOL;
	fake_server_answer(server, 1);
	assert_int_equal(kvd_wait(kvd, done, OPS, OPS, FAKE_TIMEOUT_MS), 22);
	for (i = 0; i < 22; i++)
		assert_int_equal(ops[i].status, KVD_ERR_PROTOCOL);
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_ERR_DISCONNECTED);
	assert_int_equal(kvd_get(kvd, &keys[0], 8, values[0], 32, NULL), KVD_ERR_DISCONNECTED);
	assert_int_equal(kvd_poll(kvd, done, 1), 0);
}

/*
 * A second response to a request that was answered ends the connection: neither another operation
 * nor the message that is free again takes it.
 */
static void a_second_answer(void **state)
{
	unsigned int i;

	(void)state;
	server->hold_all = true;
	for (i = 0; i < 3; i++)
		prep_put(i);
	submit(0, 3);
	fake_device_respond(&server->fake, &server->queue[0].head, server->queue[0].value);
	assert_ended(0, KVD_OK);
	assert_int_equal(kvd->conn.outstanding, 2);
	fake_device_respond(&server->fake, &server->queue[0].head, server->queue[0].value);
	assert_ended(1, KVD_ERR_PROTOCOL);
	assert_non_null(strstr(kvd_error(kvd), "another request"));
	assert_ended(2, KVD_ERR_PROTOCOL);
}

/* The first answer came too late for its operation. */
static void a_second_answer_after_a_timeout(void **state)
{
	(void)state;
	server->hold_all = true;
	prep_put(0);
	prep_put(1);
	ops[0].timeout_ms = 1;
	submit(0, 2);
	assert_int_equal(kvd_wait(kvd, done, OPS, 1, UINT32_MAX), 1);
	assert_int_equal(ops[0].status, KVD_ERR_TIMEOUT);
	fake_device_respond(&server->fake, &server->queue[0].head, server->queue[0].value);
	assert_none_ended();
	assert_int_equal(kvd->conn.outstanding, 1);
	fake_device_respond(&server->fake, &server->queue[0].head, server->queue[0].value);
	assert_ended(1, KVD_ERR_PROTOCOL);
}

static enum kvd_status other_status;
static size_t other_polled;

static void *use_beside(void *arg)
{
	(void)arg;
	prep_get(99, 1);
	other_status = kvd_submit(kvd, list + 99, 1);
	other_polled = kvd_poll(kvd, done, 1);
	assert_int_equal(kvd_cancel(kvd, &ops[0]), KVD_ERR_INVALID);
	assert_int_equal(kvd_arm(kvd), KVD_ERR_INVALID);
	assert_int_equal(kvd_fd(kvd), -1);
	return NULL;
}

static void use_at_response(struct fake_server *p, struct wire_response *response)
{
	pthread_t other;

	(void)response;
	p->before_response = NULL;
	assert_int_equal(pthread_create(&other, NULL, use_beside, NULL), 0);
	assert_int_equal(pthread_join(other, NULL), 0);
}

static void two_threads_at_once(void **state)
{
	(void)state;
	server->before_response = use_at_response;
	prep_put(0);
	submit(0, 1);
	assert_int_equal(other_status, KVD_ERR_INVALID);
	assert_int_equal(other_polled, 0);
	assert_ended(0, KVD_OK);
	assert_int_equal(kvd_outstanding(kvd), 0);
}

static void a_child_process(void **state)
{
	pid_t pid;
	int status;

	(void)state;
	server->hold_all = true;
	prep_put(0);
	prep_put(1);
	submit(0, 1);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(kvd_submit(kvd, list + 1, 1) != KVD_ERR_DISCONNECTED ||
		      kvd_poll(kvd, done, 1) || kvd_fd(kvd) >= 0 ||
		      kvd_cancel(kvd, &ops[0]) != KVD_ERR_DISCONNECTED);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	fake_server_answer(server, 1);
	assert_ended(0, KVD_OK);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static void note_value(struct fake_server *p, const struct request *request,
		       struct wire_response *response, uint8_t *v)
{
	(void)p, (void)v;
	assert_int_equal(request->value_len, 5);
	assert_memory_equal(request->value, "abcde", 5);
	seen_count++;
	response->status = WIRE_OK;
	response->version = seen_count;
}

/* Between others that share a message. */
static void puts_of_pieces(void **state)
{
	char first[] = "ab", second[] = "cde";
	const struct iovec iov[] = { { first, 2 }, { second, 3 } };
	unsigned int i;
	size_t n = 0;

	(void)state;
	make_batches(OPS);
	server->respond = note_value;
	for (i = 0; i < 2 * DEPTH; i++)
		if (i % 4 == 1)
			kvd_prep_put(&ops[i], &keys[i], 8, "abcde", 5, NULL);
		else
			kvd_prep_putv(&ops[i], &keys[i], 8, iov, 2, NULL);
	assert_int_equal(kvd_submit(kvd, list, 2 * DEPTH), KVD_OK);
	while (n < 2 * DEPTH)
		n += kvd_wait(kvd, done, OPS, 1, UINT32_MAX);
	for (i = 0; i < 2 * DEPTH; i++)
		assert_int_equal(ops[i].status, KVD_OK);
	assert_int_equal(seen_count, 2 * DEPTH);
	/* Operations that get the free slots share messages again. */
	server->respond = execute;
	for (i = 0; i < DEPTH; i++)
		kvd_prep_delete(&ops[i], &keys[i], 8);
	n = kvd->stats.requests;
	submit(0, DEPTH);
	assert_int_equal(kvd_wait(kvd, done, OPS, DEPTH, UINT32_MAX), DEPTH);
	assert_in_range(kvd->stats.requests - n, 1, DEPTH / 2);
}

/* Where the values of PUTs were to be READ. */
static uint64_t pulled_at[OPS];

static void note_pull(struct fake_server *p, const struct request *request,
		      struct wire_response *response, uint8_t *v)
{
	(void)p, (void)v;
	pulled_at[seen_count++] = request->pull_addr;
	response->status = WIRE_OK;
	response->version = seen_count;
}

/*
 * Values of ordinary memory that are too long for a message: none waits for another one's bounce
 * memory, each has its own until its response has come, and then it is used again.
 */
static void plain_puts_of_large_values_go_together(void **state)
{
	static uint8_t large[WINDOW][100000];
	struct bounce_pool *pool = &kvd->shared_device->bounces;
	unsigned int i, round;
	size_t bytes = 0, n;

	(void)state;
	server->respond = note_pull;
	for (round = 0; round < 3; round++) {
		server->hold_all = true;
		seen_count = 0;
		for (i = 0; i < WINDOW; i++) {
			memset(large[i], (int)(16 * round + i), sizeof(large[i]));
			kvd_prep_put(&ops[i], &keys[i], 8, large[i], sizeof(large[i]), NULL);
		}
		assert_int_equal(kvd_submit(kvd, list, WINDOW), KVD_OK);
		kvd_poll(kvd, done, OPS);
		assert_int_equal(seen_count, WINDOW);
		for (i = 0; i < WINDOW; i++)
			assert_memory_equal((void *)(uintptr_t)pulled_at[i], large[i],
					    sizeof(large[i]));
		assert_int_equal(kvd->bounces, WINDOW);
		assert_true(!round || bounce_pool_bytes(pool) == bytes);
		bytes = bounce_pool_bytes(pool);
		server->hold_all = false;
		fake_server_answer(server, WINDOW);
		for (n = 0; n < WINDOW;)
			n += kvd_wait(kvd, done, OPS, WINDOW, UINT32_MAX);
		assert_int_equal(kvd->bounces, 0);
	}
	/* A handle that has not needed any for a while gives it back. */
	for (i = 0; i < BOUNCE_CALLS; i++)
		assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(bounce_pool_bytes(pool), 0);
}

/* Without memory for more than one they go one after the other. */
static void plain_puts_that_have_memory_for_one(void **state)
{
	static uint8_t large[100000];
	struct bounce_pool *pool = &kvd->shared_device->bounces;
	unsigned int i;
	size_t n;

	(void)state;
	server->respond = note_pull;
	server->hold_all = true;
	pool->bytes = BOUNCE_BYTES_MAX;
	for (i = 0; i < WINDOW; i++)
		kvd_prep_put(&ops[i], &keys[i], 8, large, sizeof(large), NULL);
	assert_int_equal(kvd_submit(kvd, list, WINDOW), KVD_OK);
	for (n = 0; n < WINDOW; n++) {
		kvd_poll(kvd, done, OPS);
		assert_int_equal(seen_count, n + 1);
		assert_int_equal(kvd->bounces, 1);
		fake_server_answer(server, 1);
		assert_int_equal(kvd_wait(kvd, done, OPS, 1, UINT32_MAX), 1);
		assert_int_equal(done[0]->status, KVD_OK);
	}
	pool->bytes -= BOUNCE_BYTES_MAX;
}

/*
 * A synchronous call waits until those that were submitted have begun. If they do not in time it
 * has done nothing, and says so in every kind of call.
 */
static void synchronous_calls_without_a_turn(void **state)
{
	struct kvd_get_request request = { &keys[90], 8, values[5], 32, KVD_OK, { 0 } };
	struct kvd_key one = { &keys[90], 8 };
	struct kvd_exists exists = { KVD_OK, { 0 } };
	unsigned int i, sent;
	char text[100];

	(void)state;
	fake_server_put(server, 90, 20, 0);
	server->hold_all = true;
	for (i = 0; i < DEPTH + 2; i++)
		prep_put(i);
	submit(0, DEPTH + 2);
	sent = server->requests;
	kvd->options.timeout_ms = 1;
	assert_int_equal(kvd_put(kvd, &keys[5], 8, "a", 1, NULL, NULL), KVD_ERR_TIMEOUT);
	assert_int_equal(kvd_delete(kvd, &keys[5], 8), KVD_ERR_TIMEOUT);
	assert_int_equal(kvd_ping(kvd), KVD_ERR_TIMEOUT);
	assert_int_equal(kvd_get(kvd, &keys[90], 8, values[5], 32, NULL), KVD_ERR_TIMEOUT);
	assert_int_equal(kvd_get_many(kvd, &request, 1), KVD_ERR_TIMEOUT);
	assert_int_equal(request.status, KVD_ERR_TIMEOUT);
	assert_int_equal(kvd_exists_many(kvd, &one, 1, &exists, NULL), KVD_ERR_TIMEOUT);
	assert_int_equal(exists.status, KVD_ERR_TIMEOUT);
	assert_int_equal(kvd_server_stats(kvd, text, sizeof(text), NULL), KVD_ERR_TIMEOUT);
	assert_non_null(strstr(kvd_error(kvd), "within the timeout"));
	assert_int_equal(server->requests, sent);
	assert_int_equal(reads, 0);
	/* Without a connection, and without another one to come, all end. */
	kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
	fake_device_event(&server->fake, CM_DISCONNECTED, 0);
	assert_int_equal(kvd_ping(kvd), KVD_ERR_DISCONNECTED);
	assert_int_equal(kvd_poll(kvd, done, OPS), DEPTH + 2);
	for (i = 0; i < DEPTH + 2; i++)
		assert_int_equal(ops[i].status, KVD_ERR_DISCONNECTED);
}

/* Although the window has room, no change overtakes an earlier one that waits for memory. */
static void synchronous_changes_wait_behind_others(void **state)
{
	static uint8_t large[100000];
	struct bounce_pool *pool = &kvd->shared_device->bounces;
	unsigned int i;

	(void)state;
	server->hold_all = true;
	pool->bytes = BOUNCE_BYTES_MAX;
	for (i = 0; i < 2; i++)
		kvd_prep_put(&ops[i], &keys[i], 8, large, sizeof(large), NULL);
	submit(0, 2);
	assert_int_equal(seen_count, 1);
	server->answer_idle = true;
	assert_int_equal(kvd_put(kvd, &keys[60], 8, "x", 1, NULL, NULL), KVD_OK);
	assert_int_equal(seen_count, 3);
	for (i = 0; i < 2; i++)
		assert_int_equal(seen[i], i);
	assert_int_equal(seen[2], 60);
	assert_int_equal(kvd_wait(kvd, done, OPS, 2, FAKE_TIMEOUT_MS), 2);
	pool->bytes -= BOUNCE_BYTES_MAX;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(changes_beyond_depth),
		CASE(gets_beyond_depth),
		CASE(many_reads_in_flight),
		CASE(chains_that_complete_one_by_one),
		CASE(a_get_sees_earlier_changes),
		CASE(synchronous_calls_keep_the_order),
		CASE(what_is_refused),
		CASE(every_operation),
		CASE(puts_of_pieces),
		CASE(plain_puts_of_large_values_go_together),
		CASE(plain_puts_that_have_memory_for_one),
		CASE(synchronous_changes_wait_behind_others),
		CASE(requests_share_messages),
		CASE(batches_end_in_time),
		CASE(results_of_a_batch),
		CASE(several_that_do_not_fit),
		CASE(canceled_in_a_batch),
		CASE(a_result_that_is_missing),
		CASE(a_canceled_get),
		CASE(canceled_at_another_handle),
		CASE(a_canceled_change),
		CASE(deadlines),
		CASE(deadlines_of_those_that_wait),
		CASE(synchronous_calls_without_a_turn),
		CASE(callbacks),
		CASE(an_end_that_only_polls_see),
		CASE(the_descriptor),
		CASE(a_response_while_it_is_armed),
		CASE(changes_of_a_touched_key_wait),
		CASE(changes_of_other_keys_do_not_wait),
		CASE(a_touched_value_is_replaced),
		CASE(no_time_to_wait),
		CASE(long_timeouts),
		CASE(the_descriptor_has_deadlines),
		CASE(the_descriptor_has_pauses),
		CASE(a_lost_connection),
		CASE(a_second_answer),
		CASE(a_second_answer_after_a_timeout),
		CASE(two_threads_at_once),
		CASE(a_child_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
