/* SPDX-License-Identifier: MIT */
/* The storage engine without a server, for benchmarks of it alone: a store and one thread. */
#include "bench/engine/engine.h"

#include <err.h>
#include <stdlib.h>

void engine_create(struct engine *engine, uint64_t bytes, uint32_t level, uint32_t fill)
{
	const struct store_options options = {
		.bytes = bytes,
		.hugepages = HUGEPAGES_OFF,
		.level = level,
		.value_max = 1 << 20,
		.fill = fill,
		.eviction = EVICTION_NONE,
	};

	urcu_qsbr_register_thread();
	if (store_create(&engine->store, &options))
		errx(EXIT_FAILURE, "no region of %llu bytes", (unsigned long long)bytes);
	if (store_thread_init(&engine->thread, &engine->store.table, 0))
		errx(EXIT_FAILURE, "no memory for a thread");
}

void engine_destroy(struct engine *engine)
{
	store_thread_release(&engine->thread);
	store_destroy(&engine->store);
	urcu_qsbr_unregister_thread();
}
