/* SPDX-License-Identifier: MIT */
/*
 * A second opinion on the linearizability checker (tests/linearizability/lin.h), for its own tests: a search
 * through all orders of a few operations that shares no code with it but the values.
 */
#ifndef KVD_TESTS_LINEARIZABILITY_LIN_TRIAL_H
#define KVD_TESTS_LINEARIZABILITY_LIN_TRIAL_H

#include <string.h>

#include "tests/linearizability/lin.h"

/* Operations that can be tried in all orders. */
#define TRIAL_OPS_MAX 7

#define V(text) lin_value(text, strlen(text))

struct trial_item {
	struct lin_value value;
	uint64_t version;
	bool present, mortal;
};

/* Whether an operation of the kind gives the item a new version. */
bool trial_changes(unsigned int kind);
/* @item becomes what a successful @op makes of it; false if it can't succeed. */
bool trial_item_change(struct trial_item *item, const struct lin_op *op);

/* Whether there is an order of the operations that explains their answers. */
bool trial_of_all_orders(const struct lin_op *ops, size_t count, bool vanish);
/* What lin_check() says. */
enum lin_verdict trial_verdict(struct lin_op *ops, size_t count, bool vanish,
			       struct lin_result *result);
/* Prints the explanation and the operations. */
void trial_show(const struct lin_op *ops, size_t count, struct lin_result *result);

#endif /* KVD_TESTS_LINEARIZABILITY_LIN_TRIAL_H */
