/* SPDX-License-Identifier: MIT */
/*
 * How many commands a worker has answered, by the front that they came by, by operation and status.
 *
 * A response counts once, and so does each operation of a BATCH; an answer that is sent again does
 * not, nor does a command of memcached's protocol that another member of the fleet executes. GETs
 * by READ count when clients report them. The worker counts; other threads may read.
 */
#ifndef KVD_SERVER_WORKER_COMMANDS_H
#define KVD_SERVER_WORKER_COMMANDS_H

#include "common/rdma/device.h"
#include "common/util/stat.h"
#include "common/wire.h"

/* What clients connect to. X(name, label) */
#define FRONTS(X)                                                                                  \
	X(RDMA, "rdma") /* rdma://, rdma+tcp:// and rdma+tls:// */                                 \
	X(SOFTNIC, "softnic")                                                                      \
	X(MEMCACHED, "memcached") /* memcached:// and memcached+tls:// */

enum front {
#define X(name, label) FRONT_##name,
	FRONTS(X)
#undef X
		FRONTS_COUNT,
};

/* 14 KiB, of which a worker touches a few lines. */
struct command_counts {
	uint64_t of[FRONTS_COUNT][WIRE_OP_MAX + 1][WIRE_STATUS_MAX + 1];
};

/* X(name, help): sums over all fronts, in the server's statistics. */
#define COMMAND_STATS(X)                                                                           \
	X(puts, "PUTs, increments and decrements")                                                 \
	X(put_no_space, "PUTs failed because the memory, or the chain of the bucket, is full")     \
	X(put_too_large, "PUTs failed because the value is larger than limits.max_value")          \
	X(deletes, "DELETEs")                                                                      \
	X(delete_misses, "DELETEs of keys that were not found")                                    \
	X(touches, "TOUCH requests")                                                               \
	X(scans, "parts of scans")

struct command_stats {
#define X(name, help) uint64_t name;
	COMMAND_STATS(X)
#undef X
};

static inline enum front front_of(enum device_kind kind)
{
	if (kind & LISTEN_MEMCACHED_ALL)
		return FRONT_MEMCACHED;
	return kind == DEVICE_SOFTNIC ? FRONT_SOFTNIC : FRONT_RDMA;
}

/* A command of a client by @kind has ended with @status, and @flags in its response. */
static inline void command_count(struct command_counts *counts, enum device_kind kind, uint32_t op,
				 uint32_t status, uint32_t flags)
{
	if (!(flags & WIRE_R_REPEATED))
		stat_add(&counts->of[front_of(kind)][op][status], 1);
}

/* GETs by READ that a client has reported. */
void command_count_reads(struct command_counts *counts, enum device_kind kind,
			 const struct wire_gets *gets);

/* Adds what a worker has counted to @sums. Any thread. */
void command_counts_add(const struct command_counts *counts, struct command_counts *sums);

/* Without commands that were not executed: refused by rights or limits, or another member's. */
struct command_stats command_counts_stats(const struct command_counts *sums);

#endif /* KVD_SERVER_WORKER_COMMANDS_H */
