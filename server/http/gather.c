/* SPDX-License-Identifier: MIT */
#include "server/http/gather.h"

#include <stddef.h>
#include <string.h>

#include "common/util/stat.h"
#include "server/worker/budget.h"

/* The sum over all threads of the store, the maintenance thread's included. */
#define THREADS_SUM(field) table_sum(&store->table, offsetof(struct store_thread, field))

static void gather_memory(struct tenant_sample *sample, const struct store *store)
{
	memory_stats(store->memory, &sample->memory);
	sample->region_bytes = stat_read(&store->region.bytes);
	sample->region_page_bytes = store->region.page_bytes;
	sample->region_large_bytes = stat_read(&store->region.large_bytes);
	sample->region_kept = store->region.keep.head != NULL;
	sample->item_memory = memory_bytes(store->memory);
	sample->item_memory_failures = THREADS_SUM(cache.failures);
	sample->limbo = THREADS_SUM(limbo.count);
	pins_stats(store->pins, &sample->pins);
}

static void gather_store(struct tenant_sample *sample, struct store *store)
{
	struct flush flushes[WIRE_FLUSHES_LATER_MAX];

	gather_memory(sample, store);
	sample->items = store_items(store);
	sample->index_buckets = index_buckets(&store->table);
	sample->flushes_waiting = maintenance_waiting(&store->maintenance, flushes);
	sample->youngest_s = evicted_youngest_s(&store->table);
	sample->eviction = eviction_policy_name(store->table.eviction);
	sample->has_curve = store->table.curve;
	if (sample->has_curve)
		curve_stats(store->table.curve, &sample->curve);
#define X(name, help) sample->table.name = THREADS_SUM(stats.name);
	TABLE_STATS(X)
#undef X
#define X(name, help) sample->maintenance.name = stat_read(&store->maintenance.stats.name);
	MAINTENANCE_STATS(X)
#undef X
}

static void gather_classes(struct gathered *gathered, const struct store *store)
{
	for (unsigned int i = 0; i < MEM_CLASSES_MAX; i++) {
		struct size_class_sample *sample = &gathered->classes[i];

		sample->bytes = size_class_stats(store->memory, i, &sample->stats);
		sample->evictions = THREADS_SUM(evicted[i]);
	}
}

static void gather_tenant(struct gathered *gathered, struct tenant *tenant, unsigned int place)
{
	struct tenant_sample *sample = &gathered->tenants[gathered->count++];
	struct budget_stats *budgets = &gathered->budgets;

	memset(sample, 0, sizeof(*sample));
	memcpy(sample->name, tenant->name, sizeof(sample->name));
	sample->place = place;
	gather_store(sample, tenant->now.store);
	budget_count(&tenant->pull_budget, &budgets->pull_bytes, &budgets->pull_waits);
	budget_count(&tenant->build_budget, &budgets->build_bytes, &budgets->build_waits);
	if (!place)
		gather_classes(gathered, tenant->now.store);
}

void gather(struct gathered *gathered, struct tenants *tenants)
{
	struct tenant *tenant;

	gathered->count = 0;
	gathered->budgets = (struct budget_stats){ 0 };
	memset(gathered->classes, 0, sizeof(gathered->classes));
	tenants_lock(tenants);
	for (unsigned int i = 0; i < TENANTS_MAX; i++) {
		tenant = tenants->list[i];
		if (tenant && tenant->state != TENANT_WORKING)
			gather_tenant(gathered, tenant, i);
	}
	tenants_unlock(tenants);
}
