/* SPDX-License-Identifier: MIT */
/*
 * Copies the statistics of all tenants' stores, for metrics: a family of metrics has samples of all
 * tenants, and each tenant is looked at once, under the lock of the list.
 */
#ifndef KVD_SERVER_HTTP_GATHER_H
#define KVD_SERVER_HTTP_GATHER_H

#include "server/control/tenants.h"
#include "server/store/store.h"
#include "server/worker/worker.h"

struct tenant_sample {
	char name[WIRE_TENANT_MAX + 1];
	unsigned int place; /* in tenants->list */
	uint64_t items, index_buckets, item_memory, item_memory_failures, limbo, flushes_waiting;
	uint64_t region_bytes, region_page_bytes, region_large_bytes, region_kept;
	uint32_t youngest_s; /* EVICTED_NONE: no eviction */
	const char *eviction;
	struct table_stats table;
	struct memory_stats memory;
	struct maintenance_stats maintenance;
	struct pins_stats pins;
	bool has_curve;
	struct curve_stats curve;
};

struct size_class_sample {
	uint32_t bytes; /* of a block; 0: there are no slabs of this class */
	struct size_class_stats stats;
	uint64_t evictions;
};

struct gathered {
	struct tenant_sample tenants[TENANTS_MAX];
	unsigned int count; /* tenants that serve, or are being closed */
	/* Of `default` alone, so that the metrics stay few. */
	struct size_class_sample classes[MEM_CLASSES_MAX];
	struct budget_stats budgets; /* of all tenants */
};

/* Any thread. */
void gather(struct gathered *gathered, struct tenants *tenants);

#endif /* KVD_SERVER_HTTP_GATHER_H */
