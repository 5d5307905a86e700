/* SPDX-License-Identifier: MIT */
/*
 * Tenants: each has a store of its own, with a part of it for each worker and a registration with
 * each device. What a client may READ is what its rkey reaches: the region of its tenant.
 *
 *   N1. A connection is in one tenant, which is chosen when it is accepted. Its queue pair reaches
 *	 the region of that tenant alone, by a memory window of its own (grant.h). A device without
 *	 windows serves `default` alone, and has no registration of another one's region.
 *   N2. What all tenants but `default` take, whatever they are made from or into at the time, is at
 *	 most tenants.memory.
 *   N3. Memory is allocated, registered and released by the thread of the jobs (tenant_job.h):
 *	 neither the control thread nor a worker waits for it.
 *   N4. A store is released when no connection is in the tenant and no worker knows its part.
 *
 * The control thread has the list. A tenant is the jobs' while one works on it.
 */
#ifndef KVD_SERVER_NET_TENANT_H
#define KVD_SERVER_NET_TENANT_H

#include "server/net/cpu.h"
#include "server/net/tenant_part.h"

/* With `default`. */
#define TENANTS_MAX 64

enum tenant_state {
	TENANT_NONE,	/* its place is free */
	TENANT_SERVES,	/* connections are accepted */
	TENANT_CLOSING, /* its connections end, and the workers forget it */
	TENANT_WORKING, /* a job creates it, resizes it or destroys it */
};

/* What a resized tenant has anew. */
struct tenant_store {
	struct store *store; /* NULL: there is none */
	struct tenant_part *parts[WORKERS_MAX];
	struct tenant_part *parts_memory; /* of all of them; NULL: they are the workers' */
	struct ibv_mr *mrs[NIC_MAX];	  /* NULL: not registered with that device */
};

struct tenant {
	char name[WIRE_TENANT_MAX + 1];
	enum tenant_state state;
	uint64_t bytes;	      /* that it was created or resized with */
	uint32_t conns_count; /* in it */
	/* Of `default` the mrs are those of struct nic. */
	struct tenant_store now;
};

/* The region of @tenant as device @number has it, or NULL: it is not served there. */
static inline struct ibv_mr *tenant_mr(const struct tenant *tenant, const struct nic *nic,
				       unsigned int number)
{
	return tenant->now.parts_memory ? tenant->now.mrs[number] : nic->mr;
}

#endif /* KVD_SERVER_NET_TENANT_H */
