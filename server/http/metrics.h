/* SPDX-License-Identifier: MIT */
/*
 * The metrics of the server, for Prometheus. They are made from the lists of statistics of all
 * modules (WORKER_STATS, TABLE_STATS, ...), so that each statistic of `kvctl stats` is a metric,
 * too; tests/system/http_stats lists those that have another name, or none.
 *
 *	metrics_server.c   the process, its connections and devices, the fleet
 *	metrics_store.c	   tenants and their stores
 *	metrics_worker.c   workers, and what they count
 *
 * Threads: any, one at a time. Counters are read while other threads change them: each is right,
 * but together they are no snapshot.
 */
#ifndef KVD_SERVER_HTTP_METRICS_H
#define KVD_SERVER_HTTP_METRICS_H

#include "server/control/census.h"
#include "server/fleet/fleet.h"
#include "server/fleet/membership_thread.h"
#include "server/http/exposition.h"
#include "server/http/gather.h"

/* Where the numbers come from. */
struct metrics_source {
	struct net *net;
	const struct fleet *fleet;	      /* its map is NULL: the server is in none */
	struct membership_thread *membership; /* NULL: the fleet's map is not in etcd */
	const char *fleet_name;		      /* in etcd */
	const char *devices_folder;	      /* of RDMA devices: /sys/class/infiniband */
	uint64_t (*log_lines_lost)(void);
	uint64_t (*audit_lines_lost)(void);
	uint64_t started_ns;	  /* by clock_ns() */
	uint64_t started_unix_ns; /* that moment, since 1970 */
};

struct metrics_names {
	const char *name, *help;
	size_t offset; /* in the struct of the list */
};

/* A list of statistics, as an array of struct metrics_names. */
#define METRICS_NAME(type, name, help) { #name, help, offsetof(struct type, name) },

/*
 * Writes all metrics; @starts: the stores are being made, so there are none of stores and workers.
 * @gathered and @report are for the numbers.
 */
void metrics_write(struct exposition *out, const struct metrics_source *source,
		   struct gathered *gathered, const struct census_report *report, bool starts);

/* For metrics.c: its parts. */
void metrics_server(struct exposition *out, const struct metrics_source *source,
		    const struct census_report *report);
void metrics_store(struct exposition *out, const struct gathered *gathered,
		   const struct census_report *report);
void metrics_worker(struct exposition *out, const struct metrics_source *source,
		    const struct gathered *gathered);

/* kvd_NAME, or for a counter kvd_NAME_total, as a family. */
void metrics_family(struct exposition *out, const char *prefix,
		    const struct metrics_names *statistic, enum metric_type type);
/* Whether @name is one of @list, which ends with NULL. */
bool metrics_listed(const char *name, const char *const *list);
/* The value of a statistic in the struct at @stats. */
static inline uint64_t metrics_value(const void *stats, const struct metrics_names *statistic)
{
	return *(const uint64_t *)((const char *)stats + statistic->offset);
}

#endif /* KVD_SERVER_HTTP_METRICS_H */
