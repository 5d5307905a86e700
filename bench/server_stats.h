/* SPDX-License-Identifier: MIT */
/*
 * The server's side of a measurement: its statistics, lines of "name value", sampled through a
 * connection of their own.
 */
#ifndef KVD_BENCH_SERVER_STATS_H
#define KVD_BENCH_SERVER_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/kvd.h"

/* What kvd_server_stats() needs at most. */
#define SERVER_STATS_MAX 65536

struct server_stats {
	bool valid;	 /* the server answered and told its CPU time */
	uint64_t cpu_us; /* user and system time of the kvd process since its start */
	char text[SERVER_STATS_MAX];
};

/* Samples now. What the server does not tell is missing, not an error. */
void server_stats_sample(struct server_stats *stats, struct kvd *handle);

/* Finds @name and copies its value to @value. Returns whether it is there. */
bool server_stats_find(const char *text, const char *name, char *value, size_t size);

#endif /* KVD_BENCH_SERVER_STATS_H */
