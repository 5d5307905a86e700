/* SPDX-License-Identifier: MIT */
/*
 * Tests of budgets, by that of pulls (BUDGET-1, BUDGET-2, BUDGET-4 and BUDGET-5 in
 * server/worker/budget.h): a principal, and those that were late with a value, hold a share at
 * most, others have theirs beside it, and each that waits gets its turn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/worker/budget.h"
#include "server/worker/deferred.h"
#include "server/worker/request.h"

#define SHARE 100u
#define CONNS 400u
#define PRINCIPALS 4u /* connection i is one of principal i modulo this */

static struct worker worker;
static struct poller poller;
static struct conn conns[CONNS];
static struct deferred deferred[CONNS];
static struct budget_gates gates[PRINCIPALS];
static struct tenant tenant;
static struct late_principals late;
static const struct worker_env env = { .late_principals = &late };
static struct budget *const budget = &tenant.pull_budget;

/* Each connection has a deferred request, which waits, so that it can be woken. */
static int setup(void **state)
{
	(void)state;
	memset(&worker, 0, sizeof(worker));
	memset(conns, 0, sizeof(conns));
	TAILQ_INIT(&worker.deferred_conns);
	worker.env = &env;
	worker.part.tenant = &tenant;
	budget_init(budget, SHARE);
	for (unsigned int i = 0; i < PRINCIPALS; i++)
		budget_gates_init(&gates[i]);
	poller.worker = &worker;
	for (unsigned int i = 0; i < CONNS; i++) {
		conns[i].poller = &poller;
		conns[i].client.worker = &worker;
		conns[i].client.part = &worker.part;
		conns[i].client.wake = deferred_wake_client;
		conns[i].pull_hold.client = &conns[i].client;
		conns[i].pull_hold.own = &gates[i % PRINCIPALS].pulls;
		conns[i].probes_answered = 1; /* BUDGET-3 */
		TAILQ_INIT(&conns[i].deferred);
		TAILQ_INSERT_TAIL(&conns[i].deferred, &deferred[i], entry);
	}
	return 0;
}

/* Connection @number of principal @of. */
static unsigned int conn_of(unsigned int of, unsigned int number)
{
	return number * PRINCIPALS + of;
}

static struct budget_hold *hold_of(unsigned int conn)
{
	return &conns[conn].pull_hold;
}

static bool take(unsigned int conn, uint64_t bytes)
{
	return budget_take(budget, hold_of(conn), bytes);
}

static void give(unsigned int conn)
{
	budget_give(budget, hold_of(conn), hold_of(conn)->bytes);
}

/* The number of the connection that was woken first, which sleeps again; CONNS: none was. */
static unsigned int woken(void)
{
	struct conn *conn = TAILQ_FIRST(&worker.deferred_conns);

	if (!conn)
		return CONNS;
	TAILQ_REMOVE(&worker.deferred_conns, conn, deferred_entry);
	conn->deferred_runs = false;
	return (unsigned int)(conn - conns);
}

static int teardown(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < CONNS; i++) {
		budget_leave(budget, hold_of(i));
		give(i);
	}
	for (unsigned int i = 0; i < PRINCIPALS; i++) {
		assert_int_equal(gates[i].pulls.passed, 0);
		assert_true(TAILQ_EMPTY(&gates[i].pulls.waiting));
	}
	assert_int_equal(budget->waits, 0);
	assert_int_equal(budget->late.passed, 0);
	assert_int_equal(budget->all.passed, 0);
	assert_true(TAILQ_EMPTY(&budget->late.waiting));
	assert_true(TAILQ_EMPTY(&budget->all.waiting));
	return 0;
}

/*
 * BUDGET-1: 80 connections of one principal keep what they got; another one never waits for them.
 */
static void beside_a_hostile_one(void **state)
{
	unsigned int admitted = 0;

	(void)state;
	for (unsigned int i = 0; i < 80; i++)
		admitted += take(conn_of(0, i), 10);
	assert_int_equal(admitted, 10);
	for (unsigned int i = 0; i < 1000; i++) {
		assert_true(take(conn_of(1, 0), 30));
		assert_true(take(conn_of(1, 1), 70));
		assert_false(take(conn_of(1, 2), 1));
		budget_leave(budget, hold_of(conn_of(1, 2)));
		give(conn_of(1, 0));
		give(conn_of(1, 1));
	}
	assert_int_equal(woken(), CONNS);
	/* The principal's own connections have their turns in the order of arrival. */
	for (unsigned int i = 0; i < 70; i++) {
		give(conn_of(0, i));
		assert_int_equal(woken(), conn_of(0, i + 10));
		assert_true(take(conn_of(0, i + 10), 10));
		assert_int_equal(woken(), CONNS);
	}
}

/* BUDGET-1: one that serves a part now and then, and gets more as soon as a value has arrived. */
static void beside_a_slow_one(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 60; i++)
		assert_int_equal(take(conn_of(0, i), 40), i < 2);
	for (unsigned int i = 0; i < 50; i++) {
		give(conn_of(0, i));
		assert_int_equal(woken(), conn_of(0, i + 2));
		assert_true(take(conn_of(0, i + 2), 40));
		assert_true(take(conn_of(1, 0), SHARE));
		give(conn_of(1, 0));
	}
}

/* BUDGET-2: with two slow ones, a third one's turn comes after one value of either. */
static void beside_two_slow_ones(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 50; i++)
		for (unsigned int of = 0; of < 2; of++)
			assert_int_equal(take(conn_of(of, i), 50), i < 2);
	for (unsigned int i = 0; i < 40; i++) {
		assert_false(take(conn_of(2, 0), 50));
		give(conn_of(i % 2, i / 2));
		assert_int_equal(woken(), conn_of(2, 0));
		assert_true(take(conn_of(2, 0), 50));
		assert_int_equal(woken(), CONNS);
		give(conn_of(2, 0));
		assert_int_equal(woken(), conn_of(i % 2, i / 2 + 2));
		assert_true(take(conn_of(i % 2, i / 2 + 2), 50));
	}
}

/* At the last gate the first that came is the next, also if a later one would fit. */
static void in_the_order_of_arrival(void **state)
{
	(void)state;
	assert_true(take(conn_of(0, 0), 90));
	assert_true(take(conn_of(1, 0), 60));
	assert_false(take(conn_of(2, 0), 100));
	assert_false(take(conn_of(3, 0), 50));
	assert_false(take(conn_of(1, 1), 10));
	/* What does not fit the share of its own principal stops nobody else. */
	assert_false(take(conn_of(1, 2), 60));
	assert_int_equal(woken(), CONNS);
	give(conn_of(0, 0));
	assert_int_equal(woken(), conn_of(2, 0));
	assert_int_equal(woken(), CONNS);
	assert_false(take(conn_of(3, 0), 50));
	assert_int_equal(woken(), conn_of(2, 0));
	assert_true(take(conn_of(2, 0), 100));
	assert_int_equal(woken(), CONNS);
	/* Connections for which there is room together have their turn together. */
	give(conn_of(1, 0));
	assert_int_equal(woken(), conn_of(3, 0));
	assert_int_equal(woken(), conn_of(1, 1));
	assert_int_equal(woken(), CONNS);
	assert_false(take(conn_of(1, 2), 60));
	assert_true(take(conn_of(1, 1), 10));
	/* One that gives up lets the next one come. */
	while (woken() < CONNS)
		;
	budget_leave(budget, hold_of(conn_of(3, 0)));
	assert_int_equal(woken(), conn_of(1, 2));
	assert_true(take(conn_of(1, 2), 60));
}

/*
 * BUDGET-2: where all that wait fit together, none of them waits for the turns of those before it.
 */
static void nobody_waits_for_turns(void **state)
{
	(void)state;
	assert_true(take(conn_of(0, 0), SHARE));
	for (unsigned int i = 1; i < 90; i++)
		assert_false(take(conn_of(0, i), 1));
	give(conn_of(0, 0));
	assert_true(take(conn_of(1, 0), SHARE));
	assert_true(budget_take_more(budget, hold_of(conn_of(2, 0)), SHARE - 89));
	assert_true(take(conn_of(0, 30), 1));
	for (unsigned int i = 1; i <= BUDGET_MOVES_MAX; i++)
		assert_int_equal(woken(), conn_of(0, i));
	give(conn_of(1, 0));
	give(conn_of(2, 0));
}

/* Very many that come to the next gate at once: not all in one go, and each has its turn. */
static void many_at_once(void **state)
{
	unsigned int first = 1, last = 3 * BUDGET_MOVES_MAX;

	(void)state;
	assert_true(take(conn_of(0, 0), SHARE));
	for (unsigned int i = first; i <= last; i++)
		assert_false(take(conn_of(0, i), 1));
	give(conn_of(0, 0));
	assert_int_equal(gates[0].pulls.passed, BUDGET_MOVES_MAX);
	for (unsigned int i = first; i <= last; i++) {
		assert_int_equal(woken(), conn_of(0, i));
		assert_true(take(conn_of(0, i), 1));
	}
	assert_int_equal(budget->all.passed, last);
	assert_int_equal(budget->waits, 0);
}

/* One that needs more than it holds gives that back, and is the next to get what it needs. */
static void more_than_it_holds(void **state)
{
	(void)state;
	assert_true(take(conn_of(0, 0), 30));
	assert_true(take(conn_of(0, 1), 50));
	assert_false(take(conn_of(0, 2), 30));
	assert_true(take(conn_of(0, 0), 50));
	assert_int_equal(budget->all.passed, 100);
	assert_false(take(conn_of(0, 0), 60));
	assert_int_equal(budget->all.passed, 50);
	assert_false(take(conn_of(0, 2), 30));
	give(conn_of(0, 1));
	assert_int_equal(woken(), conn_of(0, 0));
	assert_true(take(conn_of(0, 0), 60));
	assert_int_equal(woken(), conn_of(0, 2));
	assert_true(take(conn_of(0, 2), 30));
	/* At the last gate, too. */
	assert_true(take(conn_of(1, 0), 60));
	assert_true(take(conn_of(3, 0), 50));
	assert_false(take(conn_of(2, 0), 60));
	assert_false(take(conn_of(1, 0), 80));
	assert_int_equal(woken(), CONNS);
	give(conn_of(0, 0));
	assert_int_equal(woken(), conn_of(1, 0));
	assert_true(take(conn_of(1, 0), 80));
	give(conn_of(3, 0));
	assert_int_equal(woken(), conn_of(2, 0));
}

/* One that waits for another size from now on waits as if it had come now. */
static void another_size(void **state)
{
	(void)state;
	assert_true(take(conn_of(0, 0), 90));
	assert_false(take(conn_of(0, 1), 20));
	assert_false(take(conn_of(0, 2), 10));
	assert_false(take(conn_of(0, 1), 5));
	assert_int_equal(budget->waits, 2);
	assert_int_equal(woken(), conn_of(0, 2));
	assert_true(take(conn_of(0, 2), 10));
	give(conn_of(0, 0));
	assert_int_equal(woken(), conn_of(0, 1));
	assert_true(take(conn_of(0, 1), 5));
}

/* BUDGET-4: all late ones together hold a share, each of them no more than before. */
static void late_ones_share(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 10; i++)
		for (unsigned int of = 0; of < 3; of++)
			budget_set_late(budget, hold_of(conn_of(of, i)), true);
	assert_true(take(conn_of(0, 0), 40));
	assert_true(take(conn_of(1, 0), 40));
	assert_false(take(conn_of(2, 0), 40));
	assert_false(take(conn_of(0, 1), 10));
	/* The others have all the rest. */
	assert_true(take(conn_of(3, 0), SHARE));
	give(conn_of(3, 0));
	assert_int_equal(woken(), CONNS);
	give(conn_of(0, 0));
	assert_int_equal(woken(), conn_of(2, 0));
	assert_true(take(conn_of(2, 0), 40));
	assert_int_equal(woken(), conn_of(0, 1));
	assert_true(take(conn_of(0, 1), 10));
	/* What is late no more goes by no late one. */
	budget_set_late(budget, hold_of(conn_of(0, 2)), false);
	assert_true(take(conn_of(0, 2), 90));
	assert_false(take(conn_of(0, 3), 10));
}

/* BUDGET-4: what waits when its principal becomes late waits anew; what is held stays. */
static void late_while_it_waits(void **state)
{
	(void)state;
	assert_true(take(conn_of(0, 0), SHARE));
	assert_true(take(conn_of(1, 0), SHARE));
	assert_false(take(conn_of(2, 0), 50));
	assert_false(take(conn_of(3, 0), 50));
	budget_set_late(budget, hold_of(conn_of(1, 0)), true);
	assert_false(hold_of(conn_of(1, 0))->late);
	budget_set_late(budget, hold_of(conn_of(2, 0)), true);
	assert_int_equal(hold_of(conn_of(2, 0))->wanted, 0);
	assert_false(take(conn_of(2, 0), 50));
	assert_int_equal(budget->late.passed, 50);
	give(conn_of(0, 0));
	assert_int_equal(woken(), conn_of(3, 0));
	assert_true(take(conn_of(3, 0), 50));
	assert_int_equal(woken(), conn_of(2, 0));
	assert_true(take(conn_of(2, 0), 50));
	give(conn_of(2, 0));
	assert_int_equal(budget->late.passed, 0);
	/* Beside all that it held before, it gets no more. */
	budget_set_late(budget, hold_of(conn_of(1, 1)), true);
	assert_false(take(conn_of(1, 1), 1));
	assert_int_equal(budget->all.passed, 150);
}

/* BUDGET-5: memory in addition is only what nobody waits for, and a part of a share. */
static void several_of_one(void **state)
{
	struct budget_hold *hold = hold_of(0);

	(void)state;
	/* One value of any size that fits; further ones up to a part. */
	assert_true(budget_take_more(budget, hold, SHARE));
	assert_false(budget_take_more(budget, hold, 1));
	give(0);
	assert_true(budget_take_more(budget, hold, SHARE / 2));
	assert_false(budget_take_more(budget, hold, 1));
	budget_give(budget, hold, SHARE / 2);
	assert_int_equal(hold->bytes, 0);
	assert_true(budget_take_more(budget, hold, 10));
	assert_true(budget_take_more(budget, hold, SHARE / BUDGET_MORE_PART - 10));
	assert_false(budget_take_more(budget, hold, 1));
	budget_give(budget, hold, 10);
	assert_int_equal(budget->all.passed, SHARE / BUDGET_MORE_PART - 10);
	/* Another one of its principal waits: nothing more, though it would fit. */
	assert_false(take(conn_of(0, 1), SHARE));
	assert_false(budget_take_more(budget, hold, 1));
	assert_false(budget_take_more(budget, hold_of(conn_of(0, 1)), 1));
	budget_leave(budget, hold_of(conn_of(0, 1)));
	assert_true(budget_take_more(budget, hold, 1));
	/* One waits at the last gate. */
	assert_true(take(conn_of(1, 0), SHARE));
	assert_true(take(conn_of(2, 0), 80));
	assert_false(budget_take_more(budget, hold, 5)); /* there is no room */
	assert_true(budget_take_more(budget, hold, 4));
	assert_false(take(conn_of(3, 0), 10));
	budget_give(budget, hold, 5);
	assert_false(budget_take_more(budget, hold, 5));
	budget_leave(budget, hold_of(conn_of(3, 0)));
	assert_true(budget_take_more(budget, hold, 5));
	/* One that waits for its own share stops nobody else. */
	assert_false(take(conn_of(1, 1), 10));
	assert_true(hold->bytes < SHARE / BUDGET_MORE_PART);
	budget_give(budget, hold, 5);
	assert_true(budget_take_more(budget, hold, 5));
	/* Nor a late one, and none gets more in its own share than that. */
	give(0);
	give(conn_of(1, 0));
	give(conn_of(2, 0));
	budget_leave(budget, hold_of(conn_of(1, 1)));
	assert_true(take(conn_of(0, 1), 95));
	assert_false(budget_take_more(budget, hold, 6));
	assert_true(budget_take_more(budget, hold, 5));
	give(0);
	budget_set_late(budget, hold, true);
	assert_false(budget_take_more(budget, hold, 5));
}

/* BUDGET-5: one that waits gets nothing in addition, when its turn has come either. */
static void nothing_more_for_one_that_waits(void **state)
{
	struct budget_hold *hold = hold_of(conn_of(2, 0));

	(void)state;
	assert_true(take(conn_of(0, 0), SHARE));
	assert_true(take(conn_of(1, 0), SHARE));
	assert_false(take(conn_of(2, 0), 10));
	give(conn_of(0, 0));
	assert_false(budget_take_more(budget, hold, 10));
	assert_true(take(conn_of(2, 0), 10));
	assert_true(budget_take_more(budget, hold, 10));
}

/* A connection whose turn comes while its client takes no responses does not stop the others. */
static void without_room_for_a_response(void **state)
{
	static struct region region = { .geometry = { .value_max = SHARE } };
	static struct table table = { .region = &region };
	const unsigned int a = conn_of(0, 0), b = conn_of(0, 1), c = conn_of(0, 2);
	const struct request put = {
		.op = WIRE_PUT,
		.flags = WIRE_F_PULL,
		.key = (const uint8_t *)"k",
		.key_len = 1,
		.value_len = SHARE / 2,
	};
	struct response_list responses = { .poller = &poller };

	(void)state;
	worker.part.thread.table = &table;
	poller.deferred = deferred;
	poller.spare_buffers = 1;
	poller.spare_sends = 1;
	TAILQ_INIT(&conns[b].deferred);
	atomic_init(&conns[b].hello_done, true);
	assert_true(take(a, SHARE));
	assert_false(request_execute(&responses, &conns[b], &put, 0, 1));
	assert_true(deferred_run(&worker));
	assert_false(take(c, 50));
	poller.spare_buffers = 0;
	give(a);
	assert_true(deferred_run(&worker));
	assert_int_equal(woken(), c);
	assert_true(take(c, SHARE / 2));
	/* With room again, it waits for those that came meanwhile. */
	poller.spare_buffers = 1;
	deferred_wake(&conns[b]);
	assert_true(deferred_run(&worker));
	assert_int_equal(woken(), CONNS);
	give(c);
	assert_int_equal(woken(), b);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(beside_a_hostile_one),
		CASE(beside_a_slow_one),
		CASE(beside_two_slow_ones),
		CASE(in_the_order_of_arrival),
		CASE(nobody_waits_for_turns),
		CASE(many_at_once),
		CASE(more_than_it_holds),
		CASE(another_size),
		CASE(late_ones_share),
		CASE(late_while_it_waits),
		CASE(several_of_one),
		CASE(nothing_more_for_one_that_waits),
		CASE(without_room_for_a_response),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
