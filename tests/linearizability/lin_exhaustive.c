/* SPDX-License-Identifier: MIT */
/*
 * An exhaustive search for an order of a few operations, to test the linearizability checker
 * against.
 */
#include "tests/linearizability/lin_exhaustive.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

struct exhaustive {
	const struct lin_op *ops;
	size_t count;
	bool vanish;
	uint64_t version_max; /* unknown versions are tried up to here */
};

static bool orders(const struct exhaustive *t, unsigned int used, struct model_item item);

bool model_changes(unsigned int kind)
{
	return kind != LIN_GET && kind != LIN_DELETE && kind != LIN_TOUCH && kind != LIN_RANGE &&
	       kind != LIN_FLUSH;
}

bool model_apply(struct model_item *item, const struct lin_op *op)
{
	uint64_t n = item->value.number;

	if (op->kind == LIN_FLUSH || op->kind == LIN_DELETE) {
		if (op->kind == LIN_DELETE && !item->present)
			return false;
		*item = (struct model_item){ .present = false };
		return true;
	}
	if (op->kind == LIN_PUT || op->kind == LIN_ADD) {
		if (op->kind == LIN_ADD && item->present)
			return false;
		item->present = true;
	}
	if (!item->present || (op->kind == LIN_CAS && op->arg != item->version))
		return false;
	if (op->kind <= LIN_CAS && op->kind != LIN_GET) {
		item->value = op->value;
		item->mortal = op->mortal;
	} else if (op->kind == LIN_TOUCH) {
		item->mortal = op->mortal;
	} else if (op->kind == LIN_APPEND) {
		item->value = lin_append(item->value, op->value);
	} else if (op->kind == LIN_PREPEND) {
		item->value = lin_prepend(item->value, op->value);
	} else if (op->kind == LIN_INCR || op->kind == LIN_DECR) {
		if (!item->value.is_number)
			return false;
		item->value = lin_number(op->kind == LIN_INCR ? n + op->arg :
					 op->arg > n	      ? 0 :
								n - op->arg);
	}
	return true;
}

static bool orders_from(const struct exhaustive *t, unsigned int used, struct model_item item,
			unsigned int i)
{
	const struct lin_op *op = &t->ops[i];
	uint64_t old = item.version;

	used |= 1u << i;
	if (op->status == LIN_NOT_FOUND)
		return !item.present && orders(t, used, item);
	if (op->status == LIN_EXISTS)
		return item.present && (op->kind == LIN_ADD || item.version != op->arg) &&
		       orders(t, used, item);
	if (op->status == LIN_NOT_NUMBER)
		return item.present && !item.value.is_number && orders(t, used, item);
	if (!model_apply(&item, op))
		return false;
	if (op->status == LIN_OK &&
	    (op->kind == LIN_GET || op->kind == LIN_INCR || op->kind == LIN_DECR) &&
	    !lin_same(&item.value, &op->value))
		return false;
	if (op->status == LIN_OK && op->kind == LIN_RANGE && item.value.len != op->value.len)
		return false;
	if (!model_changes(op->kind))
		return (!op->version || op->kind == LIN_DELETE || op->kind == LIN_FLUSH ||
			op->version == item.version) &&
		       orders(t, used, item);
	if (op->version) {
		item.version = op->version;
		return op->version > old && orders(t, used, item);
	}
	for (item.version = old + 1; item.version <= t->version_max; item.version++)
		if (orders(t, used, item))
			return true;
	return false;
}

static bool orders(const struct exhaustive *t, unsigned int used, struct model_item item)
{
	const struct model_item absent = { .present = false };
	bool all = true;
	unsigned int i, j;

	for (i = 0; i < t->count; i++)
		if (!(used & 1u << i) && t->ops[i].status != LIN_UNKNOWN &&
		    t->ops[i].status != LIN_NO_EFFECT)
			all = false;
	if (all)
		return true;
	for (i = 0; i < t->count; i++) {
		if (used & 1u << i || t->ops[i].status == LIN_NO_EFFECT)
			continue;
		for (j = 0; j < t->count; j++)
			if (!(used & 1u << j) && t->ops[j].status != LIN_NO_EFFECT &&
			    t->ops[j].return_ns < t->ops[i].call_ns)
				break;
		if (j < t->count)
			continue;
		if (orders_from(t, used, item, i))
			return true;
		if (item.present && (t->vanish || item.mortal) && orders_from(t, used, absent, i))
			return true;
	}
	return false;
}

bool exhaustive_search(const struct lin_op *ops, size_t count, bool vanish)
{
	struct exhaustive t = { .ops = ops, .count = count, .vanish = vanish };
	size_t i;

	for (i = 0; i < count; i++) {
		if (ops[i].version > t.version_max)
			t.version_max = ops[i].version;
		if (ops[i].kind == LIN_CAS && ops[i].arg > t.version_max)
			t.version_max = ops[i].arg;
	}
	t.version_max += count + 1;
	return orders(&t, 0, (struct model_item){ .present = false });
}

enum lin_verdict check_verdict(struct lin_op *ops, size_t count, bool vanish,
			       struct lin_result *result)
{
	struct lin_log log = { .ops = ops, .count = count };
	struct lin_options options = { .vanish = vanish };

	assert_int_equal(lin_check(&log, 1, &options, result), 0);
	return result->verdict;
}

void check_print(const struct lin_op *ops, size_t count, struct lin_result *result)
{
	struct lin_log log = { .ops = (struct lin_op *)ops, .count = count };
	size_t i;

	result->logs = &log;
	result->logs_count = 1;
	lin_explain(stderr, result);
	for (i = 0; i < count; i++)
		fprintf(stderr,
			"%zu: [%d, %d] kind %u status %u version %d arg %d value %d (%u bytes)%s\n",
			i, (int)ops[i].call_ns, (int)ops[i].return_ns, ops[i].kind, ops[i].status,
			(int)ops[i].version, (int)ops[i].arg, (int)ops[i].value.hash,
			ops[i].value.len, ops[i].mortal ? " mortal" : "");
}
