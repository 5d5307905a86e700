/* SPDX-License-Identifier: MIT */
/*
 * The list of tenants, the account of their memory, and the making and releasing of their stores.
 * The rules are TENANT-1 to TENANT-4 in server/worker/tenant.h.
 */
#ifndef KVD_SERVER_CONTROL_TENANTS_H
#define KVD_SERVER_CONTROL_TENANTS_H

#include "server/users/users.h"
#include "server/worker/tenant.h"
#include "server/worker/worker.h"

struct tenants {
	const struct worker_env *env;
	struct tenant *list[TENANTS_MAX]; /* NULL: free. The first is `default` */
	uint64_t memory;		  /* tenants.memory */
	uint64_t used;			  /* of it, what a job needs included */
};

/*
 * Makes the list, with `default` in it, TENANT_WORKING: of the server's store and the workers'
 * parts, which tenant_store_create() makes. 0 or a negative errno after logging.
 */
int tenants_init(struct tenants *tenants, const struct worker_env *env, struct worker *workers);
/* Whatever there is of them. No worker runs and no connection is left. */
void tenants_release(struct tenants *tenants);
/* Stops the maintenance threads of all. No job runs. */
void tenants_stop(struct tenants *tenants);
/* What store_tick() does, of all. The control thread. */
void tenants_tick(struct tenants *tenants);

/* The tenant with this name, in any state, or NULL. */
struct tenant *tenants_find(const struct tenants *tenants, const char *name);
/*
 * A place for a tenant of this name and size, TENANT_WORKING. NULL: there is one already, or no
 * place or not enough of tenants.memory is left, and @why, of @size bytes, says so with figures.
 */
struct tenant *tenants_add(struct tenants *tenants, const char *name, uint64_t bytes, char *why,
			   size_t size);
/*
 * Takes @bytes of tenants.memory. False: there are fewer, and @why says so with figures. And gives
 * them back.
 */
bool tenants_reserve(struct tenants *tenants, uint64_t bytes, char *why, size_t size);
void tenants_unreserve(struct tenants *tenants, uint64_t bytes);
/* Its store is released. */
void tenants_remove(struct tenants *tenants, struct tenant *tenant);

/* Bytes of the largest value of a tenant of so many bytes that is not `default`. */
uint64_t tenant_value_max(const struct worker_env *env, uint64_t bytes);
/* The tenant's budgets are those of the store that it has now, of which nobody holds any. */
void tenant_budgets_init(struct tenant *tenant, const struct worker_env *env);
/*
 * Makes a store of @bytes, with its memory allocated, registers it with the devices that serve and
 * starts its maintenance thread, if @start. @to: all zero, or of `default` as tenants_init() leaves
 * it. Any one thread. 0, -ECANCELED or, after logging, another negative errno, with nothing left.
 */
int tenant_store_create(struct tenant_store *to, struct tenant *tenant,
			const struct worker_env *env, uint64_t bytes, bool start);
/*
 * Any one thread that is no RCU reader; TENANT-4. Takes one of zero bytes, too, and that of
 * `default` again.
 */
void tenant_store_destroy(struct tenant_store *store, const struct worker_env *env);

/*
 * Registers all tenants with device @number, which is set up again, or takes that back before it is
 * released. No job runs. 0 or a negative errno after logging.
 */
int tenants_register(struct tenants *tenants, unsigned int number);
void tenants_deregister(struct tenants *tenants, unsigned int number);

#endif /* KVD_SERVER_CONTROL_TENANTS_H */
