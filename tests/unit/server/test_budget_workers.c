/* SPDX-License-Identifier: MIT */
/*
 * Test of budgets that two workers share (B1, B3, B6 and B8 in server/net/budget.h): together they
 * hold no more than it has; whoever waits is woken by the other worker, too, and gets its turn; and
 * who let a value down on one of them is late on both.
 */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/net/budget.h"
#include "server/net/pull.h"
#include "server/net/request.h"
#include "server/net/worker_loop.c"

#define WORKERS 2u
#define CONNS 6u /* of each worker */
#define BUDGET_BYTES 100u
#define HOUR_NS 3600000000000ull
#define WAIT_MS 300000
#define ROUNDS 2000u

static struct tenant tenant;
static struct budget *const budget = &tenant.pull_budget;
static struct late_principals late;
static const struct worker_env env = { .late_principals = &late, .workers = WORKERS };

/*
 * A worker whose connections, each of another principal, have a deferred request, which waits, so
 * that they can be woken.
 */
static struct side {
	struct worker worker;
	struct conn conns[CONNS];
	struct deferred deferred[CONNS];
	/* Of a connection that has memory: turns until it gives that back. */
	unsigned int turns[CONNS];
	unsigned int rounds[CONNS]; /* to go */
	uint64_t random;
	pthread_t thread;
	bool failed;
} sides[WORKERS];

static void side_setup(struct side *side, unsigned int number)
{
	struct worker *worker = &side->worker;
	struct poller *poller = &worker->pollers[0];

	memset(side, 0, sizeof(*side));
	worker->env = &env;
	worker->number = number;
	worker->limits.pull_ns = worker->limits.pull_stall_ns = HOUR_NS;
	worker->part.tenant = &tenant;
	TAILQ_INIT(&worker->deferred_conns);
	TAILQ_INIT(&worker->pulls);
	TAILQ_INIT(&worker->pulls_by_progress);
	assert_int_equal(mailbox_init(&worker->mailbox), 0);
	poller->worker = worker;
	poller->deferred = side->deferred;
	poller->spare_buffers = poller->spare_sends = 1;
	side->random = number + 1;
	for (unsigned int i = 0; i < CONNS; i++) {
		struct conn *conn = &side->conns[i];

		conn->poller = poller;
		conn->part = &worker->part;
		conn->pull_hold.conn = conn;
		conn->probes_answered = 1; /* B5 */
		snprintf(conn->principal.name, sizeof(conn->principal.name), "uid=%u", i);
		atomic_init(&conn->hello_done, true);
		TAILQ_INIT(&conn->deferred);
		TAILQ_INSERT_TAIL(&conn->deferred, &side->deferred[i], entry);
	}
}

static int setup(void **state)
{
	(void)state;
	late = (struct late_principals){ 0 };
	budget_init(budget, BUDGET_BYTES, WORKERS);
	for (unsigned int i = 0; i < WORKERS; i++)
		side_setup(&sides[i], i);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < WORKERS; i++)
		mailbox_release(&sides[i].worker.mailbox);
	return 0;
}

static struct budget_hold *hold_of(unsigned int side, unsigned int conn)
{
	return &sides[side].conns[conn].pull_hold;
}

static enum budget_admission take(unsigned int side, unsigned int conn, uint64_t bytes)
{
	return budget_take(budget, hold_of(side, conn), bytes);
}

static void give(unsigned int side, unsigned int conn)
{
	budget_give(budget, hold_of(side, conn), true);
}

/* The number of the connection that was woken first, which sleeps again; CONNS: none was. */
static unsigned int woken(struct side *side)
{
	struct conn *conn = TAILQ_FIRST(&side->worker.deferred_conns);

	if (!conn)
		return CONNS;
	TAILQ_REMOVE(&side->worker.deferred_conns, conn, deferred_entry);
	conn->deferred_runs = false;
	return (unsigned int)(conn - side->conns);
}

/* A worker wakes its own connections, and another one for its: not the other's connections. */
static void woken_by_the_other(void **state)
{
	(void)state;
	assert_int_equal(take(0, 0, 50), BUDGET_ADMITTED);
	assert_int_equal(take(1, 0, 30), BUDGET_WAITS);
	assert_int_equal(take(0, 1, 20), BUDGET_WAITS);
	assert_int_equal(take(1, 1, 20), BUDGET_WAITS);
	assert_false(worker_look(&sides[1].worker));
	assert_false(mailbox_pending(&sides[1].worker.mailbox));
	give(0, 0);
	assert_int_equal(woken(&sides[0]), CONNS);
	assert_int_equal(woken(&sides[1]), CONNS);
	assert_true(mailbox_pending(&sides[1].worker.mailbox));
	assert_true(worker_look(&sides[1].worker));
	assert_int_equal(woken(&sides[1]), 0);
	assert_int_equal(woken(&sides[1]), CONNS);
	assert_false(worker_look(&sides[1].worker));
	/* The next one in line is the first worker's, then the second one's own. */
	assert_int_equal(take(1, 0, 30), BUDGET_ADMITTED);
	assert_false(worker_look(&sides[1].worker));
	assert_true(worker_look(&sides[0].worker));
	assert_int_equal(woken(&sides[0]), 1);
	assert_int_equal(take(0, 1, 20), BUDGET_ADMITTED);
	give(1, 0);
	assert_false(worker_look(&sides[1].worker));
	assert_int_equal(woken(&sides[1]), 1);
	assert_int_equal(take(1, 1, 20), BUDGET_ADMITTED);
	assert_false(worker_look(&sides[0].worker));
	assert_int_equal(budget->held[BUDGET_UNPROVEN], 40);
}

/* The same of what is made from large items. */
static void builds_woken_by_the_other(void **state)
{
	struct budget_hold hold = { .conn = &sides[0].conns[0], .class = BUDGET_PROVEN },
			   waits = { .conn = &sides[1].conns[3], .class = BUDGET_PROVEN };

	(void)state;
	budget_init(&tenant.build_budget, BUDGET_BYTES, WORKERS);
	assert_int_equal(budget_take(&tenant.build_budget, &hold, 60), BUDGET_ADMITTED);
	assert_int_equal(budget_take(&tenant.build_budget, &waits, 60), BUDGET_WAITS);
	budget_give(&tenant.build_budget, &hold, true);
	assert_true(worker_look(&sides[1].worker));
	assert_int_equal(woken(&sides[1]), 3);
	assert_int_equal(budget_take(&tenant.build_budget, &waits, 60), BUDGET_ADMITTED);
}

/* Both hold no more than all together, also where one has nothing else. */
static void one_for_both(void **state)
{
	(void)state;
	hold_of(0, 0)->class = hold_of(1, 0)->class = hold_of(1, 1)->class = BUDGET_PROVEN;
	assert_int_equal(take(0, 0, 100), BUDGET_ADMITTED);
	assert_int_equal(take(1, 0, 1), BUDGET_WAITS);
	assert_int_equal(take(1, 1, 100), BUDGET_WAITS);
	give(0, 0);
	assert_int_equal(take(1, 0, 1), BUDGET_ADMITTED);
	assert_int_equal(take(1, 1, 100), BUDGET_WAITS);
	assert_false(budget_take_more(budget, hold_of(0, 0), 1));
	give(1, 0);
	assert_int_equal(take(1, 1, 100), BUDGET_ADMITTED);
	assert_false(budget_take_more(budget, hold_of(0, 0), 1));
	give(1, 1);
	/* Also of different classes. */
	assert_int_equal(take(0, 1, 50), BUDGET_ADMITTED);
	assert_int_equal(take(1, 0, 51), BUDGET_WAITS);
	budget_leave(budget, hold_of(1, 0));
	assert_int_equal(take(1, 0, 50), BUDGET_ADMITTED);
	assert_false(budget_take_more(budget, hold_of(0, 0), 1));
}

/* B3: what comes later to the other worker waits for a large value, of either class. */
static void large_ones_in_line(void **state)
{
	(void)state;
	hold_of(1, 1)->class = BUDGET_PROVEN;
	for (unsigned int class = 0; class < 2; class ++) {
		hold_of(0, 0)->class = hold_of(0, 1)->class = class ? BUDGET_PROVEN :
								      BUDGET_UNPROVEN;
		assert_int_equal(take(0, 0, 10), BUDGET_ADMITTED);
		assert_int_equal(take(1, 1, 95), BUDGET_WAITS);
		assert_int_equal(take(0, 1, 10), BUDGET_WAITS);
		give(0, 0);
		assert_int_equal(take(0, 1, 10), BUDGET_WAITS);
		assert_true(worker_look(&sides[1].worker));
		assert_int_equal(woken(&sides[1]), 1);
		assert_int_equal(take(1, 1, 95), BUDGET_ADMITTED);
		while (woken(&sides[0]) < CONNS)
			;
		give(1, 1);
		assert_true(worker_look(&sides[0].worker));
		assert_int_equal(woken(&sides[0]), 1);
		assert_int_equal(take(0, 1, 10), BUDGET_ADMITTED);
		give(0, 1);
	}
}

/* One PUT of a large value, as far as the memory for it. */
static void ask(struct side *side, unsigned int conn)
{
	static struct region region = { .geometry = { .value_max = BUDGET_BYTES } };
	static struct table table = { .region = &region };
	const struct request put = {
		.op = WIRE_PUT,
		.flags = WIRE_F_PULL,
		.key = (const uint8_t *)"k",
		.key_len = 1,
		.value_len = BUDGET_BYTES / 4,
	};
	struct response_list responses = { .poller = &side->worker.pollers[0] };

	side->worker.part.thread.table = &table;
	TAILQ_INIT(&side->conns[conn].deferred);
	assert_false(request_execute(&responses, &side->conns[conn], &put, 0, conn));
	assert_true(deferred_run(&side->worker));
}

/* B6: a principal is late on all workers, and is so no more. */
static void late_on_both(void **state)
{
	struct principal *other = &sides[1].conns[2].principal;

	(void)state;
	/* Connection 1 of each worker is the same principal's. */
	assert_int_equal(take(0, 1, 10), BUDGET_ADMITTED);
	pull_release(&sides[0].conns[1]);
	assert_true(late_principals_have(&late, &sides[1].conns[1].principal, clock_ns()));
	assert_false(late_principals_have(&late, other, clock_ns()));
	assert_int_equal(take(0, 0, 100), BUDGET_ADMITTED);
	ask(&sides[1], 1);
	ask(&sides[1], 2);
	assert_int_equal(hold_of(1, 1)->class, BUDGET_LATE);
	assert_int_equal(hold_of(1, 2)->class, BUDGET_UNPROVEN);
	assert_int_equal(budget->waiting_count[BUDGET_LATE], 1);
	assert_int_equal(sides[1].worker.stats.pulls_late, 1);
	/* Its turn comes after the others', wherever these are. */
	give(0, 0);
	assert_true(worker_look(&sides[1].worker));
	assert_int_equal(woken(&sides[1]), 2);
	assert_int_equal(woken(&sides[1]), CONNS);
	/* When it is late no more, each worker sees to its own. */
	late = (struct late_principals){ 0 };
	assert_true(budget_look(budget, &sides[0].worker));
	assert_int_equal(woken(&sides[1]), CONNS);
	assert_true(budget_look(budget, &sides[1].worker));
	assert_int_equal(woken(&sides[1]), 2);
	assert_int_equal(woken(&sides[1]), 1);
	budget_leave(budget, hold_of(1, 1));
	budget_leave(budget, hold_of(1, 2));
}

static _Atomic uint64_t all_hold;

static uint64_t random_below(struct side *side, uint64_t n)
{
	side->random = side->random * 6364136223846793005u + 1442695040888963407u;
	return (side->random >> 33) % n;
}

/* Asks for memory, of a size that stays until it gets some. */
static void conn_ask(struct side *side, unsigned int i)
{
	struct budget_hold *hold = &side->conns[i].pull_hold;
	uint64_t bytes = hold->wanted;

	if (!bytes)
		bytes = 1 + random_below(side, i ? BUDGET_BYTES / 4 : BUDGET_BYTES);
	if (budget_take(budget, hold, bytes) != BUDGET_ADMITTED)
		return;
	side->failed |= atomic_fetch_add(&all_hold, bytes) + bytes > BUDGET_BYTES;
	side->turns[i] = 1 + (unsigned int)random_below(side, 3);
}

static void conn_give(struct side *side, unsigned int i)
{
	struct budget_hold *hold = &side->conns[i].pull_hold;

	atomic_fetch_sub(&all_hold, hold->bytes);
	budget_give(budget, hold, random_below(side, 4));
	side->rounds[i]--;
	/* Its next request. */
	deferred_wake(&side->conns[i]);
}

/* What holds memory goes on; what was woken asks. False: there was nothing to do. */
static bool side_turn(struct side *side)
{
	bool did = false;
	unsigned int i;

	for (i = 0; i < CONNS; i++) {
		did |= side->turns[i] > 0;
		if (side->turns[i] && !--side->turns[i])
			conn_give(side, i);
	}
	while ((i = woken(side)) < CONNS) {
		did = true;
		if (side->rounds[i] && !side->conns[i].pull_hold.bytes)
			conn_ask(side, i);
	}
	return did;
}

static bool side_goes_on(const struct side *side)
{
	for (unsigned int i = 0; i < CONNS; i++)
		if (side->rounds[i])
			return true;
	return false;
}

/* Sleeps only when the other worker has what its connections wait for. */
static void *side_run(void *arg)
{
	struct side *side = arg;
	struct worker *worker = &side->worker;
	struct pollfd fd = { worker->mailbox.event_fd, POLLIN, 0 };

	for (unsigned int i = 0; i < CONNS; i++)
		deferred_wake(&side->conns[i]);
	while (side_goes_on(side) && !side->failed) {
		if (side_turn(side))
			continue;
		if (mailbox_pending(&worker->mailbox))
			(void)mailbox_take(&worker->mailbox);
		if (!worker_look(worker) && poll(&fd, 1, WAIT_MS) != 1)
			side->failed = true;
	}
	return NULL;
}

/* Values of all sizes: the sum stays below the share, and each is stored at last. */
static void threads(void **state)
{
	(void)state;
	atomic_store(&all_hold, 0);
	for (unsigned int i = 0; i < WORKERS; i++) {
		for (unsigned int j = 0; j < CONNS; j++)
			sides[i].rounds[j] = ROUNDS;
		assert_int_equal(pthread_create(&sides[i].thread, NULL, side_run, &sides[i]), 0);
	}
	for (unsigned int i = 0; i < WORKERS; i++)
		pthread_join(sides[i].thread, NULL);
	for (unsigned int i = 0; i < WORKERS; i++)
		assert_false(sides[i].failed);
	for (unsigned int i = 0; i < BUDGET_CLASSES; i++) {
		assert_int_equal(budget->held[i], 0);
		assert_int_equal(budget->waiting_count[i], 0);
	}
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(woken_by_the_other), CASE(builds_woken_by_the_other),
		CASE(one_for_both),	  CASE(large_ones_in_line),
		CASE(late_on_both),	  CASE(threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
