/* SPDX-License-Identifier: MIT */
/*
 * The list of tenants, the account of their memory, and the making and releasing of their stores.
 * The rules are TENANT-1 to TENANT-4 in server/worker/tenant.h.
 */
#ifndef KVD_SERVER_CONTROL_TENANTS_H
#define KVD_SERVER_CONTROL_TENANTS_H

#include <pthread.h>

#include "server/users/users.h"
#include "server/worker/tenant.h"
#include "server/worker/worker.h"

struct tenants {
	const struct worker_env *env;
	struct tenant *list[TENANTS_MAX]; /* NULL: free. The first is `default` */
	uint64_t memory;		  /* tenants.memory */
	uint64_t used;			  /* part of `memory` in use, including what a job needs */
	/*
	 * Held by the control thread while it changes `list` or the state of a tenant, and by
	 * another thread while it reads them and the stores of the tenants that are not
	 * TENANT_WORKING.
	 */
	pthread_mutex_t lock;
};

static inline void tenants_lock(struct tenants *tenants)
{
	pthread_mutex_lock(&tenants->lock);
}

static inline void tenants_unlock(struct tenants *tenants)
{
	pthread_mutex_unlock(&tenants->lock);
}

static inline void tenant_set_state(struct tenants *tenants, struct tenant *tenant,
				    enum tenant_state state)
{
	tenants_lock(tenants);
	tenant->state = state;
	tenants_unlock(tenants);
}

/*
 * Makes the list with `default` in it, TENANT_WORKING, with the server's store and the workers'
 * parts, which tenant_store_create() will make. 0 or a negative errno after logging.
 */
int tenants_init(struct tenants *tenants, const struct worker_env *env, struct worker *workers);
/* Releases all tenants. No worker runs and no connection is left. */
void tenants_release(struct tenants *tenants);
/* Stops the maintenance threads of all tenants. No job runs. */
void tenants_stop(struct tenants *tenants);
/* Calls store_tick() for all tenants. The control thread. */
void tenants_tick(struct tenants *tenants);

/* The tenant with this name, in any state, or NULL. */
struct tenant *tenants_find(const struct tenants *tenants, const char *name);
/*
 * Adds a tenant of this name and size, TENANT_WORKING. NULL: the name exists, or no place or not
 * enough of tenants.memory is left; @why, of @size bytes, says so with figures.
 */
struct tenant *tenants_add(struct tenants *tenants, const char *name, uint64_t bytes, char *why,
			   size_t size);
/*
 * Takes @bytes of tenants.memory, and gives them back. False: less is left, and @why says so with
 * figures.
 */
bool tenants_reserve(struct tenants *tenants, uint64_t bytes, char *why, size_t size);
void tenants_unreserve(struct tenants *tenants, uint64_t bytes);
/* Removes the tenant, whose store is released. */
void tenants_remove(struct tenants *tenants, struct tenant *tenant);

/* The largest value, in bytes, of a tenant of @bytes that is not `default`. */
uint64_t tenant_value_max(const struct worker_env *env, uint64_t bytes);
/* Sets the tenant's budgets for the store that it has now; nothing is held of them. */
void tenant_budgets_init(struct tenant *tenant, const struct worker_env *env);
/* Sets the budgets' shares for the size that the store has now. Any value still fits. */
void tenant_budgets_renew(struct tenant *tenant, const struct worker_env *env);
/*
 * Makes a store of @bytes, with its memory allocated, and registers it with the devices that serve;
 * if @start, starts its maintenance thread and adds it to the fleet's stores. @to: all zero, or for
 * `default` as tenants_init() leaves it. Any one thread. 0, -ECANCELED or, after logging, another
 * negative errno, with nothing to release.
 */
int tenant_store_create(struct tenant_store *to, struct tenant *tenant,
			const struct worker_env *env, uint64_t bytes, bool start);
/*
 * Maps the first @extents extents of the store's region, and registers them with the devices that
 * serve; and the reverse for those after them, which no thread and no connection uses. Any one
 * thread that is not an RCU reader. @cancel: ends it early. 0, -ECANCELED or, after logging,
 * another negative errno, with nothing changed.
 */
int tenant_store_extend(struct tenant_store *store, const struct worker_env *env, uint32_t extents,
			const _Atomic bool *cancel);
void tenant_store_cut(struct tenant_store *store, const struct worker_env *env, uint32_t extents);
/* As tenant_store_destroy(), of a tenant that is dropped: nothing of it is kept. */
void tenant_store_drop(struct tenant *tenant, const struct worker_env *env);
/*
 * Any one thread that is not an RCU reader; TENANT-4. Accepts a zeroed @store, and that of
 * `default` twice.
 */
void tenant_store_destroy(struct tenant_store *store, const struct worker_env *env);

/*
 * Gives the worker, which does not run yet, its part of each tenant, unless it has had one before.
 * 0 or a negative errno; the parts that were made stay. No job runs.
 */
int tenants_add_worker(struct tenants *tenants, struct worker *worker);
/* Frees what the worker, which does not run any more, holds in its parts. No job runs. */
void tenants_rest_worker(struct tenants *tenants, const struct worker *worker);
/*
 * Registers all tenants with device @number, which is being set up again, or deregisters them
 * before it is released. No job runs. 0 or a negative errno after logging.
 */
int tenants_register(struct tenants *tenants, unsigned int number);
void tenants_deregister(struct tenants *tenants, unsigned int number);

#endif /* KVD_SERVER_CONTROL_TENANTS_H */
