/* SPDX-License-Identifier: MIT */
/*
 * The tenants of an earlier process, with memory.file: the store of each is kept in files beside
 * those of `default`, and is made again at the start.
 */
#ifndef KVD_SERVER_CONTROL_KEPT_TENANTS_H
#define KVD_SERVER_CONTROL_KEPT_TENANTS_H

#include "server/worker/tenant.h"
#include "server/worker/worker.h"

#define KEPT_FILE_BYTES (OPTION_FILE_MAX + WIRE_TENANT_MAX + 8)

/* What names of tenants can't have. */
#define KEPT_MARK ":"
#define KEPT_NEW ":new"

struct kept_tenant {
	char name[WIRE_TENANT_MAX + 1];
	uint64_t bytes;
};

struct kept_tenants {
	struct kept_tenant list[TENANTS_MAX];
	unsigned int count, next; /* those before `next` are made, or were refused */
};

/*
 * Writes the path of the region of a tenant to @file, and returns it; NULL: nothing is kept.
 * @is_new: of a store that is made beside the one that the tenant has.
 */
const char *kept_tenant_file(char file[KEPT_FILE_BYTES], const struct worker_env *env,
			     const char *tenant, bool is_new);

/* Finds those that were kept, but not `default`; removes what a resize has not finished. */
void kept_tenants_find(struct kept_tenants *kept, const struct worker_env *env);

/* Removes the files of a tenant's store that has been destroyed. */
void kept_tenant_remove(const struct worker_env *env, const char *tenant, bool is_new);
/* The new store takes the place of the other one, which has been destroyed. */
void kept_tenant_replace(const struct worker_env *env, const char *tenant);

#endif /* KVD_SERVER_CONTROL_KEPT_TENANTS_H */
