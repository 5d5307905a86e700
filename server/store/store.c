/* SPDX-License-Identifier: MIT */
/* The store: creates and destroys its parts, region, item memory, table and maintenance thread. */
#include "server/store/store.h"

#include <string.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "server/store/growth.h"

static void store_log(const struct store *store, uint32_t level)
{
	char text[256];

	region_describe(store->region.bytes, level, text, sizeof(text));
	log_notice("store: %s; pages of %llu bytes, NUMA %s", text,
		   (unsigned long long)store->region.page_bytes, store->region.numa);
}

int store_create(struct store *store, const struct store_options *options)
{
	int err;

	memset(store, 0, sizeof(*store));
	store->sweep_share = options->sweep_share;
	err = region_create(&store->region, options);
	if (err)
		return err;
	err = memory_create(&store->memory, &store->region, index_bytes(options->level));
	if (err) {
		region_destroy(&store->region);
		return err;
	}
	table_init(&store->table, &store->region, store->memory, options);
	index_format(&store->table);
	store_log(store, options->level);
	return 0;
}

void store_destroy(struct store *store)
{
	/* In the reverse order; the table has nothing of its own to free. */
	memory_destroy(store->memory);
	store->memory = NULL;
	region_destroy(&store->region);
}

int store_start(struct store *store)
{
	int err;

	err = maintenance_init(&store->maintenance, &store->table, MAINTENANCE_THREAD_ID,
			       store->sweep_share);
	return err ? err : maintenance_start(&store->maintenance);
}

void store_stop(struct store *store)
{
	maintenance_stop(&store->maintenance);
	maintenance_release(&store->maintenance);
}

uint64_t store_items(const struct store *store)
{
	/* Removes first: so a key is never subtracted before it was added. */
	uint64_t removes = table_sum(&store->table, offsetof(struct store_thread, stats.removes));

	return table_sum(&store->table, offsetof(struct store_thread, stats.inserts)) - removes;
}

void store_tick(struct store *store)
{
	region_tick(&store->region, (clock_raw_ns() + store->table.clock_base) / 1000000000u,
		    store_items(store));
}
