/* SPDX-License-Identifier: MIT */
/* The tenant `default` of a test's workers, as a job makes it at the start. */
#ifndef KVD_TESTS_SUPPORT_DEFAULT_TENANT_H
#define KVD_TESTS_SUPPORT_DEFAULT_TENANT_H

#include <string.h>

#include "server/worker/tenant.h"
#include "server/worker/worker.h"

static inline void default_tenant_init(struct tenant *tenant, struct store *store,
				       struct worker *workers, unsigned int count)
{
	*tenant = (struct tenant){ .name = "default", .state = TENANT_SERVES };
	tenant->now.store = store;
	for (unsigned int i = 0; i < count; i++) {
		tenant->now.parts[i] = &workers[i].part;
		workers[i].part.tenant = tenant;
		workers[i].part.store = store;
	}
}

#endif /* KVD_TESTS_SUPPORT_DEFAULT_TENANT_H */
