/* SPDX-License-Identifier: MIT */
/*
 * Samples of the server's statistics, lines of "name value", before and after a measurement.
 */
#ifndef KVD_BENCH_SERVER_STATS_H
#define KVD_BENCH_SERVER_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/db.h"

/* Bytes that db_server_stats() needs at most. */
#define SERVER_STATS_MAX 65536

/* CPU time of the server's process, user and system. */
struct server_cpu {
	bool known; /* the server reported it, and did not restart meanwhile */
	uint64_t us;
	bool parts_known;		/* and these parts of it, of its workers: */
	uint64_t useful_us, polling_us; /* in turns that found work; the rest */
};

struct server_stats {
	struct server_cpu cpu; /* since its start */
	char text[SERVER_STATS_MAX];
};

/* Samples now. A statistic that the server does not report is missing; that is no error. */
void server_stats_sample(struct server_stats *stats, struct db *db);

/* The CPU time that was used between two samples. */
struct server_cpu server_cpu_between(const struct server_stats *before,
				     const struct server_stats *after);

/* Finds @name and copies its value to @value. Returns whether it is there. */
bool server_stats_find(const char *text, const char *name, char *value, size_t size);

/* As the function above, for a number. */
bool server_stats_number(const char *text, const char *name, uint64_t *number);

#endif /* KVD_BENCH_SERVER_STATS_H */
