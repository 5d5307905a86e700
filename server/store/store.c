/* SPDX-License-Identifier: MIT */
/* The store: creates and destroys its parts, region, item memory, table and maintenance thread. */
#include "server/store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/parse.h"
#include "server/store/access_time.h"
#include "server/store/adopt.h"
#include "server/store/curve.h"
#include "server/store/evicted.h"
#include "server/store/growth.h"
#include "server/store/recover.h"

/* Names the pages of the region, and whether they are allocated: no silent fallback. */
static void describe_pages(const struct region *region, bool prefault, char *text, size_t size)
{
	char bytes[PARSE_FORMAT_MAX];
	int at = snprintf(text, size, "pages of %s", show_size(region->page_bytes, bytes));

	if (region->large_bytes)
		at += snprintf(text + at, size - (size_t)at,
			       ", %s of them on transparent huge pages",
			       show_size(region->large_bytes, bytes));
	if (prefault)
		snprintf(text + at, size - (size_t)at, ", allocated in %" PRIu32 " ms",
			 region->prefault_ms);
}

static void store_log(const struct store *store, const struct store_options *options)
{
	char text[256], pages[128], max[PARSE_FORMAT_MAX];

	region_describe(store->region.bytes, options->level, text, sizeof(text));
	describe_pages(&store->region, options->prefault, pages, sizeof(pages));
	log_notice("store: %s%s%s; %s, NUMA %s", text, options->bytes_max ? " of at most " : "",
		   options->bytes_max ? show_size(options->bytes_max, max) : "", pages,
		   store->region.numa);
}

int store_check(const struct store_options *options)
{
	return region_check(options);
}

static int pins_create_or_log(struct pins **pins, struct keep *keep)
{
	*pins = pins_create(keep);
	if (!*pins)
		log_error("store: out of memory for the account of pinned items");
	return *pins ? 0 : -ENOMEM;
}

static int curve_create_or_log(struct table *table)
{
	table->curve = curve_create(table);
	if (!table->curve)
		log_error("store: can't estimate a curve (memory.curve = yes): %m");
	return table->curve ? 0 : -ENOMEM;
}

/* Makes the store empty, or what was kept of it. */
static int store_fill(struct store *store, const struct store_options *options)
{
	struct keep *keep = &store->region.keep;
	int err = 0;

	/* From here on lists or sums are changed: a kill has to be noticed. */
	if (keep->found != KEEP_FOUND_NONE)
		atomic_store(&keep->head->state, KEEP_SERVES);
	if (keep->found == KEEP_FOUND_CLEAN)
		store_adopt(&store->table);
	else if (keep->found == KEEP_FOUND_KILLED)
		err = recover_run(&store->table, options);
	else
		err = index_format(&store->table, options->cancel);
	if (err || !keep->head)
		return err;
	if (keep->found == KEEP_FOUND_NONE)
		atomic_store(&keep->head->state, KEEP_SERVES);
	keep->serves = true;
	return 0;
}

int store_create(struct store *store, const struct store_options *options)
{
	int err;

	memset(store, 0, sizeof(*store));
	store->sweep_share = options->sweep_share;
	err = region_create(&store->region, options);
	if (err)
		return err;
	err = memory_create(&store->memory, &store->region,
			    index_bytes(store->region.geometry.level_base));
	if (!err)
		err = pins_create_or_log(&store->pins, &store->region.keep);
	if (!err) {
		table_init(&store->table, &store->region, store->memory, store->pins, options);
		access_time_init(&store->table);
		evicted_init(&store->table);
		err = options->curve ? curve_create_or_log(&store->table) : 0;
	}
	if (!err)
		err = store_fill(store, options);
	if (err)
		store_destroy(store);
	else
		store_log(store, options);
	return err;
}

void store_renew_versions(struct store *store, uint64_t random)
{
	uint64_t version = version_clock_start(clock_read_ns(CLOCK_REALTIME), random);

	table_raise_versions(&store->table, version >> THREAD_ID_BITS);
}

void store_set_clock(struct store *store, uint64_t clock_base)
{
	if (store->table.clock_base == clock_base)
		return;
	table_set_clock(&store->table, clock_base);
	access_time_init(&store->table);
	evicted_init(&store->table);
}

void store_destroy(struct store *store)
{
	if (store->table.region)
		store_keep(&store->table);
	/* In the reverse order. */
	curve_destroy(store->table.curve);
	store->table.curve = NULL;
	pins_destroy(&store->region.keep, store->pins);
	store->pins = NULL;
	memory_destroy(store->memory);
	store->memory = NULL;
	region_destroy(&store->region);
}

/* Items that an earlier process knew to be stale are removed before a client can see them. */
static void stale_remove(struct store *store)
{
	const struct keep *keep = &store->region.keep;

	for (unsigned int i = 0; keep->head && i < KEEP_STALE_MAX; i++) {
		struct keep_stale *stale = &keep->stale[i];
		uint64_t version = atomic_load(&stale->version);

		if (version)
			table_remove_version(&store->maintenance.store_thread, stale->hash,
					     version);
		atomic_store(&stale->version, 0);
	}
}

int store_start(struct store *store, const struct store *from)
{
	int err;

	err = maintenance_init(&store->maintenance, &store->table, MAINTENANCE_THREAD_ID,
			       store->sweep_share, from ? &from->maintenance : NULL);
	if (err)
		return err;
	if (!from)
		stale_remove(store);
	return maintenance_start(&store->maintenance);
}

void store_stop(struct store *store)
{
	maintenance_stop(&store->maintenance);
	maintenance_release(&store->maintenance);
}

void store_open_extents(struct store *store, unsigned int count)
{
	struct region *region = &store->region;

	/* Before an item is there: EXTENT-5. */
	if (region->keep.head)
		atomic_store(&region->keep.head->extents, count);
	memory_grow(store->memory, count * region->extent_bytes);
}

int store_close_extents(struct store *store, unsigned int count)
{
	int err = extents_close(&store->maintenance.extents, &store->table, count);

	if (!err)
		table_wake_maintenance(&store->table);
	return err;
}

void store_close_cancel(struct store *store)
{
	atomic_store(&store->maintenance.extents.cancel, true);
	table_wake_maintenance(&store->table);
}

enum extents_state store_extents_state(const struct store *store, char *why, size_t size)
{
	const struct extents *extents = &store->maintenance.extents;
	enum extents_state state = (enum extents_state)atomic_load(&extents->state);

	if (state == EXTENTS_FAILED)
		snprintf(why, size, "%s", extents->why);
	return state;
}

uint64_t store_items(const struct store *store)
{
	/* Removes are read first, so that no key is subtracted before it was added. */
	uint64_t removes = table_sum(&store->table, offsetof(struct store_thread, stats.removes));

	return store->table.items_kept +
	       table_sum(&store->table, offsetof(struct store_thread, stats.inserts)) - removes;
}

uint64_t store_clock_ns(const struct store *store)
{
	return table_clock_ns(&store->table);
}

bool store_tick(struct store *store, uint32_t *youngest_s)
{
	uint64_t now_s = store_clock_ns(store) / 1000000000u;

	store_keep_tick(&store->table);
	region_tick(&store->region, now_s, store_items(store));
	return evicted_tick(&store->table, now_s, youngest_s);
}

void store_publish_word(struct store *store, const struct fleet_word *word)
{
	region_publish_word(&store->region, word);
}

bool store_word(const struct store *store, struct fleet_word *word)
{
	return region_word(&store->region, word);
}
