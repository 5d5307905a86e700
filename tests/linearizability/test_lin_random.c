/* SPDX-License-Identifier: MIT */
/*
 * Tests of the linearizability checker with random histories: small ones against an exhaustive
 * search (tests/linearizability/lin_exhaustive.h); large simulated ones, unchanged and with one
 * result changed; and the steps that the checker takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/linearizability/lin_exhaustive.h"

#define SMALL_ROUNDS 6000
#define CLIENTS 8

static uint64_t seed = 88172645463325252u;

static uint64_t random_next(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed >> 11;
}

static unsigned int below(unsigned int n)
{
	return (unsigned int)(random_next() % n);
}

static bool one_in(unsigned int n)
{
	return below(n) == 0;
}
enum mix { STRICT, VANISHING, MORTAL, NO_DELETES, MIXES };

static const char *const texts[] = { "a", "b", "7", "12" };

static struct lin_op random_call(enum mix mix)
{
	struct lin_op op = { .kind = (uint8_t)below(LIN_KINDS), .value = V(texts[below(4)]) };

	if (one_in(3))
		op.kind = one_in(2) ? LIN_GET : LIN_PUT;
	if (mix == NO_DELETES && (op.kind == LIN_DELETE || op.kind == LIN_FLUSH))
		op.kind = LIN_GET;
	if (op.kind == LIN_INCR || op.kind == LIN_DECR)
		op.arg = below(10);
	if (op.kind == LIN_INCR || op.kind == LIN_DECR || op.kind == LIN_GET ||
	    op.kind == LIN_RANGE)
		op.value = V("");
	op.mortal = mix == MORTAL && one_in(2) &&
		    ((op.kind >= LIN_PUT && op.kind <= LIN_CAS) || op.kind == LIN_TOUCH);
	return op;
}

/* Executes @op on @item and fills in its result; a write gets @version or a higher one. */
static void execute(struct model_item *item, struct lin_op *op, uint64_t version)
{
	op->status = LIN_OK;
	if (op->kind == LIN_CAS && item->present && op->arg != item->version)
		op->status = LIN_EXISTS;
	else if (op->kind == LIN_ADD && item->present)
		op->status = LIN_EXISTS;
	else if ((op->kind == LIN_INCR || op->kind == LIN_DECR) && item->present &&
		 !item->value.is_number)
		op->status = LIN_NOT_NUMBER;
	else if (!model_apply(item, op))
		op->status = LIN_NOT_FOUND;
	if (op->status != LIN_OK)
		return;
	if (model_changes(op->kind))
		item->version = version;
	if (op->kind == LIN_GET || op->kind == LIN_INCR || op->kind == LIN_DECR)
		op->value = item->value;
	if (op->kind == LIN_RANGE)
		op->value.len = item->value.len;
	op->version = item->version;
}

/* The response is lost: nothing of the result may remain in the record. */
static void lose_response(struct lin_op *op)
{
	op->status = LIN_UNKNOWN;
	op->return_ns = LIN_NEVER;
	op->version = 0;
}

/* Makes @count operations on one item with overlapping intervals, executed one by one in them. */
static void small_history(struct lin_op *ops, unsigned int count, enum mix mix)
{
	struct model_item item = { .present = false };
	uint64_t now;
	unsigned int i;

	for (i = 0; i < count; i++) {
		if ((mix == VANISHING || item.mortal) && one_in(6))
			item = (struct model_item){ .present = false };
		ops[i] = random_call(mix);
		if (i == 0 && one_in(2))
			ops[i].kind = LIN_PUT;
		if (ops[i].kind == LIN_CAS)
			ops[i].arg = one_in(3) ? 1 + below(9) : item.version;
		now = 100 + 10 * i;
		ops[i].call_ns = now - below(30);
		ops[i].return_ns = now + below(30);
		ops[i].client = (uint16_t)i;
		if (one_in(20)) {
			ops[i].status = LIN_NO_EFFECT;
			continue;
		}
		if (one_in(8)) {
			if (one_in(2))
				execute(&item, &ops[i], item.version + 1 + below(3));
			lose_response(&ops[i]);
			continue;
		}
		execute(&item, &ops[i], item.version + 1 + below(3));
		if (one_in(10))
			ops[i].version = 0;
	}
}

/* Changes a result, or its time, to another one that the kind can have. */
static void spoil(struct lin_op *ops, unsigned int count)
{
	static const uint8_t other[] = { LIN_OK, LIN_NOT_FOUND, LIN_EXISTS, LIN_NOT_NUMBER };
	struct lin_op *op = &ops[below(count)], was = *op;
	struct lin_log log = { .ops = op, .count = 1 };
	struct lin_result result;

	if (op->status == LIN_UNKNOWN || op->status == LIN_NO_EFFECT)
		return;
	switch (below(4)) {
	case 0:
		op->status = other[below(4)];
		break;
	case 1:
		op->version = 1 + below(12);
		break;
	case 2:
		op->value = V(texts[below(4)]);
		break;
	default:
		op->return_ns -= (op->return_ns - op->call_ns) / 2;
		op->call_ns += 40;
		op->return_ns += 40;
		break;
	}
	if (lin_check(&log, 1, NULL, &result)) /* its kind does not have that status */
		*op = was;
}

static void small_histories(enum mix mix)
{
	unsigned int round, spoiled, count, right = 0, wrong = 0, undecided = 0;
	struct lin_op ops[EXHAUSTIVE_OPS_MAX];
	struct lin_result result;
	enum lin_verdict got;
	bool expected;

	for (round = 0; round < SMALL_ROUNDS; round++) {
		count = 1 + below(EXHAUSTIVE_OPS_MAX);
		small_history(ops, count, mix);
		for (spoiled = 0; spoiled < 3; spoiled++) {
			got = check_verdict(ops, count, mix == VANISHING, &result);
			expected = spoiled == 0 || exhaustive_search(ops, count, mix == VANISHING);
			right += got == LIN_RIGHT;
			wrong += got == LIN_WRONG;
			undecided += got == LIN_UNDECIDED;
			if (got != LIN_UNDECIDED && (got == LIN_RIGHT) != expected) {
				check_print(ops, count, &result);
				fail_msg("round %u: expected %s", round,
					 expected ? "right" : "wrong");
			}
			if (spoiled == 0 && !exhaustive_search(ops, count, mix == VANISHING))
				fail_msg("round %u: wrong, though there is the order of execution",
					 round);
			spoil(ops, count);
			spoil(ops, count);
		}
	}
	print_message("  %u right, %u wrong, %u undecided\n", right, wrong, undecided);
	assert_true(right > SMALL_ROUNDS && wrong > SMALL_ROUNDS / 4);
	assert_true(undecided < SMALL_ROUNDS / 100);
}

static void small_strict(void **state)
{
	(void)state;
	small_histories(STRICT);
}

static void small_vanishing(void **state)
{
	(void)state;
	small_histories(VANISHING);
}

static void small_mortal(void **state)
{
	(void)state;
	small_histories(MORTAL);
}

/* Large histories: each client calls one operation after the other, on simulated items. */

struct shape {
	size_t ops;
	unsigned int keys;
	enum mix mix;
	unsigned int lost_in; /* one response in this many is lost; 0: none */
};

struct planned {
	uint64_t call_ns, at_ns, return_ns;
	unsigned int client;
};

static int planned_compare(const void *a, const void *b)
{
	const struct planned *x = a, *y = b;

	return x->at_ns < y->at_ns ? -1 : x->at_ns > y->at_ns;
}

static struct planned *plan(const struct shape *shape)
{
	struct planned *plans = calloc(shape->ops, sizeof(*plans));
	uint64_t now[CLIENTS] = { 0 };
	size_t i;

	assert_non_null(plans);
	for (i = 0; i < shape->ops; i++) {
		plans[i].client = (unsigned int)(i % CLIENTS);
		plans[i].call_ns = now[i % CLIENTS] + 1 + below(200);
		plans[i].at_ns = plans[i].call_ns + below(1000);
		plans[i].return_ns = plans[i].at_ns + below(one_in(50) ? 20000 : 1000);
		now[i % CLIENTS] = plans[i].return_ns;
	}
	qsort(plans, shape->ops, sizeof(*plans), planned_compare);
	return plans;
}

/* Runs one planned operation and records it. Values are mostly unique, and soon replaced. */
static void simulate_one(struct lin_log *log, const struct planned *p, const struct shape *shape,
			 struct model_item *items, uint64_t serial)
{
	struct lin_op op = random_call(shape->mix);
	struct model_item *item;
	int64_t index;

	op.key = below(shape->keys);
	op.call_ns = p->call_ns;
	item = &items[op.key];
	if (op.kind != LIN_GET && op.value.len && !one_in(4))
		op.value = lin_value(&serial, sizeof(serial));
	if (op.kind == LIN_CAS)
		op.arg = one_in(3) ? serial : item->version;
	if ((shape->mix == VANISHING || item->mortal) && one_in(20))
		*item = (struct model_item){ .present = false };
	index = lin_call(log, &op);
	assert_true(index >= 0);
	if (shape->lost_in && one_in(shape->lost_in)) {
		if (one_in(2))
			execute(item, &op, serial);
		return;
	}
	execute(item, &op, serial);
	lin_return(log, index, p->return_ns, op.status, op.version, &op.value);
}

static void simulate(struct lin_log *logs, const struct shape *shape)
{
	struct model_item *items = calloc(shape->keys, sizeof(*items));
	struct planned *plans = plan(shape);
	size_t i;

	assert_non_null(items);
	for (i = 0; i < CLIENTS; i++)
		lin_log_init(&logs[i], (uint16_t)i);
	for (i = 0; i < shape->ops; i++)
		simulate_one(&logs[plans[i].client], &plans[i], shape, items, 10 + i);
	free(plans);
	free(items);
}

static void logs_release(struct lin_log *logs)
{
	unsigned int i;

	for (i = 0; i < CLIENTS; i++)
		lin_log_release(&logs[i]);
}

static void large(const char *name, const struct shape *shape)
{
	struct lin_options options = { .vanish = shape->mix == VANISHING };
	struct lin_log logs[CLIENTS];
	struct lin_result result;

	simulate(logs, shape);
	assert_int_equal(lin_check(logs, CLIENTS, &options, &result), 0);
	if (result.verdict != LIN_RIGHT)
		lin_explain(stderr, &result);
	print_message("  %s: %zu operations, %u keys: %.1f steps each, at most %u configurations\n",
		      name, shape->ops, shape->keys, (double)result.steps / (double)shape->ops,
		      result.configs_peak);
	assert_int_equal(result.verdict, LIN_RIGHT);
	assert_int_equal(result.ops, shape->ops);
	assert_int_equal(result.keys, shape->keys);
	assert_true(result.configs_peak < 50000);
	assert_int_equal(lin_check_versions(logs, CLIENTS, &result), 0);
	assert_int_equal(result.verdict, LIN_RIGHT);
	logs_release(logs);
}

static void large_strict(void **state)
{
	(void)state;
	large("strict", &(struct shape){ .ops = 200000, .keys = 50, .mix = STRICT });
	large("one key", &(struct shape){ .ops = 50000, .keys = 1, .mix = STRICT });
}

static void large_vanishing(void **state)
{
	(void)state;
	large("vanishing", &(struct shape){ .ops = 200000, .keys = 50, .mix = VANISHING });
	large("mortal", &(struct shape){ .ops = 100000, .keys = 50, .mix = MORTAL });
	large("one key", &(struct shape){ .ops = 20000, .keys = 1, .mix = VANISHING });
}

static void large_with_lost_responses(void **state)
{
	(void)state;
	large("lost", &(struct shape){ .ops = 100000, .keys = 50, .mix = STRICT, .lost_in = 1000 });
}

/* Returns a random GET that found a value. */
static struct lin_op *random_get(struct lin_log *logs)
{
	struct lin_log *log;
	struct lin_op *op;

	do {
		log = &logs[below(CLIENTS)];
		op = &log->ops[below((unsigned int)log->count)];
	} while (op->kind != LIN_GET || op->status != LIN_OK);
	return op;
}

/* Makes the GET return a value that was replaced before its call; false if there is none. */
static bool make_stale(struct lin_op *get, const struct lin_log *logs)
{
	const struct lin_op *op, *newest = NULL, *older = NULL;
	size_t i, j;

	for (i = 0; i < CLIENTS; i++) {
		for (j = 0; j < logs[i].count; j++) {
			op = &logs[i].ops[j];
			if (op->key != get->key || op->status != LIN_OK || op->kind != LIN_PUT ||
			    op->return_ns >= get->call_ns)
				continue;
			if (!newest || op->version > newest->version) {
				older = newest;
				newest = op;
			}
		}
	}
	if (!older)
		return false;
	get->value = older->value;
	get->version = older->version;
	return true;
}

static void one_wrong_result_is_found(void **state)
{
	const struct shape shape = { .ops = 4000, .keys = 10, .mix = NO_DELETES };
	struct lin_log logs[CLIENTS];
	struct lin_result result;
	struct lin_op *get, was;
	unsigned int i, tried = 0;

	(void)state;
	simulate(logs, &shape);
	for (i = 0; i < 100; i++) {
		get = random_get(logs);
		was = *get;
		if (i % 4 == 0)
			get->value = V("never written");
		else if (i % 4 == 1)
			get->version++;
		else if (i % 4 == 2)
			get->return_ns = get->call_ns = 0;
		else if (!make_stale(get, logs))
			continue;
		tried++;
		assert_int_equal(lin_check(logs, CLIENTS, NULL, &result), 0);
		if (result.verdict != LIN_WRONG)
			fail_msg("change %u of client %u's GET at %lu was not found", i % 4,
				 was.client, (unsigned long)was.call_ns);
		assert_int_equal(result.key, was.key);
		*get = was;
	}
	assert_true(tried > 90);
	assert_int_equal(lin_check(logs, CLIENTS, NULL, &result), 0);
	assert_int_equal(result.verdict, LIN_RIGHT);
	logs_release(logs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_strict),
		cmocka_unit_test(small_vanishing),
		cmocka_unit_test(small_mortal),
		cmocka_unit_test(large_strict),
		cmocka_unit_test(large_vanishing),
		cmocka_unit_test(large_with_lost_responses),
		cmocka_unit_test(one_wrong_result_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
