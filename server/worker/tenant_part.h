/* SPDX-License-Identifier: MIT */
/*
 * A worker's part of a tenant: what one thread needs to work on the tenant's store. A connection
 * has the part of its tenant and its worker; so what one tenant's clients do is paid for by that
 * tenant's memory.
 */
#ifndef KVD_SERVER_WORKER_TENANT_PART_H
#define KVD_SERVER_WORKER_TENANT_PART_H

#include <sys/queue.h>

#include "server/store/store.h"
#include "server/worker/mailbox.h"
#include "server/worker/poller.h"

struct tenant;

/* The worker's alone, but for the statistics of the thread. */
struct tenant_part {
	struct tenant *tenant;
	struct store *store;
	struct store_thread thread;
	bool attached;		       /* the worker has it in its list, from the first HELLO on */
	LIST_ENTRY(tenant_part) entry; /* in worker->parts, if it is attached */
	struct note note;	       /* NOTE_TENANT_DETACH, then NOTE_TENANT_DETACHED */
};

#endif /* KVD_SERVER_WORKER_TENANT_PART_H */
