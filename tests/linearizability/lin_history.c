/* SPDX-License-Identifier: MIT */
/* The recorded operations of all threads in the order of time; and their versions. */
#include "tests/linearizability/lin_parts.h"

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
			if (!lin_op_is_idle(&logs[i].ops[j]))
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

/* Whether its value is what the item has at its version. */
static bool op_tells_value(const struct lin_op *op)
{
	return op->kind != LIN_APPEND && op->kind != LIN_PREPEND && op->kind != LIN_TOUCH;
}

/* By version; of one version writers first, then those that tell the value. */
static int version_compare(const void *a, const void *b)
{
	const struct lin_op *x = *(const struct lin_op *const *)a;
	const struct lin_op *y = *(const struct lin_op *const *)b;

	if (x->version != y->version)
		return x->version < y->version ? -1 : 1;
	if (lin_op_writes(x) != lin_op_writes(y))
		return lin_op_writes(x) ? -1 : 1;
	return op_tells_value(y) - op_tells_value(x);
}

static void versions_compare(const struct lin_op **ops, size_t count, struct lin_result *result)
{
	const struct lin_op *first = NULL, *teller = NULL, *op;
	size_t i;

	for (i = 0; i < count; i++) {
		op = ops[i];
		if (!first || op->version != first->version) {
			first = op;
			teller = NULL;
		} else if (lin_op_writes(op)) {
			return lin_result_set(result, LIN_WRONG, "two changes returned one version",
					      op, first);
		} else if (op->key != first->key) {
			return lin_result_set(result, LIN_WRONG, "two keys have one version", op,
					      first);
		} else if (teller && op_tells_value(op) && !lin_same(&op->value, &teller->value)) {
			return lin_result_set(result, LIN_WRONG, "two values have one version", op,
					      teller);
		}
		if (!teller && op_tells_value(op))
			teller = op;
	}
}

int lin_check_versions(const struct lin_log *logs, size_t count, struct lin_result *result)
{
	struct lin_history h;
	size_t i, kept = 0;
	int ret;

	lin_result_init(result, logs, count);
	ret = lin_history_init(&h, logs, count);
	if (!ret) {
		for (i = 0; i < h.ops_count; i++)
			if (lin_op_tells_version(h.ops[i]))
				h.ops[kept++] = h.ops[i];
		qsort(h.ops, kept, sizeof(struct lin_op *), version_compare);
		versions_compare(h.ops, kept, result);
	}
	lin_history_release(&h);
	return ret;
}
