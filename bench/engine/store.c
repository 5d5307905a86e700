/* SPDX-License-Identifier: MIT */
/*
 * The storage engine without a server: see store.h.
 */
#include "bench/engine/store.h"

#include <err.h>
#include <stdlib.h>

void store_create(struct store *store, uint64_t bytes, uint32_t level, uint32_t fill)
{
	const struct region_options region = {
		.bytes = bytes,
		.hugepages = HUGEPAGES_OFF,
		.level = level,
		.value_max = 1 << 20,
	};
	const struct table_options table = { .fill = fill, .eviction = EVICTION_NONE };

	urcu_qsbr_register_thread();
	if (region_create(&store->region, &region) ||
	    memory_create(&store->memory, &store->region, index_bytes(level)))
		errx(EXIT_FAILURE, "no region of %llu bytes", (unsigned long long)bytes);
	table_init(&store->table, &store->region, store->memory, &table);
	if (store_thread_init(&store->thread, &store->table, 0))
		errx(EXIT_FAILURE, "no memory for a thread");
}

void store_destroy(struct store *store)
{
	store_thread_release(&store->thread);
	memory_destroy(store->memory);
	region_destroy(&store->region);
	urcu_qsbr_unregister_thread();
}
