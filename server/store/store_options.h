/* SPDX-License-Identifier: MIT */
/*
 * The options of a store: what server/store needs to be told, by a configuration file's options, a test
 * or a benchmark.
 */
#ifndef KVD_SERVER_STORE_STORE_OPTIONS_H
#define KVD_SERVER_STORE_STORE_OPTIONS_H

#include <stdint.h>

enum hugepages_mode {
	HUGEPAGES_AUTO, /* the largest that fit and are free, else normal pages, which is logged */
	HUGEPAGES_OFF,
	HUGEPAGES_2M,	   /* or normal ones, which is logged */
	HUGEPAGES_1G,	   /* or 2 MiB ones, or normal ones, which is logged */
	HUGEPAGES_REQUIRE, /* as auto, or the store is not created */
};

enum eviction_policy {
	EVICTION_NONE, /* a PUT that finds no room fails */
	EVICTION_LRU,  /* the items that were not used for longest are evicted */
	EVICTION_LFU,  /* the items that were used least often are evicted */
};

struct numa_local;

struct store_options {
	uint64_t bytes; /* of the region; rounded up to whole pages */
	enum hugepages_mode hugepages;
	const char *numa;		/* as in memory.numa; NULL: default */
	const struct numa_local *local; /* NULL: the node of the CPU */
	uint32_t level;			/* the index begins with 2^level buckets: index_level() */
	uint64_t value_max;		/* bytes of the longest value */
	uint32_t fill;			/* percent of the slots in use at which the index grows */
	enum eviction_policy eviction;
	uint32_t sweep_share; /* percent of a CPU for the search for expired items; 1 to 100 */
};

#endif /* KVD_SERVER_STORE_STORE_OPTIONS_H */
