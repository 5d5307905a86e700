/* SPDX-License-Identifier: MIT */
/*
 * Histories for the linearizability checker: sorts the recorded operations of all threads by key
 * and time, and checks their versions.
 */
#include "tests/linearizability/lin_internal.h"

#include <errno.h>
#include <stdlib.h>

static int event_compare(const void *a, const void *b)
{
	const struct lin_event *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	if (x->is_return != y->is_return)
		return x->is_return ? 1 : -1;
	return x->op < y->op ? -1 : x->op > y->op;
}

void lin_history_release(struct lin_history *h)
{
	free(h->ops);
	free(h->events);
}

static void history_add(struct lin_history *h, const struct lin_op *op)
{
	struct lin_event e = { .time_ns = op->call_ns,
			       .key = op->key,
			       .op = (uint32_t)h->ops_count };

	h->ops[h->ops_count++] = op;
	h->events[h->events_count++] = e;
	if (op->status == LIN_UNKNOWN)
		return;
	e.is_return = true;
	e.time_ns = op->return_ns;
	h->events[h->events_count++] = e;
}

int lin_history_init(struct lin_history *h, const struct lin_log *logs, size_t count)
{
	size_t i, j, total = 0;

	*h = (struct lin_history){ .ops_count = 0 };
	for (i = 0; i < count; i++) {
		if (logs[i].failed)
			return -EINVAL;
		total += logs[i].count;
	}
	if (total >= UINT32_MAX)
		return -EINVAL;
	h->ops = calloc(total + 1, sizeof(struct lin_op *));
	h->events = calloc(2 * total + 1, sizeof(struct lin_event));
	if (!h->ops || !h->events)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		for (j = 0; j < logs[i].count; j++) {
			if (!lin_op_is_valid(&logs[i].ops[j]))
				return -EINVAL;
			if (!lin_op_is_irrelevant(&logs[i].ops[j]))
				history_add(h, &logs[i].ops[j]);
		}
	}
	qsort(h->events, h->events_count, sizeof(*h->events), event_compare);
	return 0;
}

void lin_result_init(struct lin_result *result, const struct lin_log *logs, size_t count)
{
	size_t i;

	*result = (struct lin_result){ .logs = logs, .logs_count = count };
	for (i = 0; i < count; i++)
		result->ops += logs[i].count;
}

void lin_result_set(struct lin_result *result, enum lin_verdict verdict, const char *why,
		    const struct lin_op *op, const struct lin_op *other)
{
	result->verdict = verdict;
	result->why = why;
	result->op = op;
	result->other = other;
	result->key = op->key;
}

/* Whether op->value is the whole value that the item had with op->version. */
static bool op_has_value(const struct lin_op *op)
{
	return op->kind != LIN_APPEND && op->kind != LIN_PREPEND && op->kind != LIN_TOUCH &&
	       op->kind != LIN_RANGE;
}

/*
 * By version, and before that by key if *@by_key; for one version first writes, then operations
 * with the value.
 */
static int version_compare(const void *a, const void *b, void *by_key)
{
	const struct lin_op *x = *(const struct lin_op *const *)a;
	const struct lin_op *y = *(const struct lin_op *const *)b;

	if (*(const bool *)by_key && x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->version != y->version)
		return x->version < y->version ? -1 : 1;
	if (lin_op_writes(x) != lin_op_writes(y))
		return lin_op_writes(x) ? -1 : 1;
	return op_has_value(y) - op_has_value(x);
}

static void versions_compare(const struct lin_op **ops, size_t count, bool by_key,
			     struct lin_result *result)
{
	const struct lin_op *first = NULL, *with_value = NULL, *op;
	size_t i;

	for (i = 0; i < count; i++) {
		op = ops[i];
		if (!first || op->version != first->version || (by_key && op->key != first->key)) {
			first = op;
			with_value = NULL;
		} else if (lin_op_writes(op)) {
			return lin_result_set(result, LIN_WRONG, "two changes returned one version",
					      op, first);
		} else if (op->key != first->key) {
			return lin_result_set(result, LIN_WRONG, "two keys have one version", op,
					      first);
		} else if (with_value && op_has_value(op) &&
			   !lin_same(&op->value, &with_value->value)) {
			return lin_result_set(result, LIN_WRONG, "two values have one version", op,
					      with_value);
		}
		if (!with_value && op_has_value(op))
			with_value = op;
	}
}

static int versions_check(const struct lin_log *logs, size_t count, bool by_key,
			  struct lin_result *result)
{
	struct lin_history h;
	size_t i, kept = 0;
	int ret;

	lin_result_init(result, logs, count);
	ret = lin_history_init(&h, logs, count);
	if (!ret) {
		for (i = 0; i < h.ops_count; i++)
			if (lin_op_has_version(h.ops[i]))
				h.ops[kept++] = h.ops[i];
		qsort_r(h.ops, kept, sizeof(struct lin_op *), version_compare, &by_key);
		versions_compare(h.ops, kept, by_key, result);
	}
	lin_history_release(&h);
	return ret;
}

int lin_check_versions(const struct lin_log *logs, size_t count, struct lin_result *result)
{
	return versions_check(logs, count, false, result);
}

int lin_check_fleet_versions(const struct lin_log *logs, size_t count, struct lin_result *result)
{
	return versions_check(logs, count, true, result);
}
