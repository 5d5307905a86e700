/* SPDX-License-Identifier: MIT */
/*
 * Tests of the answers to a client's numbered changes (ANSWER-1 to ANSWER-3 in
 * server/worker/answers.h): which numbers are executed, and what is answered to those that are sent
 * again.
 */
#include "server/worker/answers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define WRAP (1ull << 32)

static struct answers answers;
static uint64_t admitted;

/* A new connection of a client that has sent the changes below @next; the answers are new. */
static void begin(uint64_t next)
{
	answers_init(&answers, next);
	admitted = answers.last;
}

static enum change_kind admit(uint64_t number)
{
	return answers_admit(&answers, &admitted, (uint32_t)number);
}

/* An answer that only this number has. */
static struct wire_response answer_of(enum wire_op op, uint64_t number)
{
	return (struct wire_response){
		.op = (uint8_t)op,
		.status = number % 3 ? WIRE_OK : WIRE_EXISTS,
		.version = number << 8,
		.slot = number << 9 | 1,
		.arg64 = number << 10 | 1,
		.expires = (uint32_t)number + 7,
		.clock_ns = 1,
		.flags = WIRE_R_PINS,
		.value_len = 9,
	};
}

static void record(enum wire_op op, uint64_t number)
{
	const struct wire_response head = answer_of(op, number);

	answers_record(&answers, (uint32_t)number, &head);
}

static void execute(uint64_t number)
{
	assert_int_equal(admit(number), CHANGE_NEXT);
	record(WIRE_PUT, number);
}

static void assert_repeated(enum wire_op op, uint64_t number)
{
	const struct wire_response answer = answer_of(op, number);
	struct wire_response head = { .op = (uint8_t)op, .id = 5, .clock_ns = 2 };

	assert_int_equal(admit(number), CHANGE_OLD);
	assert_true(answers_repeat(&answers, (uint32_t)number, &head));
	assert_int_equal(head.flags, WIRE_R_REPEATED);
	assert_int_equal(head.op, op);
	assert_int_equal(head.id, 5);
	assert_int_equal(head.status, answer.status);
	assert_true(head.version == answer.version);
	/* Of a TOUCH it is a sum, for the connection that asked. */
	assert_true(head.slot == (op == WIRE_TOUCH ? 0 : answer.slot));
	assert_true(head.arg64 == answer.arg64);
	assert_int_equal(head.value_len, 0);
	assert_int_equal(head.expires, answer.expires);
	assert_int_equal(head.clock_ns, 2);
}

static void assert_unknown(uint64_t number)
{
	struct wire_response head = { .id = 5 };

	assert_int_equal(admit(number), CHANGE_OLD);
	assert_false(answers_repeat(&answers, (uint32_t)number, &head));
	assert_int_equal(head.status, WIRE_UNKNOWN);
	assert_int_equal(head.flags, 0);
}

static void each_is_executed_once(void **state)
{
	(void)state;
	begin(1);
	for (uint64_t n = 1; n <= 1000; n++) {
		execute(n);
		assert_repeated(WIRE_PUT, n);
		assert_int_equal(answers.last, n);
	}
	/* On the next connection. */
	admitted = answers.last;
	for (uint64_t n = 1000; n > 1000 - ANSWERS_MAX; n--)
		assert_repeated(WIRE_PUT, n);
	execute(1001);
}

static void every_operation_has_an_answer(void **state)
{
	static const enum wire_op ops[] = { WIRE_PUT,	WIRE_DELETE, WIRE_ARITH,
					    WIRE_TOUCH, WIRE_FLUSH,  WIRE_PING };

	(void)state;
	begin(1);
	for (unsigned int i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		assert_int_equal(admit(i + 1), CHANGE_NEXT);
		record(ops[i], i + 1);
	}
	admitted = answers.last;
	for (unsigned int i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		assert_repeated(ops[i], i + 1);
}

static void older_ones_are_unknown(void **state)
{
	(void)state;
	begin(1);
	for (uint64_t n = 1; n <= ANSWERS_MAX + 2; n++)
		execute(n);
	assert_unknown(1);
	assert_unknown(2);
	assert_repeated(WIRE_PUT, 3);
}

/* An older record of the client is gone: nothing that it may have had is executed anew. */
static void a_new_record_executes_what_was_never_sent(void **state)
{
	(void)state;
	begin(70);
	assert_unknown(69);
	assert_unknown(1);
	execute(70);
	assert_repeated(WIRE_PUT, 70);
	assert_unknown(69);
}

static void a_gap_is_refused(void **state)
{
	(void)state;
	begin(1);
	assert_int_equal(admit(2), CHANGE_WRONG);
	execute(1);
	execute(2);
	assert_int_equal(admit(4), CHANGE_WRONG);
	assert_int_equal(admit(3 + ANSWERS_MAX), CHANGE_WRONG);
	assert_int_equal(admit(WRAP - 1), CHANGE_WRONG);
	assert_int_equal(admit(1ull << 31), CHANGE_WRONG);
	execute(3);
}

static void outstanding_twice_is_refused(void **state)
{
	(void)state;
	begin(1);
	execute(1);
	assert_int_equal(admit(2), CHANGE_NEXT);
	assert_int_equal(admit(2), CHANGE_WRONG);
	assert_int_equal(admit(3), CHANGE_NEXT);
	assert_int_equal(admit(2), CHANGE_WRONG);
	record(WIRE_PUT, 2);
	assert_repeated(WIRE_PUT, 2);
	assert_int_equal(admit(3), CHANGE_WRONG);
}

/* The connection broke between the arrival and the execution. */
static void what_was_not_executed_is_the_next_one(void **state)
{
	(void)state;
	begin(1);
	execute(1);
	assert_int_equal(admit(2), CHANGE_NEXT);
	assert_int_equal(admit(3), CHANGE_NEXT);
	admitted = answers.last;
	assert_repeated(WIRE_PUT, 1);
	execute(2);
	execute(3);
}

static void numbers_wrap(void **state)
{
	const uint64_t wraps[] = { WRAP, 5 * WRAP, UINT64_MAX - WRAP + 1 };

	(void)state;
	for (unsigned int i = 0; i < sizeof(wraps) / sizeof(wraps[0]); i++) {
		uint64_t n = wraps[i] - 3;

		begin(n);
		for (; n <= wraps[i] + 3; n = wire_change_next(n))
			execute(n);
		assert_int_equal(answers.last, wraps[i] + 3);
		admitted = answers.last;
		for (n = wraps[i] - 3; n <= wraps[i] + 3; n = wire_change_next(n))
			assert_repeated(WIRE_PUT, n);
		assert_unknown(wraps[i] - 4);
		/* The number after the wrap is the next one of the one before it. */
		begin(wraps[i] + 1);
		assert_unknown(wraps[i] - 1);
		execute(wraps[i] + 1);
		assert_repeated(WIRE_PUT, wraps[i] + 1);
	}
}

/* An answer that is recorded after a later one takes nothing from the ring. */
static void a_late_answer(void **state)
{
	(void)state;
	begin(1);
	for (uint64_t n = 1; n <= ANSWERS_MAX + 1; n++)
		assert_int_equal(admit(n), CHANGE_NEXT);
	record(WIRE_PUT, 2);
	assert_unknown(1);
	record(WIRE_PUT, 1);
	assert_repeated(WIRE_PUT, 1);
	assert_int_equal(answers.last, 2);
	for (uint64_t n = 3; n <= ANSWERS_MAX + 1; n++)
		record(WIRE_PUT, n);
	record(WIRE_PUT, 1);
	assert_repeated(WIRE_PUT, ANSWERS_MAX + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_executed_once),
		cmocka_unit_test(every_operation_has_an_answer),
		cmocka_unit_test(older_ones_are_unknown),
		cmocka_unit_test(a_new_record_executes_what_was_never_sent),
		cmocka_unit_test(a_gap_is_refused),
		cmocka_unit_test(outstanding_twice_is_refused),
		cmocka_unit_test(what_was_not_executed_is_the_next_one),
		cmocka_unit_test(numbers_wrap),
		cmocka_unit_test(a_late_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
