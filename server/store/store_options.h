/* SPDX-License-Identifier: MIT */
/* The options of a store, for the server's configuration, tests and benchmarks to fill in. */
#ifndef KVD_SERVER_STORE_STORE_OPTIONS_H
#define KVD_SERVER_STORE_STORE_OPTIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Pages of 2 MiB or 1 GiB are those that the host has put aside (hugetlb). Where there are too few,
 * a region that is prefaulted has normal pages, of which the kernel makes transparent huge ones, or
 * else 4 KiB.
 */
enum hugepages_mode {
	HUGEPAGES_AUTO,	   /* the largest that fit and are free, else normal; a notice for 4 KiB */
	HUGEPAGES_OFF,	   /* 4 KiB */
	HUGEPAGES_2M,	   /* 2 MiB, else normal, with a warning */
	HUGEPAGES_1G,	   /* 1 GiB for a multiple of it, else 2 MiB, else normal, with a warning */
	HUGEPAGES_REQUIRE, /* as auto, but no normal ones: an error */
};

enum eviction_policy {
	EVICTION_NONE,	      /* a PUT that finds no memory fails */
	EVICTION_OBJECT_HITS, /* evicts so that as many GETs as possible hit */
	EVICTION_BYTE_HITS,   /* evicts so that GETs hit as many bytes as possible */
};

/* So that a sweep has time enough to come around before the fields of pins do (PIN-3 in pins.h). */
#define PIN_TIME_MAX 7200u

struct numa_local;

/* What describes the region's pages and slabs outside it takes one byte for each so many in it. */
#define STORE_BESIDE 128u

/*
 * Percent of the slots in use at which a server's index grows, and for which index_level() sizes it
 * (common/layout.h). A lookup READs 1.04 buckets then, in
 * the mean over a doubling; 75 % would save a tenth of the index and take 1.06. The table is in
 * server/DESIGN.md, Growth.
 */
#define INDEX_FILL 67

/*
 * Percent of one CPU that a server's sweep of expired items takes at most. The sweep shares a core
 * with workers, and items that wait for it hold memory alone: nobody sees them any more.
 */
#define EXPIRY_SWEEP_SHARE 5

struct store_options {
	uint64_t bytes; /* of the region; rounded up to whole pages */
	enum hugepages_mode hugepages;
	bool prefault; /* allocate all pages at once; else at the first access */
	/* Set by any thread: store_create() returns -ECANCELED soon. NULL: never. */
	const _Atomic bool *cancel;
	bool pauses;	       /* others are served while pages are allocated */
	bool dump;	       /* core dumps have the region */
	uint64_t bytes_beside; /* that the process needs beside the store: to be checked, too */
	const char *numa;      /* as the option memory.numa; NULL: default */
	const struct numa_local *local; /* what "local" means; NULL: the node of the CPU */
	uint32_t level;			/* the index begins with 2^level buckets: index_level() */
	uint64_t value_max;		/* bytes of the longest value */
	uint32_t fill;			/* percent of the slots in use at which the index grows */
	enum eviction_policy eviction;
	bool curve;	       /* estimate a miss-ratio curve; where items are evicted */
	uint32_t pin_share;    /* percent of the item memory that may be pinned; 0: no pins */
	uint32_t pin_time_max; /* the longest pin, in seconds; PIN_TIME_MAX at most */
	uint32_t sweep_share;  /* percent of a CPU for sweeping expired items; 1 to 100 */
};

#endif /* KVD_SERVER_STORE_STORE_OPTIONS_H */
