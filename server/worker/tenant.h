/* SPDX-License-Identifier: MIT */
/*
 * Tenants: each has a store of its own, with a part of it for each worker, a registration with
 * each device, and budgets of its memory. What a client may READ is what its rkey reaches: the
 * region of its tenant.
 *
 *   TENANT-1. A connection is in one tenant, which is chosen when it is accepted. Its queue pair
 *	 reaches the region of that tenant alone, by a memory window of its own (grant.h). A device
 *	 without windows serves `default` alone, and has no registration of another one's region.
 *   TENANT-2. What all tenants but `default` take, whatever they are made from or into at the time,
 *	 is at most tenants.memory.
 *   TENANT-3. Memory is allocated, registered and released by the thread of the jobs
 *	 (tenant_job.h), that of `default` at the start, too: neither the control thread nor a
 *	 worker waits for it, but for what is released when the server ends.
 *   TENANT-4. A store is released when no connection is in the tenant and no worker knows its part.
 *
 * The control thread has the list. A tenant is the jobs' while one works on it.
 */
#ifndef KVD_SERVER_WORKER_TENANT_H
#define KVD_SERVER_WORKER_TENANT_H

#include <sys/queue.h>

#include "server/config/option_table.h"
#include "server/store/store.h"
#include "server/worker/budget_gate.h"
#include "server/worker/mailbox.h"
#include "server/worker/poller.h"

/* With `default`. */
#define TENANTS_MAX 64

enum tenant_state {
	TENANT_NONE,	/* its place is free */
	TENANT_SERVES,	/* connections are accepted */
	TENANT_CLOSING, /* its connections end, and the workers forget it */
	TENANT_WORKING, /* a job creates it, resizes it or destroys it */
};

/* Memory of large values that are not finished, and who waits for it: server/worker/budget.h. */
struct budget {
	uint32_t lock;	    /* a mem_lock(); guards what follows but the share, and its holds */
	unsigned int waits; /* holds, at any gate */
	uint64_t share;	    /* bytes */
	struct budget_gate late, all;
	uint64_t line; /* bytes wanted by those that wait at the last one */
};

/* What a resized tenant has anew. */
struct tenant_store {
	struct store *store; /* NULL: there is none; that of `default` is the server's */
	struct tenant_part *parts[WORKERS_MAX];
	struct tenant_part *parts_memory; /* of all of them; NULL: they are the workers' */
	struct ibv_mr *mrs[NIC_MAX];	  /* NULL: not registered with that device */
};

struct tenant {
	char name[WIRE_TENANT_MAX + 1];
	enum tenant_state state;
	uint64_t bytes;	      /* that it was created or resized with */
	uint32_t conns_count; /* in it */
	struct tenant_store now;
	struct budget pull_budget;  /* of values that are being read from clients */
	struct budget build_budget; /* of those being made from large items */
};

/*
 * A worker's part of a tenant: what one thread needs to work on the tenant's store. A connection
 * has the part of its tenant and its worker; so what one tenant's clients do is paid for by that
 * tenant's memory.
 *
 * The worker's alone, but for the statistics of the thread.
 */
struct tenant_part {
	struct tenant *tenant;
	struct store *store;
	struct store_thread thread;
	bool attached;		       /* the worker has it in its list, from the first HELLO on */
	LIST_ENTRY(tenant_part) entry; /* in worker->parts, if it is attached */
	struct note note;	       /* NOTE_TENANT_DETACH, then NOTE_TENANT_DETACHED */
};

#endif /* KVD_SERVER_WORKER_TENANT_H */
