/* SPDX-License-Identifier: MIT */
/*
 * The linearizability checker's model: what each operation does to one item, and with which
 * results, when operations run one at a time.
 */
#include "tests/linearizability/lin_internal.h"

/* The statuses that a kind can have, besides UNKNOWN and NO_EFFECT. */
static unsigned int statuses_of(unsigned int kind)
{
	switch (kind) {
	case LIN_PUT:
	case LIN_FLUSH:
		return 1u << LIN_OK;
	case LIN_ADD:
		return 1u << LIN_OK | 1u << LIN_EXISTS;
	case LIN_CAS:
		return 1u << LIN_OK | 1u << LIN_EXISTS | 1u << LIN_NOT_FOUND;
	case LIN_INCR:
	case LIN_DECR:
		return 1u << LIN_OK | 1u << LIN_NOT_NUMBER | 1u << LIN_NOT_FOUND;
	default:
		return 1u << LIN_OK | 1u << LIN_NOT_FOUND;
	}
}

bool lin_op_is_valid(const struct lin_op *op)
{
	if (op->kind >= LIN_KINDS)
		return false;
	if (op->status == LIN_UNKNOWN)
		return op->return_ns == LIN_NEVER;
	if (op->return_ns == LIN_NEVER || op->return_ns < op->call_ns)
		return false;
	return op->status == LIN_NO_EFFECT ||
	       (op->status < LIN_STATUSES && (statuses_of(op->kind) >> op->status & 1));
}

bool lin_op_is_irrelevant(const struct lin_op *op)
{
	return op->status == LIN_NO_EFFECT ||
	       (op->status == LIN_UNKNOWN && (op->kind == LIN_GET || op->kind == LIN_RANGE));
}

bool lin_op_only_reads(const struct lin_op *op)
{
	return op->status != LIN_UNKNOWN &&
	       (op->status != LIN_OK || op->kind == LIN_GET || op->kind == LIN_RANGE);
}

bool lin_op_writes(const struct lin_op *op)
{
	return op->kind != LIN_GET && op->kind != LIN_DELETE && op->kind != LIN_TOUCH &&
	       op->kind != LIN_RANGE && op->kind != LIN_FLUSH;
}

bool lin_op_may_end_life(const struct lin_op *op)
{
	return (op->status == LIN_OK || op->status == LIN_UNKNOWN) &&
	       (op->kind == LIN_DELETE || op->kind == LIN_FLUSH || op->mortal);
}

uint64_t lin_op_version_max(const struct lin_op *op)
{
	if (op->status == LIN_NOT_FOUND)
		return 0;
	if (op->status != LIN_OK)
		return UINT64_MAX;
	if (op->kind == LIN_CAS)
		return op->arg;
	if (op->kind == LIN_ADD)
		return 0;
	if (!op->version || op->kind == LIN_DELETE || op->kind == LIN_FLUSH)
		return UINT64_MAX;
	return lin_op_writes(op) ? op->version - 1 : op->version;
}

/* A response says that the version is @version. */
static bool version_is(struct lin_state *state, uint64_t version)
{
	if (state->exact)
		return state->version == version;
	if (version < state->version || version == state->not_version)
		return false;
	state->version = version;
	state->not_version = 0;
	state->exact = true;
	return true;
}

/* A response says that the version is not @version. */
static bool version_is_not(struct lin_state *state, uint64_t version)
{
	if (state->exact)
		return state->version != version;
	if (version < state->version || version == state->not_version)
		return true;
	if (version > state->version && state->not_version) {
		state->doubtful = true;
	} else if (version > state->version) {
		state->not_version = version;
	} else if (++state->version == state->not_version) {
		state->version++;
		state->not_version = 0;
	}
	return true;
}

/* A change gives the item a new version: @version, or 0 if no response has it. */
static bool version_next(struct lin_state *state, uint64_t version)
{
	if (version && version <= state->version)
		return false;
	if (!state->exact)
		state->doubtful = false;
	state->version = version ? version : state->version + 1;
	state->not_version = 0;
	state->exact = version != 0;
	return true;
}

void lin_state_vanish(struct lin_state *state)
{
	*state = (struct lin_state){ .doubtful = state->exact && state->doubtful, .exact = true };
}

/* Applies INCR or DECR. */
static bool state_count(struct lin_state *state, const struct lin_op *op)
{
	uint64_t old = state->value.number;

	if (!state->value.is_number)
		return false;
	if (op->kind == LIN_INCR)
		state->value = lin_number(old + op->arg);
	else
		state->value = lin_number(old > op->arg ? old - op->arg : 0);
	return op->status == LIN_UNKNOWN || lin_same(&state->value, &op->value);
}

/* Applies an @op that succeeds, except for the new version. False if it can't succeed. */
static bool state_change(struct lin_state *state, const struct lin_op *op)
{
	if (!state->present && op->kind != LIN_PUT && op->kind != LIN_ADD && op->kind != LIN_FLUSH)
		return false;
	switch (op->kind) {
	case LIN_GET:
		return lin_same(&state->value, &op->value) &&
		       (!op->version || version_is(state, op->version));
	case LIN_RANGE:
		return state->value.len == op->value.len &&
		       (!op->version || version_is(state, op->version));
	case LIN_TOUCH:
		state->mortal = op->mortal;
		return !op->version || version_is(state, op->version);
	case LIN_DELETE:
	case LIN_FLUSH:
		lin_state_vanish(state);
		return true;
	case LIN_APPEND:
		state->value = lin_append(state->value, op->value);
		return true;
	case LIN_PREPEND:
		state->value = lin_prepend(state->value, op->value);
		return true;
	case LIN_INCR:
	case LIN_DECR:
		return state_count(state, op);
	case LIN_ADD:
		if (state->present)
			return false;
		break;
	case LIN_CAS:
		if (!op->arg || !version_is(state, op->arg))
			return false;
		break;
	default:
		break;
	}
	state->present = true;
	state->value = op->value;
	state->mortal = op->mortal;
	return true;
}

bool lin_state_apply(struct lin_state *state, const struct lin_op *op)
{
	switch (op->status) {
	case LIN_NOT_FOUND:
		return !state->present;
	case LIN_EXISTS:
		return state->present && (op->kind == LIN_ADD || version_is_not(state, op->arg));
	case LIN_NOT_NUMBER:
		return state->present && !state->value.is_number;
	default:
		return state_change(state, op) &&
		       (!lin_op_writes(op) || version_next(state, op->version));
	}
}

bool lin_op_has_version(const struct lin_op *op)
{
	return op->version && op->status == LIN_OK && op->kind != LIN_DELETE &&
	       op->kind != LIN_FLUSH;
}
