/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of the linearizability checker (tests/linearizability/lin.h): the model of an
 * item and the sorted history.
 */
#ifndef KVD_TESTS_LINEARIZABILITY_LIN_INTERNAL_H
#define KVD_TESTS_LINEARIZABILITY_LIN_INTERNAL_H

#include "tests/linearizability/lin.h"

/* tests/linearizability/lin_model.c */

/* Whether its status and times are possible. */
bool lin_op_is_valid(const struct lin_op *op);
/* Whether it has no influence on the verdict: it had no effect, or is a GET without a result. */
bool lin_op_is_irrelevant(const struct lin_op *op);
/* Whether its result says that it changed nothing. */
bool lin_op_only_reads(const struct lin_op *op);
/* Whether it gives the item a new version. */
bool lin_op_writes(const struct lin_op *op);
/* Whether it may remove the item, or let it expire later. */
bool lin_op_may_end_life(const struct lin_op *op);
/* The highest version of the item with which this result is possible, until the item is removed. */
uint64_t lin_op_version_max(const struct lin_op *op);
/* Whether its result has the version of the item. */
bool lin_op_has_version(const struct lin_op *op);

void lin_state_vanish(struct lin_state *state);
/*
 * Applies @op to @state. False if @op would have had another result there; an operation with an
 * unknown result has to succeed.
 */
bool lin_state_apply(struct lin_state *state, const struct lin_op *op);

/* tests/linearizability/lin_history.c */

struct lin_event {
	uint64_t time_ns;
	uint32_t key;
	uint32_t op;
	bool is_return;
};

/* All operations but irrelevant ones; and their events, by key and then by time. */
struct lin_history {
	const struct lin_op **ops;
	struct lin_event *events;
	size_t ops_count, events_count;
};

/* Returns 0, -EINVAL or -ENOMEM; call lin_history_release() in any case. */
int lin_history_init(struct lin_history *h, const struct lin_log *logs, size_t count);
void lin_history_release(struct lin_history *h);

void lin_result_init(struct lin_result *result, const struct lin_log *logs, size_t count);
void lin_result_set(struct lin_result *result, enum lin_verdict verdict, const char *why,
		    const struct lin_op *op, const struct lin_op *other);

#endif /* KVD_TESTS_LINEARIZABILITY_LIN_INTERNAL_H */
