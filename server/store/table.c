/* SPDX-License-Identifier: MIT */
/*
 * The table's state, shared and of each thread, and the counters, versions and sums that every
 * change of an item needs.
 */
#include "server/store/table.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/splitmix.h"
#include "common/util/stat.h"
#include "server/store/host_sleep.h"

/*
 * The time of day is read once: the server's clock does not follow later corrections of it. The
 * clock of a store that was kept goes on, and its versions are above those of the process before,
 * whenever that started (CLOCK-1), and those that came from other servers.
 */
static void clock_init(struct table *table)
{
	const struct keep *keep = &table->region->keep;
	uint64_t realtime_ns = clock_read_ns(CLOCK_REALTIME);
	uint64_t random = table->region->geometry.incarnation, clock_base;

	if (keep->found == KEEP_FOUND_NONE) {
		table_set_clock(table, realtime_ns - clock_raw_ns());
		table->version_start = version_clock_start(realtime_ns, random);
		return;
	}
	clock_base = keep->head->clock_base;
	/* What the host has slept until now; table_clock_ns() adds what it sleeps from now on. */
	if (table->sleep)
		clock_base += table->sleep->start_ns - keep->head->sleep_start_ns;
	table_set_clock(table, clock_base);
	random ^= splitmix_next(&realtime_ns);
	table->version_start = version_clock_start(table_clock_ns(table), random) +
			       (1ull << (VERSION_RANDOM_BITS + THREAD_ID_BITS));
	table_raise_version_start(table, atomic_load(&keep->head->version));
}

void table_set_clock(struct table *table, uint64_t clock_base)
{
	struct keep_head *head = table->region->keep.head;

	table->clock_base = clock_base;
	if (!head)
		return;
	head->sleep_start_ns = table->sleep ? table->sleep->start_ns : 0;
	head->clock_base = clock_base;
}

void table_init(struct table *table, struct region *region, struct memory *memory,
		struct pins *pins, const struct store_options *options)
{
	*table = (struct table){
		.region = region,
		.memory = memory,
		.fill = options->fill,
		.eviction = options->eviction,
		.pins = pins,
		.pin_share = options->pin_share,
		.pin_time_max = options->pin_time_max,
		.sleep = options->sleep,
		.wake_fd = -1,
	};
	atomic_store(&table->buckets_max, geometry_buckets(&region->geometry));
	clock_init(table);
}

void table_raise_version_start(struct table *table, uint64_t counter)
{
	const uint64_t low = (1u << THREAD_ID_BITS) - 1;

	if (table->version_start >> THREAD_ID_BITS <= counter)
		table->version_start = counter << THREAD_ID_BITS | (table->version_start & low);
}

int store_thread_init(struct store_thread *thread, struct table *table, uint8_t id)
{
	memset(thread, 0, sizeof(*thread));
	thread->table = table;
	thread->limbo.holds = &table->holds;
	thread->id = (uint8_t)(table->version_start + id);
	thread->clock = table->version_start >> THREAD_ID_BITS;
	/* Not 0, which xorshift never leaves. */
	thread->random = 0x9e3779b97f4a7c15ull * (id + 1u);
	store_thread_clock(thread);
	if (table->thread_count == STORE_THREADS_MAX) {
		log_error("store: %u threads exist already, which is the maximum: lower "
			  "server.workers",
			  table->thread_count);
		return -ENOMEM;
	}
	if (table->region->keep.changes)
		thread->change = &table->region->keep.changes[table->thread_count];
	(void)mem_cache_init(&thread->cache, table->memory);
	table->threads[table->thread_count] = thread;
	/* Pairs with threads_count(): others may be reading the list. */
	__atomic_store_n(&table->thread_count, table->thread_count + 1, __ATOMIC_RELEASE);
	return 0;
}

static unsigned int threads_count(const struct table *table)
{
	return __atomic_load_n(&table->thread_count, __ATOMIC_ACQUIRE);
}

uint64_t table_clock_ns(const struct table *table)
{
	uint64_t now_ns = clock_raw_ns() + table->clock_base;

	return table->sleep ? now_ns + host_sleep_ns(table->sleep) : now_ns;
}

void store_thread_clock(struct store_thread *thread)
{
	uint64_t now_ns = table_clock_ns(thread->table);

	/* Never backward: a test may have set it ahead. */
	if (thread->now_ns < now_ns)
		thread->now_ns = now_ns;
}

uint64_t table_clock_max(const struct table *table)
{
	uint64_t clock = atomic_load_explicit(&table->version_floor, memory_order_relaxed), other;
	unsigned int i, count = threads_count(table);

	for (i = 0; i < count; i++) {
		other = __atomic_load_n(&table->threads[i]->clock, __ATOMIC_RELAXED);
		clock = other > clock ? other : clock;
	}
	return clock;
}

uint64_t table_sum(const struct table *table, size_t offset)
{
	unsigned int i, count = threads_count(table);
	uint64_t sum = 0;

	if (offset >= offsetof(struct store_thread, stats) &&
	    offset < offsetof(struct store_thread, stats) + sizeof(table->stats_kept))
		sum = *(const uint64_t *)((const char *)&table->stats_kept + offset -
					  offsetof(struct store_thread, stats));
	for (i = 0; i < count; i++)
		sum += stat_read((const uint64_t *)((const char *)table->threads[i] + offset));
	return sum;
}

void store_thread_idle(struct store_thread *thread)
{
	limbo_empty(&thread->limbo, &thread->cache);
}

void store_thread_rest(struct store_thread *thread)
{
	limbo_empty(&thread->limbo, &thread->cache);
	mem_cache_drain(&thread->cache);
}

void store_thread_release(struct store_thread *thread)
{
	if (!thread->table)
		return;
	limbo_empty(&thread->limbo, &thread->cache);
	mem_cache_release(&thread->cache);
	thread->table = NULL;
}

void table_wake_maintenance(const struct table *table)
{
	uint64_t one = 1;

	/*
	 * write() fails only if the event counter is at its maximum: then a wake-up is pending
	 * anyway.
	 */
	if (table->wake_fd >= 0 && write(table->wake_fd, &one, sizeof(one)) < 0)
		return;
}

uint64_t slot_for(const struct table *table, uint64_t hash, const struct item *item)
{
	return slot_make(hash_tag(hash), region_offset(table->region, item), item_bytes(item));
}

/* Lamport's clock: a key's versions increase, though threads share no counter. */
uint64_t next_version(struct store_thread *thread, const struct item *old)
{
	uint64_t seen = old ? old->version >> THREAD_ID_BITS : 0, clock = thread->clock;

	if (clock < thread->floor)
		clock = thread->floor;
	if (clock < seen)
		clock = seen;
	/* Atomic: flush_version() of server/store/maintenance.c reads it. */
	__atomic_store_n(&thread->clock, ++clock, __ATOMIC_RELAXED);
	return clock << THREAD_ID_BITS | thread->id;
}

void item_count(struct store_thread *thread, const struct item *item)
{
	stat_add(&thread->stats.live_bytes, item_bytes(item));
	stat_add(&thread->stats.expiring, item->expires != 0);
}

void item_uncount(struct store_thread *thread, const struct item *item)
{
	stat_sub(&thread->stats.live_bytes, item_bytes(item));
	stat_sub(&thread->stats.expiring, item->expires != 0);
}

void item_unpin(struct store_thread *thread, const struct item *item)
{
	uint16_t access = item_access_load(item);

	if (__builtin_expect(access_is_pin(access), 0))
		pins_give(thread->table->pins, access, item_class_bytes(item));
}

void count_keys(struct store_thread *thread, int64_t n)
{
	/* In steps, so that threads seldom write to the line they share. */
	thread->items_unreported += n;
	if (thread->items_unreported < ITEMS_UNREPORTED_MAX &&
	    thread->items_unreported > -ITEMS_UNREPORTED_MAX)
		return;
	atomic_fetch_add_explicit(&thread->table->items, thread->items_unreported,
				  memory_order_relaxed);
	thread->items_unreported = 0;
}

uint64_t item_seal_sum(const struct table *table, const struct item *item, uint64_t body)
{
	const struct region *region = table->region;

	return item_sum_of(item, body, &region->sum_key, region->geometry.incarnation,
			   region_offset(region, item));
}

void item_free(struct store_thread *thread, struct item *item)
{
	size_t bytes = item_bytes(item);

	if (bytes >= LIMBO_ITEM_BYTES)
		limbo_add(&thread->limbo, &thread->cache, item, bytes);
	else
		mem_free(&thread->cache, item, bytes);
}

void count_removal(struct store_thread *thread, enum removal why)
{
	stat_add(&thread->stats.evictions, why == REMOVAL_EVICTED);
	stat_add(&thread->stats.flushed, why == REMOVAL_FLUSHED);
	count_keys(thread, -1);
}
