/* SPDX-License-Identifier: MIT */
/*
 * Attempts: each changes a key under the lock of its bucket; one that found no memory is repeated,
 * with memory that was allocated without the lock.
 */
#include "server/store/attempt.h"

#include <stdio.h>
#include <string.h>

#include "common/util/stat.h"
#include "server/store/access_time.h"
#include "server/store/chain.h"
#include "server/store/curve.h"
#include "server/store/evicted.h"
#include "server/store/growth.h"
#include "server/store/moving.h"

/* Attempts of one operation, each but the first after room was made. */
#define ROOM_TRIES_MAX 8

static_assert(LIMBO_ITEM_BYTES <= KEEP_ITEM_BYTES, "what is rewritten in place is kept");

/* Digits of 2^64 - 1. */
#define DIGITS_MAX 20

/* A value to be stored: two parts, one after another. One may be the old value. */
struct value {
	struct {
		const void *p;
		uint32_t len;
	} parts[2];
	uint32_t flags;
	uint32_t expires;
};

/*
 * One attempt to change a key, made by an act: do_put(), do_arith(), do_touch(), do_delete() or
 * do_commit(). An act that lacks memory sets @wanted to what it needs; attempt_run() releases the
 * lock, makes room and tries again, with the memory in @item or @bucket.
 */
struct attempt {
	struct store_thread *thread;
	uint64_t hash;
	struct table_change *change;
	struct chain_pos pos;
	struct item *item; /* to be stored; NULL: to be allocated */
	size_t item_bytes;
	uint64_t from;	       /* version of the item that @item was made from; 0: none */
	bool committed;	       /* @item is the caller's */
	uint16_t access;       /* the access field to store */
	size_t pinned;	       /* bytes accounted for as pinned; 0: no pin */
	struct bucket *bucket; /* to extend the chain with; NULL: to be allocated */
	struct room *room;     /* change->room, or the attempt's own */
	size_t wanted;	       /* out: bytes that were not free, or ROOM_BUCKET */
	struct item *old;      /* out: taken out of the table, to be freed without the lock */
	struct item *victim;   /* out: likewise, another key's, evicted */
	struct item *flushed;  /* out: likewise, removed by a flush under way */
	uint64_t hidden_sum;   /* of pos.item, while do_hide_expiring() has made it invalid */
	struct retired retired;
	bool inserted;
	size_t stored; /* out: bytes of a stored item of the curve's sample; 0: none was stored */
	bool removed;  /* out: a DELETE has left the key missing */
};

/*
 * Writes the parts to an item. One of them may be the item's own old value, at @old: the part that
 * overlaps it is moved before the other overwrites it.
 */
static void value_write(uint8_t *to, const struct value *value, const void *old)
{
	uint32_t first = value->parts[0].len;
	unsigned int i, order = value->parts[1].len && value->parts[1].p == old;

	for (i = 0; i < 2; i++) {
		unsigned int part = i ^ order;

		if (value->parts[part].p && value->parts[part].len)
			memmove(to + (part ? first : 0), value->parts[part].p,
				value->parts[part].len);
	}
}

void item_fill_head(struct item *item, const struct table_change *change, uint32_t value_len,
		    uint32_t flags)
{
	item_set_lengths(item, change->key_len, value_len, flags);
	memcpy(item_key(item), change->key, change->key_len);
}

/*
 * Writes an invalid item, all but sum, version and access time. @old: its old value, or NULL; the
 * part of it that is kept is moved before anything else is written. @key: of the sums.
 */
static void item_fill(struct item *item, const struct table_change *change,
		      const struct value *value, const void *old, const struct sum_key *key)
{
	uint32_t key_len = change->key_len, value_len = value->parts[0].len + value->parts[1].len;

	value_write((uint8_t *)item + item_key_at(key_len, value_len, value->flags) + key_len,
		    value, old);
	item_fill_head(item, change, value_len, value->flags);
	item->expires = value->expires;
	item_value_sum_make(item, key);
}

static bool is_copy(const struct attempt *a)
{
	return a->change->mode == WIRE_COPY;
}

/* The version of the new item, which replaces @old, unless NULL. */
static uint64_t do_version(const struct attempt *a, const struct item *old)
{
	if (__builtin_expect(!is_copy(a), 1))
		return next_version(a->thread, old);
	/* By the floor, not the thread's clock: flush_version() sees that it was raised. */
	table_raise_versions(a->thread->table, a->change->version >> THREAD_ID_BITS);
	return a->change->version;
}

/* Sets the results of a change that made @item the key's. */
static void change_done(struct attempt *a, const struct item *item, uint64_t slot)
{
	struct table_change *change = a->change;

	change->slot = slot;
	change->version = item->version;
	change->expires = item->expires;
	if (table_samples(a->thread->table, a->hash))
		a->stored = item_class_bytes(item);
}

/* Tells the miss-ratio curve of a key in its sample whose item is published or removed. */
static void do_curve(const struct attempt *a)
{
	struct curve *curve = a->thread->table->curve;

	if (!table_samples(a->thread->table, a->hash))
		return;
	if (a->stored)
		curve_put(curve, a->hash, a->stored, a->change->expires);
	else if (a->removed)
		curve_remove(curve, a->hash);
}

/*
 * The key's item becomes invalid, until @new is valid, which may be itself; @bytes that follow its
 * sum are overwritten.
 */
static void do_note_change(const struct attempt *a, const struct item *new, uint64_t bytes)
{
	const struct item *old = a->pos.item;

	keep_change_begin(a->thread->change, a->thread->table->region->base, old,
			  a->hidden_sum == ITEM_SUM_INVALID ? old->sum : a->hidden_sum, new, bytes);
}

/*
 * Rewrites the item in place. Slots that clients have cached stay valid unless the length changes.
 */
static void do_replace_in_place(struct attempt *a, const struct value *value)
{
	struct store_thread *thread = a->thread;
	const struct table *table = thread->table;
	struct item *item = a->pos.item;
	uint64_t slot;

	item_unpin(thread, item);
	item_uncount(thread, item);
	do_note_change(a, item, item_bytes(item) - sizeof(item->sum));
	item_invalidate(item);
	item->version = do_version(a, item);
	item_fill(item, a->change, value, item_value(item), &table->region->sum_key);
	item_access_store(item, a->access);
	slot = slot_for(table, a->hash, item);
	/* Before the item is valid again: TABLE-1. */
	if (slot != *a->pos.slot) {
		slot_store(a->pos.slot, slot);
		do_chain_seal(table, a->pos.home, a->pos.bucket);
	}
	change_done(a, item, slot);
	item_count(thread, item);
	item_publish(item,
		     item_seal_sum(table, item, item_body_sum(item, &table->region->sum_key)));
	stat_add(&thread->stats.replaces_in_place, 1);
}

/* For a chain that can't get longer: evicts an item of it, if items are evicted, for its slot. */
static enum wire_status do_evict_from_chain(struct attempt *a, uint64_t slot)
{
	struct store_thread *thread = a->thread;
	struct bucket *home = a->pos.home, *bucket;
	uint64_t *chosen = evict_choose_slot(thread, home, &bucket);

	if (!chosen) {
		stat_add(&thread->stats.chain_full, 1);
		return WIRE_NO_SPACE;
	}
	a->victim = slot_item(thread->table, *chosen);
	do_evicted_count(thread, a->victim);
	item_unpin(thread, a->victim);
	item_uncount(thread, a->victim);
	item_invalidate(a->victim);
	slot_store(chosen, slot);
	do_chain_seal(thread->table, home, bucket);
	do_moving_note_item(thread->table, a->victim);
	stat_add(&thread->stats.removes, 1);
	stat_add(&thread->stats.chain_evictions, 1);
	return WIRE_OK;
}

/* Adds an overflow bucket that has @slot to the chain. */
static enum wire_status do_extend_chain(struct attempt *a, uint64_t slot)
{
	struct store_thread *thread = a->thread;
	struct bucket *home = a->pos.home, *bucket = a->bucket;

	if (a->pos.length >= CHAIN_MAX)
		return do_evict_from_chain(a, slot);
	if (!bucket)
		bucket = mem_alloc_bucket(&thread->cache, index_number(thread->table, home));
	if (!bucket) {
		a->wanted = ROOM_BUCKET;
		return WIRE_NO_SPACE;
	}
	a->bucket = NULL;
	do_chain_extend(thread, &a->pos, bucket, slot);
	return WIRE_OK;
}

/* Makes the key's slot, or a new one, lead to the new item, which is not valid yet (TABLE-1). */
static enum wire_status do_point(struct attempt *a, uint64_t slot)
{
	const struct table *table = a->thread->table;
	struct chain_pos *pos = &a->pos;

	if (pos->slot) {
		do_note_change(a, a->item, 0);
		item_invalidate(pos->item);
		slot_store(pos->slot, slot);
		do_chain_seal(table, pos->home, pos->bucket);
		return WIRE_OK;
	}
	if (!pos->free_in)
		return do_extend_chain(a, slot);
	slot_store(pos->free_slot, slot);
	do_chain_seal(table, pos->home, pos->free_in);
	return WIRE_OK;
}

/* Makes a->item the key's, and valid. */
static enum wire_status do_install(struct attempt *a)
{
	struct store_thread *thread = a->thread;
	const struct table *table = thread->table;
	uint64_t slot = slot_for(table, a->hash, a->item);
	struct item *old = a->pos.item;
	enum wire_status status;
	uint16_t access = a->access;
	size_t bytes, before = old ? item_class_bytes(old) : 0;

	a->item->version = do_version(a, old);
	status = do_point(a, slot);
	if (status)
		return status;
	bytes = item_class_bytes(a->item);
	/* Copies age nothing: they were added at the server that had them. */
	if (bytes > before && !is_copy(a)) {
		access_time_add(thread, bytes - before);
		access = access_time_again(thread, access);
	}
	change_done(a, a->item, slot);
	item_access_store(a->item, access);
	item_count(thread, a->item);
	if (old) {
		item_unpin(thread, old);
		item_uncount(thread, old);
		stat_add(&thread->stats.replaces_elsewhere, 1);
	} else {
		stat_add(&thread->stats.inserts, 1);
		a->inserted = true;
	}
	item_publish(a->item, item_seal_sum(table, a->item,
					    item_body_sum(a->item, &table->region->sum_key)));
	a->item = NULL;
	a->old = old;
	return WIRE_OK;
}

/*
 * Accounts for the pin in the access field, of an item of @bytes, before anything is changed;
 * attempt_once() undoes it if the attempt fails. @instead: bytes of an item whose pin goes on, else
 * 0. Where a new pin replaces an old one both must fit, so that no client can hold all pinned
 * memory by renewing its pins.
 */
static inline enum wire_status do_pin(struct attempt *a, size_t bytes, size_t instead)
{
	if (__builtin_expect(!access_is_pin(a->access), 1))
		return WIRE_OK;
	if (access_time_pin(a->thread, a->access, bytes, instead)) {
		a->pinned = bytes;
		return WIRE_OK;
	}
	a->change->pins_full = true;
	stat_add(&a->thread->stats.pins_refused, 1);
	return WIRE_BUSY;
}

static void do_pin_cancel(struct attempt *a, enum wire_status status)
{
	if (status && a->pinned)
		pins_give(a->thread->table->pins, a->access, mem_class_bytes(a->pinned));
	a->pinned = 0;
}

/* The new item, of @bytes, keeps the pin and priority of the old one. */
static enum wire_status do_keep_access(struct attempt *a, size_t bytes)
{
	const struct item *old = a->pos.item;

	a->access = access_time_update(a->thread, item_access_load(old), 1);
	return do_pin(a, bytes, item_bytes(old));
}

/* The copy, of @bytes, gets the use that its item had; a pin that does not fit is left out. */
static __attribute__((noinline)) void do_copied_access(struct attempt *a, size_t bytes)
{
	a->access = access_time_copy(a->thread, a->change->use);
	if (!access_is_pin(a->access))
		return;
	if (access_time_pin(a->thread, a->access, bytes, 0))
		a->pinned = bytes;
	else
		a->access = access_time_unpinned(a->thread, a->access);
}

/* The new item, of @bytes, gets the pin and priority that the change wants. */
static enum wire_status do_new_access(struct attempt *a, size_t bytes)
{
	const struct access_wish *wish = &a->change->wish;
	struct store_thread *thread = a->thread;

	if (__builtin_expect(is_copy(a), 0)) {
		do_copied_access(a, bytes);
		return WIRE_OK;
	}
	if (wish->pin > thread->table->pin_time_max)
		return WIRE_INVALID;
	a->access = access_time_store(thread, a->pos.item, wish);
	return do_pin(a, bytes, 0);
}

/*
 * Stores the value, in place if the old item and the new one are small and of one size class.
 * @keeps: it keeps the pin and priority of the old item.
 */
static enum wire_status do_store(struct attempt *a, const struct value *value, bool keeps)
{
	uint64_t value_len = (uint64_t)value->parts[0].len + value->parts[1].len;
	size_t bytes = item_bytes_for(a->change->key_len, value_len, value->flags);
	const struct item *old = a->pos.item;
	size_t old_bytes = old ? item_bytes(old) : 0;
	enum wire_status status;

	/* The length after append or prepend; a pulled value was checked before it was pulled. */
	if (value_len > a->thread->table->region->geometry.value_max)
		return WIRE_TOO_LARGE;
	status = keeps ? do_keep_access(a, bytes) : do_new_access(a, bytes);
	if (status)
		return status;
	/* Only small items: LOOKUP-3. */
	if (old && bytes < LIMBO_ITEM_BYTES && old_bytes < LIMBO_ITEM_BYTES &&
	    mem_class(old_bytes) == mem_class(bytes)) {
		do_replace_in_place(a, value);
		return WIRE_OK;
	}
	/* A block from the last attempt may not fit: the value to extend may have changed. */
	if (a->item && mem_class_bytes(a->item_bytes) != mem_class_bytes(bytes)) {
		mem_free(&a->thread->cache, a->item, a->item_bytes);
		a->item = NULL;
	}
	if (!a->item)
		a->item = mem_alloc(&a->thread->cache, bytes);
	a->item_bytes = bytes;
	if (!a->item) {
		a->wanted = bytes;
		return WIRE_NO_SPACE;
	}
	item_fill(a->item, a->change, value, NULL, &a->thread->table->region->sum_key);
	return do_install(a);
}

/* Whether the live item has the version that the change expects, if it does. */
static enum wire_status expected_check(const struct attempt *a)
{
	if (!a->change->expects || a->pos.item->version == a->change->expected)
		return WIRE_OK;
	a->change->existing = a->pos.item->version;
	return WIRE_EXISTS;
}

/* Whether the mode of the PUT allows it. */
static enum wire_status put_check(const struct attempt *a)
{
	switch (a->change->mode) {
	case WIRE_SET:
		return WIRE_OK;
	case WIRE_ADD:
		if (!a->pos.live)
			return WIRE_OK;
		a->change->existing = a->pos.item->version;
		return WIRE_EXISTS;
	case WIRE_CAS:
		if (!a->pos.live)
			return WIRE_NOT_FOUND;
		if (a->pos.item->version == a->change->version)
			return WIRE_OK;
		a->change->existing = a->pos.item->version;
		return WIRE_EXISTS;
	case WIRE_REPLACE:
		return a->pos.live ? WIRE_OK : WIRE_NOT_FOUND;
	case WIRE_APPEND:
	case WIRE_PREPEND:
		return a->pos.live ? expected_check(a) : WIRE_NOT_FOUND;
	case WIRE_COPY:
		if (!a->pos.slot || a->pos.item->version <= a->change->version)
			return WIRE_OK;
		a->change->existing = a->pos.item->version;
		return WIRE_EXISTS;
	}
	return WIRE_PROTOCOL;
}

/*
 * Whether the change must be prepared without the lock first, because its item, of @bytes, is
 * large; change->from is the item to prepare it from. False if it was prepared from the value that
 * the key still has.
 */
static bool do_is_large(struct attempt *a, uint64_t bytes)
{
	const struct item *item = a->pos.item;

	a->change->large = bytes >= LARGE_BYTES && a->from != item->version;
	a->change->from = (struct change_from){
		.version = item->version,
		.value_len = item_value_len(item),
		.flags = item_flags(item),
	};
	return a->change->large;
}

static enum wire_status do_put(struct attempt *a)
{
	const struct table_change *change = a->change;
	enum wire_status status = put_check(a);
	const struct item *old = a->pos.item;
	bool append = change->mode == WIRE_APPEND, prepend = change->mode == WIRE_PREPEND;
	struct value value = {
		.flags = change->flags,
		.expires = expires_after(a->thread->now_ns, change->ttl),
	};
	uint64_t value_len;

	if (status)
		return status;
	value.parts[append].p = change->value;
	value.parts[append].len = change->value_len;
	if (append || prepend) {
		value.parts[prepend].p = item_value(old);
		value.parts[prepend].len = item_value_len(old);
		value.flags = item_flags(old);
		value.expires = old->expires;
		value_len = (uint64_t)change->value_len + item_value_len(old);
		if (value_len <= a->thread->table->region->geometry.value_max &&
		    do_is_large(a, item_bytes_for(change->key_len, value_len, value.flags)))
			return WIRE_BUSY;
	}
	return do_store(a, &value, append || prepend);
}

/* Parses a value that is a decimal number from its first byte to its last. False: it is not. */
static bool parse_decimal(const uint8_t *text, uint32_t len, uint64_t *number)
{
	uint64_t n = 0;
	uint32_t i;

	if (!len || len > DIGITS_MAX)
		return false;
	for (i = 0; i < len; i++) {
		unsigned int digit = text[i] - (unsigned int)'0';

		if (digit > 9 || n > (UINT64_MAX - digit) / 10)
			return false;
		n = n * 10 + digit;
	}
	*number = n;
	return true;
}

static enum wire_status do_arith(struct attempt *a)
{
	struct table_change *change = a->change;
	const struct item *old = a->pos.item;
	char text[DIGITS_MAX + 1];
	enum wire_status status;
	struct value value;
	uint64_t n;

	if (a->pos.live) {
		if (expected_check(a))
			return WIRE_EXISTS;
		if (!parse_decimal(item_value(old), item_value_len(old), &n))
			return WIRE_NOT_A_NUMBER;
		if (!change->decrement)
			n += change->delta;
		else
			n = n < change->delta ? 0 : n - change->delta;
		value = (struct value){ .flags = item_flags(old), .expires = old->expires };
	} else if (change->create) {
		n = change->number;
		value = (struct value){
			.flags = change->flags,
			.expires = expires_after(a->thread->now_ns, change->ttl),
		};
	} else {
		return WIRE_NOT_FOUND;
	}
	value.parts[0].p = text;
	value.parts[0].len = (uint32_t)snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	status = do_store(a, &value, a->pos.live);
	if (!status)
		change->number = n;
	return status;
}

/*
 * Changes the expiry time and the access time: version, value and place stay. The value is not
 * summed, so a large item takes no longer.
 */
static enum wire_status do_touch(struct attempt *a)
{
	struct store_thread *thread = a->thread;
	const struct table *table = thread->table;
	struct item *item = a->pos.item;
	uint64_t body;

	if (!a->pos.live)
		return WIRE_NOT_FOUND;
	body = item_body_sum(item, &table->region->sum_key);
	item_uncount(thread, item);
	do_note_change(a, item, sizeof(*item) - sizeof(item->sum));
	item_invalidate(item);
	__atomic_store_n(&item->expires, expires_after(thread->now_ns, a->change->ttl),
			 __ATOMIC_RELAXED);
	do_access_time_use(thread, item, 1);
	item_count(thread, item);
	change_done(a, item, *a->pos.slot);
	item_publish(item, item_seal_sum(table, item, body));
	return WIRE_OK;
}

static enum wire_status do_delete(struct attempt *a)
{
	bool live = a->pos.live;

	a->removed = !a->pos.slot;
	if (!a->pos.slot)
		return WIRE_NOT_FOUND;
	if (live && a->change->if_version && a->pos.item->version != a->change->version)
		return WIRE_EXISTS;
	do_remove(a->thread, &a->pos, &a->retired);
	stat_add(&a->thread->stats.expired, !live);
	a->old = a->pos.item;
	a->removed = true;
	count_keys(a->thread, -1);
	return live ? WIRE_OK : WIRE_NOT_FOUND;
}

/* Takes the block that room was made for. False: there is none. */
static bool attempt_take_block(struct attempt *a)
{
	size_t bytes = a->room->bytes;
	void *block = room_take(a->room);

	if (bytes == ROOM_BUCKET) {
		a->bucket = block;
	} else if (block) {
		a->item = block;
		a->item_bytes = bytes;
	}
	return block;
}

/*
 * Makes room, with no lock held, for what the attempt lacked. False: it lacked nothing, no room was
 * made, or the caller must make it.
 */
static bool attempt_make_room(struct attempt *a)
{
	size_t wanted = a->wanted;

	a->wanted = 0;
	if (!wanted || ++a->room->tries >= ROOM_TRIES_MAX)
		return false;
	room_begin(a->room, a->thread, wanted);
	if (!a->change->room)
		room_run(a->room);
	else if (!room_try(a->room))
		return false;
	return attempt_take_block(a);
}

/* Frees what an attempt took out of the table, whether it succeeded or not. */
static void attempt_clear(struct attempt *a)
{
	if (a->flushed) {
		count_removal(a->thread, REMOVAL_FLUSHED);
		item_free(a->thread, a->flushed);
		a->flushed = NULL;
	}
	retired_free(a->thread, &a->retired);
}

/* Frees unused and replaced memory; counts the new key and lets the index grow. */
static void attempt_end(struct attempt *a)
{
	struct store_thread *thread = a->thread;

	if (a->item && !(a->committed && change_wants_room(a->change)))
		mem_free(&thread->cache, a->item, a->item_bytes);
	if (a->bucket)
		mem_free_bucket(&thread->cache, a->bucket);
	if (a->old)
		item_free(thread, a->old);
	if (a->victim) {
		count_removal(thread, REMOVAL_EVICTED);
		item_free(thread, a->victim);
	}
	if (a->inserted) {
		count_keys(thread, 1);
		index_grow(thread);
	}
}

/*
 * Decides whether an item with an expiry time is live. It must not be found live and then changed
 * after it has expired: a client that read it in between would have seen it expired, and then live
 * again (guarantee B). So it is made invalid first, and the clock is read after all can see
 * that: a reader that finds the item valid does so earlier, when it had not expired.
 */
static void do_hide_expiring(struct attempt *a)
{
	struct chain_pos *pos = &a->pos;

	a->hidden_sum = ITEM_SUM_INVALID;
	if (!pos->live || !pos->item->expires)
		return;
	do_note_change(a, pos->item, 0);
	a->hidden_sum = pos->item->sum;
	item_invalidate(pos->item);
	store_load_barrier();
	store_thread_clock(a->thread);
	pos->live = !is_expired(pos->item->expires, a->thread->now_ns);
}

/* Makes an item that was hidden and not changed valid again. */
static void do_show_expiring(struct attempt *a, enum wire_status status)
{
	if (status && !a->old && a->hidden_sum != ITEM_SUM_INVALID)
		item_publish(a->pos.item, a->hidden_sum);
}

/*
 * Finds the key. If a flush is under way that the item is older than, the item is removed at once:
 * if it were changed, it would get a new version and survive the flush; if it were treated as
 * absent and left there, others could still read it. The order of the loads: flush_version() in
 * maintenance.c.
 */
static void do_lookup(struct attempt *a, struct bucket *home)
{
	const struct table_change *change = a->change;
	struct store_thread *thread = a->thread;
	uint64_t flushing;

	thread->floor = atomic_load_explicit(&thread->table->version_floor, memory_order_acquire);
	flushing = atomic_load_explicit(&thread->table->flushing, memory_order_acquire);
	do_chain_find(thread, &a->pos, home, a->hash, change->key, change->key_len);
	if (__builtin_expect(!flushing, 1))
		return;
	if (thread->floor < flushing)
		thread->floor = flushing;
	if (!a->pos.slot || a->pos.item->version >> THREAD_ID_BITS > flushing)
		return;
	a->flushed = a->pos.item;
	do_remove(thread, &a->pos, &a->retired);
	do_chain_find(thread, &a->pos, home, a->hash, change->key, change->key_len);
}

/* Runs @act under the lock of the key's bucket. */
static enum wire_status attempt_once(struct attempt *a, enum wire_status (*act)(struct attempt *))
{
	struct bucket *home = index_lock_home(a->thread->table, a->hash);
	enum wire_status status;

	do_lookup(a, home);
	do_hide_expiring(a);
	status = act(a);
	do_pin_cancel(a, status);
	do_show_expiring(a, status);
	if (!status)
		do_moving_note(a->thread->table, a->hash);
	do_curve(a);
	keep_change_end(a->thread->change);
	bucket_unlock(home);
	attempt_clear(a);
	return status;
}

/*
 * Runs an operation: @act, and again after room was made, ROOM_TRIES_MAX times at most; only once
 * if the caller could make no room.
 */
static enum wire_status attempt_run(struct attempt *a, enum wire_status (*act)(struct attempt *))
{
	struct room own;
	enum wire_status status;

	a->change->large = a->change->pins_full = false;
	room_init(&own);
	a->room = a->change->room ? a->change->room : &own;
	if (a->room->bytes && !attempt_take_block(a))
		a->room->tries = ROOM_TRIES_MAX;
	do
		status = attempt_once(a, act);
	while (status == WIRE_NO_SPACE && attempt_make_room(a));
	if (change_wants_room(a->change))
		status = WIRE_BUSY;
	attempt_end(a);
	return status;
}

/* As do_put(), but the item with its value was made before. */
static enum wire_status do_commit(struct attempt *a)
{
	bool extends = a->change->mode == WIRE_APPEND || a->change->mode == WIRE_PREPEND;
	enum wire_status status = put_check(a);

	if (status)
		return status;
	if (extends && do_is_large(a, LARGE_BYTES))
		return WIRE_BUSY;
	status = extends ? do_keep_access(a, a->item_bytes) : do_new_access(a, a->item_bytes);
	if (status)
		return status;
	/* A touch, which keeps the version, may have changed it since the value was copied. */
	a->item->expires = extends ? a->pos.item->expires :
				     expires_after(a->thread->now_ns, a->change->ttl);
	return do_install(a);
}

enum wire_status attempt_put(struct store_thread *thread, uint64_t hash,
			     struct table_change *change)
{
	struct attempt a = { .thread = thread, .hash = hash, .change = change };

	return attempt_run(&a, do_put);
}

enum wire_status attempt_arith(struct store_thread *thread, uint64_t hash,
			       struct table_change *change)
{
	struct attempt a = { .thread = thread, .hash = hash, .change = change };

	return attempt_run(&a, do_arith);
}

enum wire_status attempt_touch(struct store_thread *thread, uint64_t hash,
			       struct table_change *change)
{
	struct attempt a = { .thread = thread, .hash = hash, .change = change };

	return attempt_run(&a, do_touch);
}

enum wire_status attempt_delete(struct store_thread *thread, uint64_t hash,
				struct table_change *change)
{
	struct attempt a = { .thread = thread, .hash = hash, .change = change };

	return attempt_run(&a, do_delete);
}

enum wire_status attempt_commit(struct store_thread *thread, uint64_t hash,
				struct table_change *change, struct item *item, uint64_t from)
{
	struct attempt a = {
		.thread = thread,
		.hash = hash,
		.change = change,
		.item = item,
		.item_bytes = item_bytes(item),
		.committed = true,
		.from = from,
	};

	change->key = item_key(item);
	change->key_len = item_key_len(item);
	return attempt_run(&a, do_commit);
}
