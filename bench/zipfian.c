/* SPDX-License-Identifier: MIT */
/*
 * Draws zipfian numbers: see zipfian.h.
 */
#include "bench/zipfian.h"

#include <math.h>

static double zeta_add(double sum, uint64_t from, uint64_t to)
{
	uint64_t i;

	for (i = from; i < to; i++)
		sum += 1 / pow((double)(i + 1), ZIPFIAN_THETA);
	return sum;
}

/* As in YCSB, eta keeps the initial item count even if zeta grows later. */
static void set_eta(struct zipfian *zipfian)
{
	zipfian->eta = (1 - pow(2.0 / (double)zipfian->items, 1 - ZIPFIAN_THETA)) /
		       (1 - zipfian->zeta2 / zipfian->zeta);
}

static void init_with_zeta(struct zipfian *zipfian, uint64_t items, double zeta)
{
	zipfian->items = items;
	zipfian->zeta_items = items;
	zipfian->zeta = zeta;
	zipfian->zeta2 = zeta_add(0, 0, 2);
	zipfian->alpha = 1 / (1 - ZIPFIAN_THETA);
	zipfian->second = 1 + pow(0.5, ZIPFIAN_THETA);
	set_eta(zipfian);
}

void zipfian_init(struct zipfian *zipfian, uint64_t items)
{
	init_with_zeta(zipfian, items, zeta_add(0, 0, items));
}

void zipfian_init_scrambled(struct zipfian *zipfian)
{
	/* YCSB gives the bounds 0 and 10^10, both included. */
	init_with_zeta(zipfian, ZIPFIAN_SCRAMBLED_ITEMS + 1, ZIPFIAN_SCRAMBLED_ZETA);
}

static uint64_t draw(const struct zipfian *zipfian, struct random *random, uint64_t items)
{
	const double u = random_double(random);
	const double uz = u * zipfian->zeta;
	uint64_t item;

	if (uz < 1 || items < 2)
		return 0;
	if (uz < zipfian->second)
		return 1;
	item = (uint64_t)((double)items * pow(zipfian->eta * u - zipfian->eta + 1, zipfian->alpha));
	return item < items ? item : items - 1;
}

uint64_t zipfian_next(struct zipfian *zipfian, struct random *random, uint64_t items)
{
	if (items > zipfian->zeta_items) {
		zipfian->zeta = zeta_add(zipfian->zeta, zipfian->zeta_items, items);
		zipfian->zeta_items = items;
		set_eta(zipfian);
	}
	return draw(zipfian, random, items);
}

uint64_t zipfian_next_scrambled(const struct zipfian *zipfian, struct random *random,
				uint64_t items)
{
	return fnv_hash(draw(zipfian, random, zipfian->items)) % items;
}
