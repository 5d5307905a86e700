/* SPDX-License-Identifier: MIT */
/*
 * The memory of pulls (server/net/pull.h): how much item memory a worker's unfinished pulls may
 * hold, and the connections that wait for some, which hold none.
 *
 *   B1. Unfinished pulls hold at most memory.pull_share percent of the item memory, of which each
 *	 worker has an equal share; or one value, if that is larger: then it is the only one.
 *   B2. There are two classes of connections: those whose last pull arrived, and the others. The
 *	 others hold half of the share at most, and while they wait, they can get that half. So
 *	 clients that never serve a READ do not keep those that do from storing values.
 *   B3. A class is served in the order of arrival. A value of more than half of the share stops
 *	 later ones of both classes until it was served.
 *   B4. At most PULLS_WAITING_MAX connections of a worker wait; further pulls are refused.
 *
 * All functions are the worker's.
 */
#ifndef KVD_SERVER_NET_PULL_BUDGET_H
#define KVD_SERVER_NET_PULL_BUDGET_H

#include "server/net/conn.h"
#include "server/net/worker.h"

#define PULLS_WAITING_MAX 1024u

enum pull_admission {
	PULL_ADMITTED,
	PULL_WAITS,   /* deferred_wake(@conn) follows when it is worth trying again */
	PULL_REFUSED, /* B4 */
};

void pull_budget_init(struct pull_budget *budget, uint64_t bytes_max);

/* Asks for @bytes for the connection, which holds none; again after it waited. */
enum pull_admission pull_budget_take(struct pull_budget *budget, struct conn *conn, uint64_t bytes);
/* Returns what the connection holds, if it holds anything. @arrived: the value did. */
void pull_budget_give(struct pull_budget *budget, struct conn *conn, bool arrived);
/* The connection waits no more, if it did. */
void pull_budget_leave(struct pull_budget *budget, struct conn *conn);

#endif /* KVD_SERVER_NET_PULL_BUDGET_H */
