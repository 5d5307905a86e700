/* SPDX-License-Identifier: MIT */
/* Counts evicted items by age and size class. */
#include "server/store/evicted.h"

#include "common/barrier.h"
#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/store/access_time.h"
#include "server/store/size_class.h"

void evicted_init(struct table *table)
{
	struct evicted *evicted = &table->evicted;

	for (unsigned int i = 0; i < EVICTED_PERIODS; i++)
		atomic_init(&evicted->youngest_s[i], EVICTED_NONE);
	evicted->period = table_clock_ns(table) / 1000000000u / EVICTED_PERIOD_S;
}

static void note_youngest(struct store_thread *thread, uint32_t age)
{
	uint64_t period = thread->now_ns / 1000000000u / EVICTED_PERIOD_S;
	_Atomic uint32_t *at = &thread->table->evicted.youngest_s[period % EVICTED_PERIODS];
	uint32_t youngest = atomic_load_explicit(at, memory_order_relaxed);

	while (age < youngest &&
	       !atomic_compare_exchange_weak_explicit(at, &youngest, age, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

static void count_age(struct table_stats *stats, uint32_t age)
{
	stat_add(&stats->evictions_1m, age < 60);
	stat_add(&stats->evictions_10m, age >= 60 && age < 600);
	stat_add(&stats->evictions_1h, age >= 600 && age < 3600);
	stat_add(&stats->evictions_1d, age >= 3600 && age < 86400);
}

void do_evicted_count(struct store_thread *thread, const struct item *item)
{
	struct access_told told = access_time_tell(thread, item_access_load(item));
	unsigned int class = mem_class(item_bytes(item));
	struct table_stats *stats = &thread->stats;
	uint32_t age;

	if (class == MEM_CLASS_LARGE)
		stat_add(&stats->evictions_large, 1);
	else
		stat_add(&thread->evicted[class], 1);
	stat_add(&stats->evictions_low, told.use == WIRE_USE_LOW);
	if (told.use != WIRE_USE_NORMAL || is_expired(item->expires, thread->now_ns))
		return;
	age = access_time_age_s(thread, told.age);
	count_age(stats, age);
	note_youngest(thread, age);
}

uint32_t evicted_youngest_s(const struct table *table)
{
	uint32_t youngest = EVICTED_NONE;

	for (unsigned int i = 0; i < EVICTED_PERIODS; i++) {
		uint32_t age = atomic_load_explicit(&table->evicted.youngest_s[i],
						    memory_order_relaxed);

		youngest = age < youngest ? age : youngest;
	}
	return youngest;
}

bool evicted_tick(struct table *table, uint64_t now_s, uint32_t *youngest_s)
{
	struct evicted *evicted = &table->evicted;
	uint64_t period = now_s / EVICTED_PERIOD_S;
	bool was_small = evicted->small;

	if (period == evicted->period)
		return false;
	*youngest_s = atomic_load_explicit(&evicted->youngest_s[evicted->period % EVICTED_PERIODS],
					   memory_order_relaxed);
	/* Up to the next period: threads may have begun this one already. */
	for (unsigned int i = 0; evicted->period < period && i < EVICTED_PERIODS; i++)
		atomic_store_explicit(
			&evicted->youngest_s[(++evicted->period + 1) % EVICTED_PERIODS],
			EVICTED_NONE, memory_order_relaxed);
	evicted->period = period;
	evicted->small = *youngest_s < EVICTED_PERIOD_S;
	return evicted->small && !was_small;
}
