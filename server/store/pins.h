/* SPDX-License-Identifier: MIT */
/*
 * Pins: the account of items that must not be evicted before a given time.
 *
 * Each item's pin is in its access field (server/store/access_time.h has the rest of the field):
 *
 *	0nnnnttt tttttttt	normal: how often it was used, and when last
 *	10tttttt tttttttt	low priority: the time at which it was stored
 *	110uuuuu uuuuuuuu	pinned until unit u, then normal
 *	111uuuuu uuuuuuuu	pinned until unit u, then low
 *
 *   PIN-1. The bytes of pinned items, in blocks and pages as they were allocated, are at most
 *	 memory.pin_share percent of the item memory, which falls as the index grows, when one is
 *	 pinned; for the instant in which an append copies a pinned item both copies count.
 *   PIN-2. Pins end by time, and no list of items says which: there is a sum for each unit of time,
 *	 of the pins that end then. The sum is taken off when the unit is reached, and a pin that
 *	 ends earlier, with its item, is taken off the sum. So an item costs no memory beside its
 *	 field.
 *   PIN-3. A field has the unit modulo PIN_UNITS. It stays after the pin has ended, until the item
 *	 is used again or the sweep comes by (server/store/maintenance.c). Pins are given only until
 *	 PIN_UNITS after @swept, before which no field has one: so a field means one unit only.
 *
 * Any thread. The lock is held for some instructions, and is taken only for items that have a pin;
 * it is taken after a bucket's.
 */
#ifndef KVD_SERVER_STORE_PINS_H
#define KVD_SERVER_STORE_PINS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/layout.h"
#include "server/store/keep.h"

/* Units of time for which pins are counted, and their length: 4.5 hours. */
#define PIN_UNITS 8192u
#define PIN_UNIT_NS 2000000000ull

static inline bool access_is_pin(uint16_t access)
{
	return (access & ACCESS_PIN) == ACCESS_PIN;
}

static inline bool access_is_low(uint16_t access)
{
	return access_is_pin(access) ? access & ACCESS_PIN_LOW : access & ACCESS_LOW;
}

static inline uint16_t access_pin_make(uint64_t until, bool low)
{
	return (uint16_t)(ACCESS_PIN | (low ? ACCESS_PIN_LOW : 0) | until % PIN_UNITS);
}

/* The unit until which a pin that begins at @now_ns lasts @seconds: whole units, and not less. */
static inline uint64_t pin_until(uint64_t now_ns, uint32_t seconds)
{
	return (now_ns + seconds * 1000000000ull + PIN_UNIT_NS - 1) / PIN_UNIT_NS;
}

struct pins;

/* NULL: no memory. Of a store that was kept, as they were. */
struct pins *pins_create(struct keep *keep);
/* Takes NULL. */
void pins_destroy(const struct keep *keep, struct pins *pins);
/* Forgets all pins, but not which units the fields of items may have; and its lock is free. */
void pins_recount(struct pins *pins);
/* Counts the pin of an item of @bytes that is in the store already. */
void pins_count(struct pins *pins, uint16_t access, uint64_t bytes);

/* The unit of the pin in an access field. Without the lock of the item's bucket: a hint. */
uint64_t pins_until(const struct pins *pins, uint16_t access);
/* The tick at which pins_advance() reached the unit; @tick if it has not yet. */
uint32_t pins_tick(const struct pins *pins, uint64_t until, uint32_t tick);

/* Takes off the pins that have ended. @tick: the present tick of access times. */
void pins_advance(struct pins *pins, uint64_t now_ns, uint32_t tick);
/*
 * Adds the pin of an access field, of an item of @bytes that replaces one with @instead pinned
 * bytes (or 0), if all pinned bytes are at most @max then. False: they would be more, or the
 * sweep is so late that PIN-3 would not hold.
 */
bool pins_take(struct pins *pins, uint16_t access, uint64_t bytes, uint64_t instead, uint64_t max);
/* Whether pins_take() would succeed: a hint. */
bool pins_may_take(struct pins *pins, uint16_t access, uint64_t bytes, uint64_t max);
/* Subtracts the pin that an item of @bytes had in its access field. */
void pins_give(struct pins *pins, uint16_t access, uint64_t bytes);

/* Whether a sweep must remove ended pins from the items' fields, by PIN-3. */
bool pins_want_sweep(struct pins *pins);
/* A sweep has removed all pins that ended at @unit or before. */
void pins_swept(struct pins *pins, uint64_t unit);

struct pins_stats {
	uint64_t bytes, items; /* pinned */
	uint64_t fields;       /* access fields that have a pin, ended or not */
};

void pins_stats(struct pins *pins, struct pins_stats *stats);

#endif /* KVD_SERVER_STORE_PINS_H */
