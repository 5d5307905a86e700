/* SPDX-License-Identifier: MIT */
/*
 * Explains a verdict of the linearizability checker: prints the operation that fails, those around
 * it and the possible states of the item.
 */
#include "tests/linearizability/lin_internal.h"

#include <inttypes.h>
#include <stdlib.h>

/* Limits of an excerpt: operations that returned before the call of the one that fails; lines. */
#define EXCERPT_BEFORE 8
#define EXCERPT_MAX 48

#define X(name) #name,
static const char *const kind_names[] = { LIN_KIND_MAP(X) };
static const char *const status_names[] = { LIN_STATUS_MAP(X) };
#undef X

static void print_value(FILE *out, const struct lin_value *value)
{
	if (value->is_number)
		fprintf(out, " %" PRIu64 " (%u bytes)", value->number, value->len);
	else
		fprintf(out, " #%016" PRIx64 " (%u bytes)", value->hash, value->len);
}

/* Prints one line; times are in ns since @zero_ns. */
static void print_op(FILE *out, const struct lin_op *op, uint64_t zero_ns, char mark)
{
	fprintf(out, "%c client %-3u %10" PRId64 " .. ", mark, op->client,
		(int64_t)(op->call_ns - zero_ns));
	if (op->return_ns == LIN_NEVER)
		fprintf(out, "%10s  ", "?");
	else
		fprintf(out, "%10" PRId64 "  ", (int64_t)(op->return_ns - zero_ns));
	fputs(kind_names[op->kind], out);
	if (op->kind == LIN_CAS)
		fprintf(out, " expecting version %" PRIu64 ",", op->arg);
	if (op->kind == LIN_INCR || op->kind == LIN_DECR)
		fprintf(out, " by %" PRIu64, op->arg);
	if (lin_op_writes(op) && op->kind != LIN_INCR && op->kind != LIN_DECR)
		print_value(out, &op->value);
	fprintf(out, "%s -> %s", op->mortal ? " with expiry" : "", status_names[op->status]);
	if (op->status == LIN_OK &&
	    (op->kind == LIN_GET || op->kind == LIN_INCR || op->kind == LIN_DECR))
		print_value(out, &op->value);
	if (op->status == LIN_OK && op->kind == LIN_RANGE)
		fprintf(out, " of %" PRIu32 " bytes", op->value.len);
	if (lin_op_has_version(op))
		fprintf(out, " version %" PRIu64, op->version);
	fputc('\n', out);
}

static int call_compare(const void *a, const void *b)
{
	const struct lin_op *x = *(const struct lin_op *const *)a;
	const struct lin_op *y = *(const struct lin_op *const *)b;

	return x->call_ns < y->call_ns ? -1 : x->call_ns > y->call_ns;
}

/* Descending by time of return; operations that did not return come first. */
static int return_compare(const void *a, const void *b)
{
	const struct lin_op *x = *(const struct lin_op *const *)a;
	const struct lin_op *y = *(const struct lin_op *const *)b;

	return x->return_ns > y->return_ns ? -1 : x->return_ns < y->return_ns;
}

/* Prints the operations on @op's key that overlap it, and the last ones that returned before. */
static void print_excerpt(FILE *out, const struct lin_op **ops, size_t count,
			  const struct lin_op *op)
{
	size_t i, overlapping = 0, lines;

	qsort(ops, count, sizeof(*ops), return_compare);
	while (overlapping < count && ops[overlapping]->return_ns >= op->call_ns)
		overlapping++;
	lines = overlapping + EXCERPT_BEFORE < count ? overlapping + EXCERPT_BEFORE : count;
	if (lines > EXCERPT_MAX) {
		/* Too many overlap it: those that return first. */
		ops += lines - EXCERPT_MAX;
		lines = EXCERPT_MAX;
		fputs("  (more operations overlap it; these return first)\n", out);
		print_op(out, op, op->call_ns, '>');
	}
	qsort(ops, lines, sizeof(*ops), call_compare);
	for (i = 0; i < lines; i++)
		print_op(out, ops[i], op->call_ns, ops[i] == op ? '>' : ' ');
}

static void print_history(FILE *out, const struct lin_result *result)
{
	const struct lin_op *op = result->op;
	struct lin_history h;
	size_t i, kept = 0;

	if (!lin_history_init(&h, result->logs, result->logs_count)) {
		for (i = 0; i < h.ops_count; i++)
			if (h.ops[i]->key == op->key && h.ops[i]->call_ns <= op->return_ns)
				h.ops[kept++] = h.ops[i];
		print_excerpt(out, h.ops, kept, op);
	}
	lin_history_release(&h);
}

static void print_states(FILE *out, const struct lin_result *result)
{
	const struct lin_state *state;
	size_t i;

	fprintf(out, "  before its return, %zu possible state(s):\n", result->states_count);
	for (i = 0; i < result->states_kept; i++) {
		state = &result->states[i];
		if (!state->present) {
			fputs("    absent\n", out);
			continue;
		}
		fputs("    value", out);
		print_value(out, &state->value);
		fprintf(out, " version %" PRIu64 "%s%s\n", state->version,
			state->exact ? "" : " or later", state->mortal ? ", may vanish" : "");
	}
}

void lin_explain(FILE *out, const struct lin_result *result)
{
	if (result->verdict == LIN_RIGHT) {
		fprintf(out, "right: %" PRIu64 " operations\n", result->ops);
		return;
	}
	fprintf(out, "%s: key %u: %s\n", result->verdict == LIN_WRONG ? "WRONG" : "UNDECIDED",
		result->key, result->why);
	if (!result->op)
		return;
	if (result->other) {
		print_op(out, result->other, result->op->call_ns, ' ');
		print_op(out, result->op, result->op->call_ns, '>');
		return;
	}
	fprintf(out,
		"  %" PRIu64
		" operations on it were right before; times in ns since the call of '>':\n",
		result->returned_before);
	print_history(out, result);
	print_states(out, result);
}
