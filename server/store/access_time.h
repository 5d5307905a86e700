/* SPDX-License-Identifier: MIT */
/*
 * Access times: what an item's access field says of its use, for LRU and for LFU, and how cold the
 * item is by that.
 *
 * Time goes in ticks by keys added: 1,024 ticks while as many keys are added as there are. Under
 * LRU the field is the low 15 bits of the tick of the last use; under LFU see access_time.c.
 *
 * An item of low priority has the low 14 bits of the tick at which it was stored, under both: it is
 * colder than all others, and among its kind the one that was stored first is the coldest, whatever
 * was read. A pinned item has no time, but the unit at which its pin ends (server/store/pins.h); it
 * counts as used at that time, or as stored, if it has low priority.
 *
 * With eviction off there are neither pins nor priorities.
 *
 * Any thread; no lock but that of the pins; none of these block.
 */
#ifndef KVD_SERVER_STORE_ACCESS_TIME_H
#define KVD_SERVER_STORE_ACCESS_TIME_H

#include "common/wire.h"
#include "server/store/table.h"

/* "none", "lru", "lfu" */
const char *eviction_policy_name(uint32_t policy);

/* What a change wants for its item, beside an access time. */
struct access_wish {
	uint32_t pin; /* seconds; 0: not pinned */
	bool low;     /* low priority */
};

/* item.access of a new item, and of one that was at @access and is used once more. */
uint16_t access_time_initial(const struct store_thread *thread);
uint16_t access_time_update(struct store_thread *thread, uint16_t access);
/* Of an item that is stored in place of @old, or NULL, as wished. */
uint16_t access_time_store(struct store_thread *thread, const struct item *old,
			   const struct access_wish *wish);

/* Notes a use in the item. Its bucket is locked. */
void do_access_time_use(struct store_thread *thread, struct item *item);
/* Whether the field has a pin that has ended; and takes that out of it. Its bucket is locked. */
bool access_time_is_over(const struct store_thread *thread, uint16_t access);
void do_access_time_settle(struct store_thread *thread, struct item *item);

/*
 * Whether an item of @bytes may be pinned as wished: WIRE_OK, also without a wish; WIRE_INVALID:
 * for so long never; WIRE_BUSY: not now, which is a hint.
 */
enum wire_status access_time_may_pin(struct store_thread *thread, const struct access_wish *wish,
				     size_t bytes);
/*
 * Accounts for the pin of an item of @bytes that gets @access, and replaces one with @instead
 * pinned bytes. False: not now. item_unpin() takes it back.
 */
bool access_time_pin(struct store_thread *thread, uint16_t access, size_t bytes, size_t instead);

/* Takes off the pins that have ended by now: pins_advance(). */
void access_time_advance_pins(const struct store_thread *thread);

/* Whether the item is pinned and has not expired: then it must not be evicted. */
bool access_time_is_pinned(const struct store_thread *thread, const struct item *item);

/* Advances the time, in ticks: a key was added. */
void access_time_tick(struct table *table);

/*
 * How cold an item is, from 1 up: the colder, the sooner it is evicted. An expired item has
 * UINT32_MAX, one that is pinned 0, and those of low priority COLDNESS_LOW and more. Reads the item
 * without a lock: a hint, if it is not held.
 */
#define COLDNESS_LOW (1u << 20)
uint32_t access_time_coldness(const struct store_thread *thread, const struct item *item);

/* What item.access says of the item's use, for those who ask; *@number is what the kind means. */
enum wire_use access_time_tell(const struct store_thread *thread, uint16_t access,
			       uint32_t *number);

#endif /* KVD_SERVER_STORE_ACCESS_TIME_H */
