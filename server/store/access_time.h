/* SPDX-License-Identifier: MIT */
/*
 * Access times: what an item's access field says of its use, and how cold the item is by that.
 *
 * Time goes by bytes added: ACCESS_TICKS ticks while items that take as many bytes are added as the
 * item memory has. What an item that replaces another one takes beyond that one counts as added.
 *
 * The field of a normal item has the low 11 bits of the tick at which it was stored or used last,
 * and 4 bits for how often it was used since it was stored: a logarithmic counter (Morris, CACM
 * 1978), which is n after about 2^n - 1 uses, and falls by one for each quarter of the memory that
 * was added since the last use.
 *
 * An item of low priority has the low 14 bits of the tick at which it was stored: it is colder than
 * all others, and among its kind the one that was stored first is the coldest, whatever was read. A
 * pinned item has no time, but the unit at which its pin ends (server/store/pins.h); it counts as
 * used at that time, or as stored, if it has low priority.
 *
 * With eviction off there are neither pins nor priorities.
 *
 * Any thread; no lock but that of the pins; none of these block.
 */
#ifndef KVD_SERVER_STORE_ACCESS_TIME_H
#define KVD_SERVER_STORE_ACCESS_TIME_H

#include "common/wire.h"
#include "server/store/table.h"

/* "none", "object-hits", "byte-hits" */
const char *eviction_policy_name(uint32_t policy);

/* The pin and the priority that a change wants for its item. */
struct access_wish {
	uint32_t pin; /* seconds; 0: not pinned */
	bool low;     /* low priority */
};

/* item.access of a new item, and of one that was at @access and is used @uses times more. */
uint16_t access_time_initial(const struct store_thread *thread);
uint16_t access_time_update(struct store_thread *thread, uint16_t access, uint32_t uses);
/* @access with the present tick: storing the item may have advanced it since. */
uint16_t access_time_again(const struct store_thread *thread, uint16_t access);
/* item.access of an item that replaces @old (NULL: none), with the pin and priority wished. */
uint16_t access_time_store(struct store_thread *thread, const struct item *old,
			   const struct access_wish *wish);

/* Notes @uses uses in the item. Its bucket is locked. */
void do_access_time_use(struct store_thread *thread, struct item *item, uint32_t uses);
/* Whether the field has a pin that has ended. */
bool access_time_is_over(const struct store_thread *thread, uint16_t access);
/* Removes such a pin from the item's field. Its bucket is locked. */
void do_access_time_settle(struct store_thread *thread, struct item *item);

/*
 * Whether an item of @bytes may be pinned as wished: WIRE_OK, also without a wish; WIRE_INVALID:
 * never for that long; WIRE_BUSY: not now. A hint.
 */
enum wire_status access_time_may_pin(struct store_thread *thread, const struct access_wish *wish,
				     size_t bytes);
/*
 * Accounts for the pin of an item of @bytes that gets @access, and replaces one with @instead
 * pinned bytes. False: not now. item_unpin() undoes it.
 */
bool access_time_pin(struct store_thread *thread, uint16_t access, size_t bytes, size_t instead);

/* Takes off the pins that have ended by now: pins_advance(). */
void access_time_advance_pins(const struct store_thread *thread);

/* Whether the item is pinned and has not expired: then it must not be evicted. */
bool access_time_is_pinned(const struct store_thread *thread, const struct item *item);

/* Sets the table's clock of access times, before threads start. */
void access_time_init(struct table *table);
/* Seconds since the tick began that was @ticks ago, which is at most ACCESS_TIME. */
uint32_t access_time_age_s(const struct store_thread *thread, uint32_t ticks);

/* The time in ticks. access_time_add() advances it: @bytes of items were added. */
uint32_t access_time_now(const struct table *table);
void access_time_add(struct store_thread *thread, size_t bytes);

/*
 * How cold an item is: the colder, the sooner it is evicted. One that is pinned has 0, one that has
 * expired UINT64_MAX. In between are four kinds, each colder than the previous one:
 *
 *	young	stored or used while the last quarter of the memory was added
 *	old	the others, from COLDNESS_OLD up
 *	stale	not used while four times the memory was added, from COLDNESS_STALE up, by age
 *	low	of low priority, from COLDNESS_LOW up
 *
 * Among the young and the old it is the time since the last use, in ticks, and twice that if the
 * item was never used since it was stored: most are not (Yang et al., "FIFO queues are all you need
 * for cache eviction", SOSP 2023). With EVICTION_OBJECT_HITS that is multiplied by the bytes that
 * the item takes: evicting longer items evicts fewer of them. So a class's coldest item and
 * the coldest of all can be compared. Without the stale kind, short items that are never used would
 * outlive long ones for ever.
 *
 * Reads the item without a lock: a hint, if it is not held.
 */
#define COLDNESS_OLD (1ull << 40)
#define COLDNESS_STALE (1ull << 45)
#define COLDNESS_LOW (1ull << 50)
uint64_t access_time_coldness(const struct store_thread *thread, const struct item *item);

enum coldness_kind {
	COLDNESS_IS_YOUNG,
	COLDNESS_IS_OLD,
	COLDNESS_IS_STALE,
	COLDNESS_IS_LOW,
	COLDNESS_IS_EXPIRED,
};

static inline enum coldness_kind coldness_kind(uint64_t coldness)
{
	if (coldness < COLDNESS_OLD)
		return COLDNESS_IS_YOUNG;
	if (coldness < COLDNESS_LOW)
		return coldness < COLDNESS_STALE ? COLDNESS_IS_OLD : COLDNESS_IS_STALE;
	return coldness == UINT64_MAX ? COLDNESS_IS_EXPIRED : COLDNESS_IS_LOW;
}

/* Half the coldness, within the same kind. */
static inline uint64_t coldness_half(uint64_t coldness)
{
	static const uint64_t first[] = {
		0, COLDNESS_OLD, COLDNESS_STALE, COLDNESS_LOW, UINT64_MAX - 1,
	};
	uint64_t base = first[coldness_kind(coldness)];

	return base + (coldness - base + 1) / 2;
}

/*
 * The cost of evicting the item in a block, or in pages, of @bytes, to be added up over a place for
 * a large item. Old items cost their bytes, which the eviction loses. Young and
 * pinned ones, and large ones that are being written, cost more than all old ones together. Other
 * kinds cost nothing. A hint.
 */
uint64_t access_time_cost(const struct store_thread *thread, const void *block, size_t bytes);

/* The item's use as its access field tells it, for clients that ask. */
struct access_told {
	enum wire_use use;
	uint32_t uses; /* of WIRE_USE_NORMAL: approximate */
	uint32_t age;  /* ticks since the last use or, of WIRE_USE_LOW, since it was stored */
};
struct access_told access_time_tell(const struct store_thread *thread, uint16_t access);

/*
 * Likewise, for a copy of the item at another server: wire_use_pack() takes it, and
 * access_time_copy() makes the field from that. `uses` is as of the last use, and does not fall
 * with the age. A pin's time left is rounded up.
 */
struct access_told access_time_tell_copy(const struct store_thread *thread, uint16_t access);
/* A pin lasts no longer than pin_time_max. */
uint16_t access_time_copy(const struct store_thread *thread, uint32_t use);
/* A pinned item's @access without its pin: as if it were stored now. */
uint16_t access_time_unpinned(const struct store_thread *thread, uint16_t access);

#endif /* KVD_SERVER_STORE_ACCESS_TIME_H */
