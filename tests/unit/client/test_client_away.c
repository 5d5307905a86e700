/* SPDX-License-Identifier: MIT */
/*
 * A server that is away: the first deadline without a connection, or without a response, is the
 * last that a caller waits for. Then all that needs the server ends at once, without a sleep, until
 * a try to connect succeeds or a response comes. No test waits: the clock goes on when it is read,
 * and when the handle sleeps.
 */
#include "tests/support/reconnect_test.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "client/libkvd/reconnect.h"
#include "common/util/clock.h"

#define S 1000000000ull
#define MS 1000000ull
#define READING_NS 1000u
#define CALLS 1000u

static uint64_t now_ns = 1000 * S;

int clock_gettime(clockid_t id, struct timespec *now)
{
	(void)id;
	now_ns += READING_NS;
	now->tv_sec = (time_t)(now_ns / S);
	now->tv_nsec = (long)(now_ns % S);
	return 0;
}

int sched_yield(void)
{
	return 0;
}

/* As a handle that sleeps without a connection. */
int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	(void)fds, (void)count;
	now_ns += (uint64_t)timeout_ms * MS;
	return 0;
}

static struct device_ops away_ops;
static enum cm_event_type event_in_sleep; /* comes when the handle sleeps, once */
static bool any_in_sleep;

static int sleep_on(struct ibv_comp_channel *channel, int fd, int timeout_ms)
{
	(void)channel, (void)fd;
	if (any_in_sleep) {
		now_ns += MS;
		fake_device_event(&server->fake, event_in_sleep, 0);
	} else {
		now_ns += (uint64_t)timeout_ms * MS;
	}
	any_in_sleep = false;
	return 0;
}

static int setup_away(void **state)
{
	setup(state);
	away_ops = *kvd->dev->ops;
	away_ops.sleep = sleep_on;
	kvd->dev->ops = &away_ops;
	kvd->options.timeout_ms = 2000;
	kvd->options.connect_timeout_ms = 5000;
	any_in_sleep = false;
	return 0;
}

static void assert_connection(const char *text)
{
	struct kvd_info info;

	kvd_info(kvd, &info);
	assert_string_equal(info.connection, text);
}

/* One deadline: all tries are refused until the test says otherwise. */
static void go_away(void)
{
	refusals = UINT32_MAX;
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_ERR_DISCONNECTED);
	assert_connection("away");
}

/* The next try, which is due now, is not refused. */
static void come_back(void)
{
	refusals = 0;
	kvd->reconnect.next_ns = 0;
}

static void one_deadline(void **state)
{
	uint64_t begin_ns = now_ns;

	(void)state;
	go_away();
	assert_in_range(now_ns - begin_ns, 2 * S, 2 * S + 5 * MS);
	assert_non_null(strstr(kvd_error(kvd), "no connection to fake server for "));
	assert_int_equal(stats().away, 0);
}

static void then_all_end_at_once(void **state)
{
	uint64_t sleeps, begin_ns;
	unsigned int i;
	char text[100];

	(void)state;
	go_away();
	sleeps = stats().sleeps;
	begin_ns = now_ns;
	for (i = 0; i < CALLS; i++) {
		assert_int_equal(get(1), KVD_ERR_AWAY);
		assert_int_equal(put(1), KVD_ERR_AWAY);
		assert_int_equal(kvd_ping(kvd), KVD_ERR_AWAY);
		assert_int_equal(kvd_server_stats(kvd, text, sizeof(text), NULL), KVD_ERR_AWAY);
	}
	assert_non_null(strstr(kvd_error(kvd), "fake server is away: no connection for "));
	assert_non_null(strstr(kvd_error(kvd), "nothing was done: nobody listens"));
	assert_int_equal(stats().sleeps, sleeps);
	assert_int_equal(stats().away, 4 * CALLS);
	assert_int_equal(stats().gets, CALLS + 1);
	assert_int_equal(changes, 0);
	/* The clock's readings alone. */
	assert_true(now_ns - begin_ns < 4 * CALLS * 20 * READING_NS);
	come_back();
	assert_int_equal(get(1), KVD_OK);
	assert_connection("up");
	assert_int_equal(put(1), KVD_OK);
	assert_int_equal(stats().away, 4 * CALLS);
	assert_int_equal(stats().reconnects, 1);
}

/* The next loss costs a deadline again, and is waited for. */
static void each_loss_anew(void **state)
{
	(void)state;
	go_away();
	come_back();
	assert_int_equal(get(1), KVD_OK);
	refusals = 3;
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(stats().away, 0);
	go_away();
	assert_int_equal(put(1), KVD_ERR_AWAY);
}

/* The first that is late ends as ever, and with it all that wait; what was sent waits on. */
static void what_waits_ends(void **state)
{
	struct kvd_op more[2], *last[] = { &more[0], &more[1] };
	unsigned int i;

	(void)state;
	server->welcome.answers = kvd->sent.limit = 16;
	server->welcome.identity_known = 1;
	hold_puts(OPS - 1);
	submit_get(OPS - 1, 1);
	for (i = 0; i < 2; i++)
		kvd_prep_get(&more[i], &keys[1], 8, values[1], sizeof(values[1]));
	assert_int_equal(kvd_submit(kvd, last, 2), KVD_OK);
	assert_int_equal(server->queued, WINDOW);
	refusals = UINT32_MAX;
	fake_device_lose(&server->fake);
	server->queued = 0;
	kvd->options.timeout_ms = 1000;
	assert_int_equal(get(1), KVD_ERR_DISCONNECTED);
	assert_int_equal(kvd_wait(kvd, done, OPS, OPS - WINDOW + 2, 100), OPS - WINDOW + 2);
	for (i = WINDOW; i < OPS; i++)
		assert_int_equal(ops[i].status, KVD_ERR_AWAY);
	for (i = 0; i < 2; i++)
		assert_int_equal(more[i].status, KVD_ERR_AWAY);
	assert_int_equal(stats().away, OPS - WINDOW + 2);
	assert_int_equal(kvd_outstanding(kvd), WINDOW);
	/* What is submitted now ends at once, and what was sent goes on. */
	submit_get(WINDOW, 1);
	submit_put(WINDOW + 1, 1);
	assert_int_equal(kvd_poll(kvd, done, OPS), 2);
	assert_int_equal(ops[WINDOW].status, KVD_ERR_AWAY);
	assert_int_equal(ops[WINDOW + 1].status, KVD_ERR_AWAY);
	assert_int_equal(kvd_wait(kvd, done, OPS, WINDOW, UINT32_MAX), WINDOW);
	for (i = 0; i < WINDOW; i++)
		assert_int_equal(ops[i].status, KVD_ERR_TIMEOUT);
}

/* A change that was sent, and then the first to be late: it may have taken effect. */
static void a_late_change(void **state)
{
	(void)state;
	server->welcome.answers = kvd->sent.limit = 16;
	hold_puts(1);
	refusals = UINT32_MAX;
	fake_device_lose(&server->fake);
	await_all();
	assert_int_equal(ops[0].status, KVD_ERR_TIMEOUT);
	assert_int_equal(put(1), KVD_ERR_AWAY);
}

/* A batch is one deadline, and its later parts are not tried. */
static void batches(void **state)
{
	struct kvd_get_request requests[GETS_MAX + 1];
	struct kvd_key list_of[2] = { { &keys[1], 8 }, { &keys[2], 8 } };
	size_t present = 7, leading = 7;

	(void)state;
	for (unsigned int i = 0; i <= GETS_MAX; i++)
		requests[i] = (struct kvd_get_request){ .key = &keys[1], .key_len = 8 };
	refusals = UINT32_MAX;
	fake_device_lose(&server->fake);
	assert_int_equal(kvd_get_many(kvd, requests, GETS_MAX + 1), KVD_ERR_DISCONNECTED);
	assert_int_equal(kvd_get_many(kvd, requests, GETS_MAX + 1), KVD_ERR_AWAY);
	for (unsigned int i = 0; i <= GETS_MAX; i++)
		assert_int_equal(requests[i].status, KVD_ERR_AWAY);
	assert_int_equal(kvd_exists_many(kvd, list_of, 2, NULL, &present), KVD_ERR_AWAY);
	assert_int_equal(kvd_exists_leading(kvd, list_of, 2, &leading), KVD_ERR_AWAY);
	assert_int_equal(present + leading, 0);
}

/* A short deadline of one operation does not end the others at a hiccup. */
static void short_deadlines(void **state)
{
	(void)state;
	refusals = UINT32_MAX;
	fake_device_lose(&server->fake);
	submit_get(0, 1);
	kvd_prep_get(&ops[1], &keys[1], 8, values[1], sizeof(values[1]));
	ops[1].timeout_ms = 900;
	assert_int_equal(kvd_submit(kvd, &list[1], 1), KVD_OK);
	assert_int_equal(kvd_wait(kvd, done, OPS, 1, UINT32_MAX), 1);
	assert_int_equal(ops[1].status, KVD_ERR_DISCONNECTED);
	refusals = 0;
	await_all();
	assert_int_equal(ops[0].status, KVD_OK);
	/* But many of them do, in the time of one that is not. */
	refusals = UINT32_MAX;
	fake_device_lose(&server->fake);
	for (unsigned int i = 0; i < 2; i++) {
		assert_connection(i ? "waiting" : "up");
		kvd_prep_get(&ops[0], &keys[1], 8, values[1], sizeof(values[1]));
		ops[0].timeout_ms = 600;
		assert_int_equal(kvd_submit(kvd, &list[0], 1), KVD_OK);
		await_all();
		assert_int_equal(ops[0].status, KVD_ERR_DISCONNECTED);
	}
	assert_connection("away");
}

/* Tries go on, as many as the pauses allow, and none of them more than the longest pause late. */
static void tries_go_on(void **state)
{
	uint64_t begin_ns, last_ns;
	unsigned int tries;

	(void)state;
	go_away();
	begin_ns = last_ns = now_ns;
	tries = server->fake.connects;
	while (now_ns < begin_ns + 100 * S) {
		assert_int_equal(get(1), KVD_ERR_AWAY);
		now_ns += MS;
		if (server->fake.connects == tries)
			continue;
		assert_int_equal(server->fake.connects, ++tries);
		assert_true(now_ns - last_ns < RECONNECT_PAUSE_NS_MAX + 3 * MS);
		last_ns = now_ns;
	}
	/* 200 on average: 6 deviations of the sum of 200 pauses are 6 x 0.29 s x 14, 50 tries. */
	assert_in_range(kvd->reconnect.tries, 150, 250);
}

/* A server that refuses the client is not away: its answer counts. */
static void a_refusal_of_the_client(void **state)
{
	(void)state;
	go_away();
	reject = (struct wire_reject){ .magic = WIRE_MAGIC,
				       .abi = WIRE_ABI,
				       .reason = WIRE_REJECT_USER };
	kvd->reconnect.next_ns = 0;
	assert_int_equal(get(1), KVD_ERR_AUTH);
	assert_int_equal(put(1), KVD_ERR_AUTH);
	refusals = 0;
	assert_int_equal(put(1), KVD_OK);
	assert_int_equal(stats().away, 0);
}

static void no_event(struct fake_device *fake)
{
	(void)fake;
}

/* The try is slow: calls in quick succession do not wait for it, and it succeeds meanwhile. */
static void frequent_calls_do_not_wait(void **state)
{
	uint64_t sleeps;
	unsigned int i;

	(void)state;
	go_away();
	server->fake.connect = no_event;
	kvd->reconnect.next_ns = 0;
	sleeps = stats().sleeps;
	for (i = 0; i < 100; i++) {
		assert_int_equal(get(1), KVD_ERR_AWAY);
		now_ns += 10 * MS;
	}
	fake_device_event(&server->fake, CM_ESTABLISHED, 0);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(stats().sleeps, sleeps);
}

/* Nobody else takes the steps of its try: such a call waits for the server's, and not for long. */
static void a_call_after_a_long_time(void **state)
{
	uint64_t sleeps, begin_ns;
	unsigned int submits;

	(void)state;
	for (submits = 0; submits < 2; submits++) {
		if (submits && teardown(state) + setup_away(state))
			fail();
		go_away();
		server->fake.connect = no_event;
		sleeps = stats().sleeps;
		now_ns += 3600 * S;
		begin_ns = now_ns;
		assert_int_equal(get(1), KVD_ERR_AWAY);
		assert_in_range(now_ns - begin_ns, 20 * MS, 25 * MS);
		assert_true(stats().sleeps > sleeps);
		/* That try is too late now; the next one gets an answer. */
		now_ns += 3600 * S;
		assert_int_equal(get(1), KVD_ERR_AWAY);
		now_ns += 3600 * S;
		any_in_sleep = true;
		event_in_sleep = CM_ESTABLISHED;
		if (submits) {
			submit_get(0, 1);
			assert_int_equal(kvd_wait(kvd, done, OPS, 1, 1000), 1);
			assert_int_equal(ops[0].status, KVD_ERR_AWAY);
			assert_connection("up");
		}
		assert_int_equal(get(1), KVD_OK);
	}
}

/* kvd_fd() becomes readable for the tries, so that an event loop finds the server again. */
static void an_event_loop(void **state)
{
	(void)state;
	assert_true(kvd_fd(kvd) >= 0);
	go_away();
	submit_get(0, 1);
	assert_int_equal(kvd_arm(kvd), KVD_ERR_BUSY);
	assert_int_equal(kvd_poll(kvd, done, OPS), 1);
	assert_int_equal(ops[0].status, KVD_ERR_AWAY);
	assert_int_equal(kvd_arm(kvd), KVD_OK);
	assert_true(reconnect_next_ns(kvd) <= now_ns + RECONNECT_PAUSE_NS_MAX);
	refusals = 0;
	now_ns += RECONNECT_PAUSE_NS_MAX;
	while (!kvd->up)
		assert_int_equal(kvd_poll(kvd, done, OPS), 0);
	assert_connection("up");
	assert_int_equal(get(1), KVD_OK);
}

/* The server hangs: its memory can be READ, but it answers nothing. */
static void fall_silent(void)
{
	assert_int_equal(get(1), KVD_OK);
	server->hold_all = true;
	assert_int_equal(put(2), KVD_ERR_TIMEOUT);
	assert_connection("away");
}

static void a_silent_server(void **state)
{
	uint64_t sleeps;
	unsigned int i, requests;

	(void)state;
	fall_silent();
	sleeps = stats().sleeps;
	requests = server->requests;
	for (i = 0; i < CALLS; i++) {
		assert_int_equal(put(3), KVD_ERR_AWAY);
		assert_int_equal(kvd_ping(kvd), KVD_ERR_AWAY);
		assert_int_equal(get(1), KVD_OK);
	}
	assert_int_equal(put(3), KVD_ERR_AWAY);
	assert_non_null(strstr(kvd_error(kvd), "has not answered for 2."));
	assert_non_null(strstr(kvd_error(kvd), "nothing was done"));
	assert_int_equal(stats().sleeps, sleeps);
	assert_int_equal(stats().away, 2 * CALLS + 1);
	assert_int_equal(server->requests, requests);
	/* A while without a request changes nothing. */
	now_ns += 10 * S;
	assert_int_equal(put(3), KVD_ERR_AWAY);
	server->hold_all = false;
	fake_server_answer(server, server->queued);
	assert_int_equal(put(3), KVD_OK);
	assert_connection("up");
	assert_int_equal(changes, 2);
	assert_int_equal(stats().reconnects, 0);
}

/* Changes that were not sent end; those that were sent wait for their answers, which come. */
static void submitted_to_a_silent_server(void **state)
{
	unsigned int i;

	(void)state;
	hold_puts(OPS - 1);
	submit_get(OPS - 1, OPS - 1);
	assert_int_equal(server->queued, WINDOW);
	kvd->options.timeout_ms = 1500;
	assert_int_equal(kvd_ping(kvd), KVD_ERR_TIMEOUT);
	assert_int_equal(kvd_poll(kvd, done, OPS), OPS - WINDOW);
	for (i = WINDOW; i < OPS - 1; i++)
		assert_int_equal(ops[i].status, KVD_ERR_AWAY);
	assert_int_equal(ops[OPS - 1].status, KVD_NOT_FOUND);
	server->hold_all = false;
	fake_server_answer(server, server->queued);
	await_all();
	for (i = 0; i < WINDOW; i++)
		assert_int_equal(ops[i].status, KVD_OK);
	assert_int_equal(put(1), KVD_OK);
}

/* A short deadline says nothing about the server; nor does a READ's. */
static void not_yet_silent(void **state)
{
	unsigned int i;

	(void)state;
	server->hold_all = true;
	kvd->options.timeout_ms = 300;
	for (i = 0; i < 3; i++) {
		assert_int_equal(kvd_ping(kvd), KVD_ERR_TIMEOUT);
		assert_connection("up");
	}
	assert_int_equal(kvd_ping(kvd), KVD_ERR_TIMEOUT);
	assert_int_equal(kvd_ping(kvd), KVD_ERR_AWAY);
	server->hold_all = false;
	fake_server_answer(server, server->queued);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	server->fake.hold_reads = true;
	kvd->options.timeout_ms = 3000;
	assert_int_equal(get(1), KVD_ERR_TIMEOUT);
	assert_connection("up");
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	fake_device_release(&server->fake);
}

/* Expiry needs the server's clock, and that an answer: such keys are not known to exist or not. */
static void an_expiring_key_of_a_silent_server(void **state)
{
	struct kvd_key both[2] = { { &keys[1], 8 }, { &keys[5], 8 } };
	size_t present = 7;

	(void)state;
	fake_server_put(server, 5, 20, FAKE_SERVER_CLOCK_S + 60);
	fall_silent();
	now_ns += 59 * S + S / 2;
	assert_int_equal(get(5), KVD_ERR_AWAY);
	assert_int_equal(get(5), KVD_ERR_AWAY);
	assert_int_equal(kvd_exists_many(kvd, both, 2, NULL, &present), KVD_ERR_AWAY);
	assert_int_equal(present, 1);
	assert_int_equal(stats().away, 3);
	assert_int_equal(get(1), KVD_OK);
	server->clock_ns += 70 * S;
	server->hold_all = false;
	fake_server_answer(server, server->queued);
	assert_int_equal(get(5), KVD_NOT_FOUND);
}

/* A silent connection that is lost: the server stays away until there is another one. */
static void silent_and_lost(void **state)
{
	(void)state;
	fall_silent();
	server->hold_all = false;
	server->queued = 0;
	refusals = 1;
	fake_device_lose(&server->fake);
	assert_int_equal(kvd_poll(kvd, done, OPS), 0);
	assert_int_equal(get(1), KVD_ERR_AWAY);
	assert_connection("away");
	while (!kvd->up)
		kvd_poll(kvd, done, OPS);
	assert_int_equal(put(1), KVD_OK);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(stats().away, 1);
}

/* Not even READs are answered: one more deadline, and the connection is given up. */
static void silent_without_reads(void **state)
{
	unsigned int i;

	(void)state;
	fall_silent();
	server->fake.hold_reads = true;
	refusals = UINT32_MAX;
	kvd_prep_get(&ops[0], &keys[3], 8, values[3], sizeof(values[3]));
	ops[0].timeout_ms = 3600000;
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
	assert_int_equal(get(1), KVD_ERR_TIMEOUT);
	for (i = 0; i < CALLS; i++)
		assert_int_equal(get(1), KVD_ERR_AWAY);
	await_all();
	assert_int_equal(ops[0].status, KVD_ERR_AWAY);
	assert_connection("away");
	server->hold_all = server->fake.hold_reads = false;
	server->queued = 0;
	come_back();
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(put(1), KVD_OK);
	assert_int_equal(stats().reconnects, 1);
}

#undef CASE
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup_away, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(one_deadline),
		CASE(then_all_end_at_once),
		CASE(each_loss_anew),
		CASE(what_waits_ends),
		CASE(a_late_change),
		CASE(batches),
		CASE(short_deadlines),
		CASE(tries_go_on),
		CASE(a_refusal_of_the_client),
		CASE(frequent_calls_do_not_wait),
		CASE(a_call_after_a_long_time),
		CASE(an_event_loop),
		CASE(a_silent_server),
		CASE(submitted_to_a_silent_server),
		CASE(not_yet_silent),
		CASE(an_expiring_key_of_a_silent_server),
		CASE(silent_and_lost),
		CASE(silent_without_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
