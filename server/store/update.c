/* SPDX-License-Identifier: MIT */
/*
 * Updates: the operations that change a key, from start to end. Each is an attempt under the lock
 * of the key's bucket; one that finds a large item is made in steps, all of them here.
 */
#include "server/store/update.h"

#include "common/util/stat.h"
#include "server/store/large.h"

enum wire_status table_put(struct store_thread *thread, uint64_t hash, struct table_change *change)
{
	enum wire_status status = attempt_put(thread, hash, change);
	struct large large;

	if (!change->large)
		return status;
	large_append(&large, thread, hash, change);
	large_run(&large);
	*change = large.change;
	return large.status;
}

enum wire_status table_arith(struct store_thread *thread, uint64_t hash,
			     struct table_change *change)
{
	return attempt_arith(thread, hash, change);
}

enum wire_status table_touch(struct store_thread *thread, uint64_t hash,
			     struct table_change *change)
{
	return attempt_touch(thread, hash, change);
}

enum wire_status table_delete(struct store_thread *thread, uint64_t hash,
			      const struct table_change *change)
{
	struct table_change copy = *change;

	return attempt_delete(thread, hash, &copy);
}

struct item *table_reserve_begin(struct store_thread *thread, const struct table_change *change,
				 struct room *room)
{
	size_t bytes = item_bytes_for(change->key_len, change->value_len, change->flags);
	bool made = room && room->bytes;
	struct item *item = made ? room_take(room) : mem_alloc(&thread->cache, bytes);

	if (!item && !made && room) {
		room_begin(room, thread, bytes);
		item = room_try(room) ? room_take(room) : NULL;
	}
	if (item)
		item_fill_head(item, change, change->value_len, change->flags);
	return item;
}

struct item *table_reserve(struct store_thread *thread, const struct table_change *change)
{
	struct item *item;
	struct room room;

	room_init(&room);
	item = table_reserve_begin(thread, change, &room);
	if (!room_pending(&room))
		return item;
	room_run(&room);
	return table_reserve_begin(thread, change, &room);
}

enum wire_status table_may_pin(struct store_thread *thread, struct table_change *change)
{
	enum wire_status status = access_time_may_pin(
		thread, &change->wish,
		item_bytes_for(change->key_len, change->value_len, change->flags));

	change->pins_full = status == WIRE_BUSY;
	stat_add(&thread->stats.pins_refused, change->pins_full);
	return status;
}

enum wire_status table_commit(struct store_thread *thread, uint64_t hash, struct item *item,
			      struct table_change *change)
{
	struct large large;

	large_commit(&large, thread, hash, item, change);
	large_run(&large);
	*change = large.change;
	return large.status;
}

void table_abandon(struct store_thread *thread, struct item *item)
{
	item_invalidate(item);
	mem_free(&thread->cache, item, item_bytes(item));
}
