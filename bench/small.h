/* SPDX-License-Identifier: MIT */
/*
 * Small records, stored and read as fast as one connection can: for measuring what a record costs
 * the server in memory and CPU (bench/bytes-per-key.sh, bench/table-bench.sh).
 *
 * Key and value follow from the number of the record, so every response is checked. Operations are
 * sent SMALL_BATCH together.
 */
#ifndef KVD_BENCH_SMALL_H
#define KVD_BENCH_SMALL_H

#include <stdint.h>

#include "bench/db.h"

#define SMALL_KEY_BYTES 16u
#define SMALL_VALUE_BYTES 32u
#define SMALL_RECORDS_MAX UINT64_C(1000000000)
/* The largest multi-key get that helps memcached, and far less than a socket buffers. */
#define SMALL_BATCH 64u

enum small_op { SMALL_PUT, SMALL_GET, SMALL_MISS, SMALL_DELETE };

/*
 * Does @op with each of @records records, PUTs in order and other operations in an order that
 * jumps, and prints how long that took. Returns 0; -EBADMSG for a wrong value or an unexpected
 * status; or as db_connect_failed(). The reason has then been printed.
 */
int small_run(const struct db_target *target, enum small_op op, uint64_t records);

/* Prints how many keys are stored. Returns as small_run(). */
int small_count(const struct db_target *target);

#endif /* KVD_BENCH_SMALL_H */
