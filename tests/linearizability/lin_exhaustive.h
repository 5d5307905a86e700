/* SPDX-License-Identifier: MIT */
/*
 * An exhaustive search, to test the linearizability checker (tests/linearizability/lin.h) against:
 * it tries all orders of a few operations, with a model of its own. The two share only the code of
 * values.
 */
#ifndef KVD_TESTS_LINEARIZABILITY_LIN_EXHAUSTIVE_H
#define KVD_TESTS_LINEARIZABILITY_LIN_EXHAUSTIVE_H

#include <string.h>

#include "tests/linearizability/lin.h"

/* Operations that can be tried in all orders, at most. */
#define EXHAUSTIVE_OPS_MAX 7

#define V(text) lin_value(text, strlen(text))

struct model_item {
	struct lin_value value;
	uint64_t version;
	bool present, mortal;
};

/* Whether an operation of the kind gives the item a new version. */
bool model_changes(unsigned int kind);
/* Applies a successful @op to @item, but for the version; false if it can't succeed. */
bool model_apply(struct model_item *item, const struct lin_op *op);

/* Whether there is an order of the operations that explains their results. */
bool exhaustive_search(const struct lin_op *ops, size_t count, bool vanish);
/* Returns lin_check()'s verdict. */
enum lin_verdict check_verdict(struct lin_op *ops, size_t count, bool vanish,
			       struct lin_result *result);
/* Prints the explanation of @result and the operations. */
void check_print(const struct lin_op *ops, size_t count, struct lin_result *result);

#endif /* KVD_TESTS_LINEARIZABILITY_LIN_EXHAUSTIVE_H */
