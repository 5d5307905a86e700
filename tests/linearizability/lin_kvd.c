/* SPDX-License-Identifier: MIT */
/* Records of libkvd's operations for the linearizability checker. */
#include "tests/linearizability/lin_kvd.h"

#include "common/util/clock.h"

bool lin_kvd_is_get(const struct kvd_op *op)
{
	return op->op == KVD_OP_GET || op->op == KVD_OP_GET_BY_REQUEST ||
	       op->op == KVD_OP_GET_RANGE;
}

static bool is_arithmetic(const struct kvd_op *op)
{
	return op->op == KVD_OP_INCR || op->op == KVD_OP_DECR;
}

static enum lin_kind kind_of(const struct kvd_op *op)
{
	static const uint8_t modes[] = { LIN_PUT, LIN_ADD,    LIN_REPLACE,
					 LIN_CAS, LIN_APPEND, LIN_PREPEND };

	switch (op->op) {
	case KVD_OP_PUT:
		return modes[op->mode];
	case KVD_OP_DELETE:
		return LIN_DELETE;
	case KVD_OP_INCR:
		return LIN_INCR;
	case KVD_OP_DECR:
		return LIN_DECR;
	case KVD_OP_TOUCH:
		return LIN_TOUCH;
	case KVD_OP_GET_RANGE:
		return LIN_RANGE;
	default:
		return LIN_GET;
	}
}

struct lin_op lin_kvd_call(const struct kvd_op *op, uint32_t key)
{
	struct lin_op lin = { .key = key, .kind = (uint8_t)kind_of(op), .call_ns = clock_ns() };

	if (op->op == KVD_OP_PUT)
		lin.value = lin_value(op->value, op->value_len);
	if (lin.kind == LIN_CAS)
		lin.arg = op->if_version;
	if (is_arithmetic(op))
		lin.arg = op->delta;
	return lin;
}

const struct lin_value *lin_kvd_value(const struct kvd_op *op, struct lin_value *value)
{
	if (op->status)
		return NULL;
	if (op->op == KVD_OP_GET_RANGE)
		*value = (struct lin_value){ .len = (uint32_t)op->item.value_len };
	else if (lin_kvd_is_get(op))
		*value = lin_value(op->iov_count ? op->iov[0].iov_base : op->value,
				   op->item.value_len);
	else if (is_arithmetic(op))
		*value = lin_number(op->number);
	else
		return NULL;
	return value;
}
