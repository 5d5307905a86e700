/* SPDX-License-Identifier: MIT */
/*
 * Budgets: how much item memory unfinished large values may take, and which connections wait for
 * some, holding none. A tenant has two, which all workers share: one for values being read from
 * clients (server/worker/pull.h), one for values that an append or prepend makes from large items
 * (budget_take_build()). A holder of the second waits for nobody, so holders of the first may wait
 * for it.
 *
 * A connection that wants memory passes gates in the order of arrival, each as soon as the bytes
 * that have passed it leave room: the gate of late principals if its principal
 * (server/worker/principal.h) is late, its principal's gate, then the gate of all. A share is
 * memory.pull_share percent of the item memory that the tenant's store has while its index is as at
 * the start. No value of the tenant is larger (config_value_fits()).
 *
 *   BUDGET-1. The connections of a principal together hold, or wait for at the last gate, one share
 *	 at most; all together hold BUDGET_SHARES shares, two. So whatever one principal does, with
 *	 however many processes and connections, slow or not, another one that is not late gets a
 *	 share beside it, and no single principal makes it wait.
 *   BUDGET-2. Waiters at the last gate want one share for each principal at most. So a principal
 *	 gets no earlier turns by opening more connections. If all waiters there fit together, each
 *	 passes when it arrives.
 *   BUDGET-3. A connection asks for memory for a pull only after it has served a READ; before its
 *	 first value that is a probe, of no bytes. It has server.pull_stall for that. So a client
 *	 that serves no READ at all holds no memory and has no place in line. (Memory that was given
 *	 can't be taken back while a READ into it is posted, short of ending the queue pair.)
 *   BUDGET-4. When a connection ends while it holds memory for a value that has not arrived,
 *	 because it stalled or for another reason, its principal is late for server.pull_timeout:
 *	 requests of its connections from then on, and those that wait when their turn comes, pass
 *	 the gate of late principals, too. Late principals together hold one share at most, beside
 *	 what they held before, and wait for each other; a request that waits there when the time is
 *	 over still does. So principals that stall, however many, leave the others a share, except
 *	 the first time: if two or more stall at once, the others wait for server.pull_stall; if two
 *	 or more serve a part now and then, until one of their values has arrived,
 *	 server.pull_timeout at most. Beyond LATE_PRINCIPALS_MAX the oldest are forgotten early.
 *   BUDGET-5. A connection holds memory for several values, sent one after another, only while no
 *	 connection of its principal waits, all waiters fit at the last gate, and it is not late;
 *	 then it holds 1 / BUDGET_MORE_PART of a share at most, or one value. It waits for one value
 *	 at a time, in the order of arrival like others. So it gets no more memory than others that
 *	 want some, and no earlier.
 *   BUDGET-6. The worker of a hold calls all functions for it, so the connection of a waiting hold
 *	 exists. Other workers may move the hold to the next gate, but it passes the last one only
 *	 in budget_take(): when the lock is released, holds there that have their turn are woken.
 *	 For a hold of another worker, that worker's budgets_look is set; it wakes, and calls
 *	 budget_look(). So if not all fit, waiters also wait for the workers of those before them.
 */
#ifndef KVD_SERVER_WORKER_BUDGET_H
#define KVD_SERVER_WORKER_BUDGET_H

#include "server/worker/client.h"
#include "server/worker/tenant.h"
#include "server/worker/worker.h"

#define BUDGET_SHARES 2u
#define BUDGET_MORE_PART 4
/* Holds that are moved or woken with the lock held once; each of them then moves or wakes more. */
#define BUDGET_MOVES_MAX 32u

/* @share is in bytes. No other thread uses the budget yet. */
void budget_init(struct budget *budget, uint64_t share);

/* Sets the share, of which no value of the tenant is larger. Any thread. */
void budget_set_share(struct budget *budget, uint64_t share);

/*
 * Asks for @bytes, a share at most; call it again after a wait. The hold gives back what it had of
 * the budget, and is then next at each gate. False: it waits; its client is woken when it should
 * try again.
 */
bool budget_take(struct budget *budget, struct budget_hold *hold, uint64_t bytes);
/* Takes @bytes more if BUDGET-5 allows it. False: it does not, and nothing waits. */
bool budget_take_more(struct budget *budget, struct budget_hold *hold, uint64_t bytes);
/* Returns @bytes of what is held: a value arrived. */
void budget_give(struct budget *budget, struct budget_hold *hold, uint64_t bytes);
/* Whether the hold passes the gate of late principals from now on. Its wait ends, if it waited. */
void budget_set_late(struct budget *budget, struct budget_hold *hold, bool late);
/* Ends the hold's wait, if it waits. */
void budget_leave(struct budget *budget, struct budget_hold *hold);

/*
 * Memory for the value that an append or prepend makes from a large item in @steps: takes what the
 * next step will allocate from the tenant's budget. False: the step has to wait for memory that
 * others hold, and its client will be woken. @hold is all zero at first.
 */
bool budget_take_build(struct client *client, struct budget_hold *hold, struct large *steps);
/* The append ended, in any way: gives back what it held, and ends its wait. */
void budget_give_build(struct client *client, struct budget_hold *hold);

/* Wakes the connections of @worker that have their turn. Called by the worker. */
void budget_look(struct budget *budget, struct worker *worker);
/* Adds the bytes held and the number of waiters. Any thread. */
void budget_count(struct budget *budget, uint64_t *bytes, uint64_t *waits);

#endif /* KVD_SERVER_WORKER_BUDGET_H */
