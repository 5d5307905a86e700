/* SPDX-License-Identifier: MIT */
/* Copies the items of one store to another one. */
#include "server/store/resize.h"

#include <errno.h>
#include <string.h>

#include "server/store/chain.h"

#define NS_PER_S 1000000000u

struct resize {
	struct store_thread *to;
	const struct table *from;
	uint8_t id; /* of the thread */
};

/* The seconds to live that give the same expiry time; 0 and true: never expires. */
static bool ttl_of(const struct resize *resize, const struct item *item, uint32_t *ttl)
{
	uint64_t now_s = (resize->to->now_ns + NS_PER_S - 1) / NS_PER_S;

	*ttl = item->expires && item->expires > now_s ? (uint32_t)(item->expires - now_s) : 0;
	return !item->expires || *ttl;
}

/* The pin that ends at the same unit in access_time_store(). 0: none, or it has ended. */
static uint32_t pin_of(const struct resize *resize, uint16_t access)
{
	uint64_t until_ns = pins_until(resize->from->pins, access) * PIN_UNIT_NS;
	uint64_t now_ns = resize->to->now_ns;

	uint64_t left_s = until_ns > now_ns ? (until_ns - now_ns) / NS_PER_S : 0;

	if (!access_is_pin(access))
		return 0;
	/* Whole units may last longer than the pin asked for. */
	return (uint32_t)(left_s < resize->to->table->pin_time_max ?
				  left_s :
				  resize->to->table->pin_time_max);
}

/* Lets the thread make this version next. */
static void version_prepare(struct resize *resize, uint64_t version)
{
	resize->to->clock = (version >> THREAD_ID_BITS) - 1;
	resize->to->id = (uint8_t)version;
}

/* Stores a copy of the item. It is made outside the table, since it may be large. */
static enum wire_status change_put(struct resize *resize, const struct item *item,
				   struct table_change *change)
{
	struct item *copy = table_reserve(resize->to, change);

	if (!copy)
		return WIRE_NO_SPACE;
	memcpy(table_reserved_value(copy), change->value, change->value_len);
	version_prepare(resize, item->version);
	return table_commit(resize->to, table_hash(resize->to->table, change->key, change->key_len),
			    copy, change);
}

static int item_put(struct resize *resize, const struct item *item)
{
	struct store_thread *to = resize->to;
	uint16_t access = item_access_load(item);
	struct table_change change = {
		.key = item_key(item),
		.key_len = item_key_len(item),
		.mode = WIRE_SET,
		.value = item_value(item),
		.value_len = item_value_len(item),
		.flags = item_flags(item),
		.wish = { .pin = pin_of(resize, access), .low = access_is_low(access) },
	};
	enum wire_status status;

	if (!ttl_of(resize, item, &change.ttl))
		return 0;
	if (item_value_len(item) > to->table->region->geometry.value_max)
		return -E2BIG;
	status = change_put(resize, item, &change);
	/* More is pinned than the smaller store allows: the item stays, without its pin. */
	if (status == WIRE_BUSY && change.pins_full) {
		change.wish.pin = 0;
		status = change_put(resize, item, &change);
	}
	if (status)
		return -ENOSPC;
	/* Copying must not age items: the clock of access times stands still. */
	to->table->tick = resize->from->tick;
	to->table->tick_bytes = 0;
	if (!access_is_pin(access))
		item_access_store(slot_item(to->table, change.slot), access);
	return 0;
}

static int bucket_put(struct resize *resize, uint64_t number)
{
	const struct table *table = resize->from;
	const struct bucket *bucket, *home = index_bucket(table, number);
	int err = 0;

	chain_for_each(table, bucket, home)
		for (unsigned int i = 0; !err && i < BUCKET_SLOTS; i++)
			if (bucket->slots[i])
				err = item_put(resize, slot_item(table, bucket->slots[i]));
	return err;
}

static const struct item *item_of_version(const struct table *table, uint64_t hash,
					  uint64_t version)
{
	const struct bucket *bucket, *home = index_home(table, hash);

	chain_for_each(table, bucket, home)
		for (unsigned int i = 0; i < BUCKET_SLOTS; i++)
			if (bucket->slots[i] &&
			    slot_item(table, bucket->slots[i])->version == version)
				return slot_item(table, bucket->slots[i]);
	return NULL;
}

/* What the next process must not serve, the oldest first. The keys' hashes are others here. */
static void stale_put(const struct resize *resize)
{
	const struct keep *was = &resize->from->region->keep;
	const struct keep *is = &resize->to->table->region->keep;
	uint64_t first = was->head ? atomic_load(&was->head->stale) : 0;

	for (unsigned int i = 0; was->head && i < KEEP_STALE_MAX; i++) {
		const struct keep_stale *stale = &was->stale[(first + i) % KEEP_STALE_MAX];
		uint64_t version = atomic_load(&stale->version);
		const struct item *item = version ? item_of_version(resize->from, stale->hash,
								    version) :
						    NULL;

		if (item)
			keep_note_stale(is,
					table_hash(resize->to->table, item_key(item),
						   item_key_len(item)),
					version);
	}
}

int resize_fill(struct store_thread *const *threads, unsigned int count, const struct table *from,
		const _Atomic bool *stop)
{
	struct resize resize = { .to = threads[0], .from = from, .id = threads[0]->id };
	uint64_t buckets = index_buckets(from), clock = table_clock_max(from);
	struct table *to = resize.to->table;
	int err = 0;

	to->tick = from->tick;
	for (unsigned int i = 0; i < TICKS_TOLD; i++)
		atomic_store_explicit(&to->tick_began_s[i],
				      atomic_load_explicit(&from->tick_began_s[i],
							   memory_order_relaxed),
				      memory_order_relaxed);
	for (uint64_t i = 0; !err && i < buckets; i++) {
		store_thread_clock(resize.to);
		err = atomic_load_explicit(stop, memory_order_relaxed) ? -ECANCELED :
									 bucket_put(&resize, i);
	}
	resize.to->id = resize.id;
	if (!err)
		stale_put(&resize);
	/* Above all versions made, also of items that are gone: clients may still hold them. */
	for (unsigned int i = 0; i < count; i++)
		if (threads[i]->clock < clock)
			threads[i]->clock = clock;
	store_thread_idle(resize.to);
	return err;
}
