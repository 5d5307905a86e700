/* SPDX-License-Identifier: MIT */
/* The limbo: collects memory, waits for a grace period and frees it. */
#include "server/store/limbo.h"

#include <urcu-qsbr.h>

#include "common/barrier.h"
#include "common/util/stat.h"

/* HOLD-2 */
static bool copy_held(const struct limbo *limbo)
{
	bool any = false;

	for (uint64_t i = 0; i < limbo->count; i++)
		if (limbo->entries[i].bytes)
			any |= holds_copy(limbo->holds, limbo->entries[i].p,
					  limbo->entries[i].bytes);
	return any;
}

void limbo_empty(struct limbo *limbo, struct mem_cache *cache)
{
	uint64_t i;

	if (!limbo->count)
		return;
	synchronize_rcu();
	if (copy_held(limbo))
		synchronize_rcu();
	for (i = 0; i < limbo->count; i++) {
		if (limbo->entries[i].bytes) {
			mem_free(cache, limbo->entries[i].p, limbo->entries[i].bytes);
		} else {
			/* MEMORY-1: zeroes the first 8 bytes, which are also a bucket's sum. */
			bucket_seal(limbo->entries[i].p, 0);
			mem_free_bucket(cache, limbo->entries[i].p);
		}
	}
	stat_set(&limbo->count, 0);
	limbo->bytes = 0;
}

void limbo_add(struct limbo *limbo, struct mem_cache *cache, void *p, size_t bytes)
{
	limbo->entries[limbo->count] = (struct limbo_entry){ p, bytes };
	stat_add(&limbo->count, 1);
	limbo->bytes += bytes;
	if (limbo->count == LIMBO_MAX || limbo->bytes > memory_bytes(cache->memory) / LIMBO_SHARE)
		limbo_empty(limbo, cache);
}
