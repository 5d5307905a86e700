/* SPDX-License-Identifier: MIT */
/* The groups of statistics: see stats_group.h. */
#include "client/kvctl/stats_group.h"

#include <stdint.h>
#include <string.h>

#include "client/kvctl/glob.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The first pattern that matches counts. */
static const struct {
	const char *pattern;
	enum stats_group group;
} patterns[] = {
	{ "version", STATS_SERVER },
	{ "pid", STATS_SERVER },
	{ "uptime_s", STATS_SERVER },
	{ "cpu_*", STATS_SERVER },
	{ "workers", STATS_SERVER },
	{ "tenant*", STATS_SERVER },
	{ "log_*", STATS_SERVER },
	{ "audit_*", STATS_SERVER },
	{ "fleet_refused", STATS_REQUESTS },
	{ "slow_requests", STATS_REQUESTS },
	{ "fleet_*", STATS_SERVER },
	{ "device.*", STATS_DEVICES },
	{ "device_failures", STATS_DEVICES },
	{ "async_errors", STATS_DEVICES },
	{ "srq_limits", STATS_DEVICES },
	{ "items", STATS_KEYS },
	{ "inserts", STATS_KEYS },
	{ "replaces_*", STATS_KEYS },
	{ "removes", STATS_KEYS },
	{ "expir*", STATS_KEYS },
	{ "eviction*", STATS_KEYS },
	{ "flush*", STATS_KEYS },
	{ "pin*", STATS_KEYS },
	{ "accesses", STATS_KEYS },
	{ "sweep*", STATS_KEYS },
	{ "dropped", STATS_KEYS },
	{ "region_*", STATS_MEMORY },
	{ "memory.*", STATS_MEMORY },
	{ "size_class.*", STATS_SIZE_CLASSES },
	{ "curve.*", STATS_MEMORY },
	{ "item_memory_*", STATS_MEMORY },
	{ "live_bytes", STATS_MEMORY },
	{ "gathered_bytes", STATS_MEMORY },
	{ "rooms*", STATS_MEMORY },
	{ "moves", STATS_MEMORY },
	{ "evacuations*", STATS_MEMORY },
	{ "compactions", STATS_MEMORY },
	{ "index_*", STATS_INDEX },
	{ "splits", STATS_INDEX },
	{ "overflow_buckets", STATS_INDEX },
	{ "chain*", STATS_INDEX },
	{ "lookup_retries", STATS_INDEX },
	{ "connections*", STATS_CONNECTIONS },
	{ "identities*", STATS_CONNECTIONS },
	{ "users", STATS_CONNECTIONS },
	{ "access_errors", STATS_CONNECTIONS },
	{ "keepalive_probes", STATS_CONNECTIONS },
	{ "windows_*", STATS_CONNECTIONS },
	{ "protocol_errors", STATS_CONNECTIONS },
	{ "pull*", STATS_LARGE },
	{ "large_*", STATS_LARGE },
	{ "request*", STATS_REQUESTS },
	{ "batche*", STATS_REQUESTS },
	{ "get*", STATS_REQUESTS },
	{ "put*", STATS_REQUESTS },
	{ "delete*", STATS_REQUESTS },
	{ "touches", STATS_REQUESTS },
	{ "scans", STATS_REQUESTS },
	{ "deferred*", STATS_REQUESTS },
	{ "response*", STATS_REQUESTS },
	{ "answers_*", STATS_REQUESTS },
	{ "worker.*", STATS_WORKERS },
	{ "sleeps", STATS_WORKERS },
	{ "held.*", STATS_HELD },
	{ "memcached.*", STATS_MEMCACHED },
};

/* Statistics that do not only grow, and all that are not numbers. */
static const char *const gauges[] = {
	"version",
	"pid",
	"uptime_s",
	"workers",
	"tenant",
	"tenants",
	"tenants_bytes",
	"fleet_epoch",
	"fleet_members",
	"fleet_shards*",
	"fleet_lease_ms",
	"fleet_controller",
	"fleet_moves_left",
	"device.*",
	"items",
	"expiring",
	"eviction",
	"pinned_*",
	"region_*",
	"memory.*",
	"item_memory_bytes",
	"item_memory_live_bytes",
	"live_bytes",
	"index_bytes",
	"index_buckets",
	"overflow_buckets",
	"connections",
	"users",
	"identities",
	"identities_kept",
	"worker.*_max",
	"held.*",
	"worker.*turn_ns_*",
	"size_class.*.slabs",
	"size_class.*.bytes",
	"size_class.*.used",
	"size_class.*.free",
	"evictions_youngest_s",
	"curve.*",
};

static const char *const bytes[] = { "*_bytes", "memcached.bytes_*", "memory.*",
				     "size_class.*.bytes" };

static bool matches(const char *pattern, const char *name, size_t len)
{
	return glob_matches((const uint8_t *)pattern, strlen(pattern), (const uint8_t *)name, len);
}

static bool is_among(const char *const *list, size_t count, const char *name, size_t len)
{
	for (size_t i = 0; i < count; i++)
		if (matches(list[i], name, len))
			return true;
	return false;
}

enum stats_group stats_group_of(const char *name, size_t len)
{
	for (size_t i = 0; i < COUNT_OF(patterns); i++)
		if (matches(patterns[i].pattern, name, len))
			return patterns[i].group;
	return STATS_OTHER;
}

bool stats_is_counter(const char *name, size_t len)
{
	return !is_among(gauges, COUNT_OF(gauges), name, len);
}

bool stats_is_bytes(const char *name, size_t len)
{
	return is_among(bytes, COUNT_OF(bytes), name, len);
}
