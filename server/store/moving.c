/* SPDX-License-Identifier: MIT */
/* Moving: which segments of the keys were changed, and what the server that gets them needs. */
#include "server/store/moving.h"

#include <string.h>

void store_reader_init(struct store_thread *thread, struct table *table)
{
	memset(thread, 0, sizeof(*thread));
	thread->table = table;
	store_thread_clock(thread);
}

void moving_begin(struct table *table, struct moving *moving)
{
	atomic_store_explicit(&table->moving, moving, memory_order_release);
}

void moving_end(struct table *table)
{
	atomic_store_explicit(&table->moving, NULL, memory_order_release);
}

void moving_mark(struct moving *moving, uint64_t hash)
{
	uint32_t segment = segment_of(hash);

	if (key_parts_have(moving->parts, hash))
		atomic_fetch_or_explicit(&moving->marks[segment / 64], 1ull << segment % 64,
					 memory_order_acq_rel);
}

void moving_mark_item(struct moving *moving, const struct table *table, const struct item *item)
{
	moving_mark(moving, table_hash(table, item_key(item), item_key_len(item)));
}

uint32_t moving_marked(const struct moving *moving)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < KEY_SEGMENTS / 64; i++)
		count += (uint32_t)__builtin_popcountll(
			atomic_load_explicit(&moving->marks[i], memory_order_relaxed));
	return count;
}

bool moving_take(struct moving *moving, uint32_t *segment)
{
	uint64_t from = UINT64_MAX << *segment % 64, marks;

	for (uint32_t i = *segment / 64; i < KEY_SEGMENTS / 64; i++, from = UINT64_MAX) {
		marks = atomic_load_explicit(&moving->marks[i], memory_order_relaxed) & from;
		if (!marks)
			continue;
		*segment = i * 64 + (uint32_t)__builtin_ctzll(marks);
		/* What was changed before the mark is read from here on: MOVING-1. */
		atomic_fetch_and_explicit(&moving->marks[i], ~(marks & -marks),
					  memory_order_acq_rel);
		return true;
	}
	return false;
}

void table_raise_versions(struct table *table, uint64_t counter)
{
	uint64_t floor = atomic_load_explicit(&table->version_floor, memory_order_relaxed);

	/* Always a read-modify-write: flush_version() of server/store/maintenance.c. */
	while (floor < counter &&
	       !atomic_compare_exchange_weak(&table->version_floor, &floor, counter))
		;
	/* Versions of other servers: the next start can't tell them from the time of day. */
	keep_raise_version(&table->region->keep, counter);
}
