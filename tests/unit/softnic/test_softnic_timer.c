/* SPDX-License-Identifier: MIT */
/* Tests of the timers of connection management, beside a plain model of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/rdma/softnic/timer.h"

#define TIMERS 100
#define STEPS 200000
#define MANY 100000

static const uint64_t delays_ns[SN_DELAY_COUNT] = { 1000000, SN_RETRY_MS * 1000000ull, 100000000,
						    SN_HANDSHAKE_MS * 1000000ull };

static struct sn_timers timers;

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static uint64_t model_first(const uint64_t *due)
{
	uint64_t first = 0;
	unsigned int i;

	for (i = 0; i < TIMERS; i++)
		if (due[i] && (!first || due[i] < first))
			first = due[i];
	return first;
}

/* Takes all that are due: in order, each once, and none that is not. */
static void take_due(uint64_t *due, struct sn_timer *set, uint64_t now)
{
	struct sn_timer *timer;
	uint64_t last = 0;

	while ((timer = sn_timers_take(&timers, now))) {
		uint64_t *expected = timer->owner;

		assert_ptr_equal(timer, &set[expected - due]);
		assert_int_equal(timer->when_ns, 0);
		assert_true(*expected && *expected <= now && *expected >= last);
		last = *expected;
		*expected = 0;
	}
	assert_true(!model_first(due) || model_first(due) > now);
}

static void test_model(void **state)
{
	static struct sn_timer set[TIMERS];
	static uint64_t due[TIMERS];
	uint64_t now = 1;
	uint32_t seed = 1;
	unsigned int i, step;

	(void)state;
	sn_timers_init(&timers);
	for (i = 0; i < TIMERS; i++)
		set[i].owner = &due[i];
	for (step = 0; step < STEPS; step++) {
		i = next_random(&seed) % TIMERS;
		now += next_random(&seed) % 2 ? next_random(&seed) : 0;
		if (next_random(&seed) % 4) {
			enum sn_delay delay = next_random(&seed) % SN_DELAY_COUNT;

			sn_timer_set(&timers, &set[i], delay, now);
			due[i] = now + delays_ns[delay];
		} else {
			sn_timer_cancel(&timers, &set[i]);
			due[i] = 0;
		}
		assert_int_equal(sn_timers_first_ns(&timers), model_first(due));
		if (step % 16 == 0)
			take_due(due, set, now);
	}
	take_due(due, set, now + 2 * delays_ns[SN_DELAY_HANDSHAKE]);
	assert_int_equal(sn_timers_first_ns(&timers), 0);
}

/* One that comes and goes beside many others costs what it costs alone, or this takes an hour. */
static void test_many(void **state)
{
	static struct sn_timer others[MANY];
	struct sn_timer timer = { .owner = NULL };
	unsigned int i;

	(void)state;
	sn_timers_init(&timers);
	for (i = 0; i < MANY; i++)
		sn_timer_set(&timers, &others[i], SN_DELAY_HANDSHAKE, 1);
	for (i = 0; i < MANY; i++) {
		sn_timer_set(&timers, &timer, SN_DELAY_SOON, 1);
		assert_null(sn_timers_take(&timers, 1));
		assert_ptr_equal(sn_timers_take(&timers, 1 + delays_ns[SN_DELAY_SOON]), &timer);
		sn_timer_set(&timers, &timer, SN_DELAY_HANDSHAKE, 1);
		sn_timer_cancel(&timers, &timer);
	}
	for (i = 0; i < MANY; i++)
		assert_ptr_equal(sn_timers_take(&timers, UINT64_MAX), &others[i]);
	assert_null(sn_timers_take(&timers, UINT64_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_model),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
