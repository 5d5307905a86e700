/* SPDX-License-Identifier: MIT */
/* The options of a store, for the server's configuration, tests and benchmarks to fill in. */
#ifndef KVD_SERVER_STORE_STORE_OPTIONS_H
#define KVD_SERVER_STORE_STORE_OPTIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/layout.h"

/* The least that an extent may have: a multiple of it can be of large pages. */
#define EXTENT_UNIT ((uint64_t)2 << 20)

/*
 * Pages of 2 MiB or 1 GiB are those that the host has put aside (hugetlb). If there are too few, a
 * region gets normal pages of 4 KiB; if the region is prefaulted, the kernel makes transparent huge
 * pages of them where it can.
 */
enum hugepages_mode {
	HUGEPAGES_AUTO,	   /* the largest that fit and are free, else normal; a notice for 4 KiB */
	HUGEPAGES_OFF,	   /* 4 KiB */
	HUGEPAGES_2M,	   /* 2 MiB, else normal, with a warning */
	HUGEPAGES_1G,	   /* 1 GiB for a multiple of it, else 2 MiB, else normal, with a warning */
	HUGEPAGES_REQUIRE, /* as auto, but an error instead of normal pages */
};

enum eviction_policy {
	EVICTION_NONE,	      /* a PUT that finds no free memory fails */
	EVICTION_OBJECT_HITS, /* evicts so that as many GETs as possible hit */
	EVICTION_BYTE_HITS,   /* evicts so that GETs hit as many bytes as possible */
};

/* Leaves a sweep the time to end before the units in access fields wrap (PIN-3 in pins.h). */
#define PIN_TIME_MAX 7200u

/* Of a region that outlives its process, after that was killed. */
enum recover_mode {
	RECOVER_VERIFY, /* the items that verify */
	RECOVER_COLD,	/* nothing */
};

struct host_sleep;
struct numa_local;

/* Descriptors of pages and slabs, outside the region, take one byte for this many in it. */
#define STORE_BESIDE 128u

/*
 * Percent of the slots in use at which a server's index grows, and for which index_level() sizes it
 * (common/layout.h). A lookup then READs 1.04 buckets on average over a doubling; 75 %
 * would save a tenth of the index and need 1.06. The table is in server/DESIGN.md, Growth.
 */
#define INDEX_FILL 67

/*
 * Percent of one CPU that a server's sweep of expired items takes at most. The sweep shares a core
 * with workers, and expired items only hold memory: no reader sees them.
 */
#define EXPIRY_SWEEP_SHARE 5

struct store_options {
	const char *file; /* of the region, which outlives the process (keep.h); NULL: none */
	enum recover_mode recover;
	uint64_t bytes; /* of the region at the start; rounded up to whole pages */
	/*
	 * Of the region at most: a multiple of EXTENTS_MAX * EXTENT_UNIT, and @bytes one of an
	 * EXTENTS_MAX-th of it. 0: the region keeps its size, which is one extent.
	 */
	uint64_t bytes_max;
	enum hugepages_mode hugepages;
	bool prefault; /* allocate all pages at once; else at the first access */
	/* Set by any thread: store_create() returns -ECANCELED soon. NULL: never. */
	const _Atomic bool *cancel;
	bool pauses;			/* clients are served while pages are allocated */
	bool dump;			/* include the region in core dumps */
	uint64_t bytes_beside;		/* that the process needs beside the store; checked, too */
	const char *numa;		/* as the option memory.numa; NULL: default */
	const struct numa_local *local; /* what "local" means; NULL: the node of the CPU */
	uint32_t level;			/* the index begins with 2^level buckets: index_level() */
	uint64_t value_max;		/* bytes of the longest value */
	uint32_t fill;			/* percent of the slots in use at which the index grows */
	enum eviction_policy eviction;
	bool curve;		   /* estimate a miss-ratio curve; where items are evicted */
	uint32_t pin_share;	   /* percent of the item memory that may be pinned; 0: no pins */
	uint32_t pin_time_max;	   /* the longest pin, in seconds; PIN_TIME_MAX at most */
	uint64_t hash_seed;	   /* of the keys; 0: a random one */
	bool in_fleet;		   /* of a member; what was kept has to be, too, */
	uint64_t fleet_generation; /* and of this map. 0: the map may change */
	/* Shared by the stores of the server. NULL: their clock leaves out sleep of the host. */
	struct host_sleep *sleep;
	uint32_t sweep_share; /* percent of a CPU for sweeping expired items; 1 to 100 */
};

/* The region's address space. */
static inline uint64_t store_bytes_max(const struct store_options *options)
{
	return options->bytes_max ? options->bytes_max : options->bytes;
}

static inline uint64_t store_extent_bytes(const struct store_options *options)
{
	return options->bytes_max ? options->bytes_max / EXTENTS_MAX : options->bytes;
}

#endif /* KVD_SERVER_STORE_STORE_OPTIONS_H */
