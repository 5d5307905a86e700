/* SPDX-License-Identifier: MIT */
/*
 * Test of budgets that two workers share (BUDGET-1, BUDGET-2, BUDGET-4 and BUDGET-6 in
 * server/worker/budget.h): together they hold no more than it has; a waiter is woken by the other
 * worker, too, and gets its turn; and a principal that lets a value down on one of them is late on
 * both.
 */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/worker/budget.h"
#include "server/worker/pull.h"
#include "server/worker/request.h"
#include "server/worker/worker_loop.c"

#define WORKERS 2u
#define CONNS 6u /* of each worker */
#define SAME 1u	 /* this one of each is of the same principal */
#define SHARE 100u
#define HOUR_NS 3600000000000ull
#define WAIT_MS 300000
#define ROUNDS 2000u

static struct tenant tenant;
static struct budget *const budget = &tenant.pull_budget;
static struct late_principals late;
static struct budget_gates gates[CONNS], others[CONNS];
static const struct worker_env env = { .late_principals = &late, .workers = WORKERS };

/*
 * A worker whose connections, each but SAME of another principal, have a deferred request, which
 * waits, so that they can be woken.
 */
static struct side {
	struct worker worker;
	struct conn conns[CONNS];
	struct principal principals[CONNS];
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
		conn->client.worker = worker;
		conn->client.part = &worker->part;
		conn->client.wake = deferred_wake_client;
		conn->client.gates = number && i != SAME ? &others[i] : &gates[i];
		conn->pull_hold.client = &conn->client;
		conn->pull_hold.own = &conn->client.gates->pulls;
		conn->probes_answered = 1; /* BUDGET-3 */
		snprintf(side->principals[i].name, sizeof(side->principals[i].name), "uid=%u",
			 number && i != SAME ? CONNS + i : i);
		conn->client.principal = &side->principals[i];
		atomic_init(&conn->hello_done, true);
		TAILQ_INIT(&conn->deferred);
		TAILQ_INSERT_TAIL(&conn->deferred, &side->deferred[i], entry);
	}
}

static int setup(void **state)
{
	(void)state;
	late = (struct late_principals){ 0 };
	budget_init(budget, SHARE);
	budget_init(&tenant.build_budget, SHARE);
	for (unsigned int i = 0; i < CONNS; i++) {
		budget_gates_init(&gates[i]);
		budget_gates_init(&others[i]);
	}
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

static bool take(unsigned int side, unsigned int conn, uint64_t bytes)
{
	return budget_take(budget, hold_of(side, conn), bytes);
}

static void give(unsigned int side, unsigned int conn)
{
	budget_give(budget, hold_of(side, conn), hold_of(side, conn)->bytes);
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
	assert_true(take(0, 0, 100));
	assert_true(take(0, 2, 60));
	assert_false(take(1, 0, 70));
	assert_false(take(0, 1, 40));
	assert_false(take(1, 2, 30));
	assert_false(worker_look(&sides[1].worker));
	assert_false(mailbox_pending(&sides[1].worker.mailbox));
	give(0, 2);
	assert_int_equal(woken(&sides[0]), CONNS);
	assert_int_equal(woken(&sides[1]), CONNS);
	assert_true(mailbox_pending(&sides[1].worker.mailbox));
	assert_true(worker_look(&sides[1].worker));
	assert_int_equal(woken(&sides[1]), 0);
	assert_int_equal(woken(&sides[1]), CONNS);
	assert_false(worker_look(&sides[1].worker));
	/* The next two are the first worker's, which gives, and the other one's. */
	assert_true(take(1, 0, 70));
	assert_false(worker_look(&sides[0].worker));
	give(0, 0);
	assert_int_equal(woken(&sides[0]), 1);
	assert_int_equal(woken(&sides[0]), CONNS);
	assert_int_equal(woken(&sides[1]), CONNS);
	assert_true(worker_look(&sides[1].worker));
	assert_int_equal(woken(&sides[1]), 2);
	assert_true(take(1, 2, 30));
	assert_true(take(0, 1, 40));
	assert_int_equal(budget->all.passed, 140);
}

/* What is made from large items is woken by the other worker, too. */
static void builds_woken_by_the_other(void **state)
{
	struct budget_hold hold = { .client = &sides[0].conns[SAME].client,
				    .own = &gates[SAME].builds },
			   waits = { .client = &sides[1].conns[SAME].client,
				     .own = &gates[SAME].builds };

	(void)state;
	assert_true(budget_take(&tenant.build_budget, &hold, 60));
	assert_false(budget_take(&tenant.build_budget, &waits, 60));
	budget_give(&tenant.build_budget, &hold, 60);
	assert_true(worker_look(&sides[1].worker));
	assert_int_equal(woken(&sides[1]), SAME);
	assert_true(budget_take(&tenant.build_budget, &waits, 60));
}

/* The workers together hold no more than all may, and for one principal no more than it may. */
static void one_for_both(void **state)
{
	(void)state;
	assert_true(take(0, SAME, 100));
	assert_false(take(1, SAME, 1));
	assert_true(take(1, 0, 100));
	assert_false(take(0, 2, 1));
	assert_false(take(1, 2, 100));
	give(0, SAME);
	assert_false(take(1, 2, 100));
	assert_true(take(0, 2, 1));
	assert_false(budget_take_more(budget, hold_of(0, 3), 1));
	give(0, 2);
	assert_true(take(1, 2, 100));
	assert_false(take(1, SAME, 1));
	budget_leave(budget, hold_of(1, SAME));
	assert_false(budget_take_more(budget, hold_of(0, 3), 1));
	give(1, 0);
	assert_true(budget_take_more(budget, hold_of(0, 3), 100));
}

/* One PUT of a large value, as far as the memory for it. */
static void ask(struct side *side, unsigned int conn)
{
	static struct region region = { .geometry = { .value_max = SHARE } };
	static struct table table = { .region = &region };
	const struct request put = {
		.op = WIRE_PUT,
		.flags = WIRE_F_PULL,
		.key = (const uint8_t *)"k",
		.key_len = 1,
		.value_len = SHARE / 4,
	};
	struct response_list responses = { .poller = &side->worker.pollers[0] };

	side->worker.part.thread.table = &table;
	TAILQ_INIT(&side->conns[conn].deferred);
	assert_false(request_execute(&responses, &side->conns[conn], &put, 0, conn));
	assert_true(deferred_run(&side->worker));
}

/* BUDGET-4: a principal is late on all workers. */
static void late_on_both(void **state)
{
	const struct principal *other = sides[1].conns[2].client.principal;

	(void)state;
	assert_true(take(0, SAME, 10));
	pull_release(&sides[0].conns[SAME]);
	assert_true(late_principals_have(&late, sides[1].conns[SAME].client.principal, clock_ns()));
	assert_false(late_principals_have(&late, other, clock_ns()));
	assert_true(take(0, 0, 100));
	assert_true(take(0, 2, 100));
	ask(&sides[1], SAME);
	ask(&sides[1], 2);
	assert_true(hold_of(1, SAME)->late);
	assert_false(hold_of(1, 2)->late);
	assert_int_equal(budget->late.passed, hold_of(1, SAME)->wanted);
	assert_int_equal(sides[1].worker.stats.pulls_late, 1);
	budget_leave(budget, hold_of(1, SAME));
	budget_leave(budget, hold_of(1, 2));
	assert_int_equal(budget->late.passed, 0);
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
		bytes = 1 + random_below(side, i ? SHARE / 4 : SHARE);
	/* As when its principal becomes late, and is so no more. */
	budget_set_late(budget, hold, !random_below(side, 4));
	if (!budget_take(budget, hold, bytes))
		return;
	side->failed |= atomic_fetch_add(&all_hold, bytes) + bytes > BUDGET_SHARES * SHARE;
	side->turns[i] = 1 + (unsigned int)random_below(side, 3);
}

static void conn_give(struct side *side, unsigned int i)
{
	struct budget_hold *hold = &side->conns[i].pull_hold;

	atomic_fetch_sub(&all_hold, hold->bytes);
	budget_give(budget, hold, hold->bytes);
	side->rounds[i]--;
	/* The connection's next request. */
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

/* Values of all sizes: the sum stays below the shares, and each is stored at last. */
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
	assert_int_equal(budget->all.passed, 0);
	assert_int_equal(budget->late.passed, 0);
	assert_int_equal(budget->waits, 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(woken_by_the_other),
		CASE(builds_woken_by_the_other),
		CASE(one_for_both),
		CASE(late_on_both),
		CASE(threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
