/* SPDX-License-Identifier: MIT */
/* Tests of the deadlines of connections, against a model that looks at all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/control/conn_timer.h"

#define CONNS 500
#define STEPS 200000

static const uint64_t delays_ns[CONN_TIMER_KINDS] = {
	[CONN_TIMER_HELLO] = 5000,
	[CONN_TIMER_KEEPALIVE] = 1500,
	[CONN_TIMER_FLUSH] = 100,
};
static struct conn_timers timers;
static struct conn conns[CONNS];

static int setup(void **state)
{
	(void)state;
	memset(conns, 0, sizeof(conns));
	conn_timers_init(&timers, delays_ns);
	return 0;
}

static void in_order_and_not_early(void **state)
{
	(void)state;
	conn_timer_set(&timers, &conns[0], CONN_TIMER_HELLO, 1);
	conn_timer_set(&timers, &conns[1], CONN_TIMER_HELLO, 2);
	conn_timer_set(&timers, &conns[2], CONN_TIMER_FLUSH, 3);
	assert_null(conn_timer_take(&timers, CONN_TIMER_FLUSH, 103));
	assert_ptr_equal(conn_timer_take(&timers, CONN_TIMER_FLUSH, 104), &conns[2]);
	assert_false(conn_timer_any(&timers, CONN_TIMER_FLUSH));
	assert_null(conn_timer_take(&timers, CONN_TIMER_HELLO, 5001));
	assert_ptr_equal(conn_timer_take(&timers, CONN_TIMER_HELLO, 6000), &conns[0]);
	assert_ptr_equal(conn_timer_take(&timers, CONN_TIMER_HELLO, 6000), &conns[1]);
	assert_null(conn_timer_take(&timers, CONN_TIMER_HELLO, UINT64_MAX));
}

static void one_deadline_at_a_time(void **state)
{
	(void)state;
	conn_timer_set(&timers, &conns[0], CONN_TIMER_HELLO, 1);
	conn_timer_set(&timers, &conns[0], CONN_TIMER_FLUSH, 1);
	assert_false(conn_timer_any(&timers, CONN_TIMER_HELLO));
	conn_timer_cancel(&timers, &conns[0]);
	conn_timer_cancel(&timers, &conns[0]);
	assert_false(conn_timer_any(&timers, CONN_TIMER_FLUSH));
	assert_null(conn_timer_take(&timers, CONN_TIMER_FLUSH, UINT64_MAX));
}

static uint64_t model_due[CONNS]; /* 0: none */
static enum conn_timer model_kind[CONNS];

/* Takes all that is due, which has to be exactly what the model says. */
static void take_all(enum conn_timer kind, uint64_t now_ns)
{
	struct conn *conn;
	unsigned int i;

	while ((conn = conn_timer_take(&timers, kind, now_ns))) {
		i = (unsigned int)(conn - conns);
		assert_int_equal(model_kind[i], kind);
		assert_true(model_due[i] && model_due[i] < now_ns);
		model_due[i] = 0;
	}
	for (i = 0; i < CONNS; i++)
		assert_false(model_due[i] && model_kind[i] == kind && model_due[i] < now_ns);
}

static void as_a_model(void **state)
{
	uint64_t now_ns = 1;
	unsigned int step, i;

	(void)state;
	srand(1);
	memset(model_due, 0, sizeof(model_due));
	for (step = 0; step < STEPS; step++) {
		now_ns += (unsigned int)rand() % 30;
		i = (unsigned int)rand() % CONNS;
		if (rand() % 4 == 0) {
			conn_timer_cancel(&timers, &conns[i]);
			model_due[i] = 0;
		} else {
			model_kind[i] = (enum conn_timer)(rand() % CONN_TIMER_KINDS);
			model_due[i] = now_ns + delays_ns[model_kind[i]];
			conn_timer_set(&timers, &conns[i], model_kind[i], now_ns);
		}
		if (rand() % 16 == 0)
			take_all((enum conn_timer)(rand() % CONN_TIMER_KINDS), now_ns);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(in_order_and_not_early, setup),
		cmocka_unit_test_setup(one_deadline_at_a_time, setup),
		cmocka_unit_test_setup(as_a_model, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
