/* SPDX-License-Identifier: MIT */
/*
 * Budgets: how much item memory large values that are not finished may take, and who waits for
 * some, holding none. A tenant has two, which all workers share: of values that are being read from
 * clients (server/worker/pull.h), and of those that an append or prepend makes from large items
 * (budget_take_build()). A holder of the second one waits for nobody, so those of the first one
 * may wait for it.
 *
 * Who wants memory passes gates, each in the order of arrival, and each as soon as what has passed
 * it leaves room: if its principal (server/worker/principal.h) is late that of all late ones, that
 * of its principal, then that of all. A share is memory.pull_share percent of the item memory that
 * the tenant's store begins with. No value of the tenant is larger (config_value_fits()).
 *
 *   BUDGET-1. What the connections of a principal hold, and what they wait for at the last gate, is
 *	 a share at most; what all hold is BUDGET_SHARES shares, two. So whatever one principal
 *	 does, with however many processes and connections, slow or not, another one that is not
 *	 late gets a share beside it, and waits for no single other one.
 *   BUDGET-2. Those that wait at the last gate want a share for each principal, at most. So a
 *	 principal with many connections that want memory does not come before another one as often
 *	 as it has connections. Where all that wait there fit together, each passes when it comes.
 *   BUDGET-3. A connection asks for memory for a pull only after it has served a READ: one of no
 *	 bytes, a probe, before its first value. It has server.pull_stall for that. So clients that
 *	 serve no READ at all hold no memory and have no place among those that wait. (Memory that
 *	 was given can't be taken back while a READ into it is posted, short of ending the queue
 *	 pair.)
 *   BUDGET-4. When a connection ends while it holds memory for a value that has not arrived,
 *	 because it stood still or by itself, its principal is late, for as long as
 *	 server.pull_timeout: what its connections ask for from then on, those that wait included
 *	 when their turn comes, passes the gate of the late ones, too. Together they hold a share at
 *	 most, beside what they held before, and wait for each other; what waits there when the time
 *	 is over still does. So principals that stall, however many, leave the others a share, but
 *	 for the first time: for that the others wait if two or more do it at once, for
 *	 server.pull_stall; for those that serve a part now and then, two at least, until one of
 *	 their values has arrived, server.pull_timeout at most. Of more than LATE_PRINCIPALS_MAX the
 *	 first ones are forgotten early.
 *   BUDGET-5. A connection holds memory for several values, which it gave one behind the other,
 *	 only while nobody of its principal waits, there is room for all at the last gate, too, and
 *	 it is not late; and 1 / BUDGET_MORE_PART of a share at most, or for one value. It waits for
 *	 one of them at a time, in the order of arrival like others. So it gets no more memory than
 *	 others who want some, and no earlier.
 *   BUDGET-6. The worker of a hold calls all functions for it, so a hold that waits is of a
 *	 connection that is there. Others move it to the next gate. The last one it passes only in
 *	 budget_take(): when the lock is released, those there that have their turn are woken. For
 *	 those of another worker that worker's budgets_look is set, and it is woken, and calls
 *	 budget_look(). So where not all fit, those in line wait for the workers of those before
 *	 them, too.
 */
#ifndef KVD_SERVER_WORKER_BUDGET_H
#define KVD_SERVER_WORKER_BUDGET_H

#include "server/worker/conn.h"
#include "server/worker/tenant.h"
#include "server/worker/worker.h"

#define BUDGET_SHARES 2u
#define BUDGET_MORE_PART 4
/* Holds that are moved or woken in one go, with the lock held: each of them does it for more. */
#define BUDGET_MOVES_MAX 32u

/* With such a @share in bytes. Nobody uses it. */
void budget_init(struct budget *budget, uint64_t share);

/*
 * Asks for @bytes, a share at most; again after it waited. What the hold had of the budget it gives
 * back, and then is the next at each gate. False: it waits; deferred_wake() follows when it is
 * worth trying again.
 */
bool budget_take(struct budget *budget, struct budget_hold *hold, uint64_t bytes);
/*
 * Takes @bytes in addition to what is held, if BUDGET-5 allows it. False: it does not wait for
 * them.
 */
bool budget_take_more(struct budget *budget, struct budget_hold *hold, uint64_t bytes);
/* Returns @bytes of what is held: a value arrived. */
void budget_give(struct budget *budget, struct budget_hold *hold, uint64_t bytes);
/* Whether it passes the gate of late ones, from now on. If it waited, it does not any more. */
void budget_set_late(struct budget *budget, struct budget_hold *hold, bool late);
/* It waits no more, if it did. */
void budget_leave(struct budget *budget, struct budget_hold *hold);

/*
 * Memory for the value that an append or prepend makes from a large item in @steps: takes what the
 * next step will allocate from the tenant's budget. False: the step is not due; it needs memory
 * that others hold, and deferred_wake() of the connection follows. @hold is all zero at first.
 */
bool budget_take_build(struct conn *conn, struct budget_hold *hold, struct large *steps);
/* It has ended in any way: gives back what it held, or waits no more. */
void budget_give_build(struct conn *conn, struct budget_hold *hold);

/* Wakes those connections of @worker that have their turn. The worker. */
void budget_look(struct budget *budget, struct worker *worker);
/* Adds what is held, and how many wait, to these numbers. Any thread. */
void budget_count(struct budget *budget, uint64_t *bytes, uint64_t *waits);

#endif /* KVD_SERVER_WORKER_BUDGET_H */
