/* SPDX-License-Identifier: MIT */
/*
 * Tenants: each has a store of its own, with a part for each worker, a registration with each
 * device, and budgets of its memory. A client may READ what its rkey covers: the region of its
 * tenant.
 *
 *   TENANT-1. A connection is in one tenant, which is chosen when it is accepted. Its queue pair
 *	 reaches the region of that tenant alone, by a memory window of its own (grant.h). A device
 *	 without windows serves `default` alone, and registers no other tenant's region.
 *   TENANT-2. All tenants but `default` together take at most tenants.memory, also while they are
 *	 created or resized.
 *   TENANT-3. The job thread (tenant_job.h) allocates, registers and releases memory, also that of
 *	 `default` at the start: neither the control thread nor a worker waits for that, except when
 *	 the server ends.
 *   TENANT-4. A store is released once no connection is in the tenant and no worker knows its part.
 *
 * The control thread owns the list. While a job works on a tenant, the job owns the tenant.
 */
#ifndef KVD_SERVER_WORKER_TENANT_H
#define KVD_SERVER_WORKER_TENANT_H

#include <sys/queue.h>

#include "server/config/option_table.h"
#include "server/store/store.h"
#include "server/worker/budget_gate.h"
#include "server/worker/mailbox.h"
#include "server/worker/mc_counters.h"
#include "server/worker/poller.h"

/* With `default`. */
#define TENANTS_MAX 64

enum tenant_state {
	TENANT_NONE,	/* its place is free */
	TENANT_SERVES,	/* connections are accepted */
	TENANT_CLOSING, /* its connections end, and the workers forget it */
	TENANT_WORKING, /* a job creates it, resizes it or destroys it */
};

/* Memory of unfinished large values, and the holds that wait for it: server/worker/budget.h. */
struct budget {
	uint32_t lock;	    /* a mem_lock(); guards all fields but share, and the holds */
	unsigned int waits; /* holds, at any gate */
	uint64_t share;	    /* bytes */
	struct budget_gate late, all;
	uint64_t line; /* bytes wanted by the waiters at `all` */
};

/* What resizing a tenant replaces. */
struct tenant_store {
	struct store *store; /* NULL: none; the server owns that of `default` */
	/* Of the first workers, also of those that went since; workers own those of `default`. */
	struct tenant_part *parts[WORKERS_MAX];
	/* Of each extent of the region. NULL: not registered with that device. */
	struct ibv_mr *mrs[NIC_MAX][EXTENTS_MAX];
	/* The first extents, which clients may READ. The control thread sets it. */
	_Atomic uint32_t extents;
};

struct tenant {
	char name[WIRE_TENANT_MAX + 1];
	enum tenant_state state;
	uint64_t bytes;	      /* size at its creation or last resize */
	uint32_t conns_count; /* connections in the tenant */
	struct tenant_store now;
	struct budget pull_budget;   /* of values that are being read from clients */
	struct budget build_budget;  /* of values made from large items */
	struct marks *_Atomic marks; /* of items: server/memcached/marks.h; NULL: none */
	struct mc_counters mc_reset; /* what `stats reset` of memcached's protocol takes away */
};

/*
 * A worker's part of a tenant: what one thread needs to work on the tenant's store. A connection
 * has the part of its tenant and its worker, so each tenant's memory pays for what its own clients
 * do.
 *
 * Only the worker uses it, except for the statistics of the thread.
 */
struct tenant_part {
	struct tenant *tenant;
	struct store *store;
	struct store_thread thread;
	struct mc_counters commands;   /* of its clients of memcached's protocol */
	bool attached;		       /* the worker has it in its list, from the first HELLO on */
	LIST_ENTRY(tenant_part) entry; /* in worker->parts, if it is attached */
	struct note note;	       /* NOTE_TENANT_DETACH, then NOTE_TENANT_DETACHED */
};

#endif /* KVD_SERVER_WORKER_TENANT_H */
