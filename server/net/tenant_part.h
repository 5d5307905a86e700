/* SPDX-License-Identifier: MIT */
/*
 * A worker's part of a tenant: what one thread needs to work on the tenant's store, and what
 * requests that are not finished hold of its item memory. A connection has the part of its tenant
 * and its worker; so what one tenant's clients do is paid for by that tenant's memory.
 */
#ifndef KVD_SERVER_NET_TENANT_PART_H
#define KVD_SERVER_NET_TENANT_PART_H

#include <sys/queue.h>

#include "server/net/mailbox.h"
#include "server/net/poller.h"
#include "server/net/principal.h"
#include "server/store/store.h"

struct tenant;

/* Memory of large values that are not finished, and who waits for it: server/net/budget.h. */
struct budget {
	uint64_t bytes_max;
	uint64_t held[BUDGET_CLASSES];
	TAILQ_HEAD(budget_waiting, budget_hold)
	waiting[BUDGET_CLASSES]; /* in the order of arrival */
	unsigned int waiting_count[BUDGET_CLASSES];
	uint64_t arrivals; /* of those that have begun to wait */
	/*
	 * When one that is not late last asked for memory, or held or awaited it; then the same of
	 * all other principals.
	 */
	struct budget_use {
		struct principal principal;
		uint64_t at_ns;
	} used[2];
	uint64_t used_bytes; /* the most that one asked for since there was a pause (B6) */
};

/* The worker's alone, but for the statistics of the thread. */
struct tenant_part {
	struct tenant *tenant;
	struct store *store;
	struct store_thread thread;
	struct budget pull_budget;     /* of values that are being read from clients */
	struct budget build_budget;    /* of those being made from large items */
	bool attached;		       /* the worker has it in its list, from the first HELLO on */
	LIST_ENTRY(tenant_part) entry; /* in worker->parts, if it is attached */
	struct note note;	       /* NOTE_TENANT_DETACH, then NOTE_TENANT_DETACHED */
};

#endif /* KVD_SERVER_NET_TENANT_PART_H */
