/* SPDX-License-Identifier: MIT */
/*
 * Tests of the linearizability checker: histories known to be right and known to be wrong, its
 * values, recorder and explanations. Random histories are in
 * tests/linearizability/test_lin_random.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/linearizability/lin_exhaustive.h"

/* Short forms of operations. Times are small numbers; version 0: unknown. */

#define OP(call, ret, what, result, ...)                                                           \
	{                                                                                          \
		.call_ns = (call), .return_ns = (ret), .kind = LIN_##what, .status = LIN_##result, \
		__VA_ARGS__                                                                        \
	}
#define GET(call, ret, text, ver) OP(call, ret, GET, OK, .value = V(text), .version = (ver))
#define MISS(call, ret) OP(call, ret, GET, NOT_FOUND)
#define RANGE(call, ret, bytes, ver)                                                               \
	OP(call, ret, RANGE, OK, .value = { .len = (bytes) }, .version = (ver))
#define PUT(call, ret, text, ver) OP(call, ret, PUT, OK, .value = V(text), .version = (ver))
#define DEL(call, ret) OP(call, ret, DELETE, OK)
#define LOST(call, what, ...) OP(call, LIN_NEVER, what, UNKNOWN, __VA_ARGS__)
#define INCR(call, ret, delta, n, ver)                                                             \
	OP(call, ret, INCR, OK, .arg = (delta), .value = lin_number(n), .version = (ver))
#define CAS(call, ret, old, text, ver)                                                             \
	OP(call, ret, CAS, OK, .arg = (old), .value = V(text), .version = (ver))

#define CHECK(expected, at, is_vanishing, ...)                                                     \
	do {                                                                                       \
		struct lin_op ops_[] = { __VA_ARGS__ };                                            \
		expect(__LINE__, ops_, sizeof(ops_) / sizeof(*ops_), (expected), (at),             \
		       (is_vanishing));                                                            \
	} while (0)
#define RIGHT(...) CHECK(LIN_RIGHT, 0, false, __VA_ARGS__)
/* @at: the index of the operation at whose return the checker must fail. */
#define WRONG(at, ...) CHECK(LIN_WRONG, at, false, __VA_ARGS__)
#define RIGHT_VANISHING(...) CHECK(LIN_RIGHT, 0, true, __VA_ARGS__)
#define WRONG_VANISHING(at, ...) CHECK(LIN_WRONG, at, true, __VA_ARGS__)

static void expect(int line, struct lin_op *ops, size_t count, enum lin_verdict expected, size_t at,
		   bool vanish)
{
	struct lin_result result;
	enum lin_verdict got = check_verdict(ops, count, vanish, &result);

	if (got != expected) {
		check_print(ops, count, &result);
		fail_msg("line %d: verdict %d", line, got);
	}
	if (got == LIN_WRONG && result.op != &ops[at]) {
		check_print(ops, count, &result);
		fail_msg("line %d: found at another operation", line);
	}
	if (count <= EXHAUSTIVE_OPS_MAX &&
	    exhaustive_search(ops, count, vanish) != (expected == LIN_RIGHT))
		fail_msg("line %d: the exhaustive search has another verdict", line);
}

static void values_combine(void **state)
{
	struct lin_value v = V("hello, "), w = V("world");
	struct lin_value vw = V("hello, world"), none = V("");
	struct lin_value both;

	(void)state;
	both = lin_append(v, w);
	assert_true(lin_same(&both, &vw));
	both = lin_prepend(w, v);
	assert_true(lin_same(&both, &vw));
	both = lin_append(w, v);
	assert_false(lin_same(&both, &vw));
	both = lin_append(none, lin_append(v, none));
	assert_true(lin_same(&both, &v));
	v = lin_value("\0", 1);
	assert_false(lin_same(&v, &none));
	w = lin_value("\0\0", 2);
	assert_false(lin_same(&v, &w));
}

static void values_know_numbers(void **state)
{
	static const char *const texts[] = { "",   "0",	  "7",	  "007",
					     "x1", "42",  "1x",	  "18446744073709551615",
					     "-1", "999", "1000", "18446744073709551616",
					     "00", "1 ",  "/",	  "000000000000000000001" };
	const size_t n = sizeof(texts) / sizeof(*texts);
	struct lin_value a, b;
	char text[64];
	size_t i, j;

	(void)state;
	assert_true(V("007").is_number);
	assert_int_equal(V("007").number, 7);
	assert_true(V("18446744073709551615").number == UINT64_MAX);
	assert_false(V("18446744073709551616").is_number);
	assert_false(V("").is_number || V("x1").is_number || V("1 ").is_number || V("/").is_number);
	a = lin_number(UINT64_MAX);
	b = V("18446744073709551615");
	assert_true(lin_same(&a, &b));
	for (i = 0; i < n; i++) {
		for (j = 0; j < n; j++) {
			snprintf(text, sizeof(text), "%s%s", texts[i], texts[j]);
			a = lin_append(V(texts[i]), V(texts[j]));
			b = V(text);
			assert_true(lin_same(&a, &b));
			/* If a part has more than 20 digits and is no number, the whole is none. */
			assert_int_equal(a.is_number, b.is_number);
			assert_int_equal(a.number, b.number);
		}
	}
}

static void reads_and_puts(void **state)
{
	(void)state;
	RIGHT(PUT(0, 10, "a", 1), GET(20, 30, "a", 1), PUT(40, 50, "b", 2), GET(60, 70, "b", 2));
	RIGHT(MISS(0, 5), PUT(0, 10, "a", 1), GET(5, 15, "a", 1));
	/* GET overlaps PUT: it may return either value. */
	RIGHT(PUT(0, 10, "a", 1), PUT(20, 40, "b", 2), GET(25, 30, "a", 1));
	RIGHT(PUT(0, 10, "a", 1), PUT(20, 40, "b", 2), GET(25, 30, "b", 2));
	/* Two PUTs overlap: the versions give their order. */
	RIGHT(PUT(0, 50, "a", 2), PUT(10, 40, "b", 1), GET(60, 70, "a", 2));
	WRONG(2, PUT(0, 50, "a", 2), PUT(10, 40, "b", 1), GET(60, 70, "b", 1));
	/* Stale after an acknowledged PUT. */
	WRONG(2, PUT(0, 10, "a", 1), PUT(20, 30, "b", 2), GET(40, 50, "a", 1));
	/* One reader sees the new value, a later one the old, while the PUT is pending. */
	WRONG(3, PUT(0, 10, "a", 1), PUT(20, 90, "b", 2), GET(30, 40, "b", 2), GET(50, 60, "a", 1));
	RIGHT(PUT(0, 10, "a", 1), PUT(20, 90, "b", 2), GET(30, 50, "b", 2), GET(40, 60, "a", 1));
	/* Never written; written later; a miss while present. */
	WRONG(1, PUT(0, 10, "a", 1), GET(20, 30, "x", 1));
	WRONG(1, PUT(0, 10, "a", 1), GET(20, 30, "a", 2));
	WRONG(0, GET(0, 10, "a", 1), PUT(20, 30, "a", 1));
	WRONG(1, PUT(0, 10, "a", 1), MISS(20, 30));
	WRONG(2, PUT(0, 10, "a", 1), PUT(20, 50, "b", 2), MISS(30, 40));
	/* A return and a call at the same time overlap. */
	RIGHT(PUT(0, 10, "a", 1), MISS(10, 20));
	WRONG(1, PUT(0, 10, "a", 1), MISS(11, 20));
	/* NO_EFFECT changes nothing. */
	RIGHT(PUT(0, 10, "a", 1), OP(20, 30, PUT, NO_EFFECT, .value = V("b")), GET(40, 50, "a", 1));
	WRONG(2, PUT(0, 10, "a", 1), OP(20, 30, PUT, NO_EFFECT, .value = V("b")),
	      GET(40, 50, "b", 2));
}

static void deletes(void **state)
{
	(void)state;
	RIGHT(PUT(0, 10, "a", 5), DEL(20, 30), MISS(40, 50), PUT(60, 70, "b", 2));
	RIGHT(PUT(0, 10, "a", 5), DEL(20, 50), GET(30, 40, "a", 5));
	/* Resurrected. */
	WRONG(2, PUT(0, 10, "a", 5), DEL(20, 30), GET(40, 50, "a", 5));
	WRONG(3, PUT(0, 10, "a", 5), DEL(20, 90), MISS(30, 40), GET(50, 60, "a", 5));
	/* Nothing to delete; the same item deleted twice. */
	WRONG(0, DEL(0, 10));
	WRONG(2, PUT(0, 10, "a", 5), DEL(20, 30), DEL(40, 50));
	RIGHT(PUT(0, 10, "a", 5), DEL(20, 30), OP(40, 50, DELETE, NOT_FOUND));
	WRONG(1, PUT(0, 10, "a", 5), OP(20, 30, DELETE, NOT_FOUND));
	RIGHT(PUT(0, 10, "a", 5), OP(20, 30, FLUSH, OK), OP(40, 50, FLUSH, OK), MISS(60, 70));
	WRONG(2, PUT(0, 10, "a", 5), OP(20, 30, FLUSH, OK), GET(40, 50, "a", 5));
	/* A DELETE during a PUT allows the PUT a lower version. */
	RIGHT(PUT(0, 10, "a", 5), PUT(20, 90, "b", 2), DEL(30, 40), GET(50, 60, "b", 2));
}

static void conditions(void **state)
{
	(void)state;
	RIGHT(OP(0, 10, ADD, OK, .value = V("a"), .version = 1), OP(20, 30, ADD, EXISTS));
	WRONG(1, OP(0, 10, ADD, OK, .value = V("a"), .version = 1),
	      OP(20, 30, ADD, OK, .value = V("b"), .version = 2));
	WRONG(0, OP(0, 30, ADD, OK, .value = V("a"), .version = 1),
	      OP(5, 20, ADD, OK, .value = V("b"), .version = 2), GET(40, 50, "b", 2));
	RIGHT(OP(0, 10, ADD, OK, .value = V("a"), .version = 1), DEL(15, 25),
	      OP(20, 30, ADD, OK, .value = V("b"), .version = 2));
	WRONG(0, OP(0, 10, ADD, EXISTS));
	RIGHT(OP(0, 10, REPLACE, NOT_FOUND), PUT(20, 30, "a", 1),
	      OP(40, 50, REPLACE, OK, .value = V("b"), .version = 2), GET(60, 70, "b", 2));
	WRONG(0, OP(0, 10, REPLACE, OK, .value = V("b"), .version = 2));
	/* CAS. */
	RIGHT(PUT(0, 10, "a", 1), CAS(20, 30, 1, "b", 2), GET(40, 50, "b", 2));
	RIGHT(PUT(0, 10, "a", 1), CAS(20, 40, 1, "b", 2), OP(20, 40, CAS, EXISTS, .arg = 1));
	WRONG(1, PUT(0, 10, "a", 1), OP(20, 30, CAS, EXISTS, .arg = 1));
	RIGHT(OP(0, 10, CAS, NOT_FOUND, .arg = 1), PUT(20, 30, "a", 1));
	/* Two that expect the same version: an update is lost. */
	WRONG(2, PUT(0, 10, "a", 1), CAS(20, 40, 1, "b", 2), CAS(25, 45, 1, "c", 3));
	WRONG(3, PUT(0, 10, "a", 1), CAS(20, 30, 1, "b", 2), CAS(40, 50, 2, "c", 3),
	      GET(60, 70, "b", 2));
	RIGHT(PUT(0, 10, "a", 1), OP(20, 30, TOUCH, OK, .version = 1), GET(40, 50, "a", 1));
	WRONG(1, PUT(0, 10, "a", 1), OP(20, 30, TOUCH, OK, .version = 2), GET(40, 50, "a", 2));
	WRONG(1, PUT(0, 10, "a", 1), OP(20, 30, TOUCH, NOT_FOUND));
}

/* A part of a value tells the whole one's length and version. */
static void ranges_are_of_values(void **state)
{
	(void)state;
	RIGHT(PUT(0, 10, "abc", 1), RANGE(20, 30, 3, 1));
	WRONG(1, PUT(0, 10, "abc", 1), RANGE(20, 30, 2, 1));
	WRONG(1, PUT(0, 10, "abc", 1), RANGE(20, 30, 3, 2));
	WRONG(2, PUT(0, 10, "abc", 1), PUT(20, 30, "abc", 2), RANGE(40, 50, 3, 1));
	WRONG(1, PUT(0, 10, "abc", 1), OP(20, 30, RANGE, NOT_FOUND));
	/* A range shows a change whose end is unknown. */
	WRONG(3, PUT(0, 10, "abc", 1), LOST(20, PUT, .value = V("abcd")), RANGE(30, 40, 4, 2),
	      GET(50, 60, "abc", 1));
	RIGHT(PUT(0, 10, "abc", 1), LOST(20, RANGE), GET(30, 40, "abc", 1));
}

static void versions_grow(void **state)
{
	(void)state;
	WRONG(1, PUT(0, 10, "a", 5), PUT(20, 30, "b", 4));
	WRONG(1, PUT(0, 10, "a", 5), PUT(20, 30, "b", 5));
	RIGHT(PUT(0, 10, "a", 5), PUT(20, 30, "b", 0), PUT(40, 50, "c", 7));
	WRONG(2, PUT(0, 10, "a", 5), PUT(20, 30, "b", 0), PUT(40, 50, "c", 6));
	/* Only readers have the version, and must agree. */
	RIGHT(PUT(0, 10, "a", 0), GET(20, 30, "a", 0), GET(40, 50, "a", 3), GET(60, 70, "a", 3));
	WRONG(2, PUT(0, 10, "a", 0), GET(20, 30, "a", 4), GET(40, 50, "a", 3));
	WRONG(2, PUT(0, 10, "a", 0), OP(20, 30, CAS, EXISTS, .arg = 3), GET(40, 50, "a", 3));
	RIGHT(PUT(0, 10, "a", 0), OP(20, 30, CAS, EXISTS, .arg = 3), GET(40, 50, "a", 4));
	WRONG(3, PUT(0, 10, "a", 0), OP(20, 30, CAS, EXISTS, .arg = 2),
	      OP(40, 50, CAS, EXISTS, .arg = 1), GET(60, 70, "a", 2));
	WRONG(2, PUT(0, 10, "a", 0), OP(20, 30, CAS, EXISTS, .arg = 1), GET(40, 50, "a", 1));
	/* The failed CAS may apply to the version before the PUT or after it. */
	RIGHT(PUT(0, 10, "x", 0), PUT(20, 60, "a", 0), OP(20, 50, CAS, EXISTS, .arg = 3),
	      GET(70, 80, "a", 3));
	RIGHT(PUT(0, 10, "x", 0), PUT(20, 60, "a", 0), OP(20, 75, CAS, EXISTS, .arg = 5),
	      OP(70, 80, CAS, EXISTS, .arg = 3), GET(90, 100, "a", 5));
}

static void pieces_and_numbers(void **state)
{
	struct lin_op both[] = { PUT(0, 10, "m", 1),
				 OP(20, 40, APPEND, OK, .value = V("x"), .version = 2),
				 OP(20, 40, APPEND, OK, .value = V("y"), .version = 3),
				 OP(50, 60, PREPEND, OK, .value = V("w"), .version = 4) };

	(void)state;
	RIGHT(both[0], both[1], both[2], both[3], GET(70, 80, "wmxy", 4));
	WRONG(4, both[0], both[1], both[2], both[3], GET(70, 80, "wmyx", 4));
	WRONG(4, both[0], both[1], both[2], both[3], GET(70, 80, "wmx", 4));
	both[1].version = both[2].version = both[3].version = 0;
	RIGHT(both[0], both[1], both[2], both[3], GET(70, 80, "wmyx", 0));
	RIGHT(both[0], both[1], both[2], both[3], GET(70, 80, "wmxy", 0));
	WRONG(4, both[0], both[1], both[2], both[3], GET(70, 80, "mxyw", 0));
	WRONG(0, OP(0, 10, APPEND, OK, .value = V("x"), .version = 2));
	RIGHT(PUT(0, 10, "5", 1), INCR(20, 30, 3, 8, 2), GET(40, 50, "8", 2));
	/* A lost update: both begin with the same number. */
	WRONG(2, PUT(0, 10, "5", 1), INCR(20, 40, 1, 6, 2), INCR(20, 40, 1, 6, 3));
	RIGHT(PUT(0, 10, "5", 1), INCR(20, 40, 1, 7, 3), INCR(20, 40, 1, 6, 2));
	RIGHT(PUT(0, 10, "5", 1),
	      OP(20, 30, DECR, OK, .arg = 9, .value = lin_number(0), .version = 2));
	RIGHT(PUT(0, 10, "18446744073709551615", 1), INCR(20, 30, 2, 1, 2));
	RIGHT(PUT(0, 10, "ab", 1), OP(20, 30, INCR, NOT_NUMBER, .arg = 1), GET(40, 50, "ab", 1));
	WRONG(1, PUT(0, 10, "1", 1), OP(20, 30, INCR, NOT_NUMBER, .arg = 1));
	WRONG(1, PUT(0, 10, "ab", 1), INCR(20, 30, 1, 1, 2));
	RIGHT(PUT(0, 10, "1", 1), OP(20, 30, APPEND, OK, .value = V("05"), .version = 2),
	      INCR(40, 50, 1, 106, 3));
}

static void unknown_results(void **state)
{
	(void)state;
	/* Takes effect late; never; at once. */
	RIGHT(PUT(0, 10, "a", 1), LOST(20, PUT, .value = V("b")), GET(30, 40, "a", 1),
	      GET(50, 60, "b", 2), GET(70, 80, "b", 2));
	RIGHT(PUT(0, 10, "a", 1), LOST(20, PUT, .value = V("b")), GET(30, 40, "a", 1));
	RIGHT(PUT(0, 10, "a", 1), LOST(20, PUT, .value = V("b")), GET(30, 40, "b", 2));
	/* Undone; twice; before its call; with the old version; with two versions. */
	WRONG(3, PUT(0, 10, "a", 1), LOST(20, PUT, .value = V("b")), GET(30, 40, "b", 2),
	      GET(50, 60, "a", 1));
	WRONG(4, PUT(0, 10, "a", 1), LOST(20, PUT, .value = V("b")), GET(30, 40, "b", 2),
	      PUT(50, 60, "c", 3), GET(70, 80, "b", 4));
	WRONG(1, PUT(0, 10, "a", 1), GET(20, 30, "b", 2), LOST(40, PUT, .value = V("b")));
	WRONG(2, PUT(0, 10, "a", 1), LOST(20, PUT, .value = V("b")), GET(30, 40, "b", 1));
	WRONG(3, PUT(0, 10, "a", 1), LOST(20, PUT, .value = V("b")), GET(30, 40, "b", 2),
	      GET(50, 60, "b", 3));
	RIGHT(PUT(0, 10, "a", 1), LOST(20, DELETE), GET(30, 40, "a", 1), MISS(50, 60));
	WRONG(3, PUT(0, 10, "a", 1), LOST(20, DELETE), MISS(30, 40), GET(50, 60, "a", 1));
	RIGHT(PUT(0, 10, "5", 1), LOST(20, INCR, .arg = 2), INCR(30, 40, 1, 6, 2),
	      INCR(50, 60, 1, 9, 4));
	WRONG(4, PUT(0, 10, "5", 1), LOST(20, INCR, .arg = 2), INCR(30, 40, 1, 8, 3),
	      INCR(50, 60, 1, 9, 4), GET(70, 80, "11", 5));
	RIGHT(PUT(0, 10, "a", 1), LOST(20, CAS, .arg = 2, .value = V("c")), PUT(30, 40, "b", 2),
	      GET(50, 60, "c", 3));
	WRONG(3, PUT(0, 10, "a", 1), LOST(20, CAS, .arg = 9, .value = V("c")), PUT(30, 40, "b", 2),
	      GET(50, 60, "c", 3));
	RIGHT(PUT(0, 10, "a", 1), LOST(20, GET), LOST(20, APPEND, .value = V("x")),
	      LOST(20, APPEND, .value = V("y")), GET(30, 40, "a", 1), GET(50, 60, "ayx", 3));
	WRONG(4, PUT(0, 10, "a", 1), LOST(20, APPEND, .value = V("x")),
	      LOST(20, APPEND, .value = V("y")), GET(30, 40, "ay", 2), GET(50, 60, "axy", 3));
}

static void vanishing(void **state)
{
	(void)state;
	RIGHT_VANISHING(PUT(0, 10, "a", 1), MISS(20, 30), MISS(40, 50));
	RIGHT_VANISHING(PUT(0, 10, "a", 5), OP(20, 30, ADD, OK, .value = V("b"), .version = 2));
	RIGHT_VANISHING(PUT(0, 10, "a", 5), OP(20, 30, DELETE, NOT_FOUND), PUT(40, 50, "b", 2));
	/* A vanished item stays absent; an item that is present has the last value. */
	WRONG_VANISHING(2, PUT(0, 10, "a", 1), MISS(20, 30), GET(40, 50, "a", 1));
	WRONG_VANISHING(2, PUT(0, 10, "a", 1), PUT(20, 30, "b", 2), GET(40, 50, "a", 1));
	WRONG_VANISHING(3, PUT(0, 10, "a", 1), MISS(20, 30), OP(40, 50, REPLACE, NOT_FOUND),
			OP(60, 70, APPEND, OK, .value = V("x"), .version = 2));
	/* Without the option only items with an expiry vanish. */
	RIGHT(OP(0, 10, PUT, OK, .value = V("a"), .version = 1, .mortal = true), MISS(20, 30));
	WRONG(2, OP(0, 10, PUT, OK, .value = V("a"), .version = 1, .mortal = true), MISS(20, 30),
	      GET(40, 50, "a", 1));
	WRONG(2, OP(0, 10, PUT, OK, .value = V("a"), .version = 1, .mortal = true),
	      PUT(20, 30, "b", 2), MISS(40, 50));
	WRONG(2, OP(0, 10, PUT, OK, .value = V("a"), .version = 1, .mortal = true),
	      OP(20, 30, TOUCH, OK, .version = 1), MISS(40, 50));
	RIGHT(PUT(0, 10, "a", 1), OP(20, 30, TOUCH, OK, .version = 1, .mortal = true),
	      MISS(40, 50));
}

static void undecided_is_no_pass(void **state)
{
	enum { MANY = 20 };
	struct lin_op ops[LIN_PENDING_MAX + 3] = { PUT(0, 10, "a", 1) };
	struct lin_log log = { .ops = ops, .count = MANY };
	struct lin_options options = { .configs_max = 1000 };
	struct lin_result result;
	size_t i;

	(void)state;
	for (i = 1; i < sizeof(ops) / sizeof(*ops); i++) {
		ops[i] = (struct lin_op)LOST(20, APPEND, .value = lin_number(i * i));
		ops[i].client = (uint16_t)i;
	}
	ops[MANY - 1] = (struct lin_op)GET(30, 40, "never", 9);
	assert_int_equal(lin_check(&log, 1, &options, &result), 0);
	assert_int_equal(result.verdict, LIN_UNDECIDED);
	assert_ptr_equal(result.op, &ops[MANY - 1]);
	assert_true(result.configs_peak <= 1000);
	options.configs_max = 0;
	options.steps_max = 5000;
	assert_int_equal(lin_check(&log, 1, &options, &result), 0);
	assert_int_equal(result.verdict, LIN_UNDECIDED);
	assert_true(result.steps <= 5001);
	/* A wrong key takes precedence over an undecided one. */
	ops[0].key = 1;
	ops[MANY] = (struct lin_op)DEL(0, 10);
	ops[MANY].key = 2;
	for (i = 1; i < MANY; i++)
		ops[i].key = 1;
	log.count = MANY + 1;
	assert_int_equal(lin_check(&log, 1, &options, &result), 0);
	assert_int_equal(result.verdict, LIN_WRONG);
	assert_int_equal(result.key, 2);
	/* One more operation pending than there are slots. */
	for (i = 0; i <= LIN_PENDING_MAX; i++)
		ops[i] = (struct lin_op)LOST(20, PUT, .value = V("a"));
	log.count = LIN_PENDING_MAX;
	assert_int_equal(lin_check(&log, 1, NULL, &result), 0);
	assert_int_equal(result.verdict, LIN_RIGHT);
	log.count++;
	assert_int_equal(lin_check(&log, 1, NULL, &result), 0);
	assert_int_equal(result.verdict, LIN_UNDECIDED);
}

/* More than one version is ruled out, and then the item has one of them. */
static void doubt_is_no_pass(void **state)
{
	struct lin_op ops[] = { PUT(0, 10, "a", 0), OP(20, 30, CAS, EXISTS, .arg = 5),
				OP(40, 50, CAS, EXISTS, .arg = 7), GET(60, 70, "a", 7) };
	struct lin_result result;

	(void)state;
	assert_int_equal(check_verdict(ops, 4, false, &result), LIN_UNDECIDED);
	assert_int_equal(check_verdict(ops, 3, false, &result), LIN_RIGHT);
	ops[3] = (struct lin_op)GET(60, 70, "a", 5);
	assert_int_equal(check_verdict(ops, 4, false, &result), LIN_WRONG);
	ops[3] = (struct lin_op)PUT(60, 70, "b", 7);
	assert_int_equal(check_verdict(ops, 4, false, &result), LIN_RIGHT);
}

static void versions_are_unique(void **state)
{
	struct lin_op ops[] = { PUT(0, 10, "a", 1), GET(20, 30, "a", 1), PUT(40, 50, "b", 2),
				OP(60, 70, TOUCH, OK, .version = 2), GET(80, 90, "b", 2) };
	struct lin_log log = { .ops = ops, .count = 5 };
	struct lin_result result;

	(void)state;
	assert_int_equal(lin_check_versions(&log, 1, &result), 0);
	assert_int_equal(result.verdict, LIN_RIGHT);
	/* On another key, where lin_check() can't see it. */
	ops[2].key = ops[3].key = ops[4].key = 1;
	assert_int_equal(lin_check_versions(&log, 1, &result), 0);
	assert_int_equal(result.verdict, LIN_RIGHT);
	ops[2].version = ops[3].version = ops[4].version = 1;
	assert_int_equal(lin_check(&log, 1, NULL, &result), 0);
	assert_int_equal(result.verdict, LIN_RIGHT);
	assert_int_equal(lin_check_versions(&log, 1, &result), 0);
	assert_int_equal(result.verdict, LIN_WRONG);
	assert_true(result.op && result.other && result.op != result.other);
	/* Of two members. */
	assert_int_equal(lin_check_fleet_versions(&log, 1, &result), 0);
	assert_int_equal(result.verdict, LIN_RIGHT);
	ops[2].key = ops[3].key = ops[4].key = 0;
	assert_int_equal(lin_check_fleet_versions(&log, 1, &result), 0);
	assert_int_equal(result.verdict, LIN_WRONG);
	ops[2].key = ops[3].key = ops[4].key = 1;
	/* A reader of another key, or another value, with a version that is in use. */
	ops[2].version = ops[3].version = ops[4].version = 2;
	ops[1].version = 2;
	assert_int_equal(lin_check_versions(&log, 1, &result), 0);
	assert_int_equal(result.verdict, LIN_WRONG);
	ops[1].version = 1;
	ops[4].value = V("c");
	assert_int_equal(lin_check_versions(&log, 1, &result), 0);
	assert_int_equal(result.verdict, LIN_WRONG);
	assert_ptr_equal(result.op, &ops[4]);
	assert_ptr_equal(result.other, &ops[2]);
}

static void nonsense_is_refused(void **state)
{
	struct lin_op op = PUT(20, 10, "a", 1);
	struct lin_log log = { .ops = &op, .count = 1 };
	struct lin_result result;

	(void)state;
	assert_int_equal(lin_check(&log, 1, NULL, &result), -EINVAL);
	op.return_ns = 20;
	assert_int_equal(lin_check(&log, 1, NULL, &result), 0);
	op.status = LIN_NOT_FOUND;
	assert_int_equal(lin_check(&log, 1, NULL, &result), -EINVAL);
	op.status = LIN_UNKNOWN;
	assert_int_equal(lin_check(&log, 1, NULL, &result), -EINVAL);
	op.return_ns = LIN_NEVER;
	assert_int_equal(lin_check(&log, 1, NULL, &result), 0);
	log.failed = true;
	assert_int_equal(lin_check(&log, 1, NULL, &result), -EINVAL);
	assert_int_equal(lin_check_versions(&log, 1, &result), -EINVAL);
	assert_int_equal(lin_check(NULL, 0, NULL, &result), 0);
	assert_int_equal(result.verdict, LIN_RIGHT);
}

static void recorder_and_explanation(void **state)
{
	struct lin_value a = V("a"), b = V("b");
	struct lin_log logs[2];
	struct lin_result result;
	int64_t put, get;
	char *text;
	size_t size;
	FILE *out;

	(void)state;
	lin_log_init(&logs[0], 3);
	lin_log_init(&logs[1], 4);
	put = lin_call(&logs[0],
		       &(struct lin_op){ .call_ns = 5, .key = 9, .kind = LIN_PUT, .value = a });
	assert_int_equal(logs[0].ops[put].status, LIN_UNKNOWN);
	lin_return(&logs[0], put, 10, LIN_OK, 1, NULL);
	put = lin_call(&logs[0],
		       &(struct lin_op){ .call_ns = 20, .key = 9, .kind = LIN_PUT, .value = b });
	lin_return(&logs[0], put, 30, LIN_UNKNOWN, 0, NULL);
	lin_return(&logs[0], -ENOMEM, 30, LIN_OK, 0, NULL);
	get = lin_call(&logs[1], &(struct lin_op){ .call_ns = 100, .key = 9, .kind = LIN_GET });
	lin_return(&logs[1], get, 110, LIN_OK, 2, &b);
	get = lin_call(&logs[1], &(struct lin_op){ .call_ns = 200, .key = 9, .kind = LIN_GET });
	assert_int_equal(lin_check(logs, 2, NULL, &result), 0);
	assert_int_equal(result.verdict, LIN_RIGHT);
	lin_return(&logs[1], get, 210, LIN_OK, 1, &a);
	assert_int_equal(lin_check(logs, 2, NULL, &result), 0);
	assert_int_equal(result.verdict, LIN_WRONG);
	assert_int_equal(result.key, 9);
	assert_int_equal(result.returned_before, 2);
	assert_ptr_equal(result.op, &logs[1].ops[get]);
	assert_int_equal(result.states_kept, 1);
	assert_int_equal(result.states[0].version, 2);
	out = open_memstream(&text, &size);
	assert_non_null(out);
	lin_explain(out, &result);
	assert_int_equal(fclose(out), 0);
	assert_non_null(strstr(text, "WRONG: key 9: no order"));
	assert_non_null(strstr(text, "> client 4            0 ..         10  GET -> OK"));
	assert_non_null(strstr(text, "  client 3         -180 ..          ?  PUT"));
	assert_non_null(strstr(text, "1 possible state"));
	free(text);
	lin_log_release(&logs[0]);
	lin_log_release(&logs[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_combine),
		cmocka_unit_test(values_know_numbers),
		cmocka_unit_test(reads_and_puts),
		cmocka_unit_test(deletes),
		cmocka_unit_test(conditions),
		cmocka_unit_test(versions_grow),
		cmocka_unit_test(pieces_and_numbers),
		cmocka_unit_test(unknown_results),
		cmocka_unit_test(vanishing),
		cmocka_unit_test(undecided_is_no_pass),
		cmocka_unit_test(doubt_is_no_pass),
		cmocka_unit_test(versions_are_unique),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(recorder_and_explanation),
		cmocka_unit_test(ranges_are_of_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
