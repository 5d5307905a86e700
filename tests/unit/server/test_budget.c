/* SPDX-License-Identifier: MIT */
/*
 * Tests of budgets, by that of pulls (B1 to B4 and B6 in server/net/budget.h): clients that never
 * serve a READ hold half of it at most, the others go on, and each that waits gets its turn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/net/deferred.h"
#include "server/net/budget.h"
#include "server/net/request.h"
#include "tests/support/test_clock.h"

#define BUDGET_BYTES 100u
#define CONNS (BUDGET_WAITING_MAX + 200)
#define HOUR_NS 3600000000000ull

static struct worker worker;
static struct poller poller;
static struct conn conns[CONNS];
static struct deferred deferred[CONNS];
static struct tenant tenant;
static struct late_principals late;
static const struct worker_env env = { .late_principals = &late };
static struct budget *const budget = &tenant.pull_budget;

/*
 * Each connection has a deferred request, which waits, so that it can be woken. They are of two
 * principals; from connection 10 on it is the one that may be late.
 */
static int setup(void **state)
{
	(void)state;
	/* What never was is long ago, on a machine that has just started, too. */
	test_clock_stop();
	test_clock_pass(HOUR_NS);
	test_clock_start();
	memset(&worker, 0, sizeof(worker));
	memset(conns, 0, sizeof(conns));
	TAILQ_INIT(&worker.deferred_conns);
	worker.env = &env;
	worker.part.tenant = &tenant;
	late = (struct late_principals){ 0 };
	budget_init(budget, BUDGET_BYTES, 1);
	poller.worker = &worker;
	for (unsigned int i = 0; i < CONNS; i++) {
		conns[i].poller = &poller;
		conns[i].part = &worker.part;
		conns[i].pull_hold.conn = &conns[i];
		conns[i].probes_answered = 1; /* B5 */
		strcpy(conns[i].principal.name, i < 10 ? "uid=1" : "uid=10");
		TAILQ_INIT(&conns[i].deferred);
		TAILQ_INSERT_TAIL(&conns[i].deferred, &deferred[i], entry);
	}
	return 0;
}

static enum budget_admission take(unsigned int conn, uint64_t bytes)
{
	return budget_take(budget, &conns[conn].pull_hold, bytes);
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

static unsigned int waiting(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < BUDGET_CLASSES; i++)
		n += budget->waiting_count[i];
	return n;
}

static void prove(unsigned int conn)
{
	assert_int_equal(take(conn, 1), BUDGET_ADMITTED);
	budget_give(budget, &conns[conn].pull_hold, true);
}

/* 80 clients that never serve a READ: they hold half, and those that do have the other half. */
static void beside_hostile_ones(void **state)
{
	unsigned int admitted = 0;

	(void)state;
	prove(100);
	prove(101);
	for (unsigned int i = 0; i < 80; i++)
		admitted += take(i, 10) == BUDGET_ADMITTED;
	assert_int_equal(admitted, 5);
	assert_int_equal(budget->held[BUDGET_UNPROVEN], BUDGET_BYTES / 2);
	for (unsigned int i = 0; i < 1000; i++) {
		assert_int_equal(take(100, 20), BUDGET_ADMITTED);
		assert_int_equal(take(101, 30), BUDGET_ADMITTED);
		budget_give(budget, &conns[100].pull_hold, true);
		budget_give(budget, &conns[101].pull_hold, true);
	}
	while (woken() < CONNS)
		;
	/* They are closed after a while: the next ones in the order of arrival. */
	for (unsigned int i = 0; i < 75; i++) {
		budget_give(budget, &conns[i].pull_hold, false);
		assert_int_equal(woken(), i + 5);
		assert_int_equal(take(i + 5, 10), BUDGET_ADMITTED);
		assert_int_equal(woken(), CONNS);
	}
	assert_int_equal(waiting(), 0);
}

/* While connections without a pull so far wait, the others leave them their half. */
static void new_ones_get_their_half(void **state)
{
	(void)state;
	prove(1);
	prove(2);
	assert_int_equal(take(1, 40), BUDGET_ADMITTED);
	assert_int_equal(take(2, 40), BUDGET_ADMITTED);
	assert_int_equal(take(3, 40), BUDGET_WAITS);
	budget_give(budget, &conns[1].pull_hold, true);
	assert_int_equal(woken(), 3);
	assert_int_equal(take(1, 40), BUDGET_WAITS);
	assert_int_equal(take(3, 40), BUDGET_ADMITTED);
	budget_give(budget, &conns[2].pull_hold, true);
	assert_int_equal(woken(), 1);
	assert_int_equal(take(1, 40), BUDGET_ADMITTED);
}

/* A value may take all of it, alone; later ones wait until it was served. */
static void as_large_as_the_budget(void **state)
{
	(void)state;
	prove(1);
	prove(3);
	assert_int_equal(take(1, 10), BUDGET_ADMITTED);
	assert_int_equal(take(2, BUDGET_BYTES), BUDGET_WAITS);
	assert_int_equal(take(3, 10), BUDGET_WAITS);
	assert_int_equal(woken(), CONNS);
	budget_give(budget, &conns[1].pull_hold, true);
	assert_true(woken() < CONNS);
	assert_true(woken() < CONNS);
	assert_int_equal(take(2, BUDGET_BYTES), BUDGET_ADMITTED);
	assert_int_equal(take(3, 10), BUDGET_WAITS);
	budget_give(budget, &conns[2].pull_hold, true);
	assert_int_equal(woken(), 3);
	assert_int_equal(take(3, 10), BUDGET_ADMITTED);
}

/* Of values that need the budget one after the other, the first that came is the next. */
static void large_ones_in_order(void **state)
{
	(void)state;
	prove(1);
	prove(2);
	assert_int_equal(take(1, 60), BUDGET_ADMITTED);
	assert_int_equal(take(3, 60), BUDGET_WAITS);
	assert_int_equal(take(2, 60), BUDGET_WAITS);
	budget_give(budget, &conns[1].pull_hold, true);
	assert_int_equal(take(1, 60), BUDGET_WAITS);
	assert_int_equal(take(2, 60), BUDGET_WAITS);
	assert_int_equal(take(3, 60), BUDGET_ADMITTED);
	while (woken() < CONNS)
		;
	budget_give(budget, &conns[3].pull_hold, true);
	assert_int_equal(woken(), 2);
	assert_int_equal(take(2, 60), BUDGET_ADMITTED);
	budget_give(budget, &conns[2].pull_hold, true);
	assert_int_equal(woken(), 1);
	assert_int_equal(take(1, 60), BUDGET_ADMITTED);
}

/* The queue is bounded; one that leaves it is forgotten. */
static void bounded(void **state)
{
	(void)state;
	assert_int_equal(take(0, 50), BUDGET_ADMITTED);
	for (unsigned int i = 1; i <= BUDGET_WAITING_MAX; i++)
		assert_int_equal(take(i, 50), BUDGET_WAITS);
	assert_int_equal(take(BUDGET_WAITING_MAX + 1, 50), BUDGET_REFUSED);
	assert_int_equal(take(BUDGET_WAITING_MAX, 50), BUDGET_WAITS);
	/* They take no place from those of the other class. */
	budget_class_set(budget, &conns[BUDGET_WAITING_MAX + 2].pull_hold, BUDGET_PROVEN);
	assert_int_equal(take(BUDGET_WAITING_MAX + 2, 60), BUDGET_WAITS);
	budget_leave(budget, &conns[BUDGET_WAITING_MAX + 2].pull_hold);
	budget_leave(budget, &conns[1].pull_hold);
	budget_leave(budget, &conns[1].pull_hold);
	assert_int_equal(take(BUDGET_WAITING_MAX + 1, 50), BUDGET_WAITS);
	budget_give(budget, &conns[0].pull_hold, false);
	budget_give(budget, &conns[0].pull_hold, false);
	assert_int_equal(woken(), 2);
	assert_int_equal(take(2, 50), BUDGET_ADMITTED);
	assert_int_equal(budget->held[BUDGET_UNPROVEN], 50);
}

/* What the one that is refused has held goes to those that wait. */
static void refused_with_some(void **state)
{
	(void)state;
	prove(CONNS - 1);
	assert_int_equal(take(CONNS - 1, 40), BUDGET_ADMITTED);
	assert_int_equal(take(0, 50), BUDGET_ADMITTED);
	for (unsigned int i = 1; i <= BUDGET_WAITING_MAX; i++)
		assert_int_equal(take(i, 50), BUDGET_WAITS);
	assert_int_equal(take(0, 70), BUDGET_REFUSED);
	assert_int_equal(woken(), 1);
	assert_int_equal(take(1, 50), BUDGET_ADMITTED);
}

/* One that needs more than it holds gives that back, and is the next to get what it needs. */
static void more_than_it_holds(void **state)
{
	(void)state;
	prove(1);
	prove(2);
	prove(3);
	assert_int_equal(take(1, 30), BUDGET_ADMITTED);
	assert_int_equal(take(2, 50), BUDGET_ADMITTED);
	assert_int_equal(take(3, 30), BUDGET_WAITS);
	assert_int_equal(take(1, 50), BUDGET_ADMITTED);
	assert_int_equal(budget->held[BUDGET_PROVEN], 100);
	assert_int_equal(take(1, 60), BUDGET_WAITS);
	assert_int_equal(budget->held[BUDGET_PROVEN], 50);
	assert_int_equal(take(3, 30), BUDGET_WAITS);
	budget_give(budget, &conns[2].pull_hold, true);
	assert_int_equal(woken(), 1);
	assert_int_equal(take(1, 60), BUDGET_ADMITTED);
	assert_int_equal(woken(), 3);
	assert_int_equal(take(3, 30), BUDGET_ADMITTED);
	assert_int_equal(waiting(), 0);
}

/* B2: as long as a class holds some, a value of more than half is not added to that. */
static void more_than_half_alone_in_its_class(void **state)
{
	(void)state;
	prove(3);
	assert_int_equal(take(1, 10), BUDGET_ADMITTED);
	assert_int_equal(take(2, 60), BUDGET_WAITS);
	budget_leave(budget, &conns[2].pull_hold);
	/* What the other class holds is no matter. */
	assert_int_equal(take(3, 60), BUDGET_ADMITTED);
}

/* B3: a value of more than half stops later ones of newcomers, too. */
static void newcomers_wait_behind_a_large_one(void **state)
{
	(void)state;
	prove(1);
	assert_int_equal(take(3, 10), BUDGET_ADMITTED);
	assert_int_equal(take(1, 95), BUDGET_WAITS);
	assert_int_equal(take(4, 10), BUDGET_WAITS);
	budget_give(budget, &conns[3].pull_hold, false);
	assert_int_equal(woken(), 1);
	assert_int_equal(take(1, 95), BUDGET_ADMITTED);
}

/* B2: the last value decides, and the class of one that holds memory stays. */
static void class_of_the_last_value(void **state)
{
	struct budget_hold *hold = &conns[1].pull_hold;

	(void)state;
	prove(1);
	assert_int_equal(take(1, 40), BUDGET_ADMITTED);
	budget_class_set(budget, hold, BUDGET_LATE);
	assert_int_equal(hold->class, BUDGET_PROVEN);
	budget_give(budget, hold, false);
	assert_int_equal(budget->held[BUDGET_PROVEN], 0);
	assert_int_equal(hold->class, BUDGET_UNPROVEN);
	budget_class_set(budget, hold, BUDGET_LATE);
	assert_int_equal(take(1, 1), BUDGET_ADMITTED);
	budget_give(budget, hold, false);
	assert_int_equal(hold->class, BUDGET_UNPROVEN);
}

/*
 * B6: principals that were late with a value hold an eighth, and nothing new while any other
 * waits; but one of them may be the only one.
 */
static void late_ones_are_the_last(void **state)
{
	(void)state;
	prove(1);
	for (unsigned int i = 10; i < 14; i++)
		budget_class_set(budget, &conns[i].pull_hold, BUDGET_LATE);
	assert_int_equal(take(10, BUDGET_BYTES), BUDGET_ADMITTED);
	assert_int_equal(take(2, 10), BUDGET_WAITS);
	assert_int_equal(take(11, 6), BUDGET_WAITS);
	budget_give(budget, &conns[10].pull_hold, false);
	assert_int_equal(woken(), 2);
	assert_int_equal(woken(), CONNS);
	assert_int_equal(take(11, 6), BUDGET_WAITS);
	assert_int_equal(take(2, 10), BUDGET_ADMITTED);
	assert_int_equal(woken(), 11);
	assert_int_equal(take(11, 6), BUDGET_ADMITTED);
	assert_int_equal(take(12, 6), BUDGET_ADMITTED);
	assert_int_equal(take(13, 1), BUDGET_WAITS);
	/* The others have all the rest. */
	assert_int_equal(take(1, 70), BUDGET_ADMITTED);
	assert_int_equal(take(3, 10), BUDGET_WAITS);
	budget_give(budget, &conns[11].pull_hold, true);
	assert_int_equal(woken(), 3);
	assert_int_equal(woken(), CONNS);
	assert_int_equal(take(13, 1), BUDGET_WAITS);
	/* One that is late no more waits as others do, behind them. */
	budget_class_set(budget, &conns[13].pull_hold, BUDGET_UNPROVEN);
	assert_int_equal(budget->waiting_count[BUDGET_LATE], 0);
	assert_int_equal(take(13, 1), BUDGET_WAITS);
	assert_int_equal(woken(), 3);
	assert_int_equal(take(3, 10), BUDGET_ADMITTED);
	assert_int_equal(woken(), 13);
	assert_int_equal(take(13, 1), BUDGET_ADMITTED);
	assert_int_equal(waiting(), 0);
}

/*
 * B6: one that is late gets no place in which it would delay a client that stores values one after
 * the other, unless that pauses.
 */
static void late_ones_keep_nobody_waiting(void **state)
{
	(void)state;
	worker.limits.pull_stall_ns = HOUR_NS;
	budget_class_set(budget, &conns[10].pull_hold, BUDGET_LATE);
	for (unsigned int i = 0; i < 100; i++) {
		assert_int_equal(take(1, 90), BUDGET_ADMITTED);
		assert_int_equal(take(10, 90), BUDGET_WAITS);
		budget_give(budget, &conns[1].pull_hold, true);
		assert_int_equal(woken(), CONNS);
	}
	/* Nor a small place, if that is missing then. */
	budget_leave(budget, &conns[10].pull_hold);
	assert_int_equal(take(10, 11), BUDGET_WAITS);
	budget_leave(budget, &conns[10].pull_hold);
	assert_int_equal(take(10, 10), BUDGET_ADMITTED);
	assert_int_equal(take(1, 90), BUDGET_ADMITTED);
	budget_give(budget, &conns[1].pull_hold, true);
	budget_give(budget, &conns[10].pull_hold, false);
	/* After a pause, once. */
	budget_class_set(budget, &conns[10].pull_hold, BUDGET_LATE);
	assert_int_equal(take(10, 90), BUDGET_WAITS);
	late_principals_add(&late, &conns[10].principal, UINT64_MAX);
	assert_true(budget_look(budget, &worker));
	assert_int_equal(woken(), CONNS);
	budget->used[0].at_ns -= HOUR_NS;
	assert_true(budget_look(budget, &worker));
	assert_int_equal(woken(), 10);
	assert_int_equal(take(10, 90), BUDGET_ADMITTED);
	assert_int_equal(take(1, 90), BUDGET_WAITS);
	budget_give(budget, &conns[10].pull_hold, false);
	assert_int_equal(woken(), 1);
	budget_class_set(budget, &conns[10].pull_hold, BUDGET_LATE);
	assert_int_equal(take(1, 90), BUDGET_ADMITTED);
	assert_int_equal(take(10, 90), BUDGET_WAITS);
	budget_give(budget, &conns[1].pull_hold, true);
	assert_int_equal(take(10, 90), BUDGET_WAITS);
	/* What is held that long is no pause. */
	budget_leave(budget, &conns[10].pull_hold);
	assert_int_equal(take(1, 90), BUDGET_ADMITTED);
	budget->used[0].at_ns -= HOUR_NS;
	assert_int_equal(take(10, 11), BUDGET_WAITS);
}

/* B6: what others have asked for lately, hold or await, counts: all of it, and each kind. */
static void late_ones_leave_room_for_all(void **state)
{
	(void)state;
	worker.limits.pull_stall_ns = HOUR_NS;
	for (unsigned int i = 10; i < 13; i++)
		budget_class_set(budget, &conns[i].pull_hold, BUDGET_LATE);
	/* Two hold some, none of them as much as all. */
	prove(1);
	assert_int_equal(take(1, 45), BUDGET_ADMITTED);
	assert_int_equal(take(2, 45), BUDGET_ADMITTED);
	assert_int_equal(take(10, 11), BUDGET_WAITS);
	budget_leave(budget, &conns[10].pull_hold);
	/* One of the first class waits. */
	assert_int_equal(take(3, 50), BUDGET_WAITS);
	budget_leave(budget, &conns[3].pull_hold);
	prove(3);
	assert_int_equal(take(3, 50), BUDGET_WAITS);
	assert_int_equal(take(10, 1), BUDGET_WAITS);
	budget_leave(budget, &conns[10].pull_hold);
	budget_leave(budget, &conns[3].pull_hold);
	budget_give(budget, &conns[1].pull_hold, true);
	budget_give(budget, &conns[2].pull_hold, false);
	/* What a newcomer holds is no pause either, however long it does. */
	assert_int_equal(take(2, 90), BUDGET_ADMITTED);
	budget->used[0].at_ns -= HOUR_NS;
	assert_int_equal(take(10, 11), BUDGET_WAITS);
	budget_leave(budget, &conns[10].pull_hold);
	budget_give(budget, &conns[2].pull_hold, true);
	assert_int_equal(take(10, 60), BUDGET_WAITS);
	budget_leave(budget, &conns[10].pull_hold);
	/* The largest of the values since the last pause counts, not the last one. */
	assert_int_equal(take(1, 90), BUDGET_ADMITTED);
	budget_give(budget, &conns[1].pull_hold, true);
	prove(1);
	assert_int_equal(take(10, 11), BUDGET_WAITS);
	budget_leave(budget, &conns[10].pull_hold);
	budget->used[0].at_ns -= HOUR_NS;
	prove(1);
	assert_int_equal(take(10, 11), BUDGET_ADMITTED);
	budget_give(budget, &conns[10].pull_hold, true);
	/* Nor a value that came in addition. */
	assert_true(budget_take_more(budget, &conns[1].pull_hold, 90));
	budget_give(budget, &conns[1].pull_hold, true);
	assert_int_equal(take(11, 11), BUDGET_WAITS);
	assert_int_equal(take(11, 10), BUDGET_ADMITTED);
}

/* B6: what a late principal used itself, before another one and after, keeps no room from it. */
static void late_ones_pause_for_others(void **state)
{
	(void)state;
	worker.limits.pull_stall_ns = HOUR_NS;
	budget_class_set(budget, &conns[11].pull_hold, BUDGET_LATE);
	assert_int_equal(take(10, 90), BUDGET_ADMITTED);
	budget_give(budget, &conns[10].pull_hold, true);
	assert_int_equal(take(11, 90), BUDGET_ADMITTED);
	budget_give(budget, &conns[11].pull_hold, false);
	budget_class_set(budget, &conns[11].pull_hold, BUDGET_LATE);
	assert_int_equal(take(1, 90), BUDGET_ADMITTED);
	budget_give(budget, &conns[1].pull_hold, true);
	assert_int_equal(take(10, 90), BUDGET_ADMITTED);
	budget_give(budget, &conns[10].pull_hold, true);
	assert_int_equal(take(11, 90), BUDGET_WAITS);
	budget->used[1].at_ns -= HOUR_NS;
	assert_int_equal(take(11, 90), BUDGET_ADMITTED);
}

/* B6: in a pause there is room for several small values, or one larger one; waiting is no pause. */
static void late_ones_in_a_pause(void **state)
{
	(void)state;
	worker.limits.pull_stall_ns = HOUR_NS;
	for (unsigned int i = 10; i < 14; i++)
		budget_class_set(budget, &conns[i].pull_hold, BUDGET_LATE);
	assert_int_equal(take(1, 100), BUDGET_ADMITTED);
	budget_give(budget, &conns[1].pull_hold, true);
	assert_int_equal(take(10, 6), BUDGET_WAITS);
	budget->used[0].at_ns -= HOUR_NS;
	assert_int_equal(take(10, 6), BUDGET_ADMITTED);
	assert_int_equal(take(11, 6), BUDGET_ADMITTED);
	assert_int_equal(take(12, 1), BUDGET_WAITS);
	assert_int_equal(take(1, 100), BUDGET_WAITS);
	budget->used[0].at_ns -= HOUR_NS;
	/* It gives up: until now it has waited. */
	budget_leave(budget, &conns[1].pull_hold);
	budget_give(budget, &conns[10].pull_hold, true);
	budget_give(budget, &conns[11].pull_hold, true);
	assert_int_equal(take(12, 13), BUDGET_WAITS);
}

/* B7: memory in addition is only what nobody waits for, and a part of all. */
static void several_of_one(void **state)
{
	struct budget_hold *hold = &conns[0].pull_hold;

	(void)state;
	assert_false(budget_take_more(budget, hold, 1)); /* it is not proven */
	assert_int_equal(take(0, 10), BUDGET_ADMITTED);
	budget_give(budget, hold, true);
	/* One value of any size that fits; further ones up to a part. */
	assert_true(budget_take_more(budget, hold, BUDGET_BYTES));
	assert_false(budget_take_more(budget, hold, 1));
	budget_give(budget, hold, true);
	assert_true(budget_take_more(budget, hold, BUDGET_BYTES / 2));
	assert_false(budget_take_more(budget, hold, 1));
	budget_give_part(budget, hold, BUDGET_BYTES / 2);
	assert_int_equal(hold->bytes, 0);
	assert_true(budget_take_more(budget, hold, 10));
	assert_true(budget_take_more(budget, hold, BUDGET_BYTES / BUDGET_MORE_PART - 10));
	assert_false(budget_take_more(budget, hold, 1));
	budget_give_part(budget, hold, 10);
	assert_int_equal(budget->held[BUDGET_PROVEN], BUDGET_BYTES / BUDGET_MORE_PART - 10);
	assert_true(budget_take_more(budget, hold, 10));
	/* Another one waits: nothing more, not what has just been given back either. */
	assert_int_equal(take(1, BUDGET_BYTES), BUDGET_WAITS);
	budget_give_part(budget, hold, 10);
	assert_false(budget_take_more(budget, hold, 1));
	budget_leave(budget, &conns[1].pull_hold);
	assert_true(budget_take_more(budget, hold, 1));
	/* One that waits itself gets nothing in addition. */
	assert_int_equal(take(2, BUDGET_BYTES / 2), BUDGET_ADMITTED);
	conns[3].pull_hold.class = BUDGET_PROVEN;
	assert_int_equal(take(3, BUDGET_BYTES), BUDGET_WAITS);
	assert_false(budget_take_more(budget, &conns[3].pull_hold, 1));
	budget_give(budget, &conns[2].pull_hold, true);
	assert_false(budget_take_more(budget, hold, 1)); /* though it would fit */
	budget_leave(budget, &conns[3].pull_hold);
	budget_give(budget, hold, true);
	assert_int_equal(budget->held[BUDGET_PROVEN], 0);
	/* Nor does one get more than is left. */
	assert_int_equal(take(2, BUDGET_BYTES - 10), BUDGET_ADMITTED);
	assert_false(budget_take_more(budget, hold, 11));
	assert_true(budget_take_more(budget, hold, 10));
}

/* A connection whose turn comes while its client takes no responses does not stop the others. */
static void without_room_for_a_response(void **state)
{
	static struct region region = { .geometry = { .value_max = BUDGET_BYTES } };
	static struct table table = { .region = &region };
	const struct request put = {
		.op = WIRE_PUT,
		.flags = WIRE_F_PULL,
		.key = (const uint8_t *)"k",
		.key_len = 1,
		.value_len = BUDGET_BYTES / 2,
	};
	struct response_list responses = { .poller = &poller };

	(void)state;
	worker.part.thread.table = &table;
	poller.deferred = deferred;
	poller.spare_buffers = 1;
	poller.spare_sends = 1;
	TAILQ_INIT(&conns[1].deferred);
	atomic_init(&conns[1].hello_done, true);
	assert_int_equal(take(0, 50), BUDGET_ADMITTED);
	assert_false(request_execute(&responses, &conns[1], &put, 0, 1));
	assert_true(deferred_run(&worker));
	assert_int_equal(take(2, 50), BUDGET_WAITS);
	poller.spare_buffers = 0;
	budget_give(budget, &conns[0].pull_hold, false);
	assert_true(deferred_run(&worker));
	assert_int_equal(woken(), 2);
	assert_int_equal(take(2, 50), BUDGET_ADMITTED);
	/* With room again, it waits behind those that came meanwhile. */
	poller.spare_buffers = 1;
	deferred_wake(&conns[1]);
	assert_true(deferred_run(&worker));
	assert_int_equal(woken(), CONNS);
	budget_give(budget, &conns[2].pull_hold, false);
	assert_int_equal(woken(), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(beside_hostile_ones, setup),
		cmocka_unit_test_setup(new_ones_get_their_half, setup),
		cmocka_unit_test_setup(as_large_as_the_budget, setup),
		cmocka_unit_test_setup(large_ones_in_order, setup),
		cmocka_unit_test_setup(bounded, setup),
		cmocka_unit_test_setup(refused_with_some, setup),
		cmocka_unit_test_setup(more_than_it_holds, setup),
		cmocka_unit_test_setup(more_than_half_alone_in_its_class, setup),
		cmocka_unit_test_setup(newcomers_wait_behind_a_large_one, setup),
		cmocka_unit_test_setup(class_of_the_last_value, setup),
		cmocka_unit_test_setup(late_ones_are_the_last, setup),
		cmocka_unit_test_setup(late_ones_keep_nobody_waiting, setup),
		cmocka_unit_test_setup(late_ones_leave_room_for_all, setup),
		cmocka_unit_test_setup(late_ones_pause_for_others, setup),
		cmocka_unit_test_setup(late_ones_in_a_pause, setup),
		cmocka_unit_test_setup(without_room_for_a_response, setup),
		cmocka_unit_test_setup(several_of_one, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
