/* SPDX-License-Identifier: MIT */
/*
 * Builds: values that an append or prepend makes from large items in steps (server/store/large.h).
 * Each takes the memory for the new item from the tenant's budget before a step allocates it, and
 * waits without memory until it gets some.
 */
#ifndef KVD_SERVER_WORKER_BUILD_H
#define KVD_SERVER_WORKER_BUILD_H

#include "server/worker/budget.h"

/*
 * Whether the next step is due. False: it needs memory that others hold, and deferred_wake() of the
 * connection follows. @hold is all zero at first.
 */
bool build_admit(struct conn *conn, struct budget_hold *hold, struct large *steps);
/* It has ended in any way: gives back what it held, or waits no more. */
void build_end(struct conn *conn, struct budget_hold *hold);

#endif /* KVD_SERVER_WORKER_BUILD_H */
