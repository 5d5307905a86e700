/* SPDX-License-Identifier: MIT */
/*
 * Budgets: how much item memory large values that are not finished may take, and who waits for
 * some, holding none. A tenant has two, which all workers share: of values that are being read from
 * clients (server/net/pull.h), and of those that an append or prepend makes from large items
 * (server/net/build.h). A holder of the second one waits for nobody, so those of the
 * first one may wait for it.
 *
 *   B1. What is held of one budget, of all workers together, is at most its share:
 *	 memory.pull_share percent of the item memory that the tenant's store begins with. No value
 *	 of the tenant is larger (config_value_fits()).
 *   B2. There are two classes of connections (but for B6): those whose last pull arrived, and the
 *	 others. The others hold half of the share at most, or one value, and while they wait, they
 *	 can get that half. So clients that never serve a READ do not keep those that do from
 *	 storing values. What is made from large items depends on no client: all of it is of the
 *	 first class.
 *   B3. A class is served in the order of arrival. A value of more than half of the share stops
 *	 later ones of both classes until it was served.
 *   B4. At most BUDGET_WAITING_MAX for each worker of a class wait for one budget; further ones are
 *	 refused. So newcomers, however many, take no place from those whose values arrive.
 *   B5. A connection asks for memory for a pull only after it has served a READ: one of no bytes, a
 *	 probe, before its first value. It has server.pull_stall for that. So clients that serve no
 *	 READ at all hold no memory and have no place among those that wait, and newcomers do not
 *	 wait for them. (Memory that was given can't be taken back while a READ into it is posted,
 *	 short of ending the queue pair.)
 *   B6. When a connection ends while it holds memory for a value that has not arrived, because it
 *	 stood still or by itself, its principal (server/net/principal.h) is late, for as long as
 *	 server.pull_timeout: all its connections, of all workers, are of a third class, those that
 *	 wait already when their turn comes. That class holds 1 / BUDGET_LATE_PART of the share at
 *	 most, gets nothing while any other connection waits, and leaves room for the largest value
 *	 that others asked for. Only when other principals have neither held nor asked for memory
 *	 for server.pull_stall does it get that room, too, or what one larger value needs, alone;
 *	 what it used itself before it was late does not count. So who waits for memory waits for a
 *	 principal that stalls once: for server.pull_stall (server.pull_timeout if it serves a part
 *	 now and then), with however many processes and connections it asks, and however often it
 *	 connects anew; and once again each time that it comes after a pause of all others of
 *	 server.pull_stall or longer. For several such principals at once it waits as many times, at
 *	 most: less if there is room for several of their values. Of more than LATE_PRINCIPALS_MAX
 *	 the first ones are forgotten early. A principal that is never late, since a
 *	 part of each value arrives in time, keeps others waiting for all of its values that have
 *	 come before theirs (B3).
 *   B7. A connection holds memory for several values, which it gave one behind the other, only
 *	 while nobody waits, and 1 / BUDGET_MORE_PART of the share at most, or for one value. It
 *	 waits for one of them at a time, in the order of arrival like others. So it gets no more
 *	 memory than others who want some, and no earlier.
 *   B8. The worker of a hold calls all functions for it, so a hold that is in a budget's queue is
 *	 of a connection that is there. It alone writes the hold, under the budget's lock, under
 *	 which others read it. When the lock is released it wakes those whose turn has come: its own
 *	 connections at once; for those of others it sets their worker's budgets_look and wakes
 *	 that, which calls budget_look(). So the first of a class has its turn when its worker runs,
 *	 and those in line after it wait for that worker, too.
 */
#ifndef KVD_SERVER_NET_BUDGET_H
#define KVD_SERVER_NET_BUDGET_H

#include "server/net/conn.h"
#include "server/net/tenant.h"
#include "server/net/worker.h"

#define BUDGET_WAITING_MAX 1024u
#define BUDGET_LATE_PART 8
#define BUDGET_MORE_PART 4

enum budget_admission {
	BUDGET_ADMITTED,
	BUDGET_WAITS,	/* deferred_wake() follows when it is worth trying again */
	BUDGET_REFUSED, /* B4 */
};

/* Of @bytes_max, for so many workers. Nobody uses it. */
void budget_init(struct budget *budget, uint64_t bytes_max, unsigned int workers);

/*
 * Asks for @bytes; again after it waited. What the hold had of the budget it gives back, and then
 * is the first of its class.
 */
enum budget_admission budget_take(struct budget *budget, struct budget_hold *hold, uint64_t bytes);
/* Takes @bytes in addition to what is held, if B7 allows it. False: it does not wait for them. */
bool budget_take_more(struct budget *budget, struct budget_hold *hold, uint64_t bytes);
/* Returns @bytes of what is held: a value arrived. */
void budget_give_part(struct budget *budget, struct budget_hold *hold, uint64_t bytes);
/* Returns what is held, if anything is. @arrived: the value did. */
void budget_give(struct budget *budget, struct budget_hold *hold, bool arrived);
/* Moves the hold to another class, unless it holds some. If it waited, it does not any more. */
void budget_class_set(struct budget *budget, struct budget_hold *hold, enum budget_class class);
/* It waits no more, if it did. */
void budget_leave(struct budget *budget, struct budget_hold *hold);

/*
 * Wakes those connections of @worker that are the first of their class, if there is room for them
 * now, or if their principal is late no more. Whether anyone's late value waits. The worker.
 */
bool budget_look(struct budget *budget, struct worker *worker);
/* Adds what is held, and how many wait, to these numbers. Any thread. */
void budget_count(struct budget *budget, uint64_t *bytes, uint64_t *waits);

#endif /* KVD_SERVER_NET_BUDGET_H */
