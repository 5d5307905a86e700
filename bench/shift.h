/* SPDX-License-Identifier: MIT */
/*
 * Shifts of value sizes: fills a kvd that evicts with values of one size after another, and reports
 * whether the rate of PUTs falls while slabs of the old size are emptied for the new one.
 *
 * For each size, or range of sizes, new keys are PUT with such values until the item memory has
 * been written the given number of times. Columns of the table:
 *
 *	steady/s	PUTs per second in the median interval of the second half, after the shift
 *	worst/s		PUTs per second in the worst interval; the last one is not whole, not counted
 *	% live		of the item memory, the part that holds live items at the end
 */
#ifndef KVD_BENCH_SHIFT_H
#define KVD_BENCH_SHIFT_H

#include <stdint.h>

#include "bench/db.h"

/* How many times the item memory is written: the default, and the most. */
#define SHIFT_TIMES 2u
#define SHIFT_TIMES_MAX 1000u

/*
 * Runs one shift for each of @sizes, SIZE or SIZE-SIZE in bytes, and prints a line for it. Returns
 * 0; -EIO if a PUT failed or the statistics can't be read; -EINVAL for a size that is none; or as
 * db_connect_failed(). The reason has then been printed.
 */
int shift_run(const struct db_target *target, uint64_t times, char *const *sizes, int count);

#endif /* KVD_BENCH_SHIFT_H */
