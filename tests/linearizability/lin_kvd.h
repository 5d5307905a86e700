/* SPDX-License-Identifier: MIT */
/* What libkvd's operations are to the linearizability checker. */
#ifndef KVD_TESTS_LINEARIZABILITY_LIN_KVD_H
#define KVD_TESTS_LINEARIZABILITY_LIN_KVD_H

#include "client/kvd.h"
#include "tests/linearizability/lin.h"

bool lin_kvd_is_get(const struct kvd_op *op);

/* What lin_call() is to record of @op, which begins now. It has no expiry. */
struct lin_op lin_kvd_call(const struct kvd_op *op, uint32_t key);

/*
 * What lin_return() is to record as the value of @op, which has ended: @value, or NULL if there is
 * none. The pieces of a GET lie side by side.
 */
const struct lin_value *lin_kvd_value(const struct kvd_op *op, struct lin_value *value);

#endif /* KVD_TESTS_LINEARIZABILITY_LIN_KVD_H */
