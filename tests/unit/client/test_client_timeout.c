/* SPDX-License-Identifier: MIT */
/*
 * Time: each call that waits ends with KVD_ERR_TIMEOUT when its time has passed, neither before nor
 * much later, and leaves a handle that goes on; the late answer disturbs nothing. How long a try to
 * connect and kvd_close() take. No test waits: the clock goes on when it is read, and when the
 * handle sleeps.
 */
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/util/clock.h"
#include "tests/support/fake_server.h"

#define S 1000000000ull
#define MS 1000000ull
#define READING_NS 2000u
/* How much later than its deadline a call may end: one sleep too long, by its rounding. */
#define LATE_NS (2 * MS)
#define LARGE_BYTES 200000u
#define OPS 12

static uint64_t now_ns = 1000 * S;
/* A case reads it much less often; one that does not is waiting for what never comes. */
#define READINGS_MAX 5000000u
static unsigned int readings;

int clock_gettime(clockid_t id, struct timespec *now)
{
	(void)id;
	if (++readings > READINGS_MAX)
		fail_msg("the call does not end");
	now_ns += READING_NS;
	now->tv_sec = (time_t)(now_ns / S);
	now->tv_nsec = (long)(now_ns % S);
	return 0;
}

/* As what kvd_flush_all() and others do between two requests. */
int nanosleep(const struct timespec *pause, struct timespec *left)
{
	(void)left;
	now_ns += (uint64_t)pause->tv_sec * S + (uint64_t)pause->tv_nsec;
	return 0;
}

/* Takes no time: others that want the CPU must not make this long. */
int sched_yield(void)
{
	return 0;
}

/* As a handle that sleeps without a connection. */
int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	(void)fds, (void)count;
	assert_true(timeout_ms > 0);
	now_ns += (uint64_t)timeout_ms * MS;
	return 0;
}

static struct fake_server *server;
static struct kvd *kvd;
static struct device_ops ops;
static uint64_t keys[OPS];
static uint8_t found[2 * LARGE_BYTES], large[LARGE_BYTES];
static unsigned int executed, pages;
static bool hold_next; /* from the next request on */

static int sleep_on(struct ibv_comp_channel *channel, int fd, int timeout_ms)
{
	(void)channel, (void)fd;
	assert_true(timeout_ms > 0);
	now_ns += (uint64_t)timeout_ms * MS;
	return 0;
}

static void respond(struct fake_server *p, const struct request *request,
		    struct wire_response *response, uint8_t *value)
{
	(void)p;
	executed++;
	response->status = WIRE_OK;
	switch (request->op) {
	case WIRE_STATS:
	case WIRE_CLIENTS:
		pages++;
		memcpy(value, "a\n", 2);
		response->value_len = 2;
		if (request->op == WIRE_STATS && !request->first_line)
			response->next_line = 1;
		if (request->op == WIRE_CLIENTS && !request->cursor)
			response->cursor = 1;
		break;
	case WIRE_FLUSH:
		response->ticket = 1;
		break;
	case WIRE_SCAN:
		break;
	default:
		response->version = executed;
	}
	if (hold_next)
		p->hold_all = true;
	hold_next = false;
}

static int setup(void **state)
{
	(void)state;
	server = fake_server_open(4, 4, 0, 0, NULL);
	kvd = &server->kvd;
	kvd->options.timeout_ms = 2000;
	kvd->options.connect_timeout_ms = 5000;
	server->respond = respond;
	ops = *kvd->dev->ops;
	ops.sleep = sleep_on;
	kvd->dev->ops = &ops;
	executed = pages = readings = 0;
	hold_next = false;
	for (unsigned int i = 0; i < OPS; i++) {
		keys[i] = i;
		if (i)
			fake_server_put(server, i, i == 1 ? LARGE_BYTES : 20, 0);
	}
	memset(found, 0xee, sizeof(found));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kvd_close(kvd);
	return 0;
}

/* The calls. Each leaves what is to be returned as it was, which `untouched` says afterwards. */
static uint64_t version, number, cursor;
static struct kvd_item item;
static size_t length;
static unsigned int rest; /* statuses of many that are not KVD_ERR_TIMEOUT */

static enum kvd_status get(void)
{
	return kvd_get(kvd, &keys[2], 8, found, 100, &item);
}

static enum kvd_status get_large(void)
{
	return kvd_get(kvd, &keys[1], 8, found, sizeof(found), &item);
}

static enum kvd_status getv(void)
{
	struct iovec iov[2] = { { found, 10 }, { found + 50, 30 } };

	return kvd_getv(kvd, &keys[2], 8, iov, 2, &item);
}

static enum kvd_status get_by_request(void)
{
	return kvd_get_by_request(kvd, &keys[2], 8, found, 100, &item);
}

static enum kvd_status get_and_touch(void)
{
	return kvd_get_and_touch(kvd, &keys[2], 8, 5, found, 100, &item);
}

static enum kvd_status get_many(void)
{
	struct kvd_get_request requests[40];
	enum kvd_status status;

	for (unsigned int i = 0; i < 40; i++)
		requests[i] = (struct kvd_get_request){
			&keys[i % OPS], 8, found, 100, KVD_OK, { 0 },
		};
	status = kvd_get_many(kvd, requests, 40);
	for (unsigned int i = 0; i < 40; i++)
		rest += requests[i].status != KVD_ERR_TIMEOUT;
	return status;
}

static enum kvd_status exists_many(void)
{
	struct kvd_key list[40];
	struct kvd_exists results[40];
	enum kvd_status status;

	memset(results, 0, sizeof(results));
	for (unsigned int i = 0; i < 40; i++)
		list[i] = (struct kvd_key){ &keys[i % OPS], 8 };
	status = kvd_exists_many(kvd, list, 40, results, &length);
	for (unsigned int i = 0; i < 40; i++)
		rest += results[i].status != KVD_ERR_TIMEOUT;
	assert_int_equal(length, 0);
	return status;
}

static enum kvd_status exists_leading(void)
{
	struct kvd_key list[2] = { { &keys[2], 8 }, { &keys[3], 8 } };
	enum kvd_status status = kvd_exists_leading(kvd, list, 2, &length);

	assert_int_equal(length, 0);
	return status;
}

static enum kvd_status put(void)
{
	return kvd_put(kvd, &keys[2], 8, "x", 1, NULL, &version);
}

static enum kvd_status put_large(void)
{
	return kvd_put(kvd, &keys[2], 8, large, sizeof(large), NULL, &version);
}

static enum kvd_status putv(void)
{
	struct iovec iov[2] = { { large, 10 }, { large + 50, 30 } };

	return kvd_putv(kvd, &keys[2], 8, iov, 2, NULL, &version);
}

static enum kvd_status delete (void) { return kvd_delete(kvd, &keys[2], 8); }

static enum kvd_status delete_if(void)
{
	return kvd_delete_if(kvd, &keys[2], 8, 3);
}

static enum kvd_status incr(void)
{
	return kvd_incr(kvd, &keys[2], 8, 1, NULL, &number, &version);
}

static enum kvd_status decr(void)
{
	return kvd_decr(kvd, &keys[2], 8, 1, NULL, &number, &version);
}

static enum kvd_status touch(void)
{
	return kvd_touch(kvd, &keys[2], 8, 1, &version);
}

static enum kvd_status flush_start(void)
{
	return kvd_flush_start(kvd, 1, &number);
}

static enum kvd_status flush_done(void)
{
	return kvd_flush_done(kvd, 1);
}

static enum kvd_status flush_cancel(void)
{
	return kvd_flush_cancel(kvd, 1, 0, &number);
}

static enum kvd_status flush_all(void)
{
	return kvd_flush_all(kvd);
}

static int each(void *arg, const struct kvd_entry *entry)
{
	(void)arg, (void)entry;
	fail();
	return 0;
}

static enum kvd_status scan(void)
{
	return kvd_scan(kvd, &cursor, NULL, each, NULL);
}

static enum kvd_status ping(void)
{
	return kvd_ping(kvd);
}

static enum kvd_status server_stats(void)
{
	char text[100];

	return kvd_server_stats(kvd, text, sizeof(text), &length);
}

static enum kvd_status client_list(void)
{
	char text[100];

	return kvd_client_list(kvd, text, sizeof(text), &length);
}

static enum kvd_status client_kill(void)
{
	return kvd_client_kill(kvd, 5);
}

static enum kvd_status shut_down(void)
{
	return kvd_shutdown(kvd);
}

static const struct call {
	const char *name;
	enum kvd_status (*run)(void);
	bool in_pages; /* the second request of it is held back, too */
} calls[] = {
	{ "kvd_get", get, false },
	{ "kvd_get of a large value", get_large, false },
	{ "kvd_getv", getv, false },
	{ "kvd_get_by_request", get_by_request, false },
	{ "kvd_get_and_touch", get_and_touch, false },
	{ "kvd_get_many", get_many, false },
	{ "kvd_exists_many", exists_many, false },
	{ "kvd_exists_leading", exists_leading, false },
	{ "kvd_put", put, false },
	{ "kvd_put of a large value", put_large, false },
	{ "kvd_putv", putv, false },
	{ "kvd_delete", delete, false },
	{ "kvd_delete_if", delete_if, false },
	{ "kvd_incr", incr, false },
	{ "kvd_decr", decr, false },
	{ "kvd_touch", touch, false },
	{ "kvd_flush_start", flush_start, false },
	{ "kvd_flush_done", flush_done, false },
	{ "kvd_flush_cancel", flush_cancel, false },
	{ "kvd_flush_all", flush_all, true },
	{ "kvd_scan", scan, false },
	{ "kvd_ping", ping, false },
	{ "kvd_server_stats", server_stats, true },
	{ "kvd_client_list", client_list, true },
	{ "kvd_client_kill", client_kill, false },
	{ "kvd_shutdown", shut_down, false },
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

/* Nothing is outstanding, all buffers are free, and each kind of operation works. */
static void assert_as_new(void)
{
	struct kvd_info info;

	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(kvd_get(kvd, &keys[3], 8, found, 100, &item), KVD_OK);
	assert_int_equal(found[0], 3);
	assert_int_equal(kvd_get(kvd, &keys[1], 8, found, sizeof(found), &item), KVD_OK);
	assert_int_equal(item.value_len, LARGE_BYTES);
	assert_int_equal(kvd_put(kvd, &keys[2], 8, large, sizeof(large), NULL, &version), KVD_OK);
	assert_int_equal(version, executed);
	kvd_info(kvd, &info);
	assert_string_equal(info.connection, "up");
	assert_int_equal(info.reconnects, 0);
	assert_int_equal(kvd->conn.outstanding, 0);
	assert_int_equal(kvd->conn.free_count, kvd->conn.message_count);
	assert_int_equal(kvd->conn.receives + kvd->conn.recv_free_count + kvd->conn.held,
			 kvd->conn.message_count);
	assert_int_equal(kvd->conn.read_tail, kvd->conn.read_head);
	assert_int_equal(kvd->changes, 0);
	assert_int_equal(kvd->bounces, 0);
	assert_int_equal(kvd->served_bytes, 0);
}

static void release(void)
{
	server->hold_all = server->fake.hold_reads = false;
	fake_server_answer(server, server->queued);
	fake_device_release(&server->fake);
}

static bool untouched(void)
{
	return !version && !number && !cursor && !length && !item.version && !rest;
}

/* @late: the answer comes during the next call, else before it. */
static void time_out(const struct call *call, uint32_t timeout_ms, bool late)
{
	uint64_t begin_ns, took_ns;
	enum kvd_status status;

	version = number = cursor = length = rest = 0;
	memset(&item, 0, sizeof(item));
	kvd->options.timeout_ms = timeout_ms;
	begin_ns = now_ns;
	status = call->run();
	took_ns = now_ns - begin_ns;
	if (status != KVD_ERR_TIMEOUT || took_ns < timeout_ms * MS ||
	    took_ns > timeout_ms * MS + LATE_NS || !untouched() ||
	    !strstr(kvd_error(kvd), "timeout"))
		fail_msg("%s with timeout_ms %u: %s after %llu us: %s", call->name, timeout_ms,
			 kvd_status_text(status), (unsigned long long)took_ns / 1000,
			 kvd_error(kvd));
	kvd->options.timeout_ms = 2000;
	if (late) {
		/* That of the call before and its own come one by one while it waits. */
		server->fake.hold_reads = false;
		fake_device_release(&server->fake);
		server->answer_idle = true;
		assert_int_equal(kvd_ping(kvd), KVD_OK);
		assert_int_equal(server->queued, 0);
	}
	release();
	assert_as_new();
	if (!untouched() && call->run != put && call->run != put_large)
		assert_true(version == executed);
}

static void each_call(void **state)
{
	static const uint32_t timeouts_ms[] = { 1, 2, 150, 3600000 };
	const struct call *call;
	unsigned int i;

	for (call = calls; call < calls + CALLS; call++)
		for (i = 0; i < 8; i++) {
			if ((i || call > calls) && teardown(state) + setup(state))
				fail();
			server->hold_all = server->fake.hold_reads = true;
			time_out(call, timeouts_ms[i / 2], i % 2);
		}
}

/* The first request is answered, and the second is not; each may take timeout_ms. */
static void the_second_request(void **state)
{
	const struct call *call;

	for (call = calls; call < calls + CALLS; call++) {
		if (!call->in_pages)
			continue;
		if (teardown(state) + setup(state))
			fail();
		hold_next = true;
		time_out(call, 150, false);
	}
}

/* Many times on one handle, without an answer in between as long as the window has room. */
static void one_after_the_other(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 4 * CALLS; i++) {
		server->hold_all = server->fake.hold_reads = true;
		version = number = cursor = length = rest = 0;
		kvd->options.timeout_ms = 3;
		assert_int_equal(calls[i % CALLS].run(), KVD_ERR_TIMEOUT);
		kvd->options.timeout_ms = 2000;
		if (i % 5 == 4)
			release();
		if (i % 10 == 9)
			assert_as_new();
	}
	release();
	assert_as_new();
	assert_in_range(server->outstanding_max, 1, 4);
}

static void a_flush_that_is_done_at_once(void **state)
{
	uint64_t begin_ns = now_ns;

	(void)state;
	kvd->options.timeout_ms = 100;
	assert_int_equal(kvd_flush_all(kvd), KVD_OK);
	assert_true(now_ns - begin_ns < 100 * MS);
}

static void refuse_flush(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	if (response->op == WIRE_FLUSH && executed > 1)
		response->status = WIRE_BUSY;
}

/* The flush's end is asked for again and again, and the handle stays usable. */
static void a_flush_that_never_ends(void **state)
{
	uint64_t begin_ns = now_ns;

	(void)state;
	kvd->options.timeout_ms = 1000;
	server->before_response = refuse_flush;
	assert_int_equal(kvd_flush_all(kvd), KVD_ERR_TIMEOUT);
	assert_in_range(now_ns - begin_ns, 1000 * MS, 1025 * MS);
	/* Every 1 to 20 ms. */
	assert_in_range(executed, 50, 70);
	kvd->options.timeout_ms = 2000;
	assert_as_new();
}

/* Each call finds completions, and its deadline passes for an operation without one. */
static void a_deadline_beside_completions(void **state)
{
	struct kvd_op put_op, get_op, *op = &put_op, *done[2];
	unsigned int i;
	size_t n = 0;

	(void)state;
	server->hold_all = true;
	kvd_prep_put(&put_op, &keys[3], 8, "x", 1, NULL);
	put_op.timeout_ms = 500;
	assert_int_equal(kvd_submit(kvd, &op, 1), KVD_OK);
	op = &get_op;
	for (i = 0; i < 2000 && n < 2; i++) {
		kvd_prep_get(&get_op, &keys[2], 8, found, 100);
		assert_int_equal(kvd_submit(kvd, &op, 1), KVD_OK);
		now_ns += MS;
		while (!(n = kvd_poll(kvd, done, 2)))
			;
		assert_int_equal(get_op.status, KVD_OK);
	}
	assert_in_range(i, 500, 600);
	assert_int_equal(put_op.status, KVD_ERR_TIMEOUT);
	release();
	assert_as_new();
}

/* Submitted ones have the handle's timeout or their own; kvd_wait() has another. */
static void submitted(void **state)
{
	struct kvd_op op[OPS], *list[OPS], *done[OPS];
	uint64_t begin_ns = now_ns;
	unsigned int i;

	(void)state;
	server->hold_all = server->fake.hold_reads = true;
	kvd_prep_get(&op[0], &keys[2], 8, found, 100);
	kvd_prep_put(&op[1], &keys[3], 8, "x", 1, NULL);
	kvd_prep_put(&op[2], &keys[3], 8, large, sizeof(large), NULL);
	kvd_prep_delete(&op[3], &keys[3], 8);
	kvd_prep_incr(&op[4], &keys[3], 8, 1, NULL);
	kvd_prep_touch(&op[5], &keys[3], 8, 1);
	kvd_prep_get_by_request(&op[6], &keys[2], 8, found + 100, 100);
	kvd_prep_get_and_touch(&op[7], &keys[2], 8, 1, found + 200, 100);
	kvd_prep_ping(&op[8]);
	kvd_prep_exists(&op[9], &keys[2], 8);
	kvd_prep_get(&op[10], &keys[1], 8, found + 400, LARGE_BYTES);
	kvd_prep_decr(&op[11], &keys[3], 8, 1, NULL);
	for (i = 0; i < OPS; i++) {
		list[i] = &op[i];
		op[i].timeout_ms = i % 2 ? 0 : 10 * (i + 1);
	}
	kvd->options.timeout_ms = 500;
	assert_int_equal(kvd_submit(kvd, list, OPS), KVD_OK);
	assert_int_equal(kvd_wait(kvd, done, OPS, 1, 9), 0);
	assert_in_range(now_ns - begin_ns, 9 * MS, 9 * MS + LATE_NS);
	for (i = 0; i < OPS; i += 2) {
		assert_int_equal(kvd_wait(kvd, done, OPS, 1, UINT32_MAX), 1);
		assert_ptr_equal(done[0], &op[i]);
		assert_int_equal(op[i].status, KVD_ERR_TIMEOUT);
		assert_in_range(now_ns - begin_ns, 10 * (i + 1) * MS, 10 * (i + 1) * MS + LATE_NS);
	}
	assert_int_equal(kvd_wait(kvd, done, OPS, OPS, UINT32_MAX), OPS / 2);
	assert_in_range(now_ns - begin_ns, 500 * MS, 500 * MS + LATE_NS);
	for (i = 1; i < OPS; i += 2)
		assert_int_equal(op[i].status, KVD_ERR_TIMEOUT);
	assert_int_equal(kvd_outstanding(kvd), 0);
	kvd->options.timeout_ms = 2000;
	release();
	assert_as_new();
}

static bool answers_hello;

static void accept_try(struct fake_device *fake)
{
	server->hold_all = !answers_hello;
	if (answers_hello || fake->connects == 2)
		fake_device_event(fake, CM_ESTABLISHED, 0);
}

static void turn(void)
{
	clock_ns();
	kvd_poll(kvd, NULL, 0);
}

/* A try ends after connect_timeout_ms: the first has no answer at all, the second none to HELLO. */
static void tries_to_connect(void **state)
{
	static const uint32_t timeouts_ms[] = { 1, 70, 3600000 };
	uint64_t begin_ns;
	unsigned int i, n;

	for (i = 0; i < 3; i++) {
		if (i && teardown(state) + setup(state))
			fail();
		kvd->options.reconnect = 1;
		kvd->options.connect_timeout_ms = timeouts_ms[i];
		answers_hello = false;
		server->fake.connect = accept_try;
		fake_device_lose(&server->fake);
		for (n = 1; n <= 2; n++) {
			while (server->fake.connects < n)
				turn();
			begin_ns = now_ns;
			while (kvd->reconnect.tries < n) {
				now_ns += timeouts_ms[i] * MS / 1000;
				turn();
			}
			assert_int_equal(kvd->reconnect.status, KVD_ERR_TIMEOUT);
			assert_non_null(strstr(kvd->reconnect.why, "connect_timeout_ms"));
			assert_in_range(now_ns - begin_ns, timeouts_ms[i] * MS * 99 / 100,
					timeouts_ms[i] * MS * 102 / 100 + MS / 10);
		}
		server->queued = 0;
		answers_hello = true;
		assert_int_equal(kvd_ping(kvd), KVD_OK);
		assert_int_equal(server->fake.connects, 3);
	}
}

static unsigned int records, messages; /* that the server had when the handle was closed */

static void note_access(struct fake_server *p, struct wire_response *response)
{
	(void)response;
	records = p->access_records;
	messages = p->access_messages;
}

/* A handle of which each GET is reported, after some time. */
static void open_reporting(uint32_t delay_ms)
{
	kvd_close(kvd);
	server = fake_server_open(4, 4, 1, delay_ms, NULL);
	kvd = &server->kvd;
	kvd->options.timeout_ms = 2000;
	kvd->dev->ops = &ops;
	server->before_response = note_access;
	fake_server_put(server, 2, 20, 0);
	records = messages = 0;
}

/* What is left to report is, in as many messages as that takes. */
static void closing_reports(void **state)
{
	uint64_t begin_ns;
	unsigned int gets;

	(void)state;
	for (gets = 0; gets <= 64; gets += 16) {
		open_reporting(3600000);
		for (unsigned int i = 0; i < gets; i++)
			assert_int_equal(get(), KVD_OK);
		begin_ns = now_ns;
		kvd_close(kvd);
		assert_int_equal(records, gets);
		assert_true(now_ns - begin_ns < 50 * MS);
		assert_true(gets || now_ns - begin_ns < MS / 10);
		setup(state);
	}
}

/* More reports than a message has room for, after one that is not answered yet. */
static void closing_reports_in_turns(void **state)
{
	struct kvd_get_request many[GETS_MAX];
	uint64_t begin_ns;
	unsigned int i;

	(void)state;
	open_reporting(3600000);
	server->hold_all = true;
	kvd->options.timeout_ms = 3;
	for (i = 0; i < 2 * WIRE_ACCESS_MAX - 1; i++)
		assert_int_equal(get(), KVD_OK);
	for (i = 0; i < GETS_MAX; i++)
		many[i] = (struct kvd_get_request){ &keys[2], 8, found, 100, KVD_OK, { 0 } };
	assert_int_equal(kvd_get_many(kvd, many, GETS_MAX), KVD_OK);
	assert_int_equal(messages, 1);
	assert_int_equal(kvd->access.count, WIRE_ACCESS_MAX + GETS_MAX - 1);
	server->answer_idle = true;
	begin_ns = now_ns;
	kvd_close(kvd);
	assert_int_equal(records, 2 * WIRE_ACCESS_MAX - 1 + GETS_MAX);
	assert_int_equal(messages, 3);
	assert_true(now_ns - begin_ns < 50 * MS);
	setup(state);
}

/* A server that does not answer is waited for, but no longer than 50 ms; without records not. */
static void closing_is_bounded(void **state)
{
	uint64_t begin_ns;

	(void)state;
	open_reporting(3600000);
	assert_int_equal(get(), KVD_OK);
	server->hold_all = true;
	begin_ns = now_ns;
	kvd_close(kvd);
	assert_in_range(now_ns - begin_ns, 50 * MS, 50 * MS + LATE_NS);
	assert_int_equal(messages, 1);

	setup(state);
	server->hold_all = true;
	kvd->options.timeout_ms = 3;
	assert_int_equal(ping(), KVD_ERR_TIMEOUT);
	begin_ns = now_ns;
	kvd_close(kvd);
	assert_true(now_ns - begin_ns < MS / 10);
	setup(state);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(each_call),
		CASE(the_second_request),
		CASE(one_after_the_other),
		CASE(a_flush_that_is_done_at_once),
		CASE(a_flush_that_never_ends),
		CASE(a_deadline_beside_completions),
		CASE(submitted),
		CASE(tries_to_connect),
		CASE(closing_reports),
		CASE(closing_reports_in_turns),
		CASE(closing_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
