/* SPDX-License-Identifier: MIT */
/* Pins: sums of pinned bytes by the time at which they end. */
#include "server/store/pins.h"

#include "server/store/page_heap.h"

/*
 * A sweep is wanted this long after the last one: a quarter of the time in which the units in the
 * fields wrap around.
 */
#define SWEEP_UNITS (PIN_UNITS / 4)

/* The pins that end at a unit; once the unit has passed, @tick is its tick. */
struct pin_end {
	uint64_t bytes, items;
	uint32_t tick;
};

struct pins {
	uint32_t lock;
	uint64_t bytes, items; /* PIN-1: the sum of all ends */
	uint64_t fields;       /* access fields that have a pin, ended or not */
	uint64_t unit;	       /* pins up to this unit have ended */
	uint64_t swept;	       /* PIN-3: no field has a pin up to this unit */
	struct pin_end ends[PIN_UNITS];
};

struct pins *pins_create(struct keep *keep)
{
	return keep_map(keep, sizeof(struct pins));
}

void pins_destroy(const struct keep *keep, struct pins *pins)
{
	keep_unmap(keep, pins, sizeof(*pins));
}

void pins_recount(struct pins *pins)
{
	pins->lock = 0;
	pins->bytes = pins->items = pins->fields = 0;
	for (unsigned int i = 0; i < PIN_UNITS; i++)
		pins->ends[i].bytes = pins->ends[i].items = 0;
}

static const struct pin_end *end_of(const struct pins *pins, uint64_t until)
{
	return &pins->ends[until % PIN_UNITS];
}

uint64_t pins_until(const struct pins *pins, uint16_t access)
{
	uint64_t first = hint_load(&pins->swept) + 1;

	return first + (access - first) % PIN_UNITS;
}

uint32_t pins_tick(const struct pins *pins, uint64_t until, uint32_t tick)
{
	return until <= hint_load(&pins->unit) ? hint_load(&end_of(pins, until)->tick) : tick;
}

/* Takes off the pins up to @unit. PIN_UNITS steps at most, some us: no earlier unit is used. */
static void do_advance(struct pins *pins, uint64_t unit, uint32_t tick)
{
	uint64_t at = pins->unit + PIN_UNITS < unit ? unit - PIN_UNITS : pins->unit;

	while (at < unit) {
		struct pin_end *end = &pins->ends[++at % PIN_UNITS];

		pins->bytes -= end->bytes;
		pins->items -= end->items;
		end->bytes = end->items = 0;
		hint_store(&end->tick, tick);
	}
	if (pins->unit < unit)
		hint_store(&pins->unit, unit);
}

void pins_advance(struct pins *pins, uint64_t now_ns, uint32_t tick)
{
	uint64_t unit = now_ns / PIN_UNIT_NS;

	if (hint_load(&pins->unit) >= unit)
		return;
	mem_lock(&pins->lock);
	do_advance(pins, unit, tick);
	mem_unlock(&pins->lock);
}

/* Where no field has a pin there is nothing to sweep. */
static void do_skip_sweep(struct pins *pins)
{
	if (!pins->fields && pins->swept < pins->unit)
		hint_store(&pins->swept, pins->unit);
}

/* A pin that is too far ahead for PIN-3 looks like one that has ended. */
static bool do_may_take(struct pins *pins, uint16_t access, uint64_t bytes, uint64_t max)
{
	do_skip_sweep(pins);
	return bytes <= max && pins->bytes <= max - bytes && pins_until(pins, access) > pins->unit;
}

bool pins_may_take(struct pins *pins, uint16_t access, uint64_t bytes, uint64_t max)
{
	bool may;

	mem_lock(&pins->lock);
	may = do_may_take(pins, access, bytes, max);
	mem_unlock(&pins->lock);
	return may;
}

bool pins_take(struct pins *pins, uint16_t access, uint64_t bytes, uint64_t instead, uint64_t max)
{
	struct pin_end *end = &pins->ends[access % PIN_UNITS];
	bool taken;

	mem_lock(&pins->lock);
	taken = do_may_take(pins, access, bytes, max + instead);
	if (taken) {
		pins->bytes += bytes;
		end->bytes += bytes;
		pins->items++;
		end->items++;
		pins->fields++;
	}
	mem_unlock(&pins->lock);
	return taken;
}

void pins_give(struct pins *pins, uint16_t access, uint64_t bytes)
{
	struct pin_end *end = &pins->ends[access % PIN_UNITS];

	mem_lock(&pins->lock);
	if (pins_until(pins, access) > pins->unit) {
		pins->bytes -= bytes;
		end->bytes -= bytes;
		pins->items--;
		end->items--;
	}
	pins->fields--;
	mem_unlock(&pins->lock);
}

void pins_count(struct pins *pins, uint16_t access, uint64_t bytes)
{
	struct pin_end *end = &pins->ends[access % PIN_UNITS];

	mem_lock(&pins->lock);
	if (pins_until(pins, access) > pins->unit) {
		pins->bytes += bytes;
		end->bytes += bytes;
		pins->items++;
		end->items++;
	}
	pins->fields++;
	mem_unlock(&pins->lock);
}

bool pins_want_sweep(struct pins *pins)
{
	bool want;

	mem_lock(&pins->lock);
	do_skip_sweep(pins);
	want = pins->fields && pins->unit > pins->swept + SWEEP_UNITS;
	mem_unlock(&pins->lock);
	return want;
}

void pins_swept(struct pins *pins, uint64_t unit)
{
	mem_lock(&pins->lock);
	if (pins->swept < unit)
		hint_store(&pins->swept, unit);
	mem_unlock(&pins->lock);
}

void pins_stats(struct pins *pins, struct pins_stats *stats)
{
	mem_lock(&pins->lock);
	*stats = (struct pins_stats){ pins->bytes, pins->items, pins->fields };
	mem_unlock(&pins->lock);
}
