/* SPDX-License-Identifier: MIT */
/* What the parts of the linearizability checker (tests/linearizability/lin.h) share. */
#ifndef KVD_TESTS_LINEARIZABILITY_LIN_PARTS_H
#define KVD_TESTS_LINEARIZABILITY_LIN_PARTS_H

#include "tests/linearizability/lin.h"

/* tests/linearizability/lin_model.c */

/* Whether it can have been recorded at all. */
bool lin_op_is_valid(const struct lin_op *op);
/* Whether its answer, or that nobody waits for one, says that it can't have changed anything. */
bool lin_op_is_idle(const struct lin_op *op);
/* Whether all that it did was to look. */
bool lin_op_looks(const struct lin_op *op);
/* Whether it gives the item a new version. */
bool lin_op_writes(const struct lin_op *op);
/* Whether the item's life may end by it, or after it by itself. */
bool lin_op_may_end_life(const struct lin_op *op);
/* The highest version of the item at which an answer like this can still be given, in this life. */
uint64_t lin_op_version_max(const struct lin_op *op);
bool lin_op_tells_version(const struct lin_op *op);

void lin_state_vanish(struct lin_state *state);
/*
 * Applies @op to @state if its answer can be the recorded one; one without an answer has to
 * succeed.
 */
bool lin_state_apply(struct lin_state *state, const struct lin_op *op);

/* tests/linearizability/lin_history.c */

struct lin_event {
	uint64_t time_ns;
	uint32_t key;
	uint32_t op;
	bool is_return;
};

/* All operations that are not idle, and their events, key by key and in the order of time. */
struct lin_history {
	const struct lin_op **ops;
	struct lin_event *events;
	size_t ops_count, events_count;
};

/* To be released, whatever it returned: 0, -EINVAL or -ENOMEM. */
int lin_history_init(struct lin_history *h, const struct lin_log *logs, size_t count);
void lin_history_release(struct lin_history *h);

void lin_result_init(struct lin_result *result, const struct lin_log *logs, size_t count);
void lin_result_set(struct lin_result *result, enum lin_verdict verdict, const char *why,
		    const struct lin_op *op, const struct lin_op *other);

#endif /* KVD_TESTS_LINEARIZABILITY_LIN_PARTS_H */
