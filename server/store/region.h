/* SPDX-License-Identifier: MIT */
/*
 * The region: the one mapping that clients may read (common/layout.h says what is in it).
 *
 * It is a memfd, so that softnic can hand it to clients of this host, sealed against any further
 * writable mapping (F_SEAL_FUTURE_WRITE) and any change of size as soon as the server has its own:
 * the MMU keeps guarantee D there. On verbs the MR's access flags do.
 */
#ifndef KVD_SERVER_STORE_REGION_H
#define KVD_SERVER_STORE_REGION_H

#include "common/layout.h"
#include "server/store/numa.h"
#include "server/store/store_options.h"

/* log2 of the buckets of the smallest index: 64 of them. */
#define INDEX_LEVEL_MIN 6u

struct region {
	uint8_t *base;
	uint64_t bytes;
	uint64_t page_bytes; /* of the pages it got: 4 KiB, 2 MiB or 1 GiB */
	int fd;
	char numa[NUMA_TEXT_MAX]; /* "default", "nodes 0-1", ... */
	struct geometry geometry; /* to be changed by one thread, which then publishes it */
};

/*
 * log2 of the buckets that hold @keys keys at the fill the index is sized for, 65 %; at least
 * INDEX_LEVEL_MIN.
 */
uint32_t index_level(uint64_t keys);

/* What an index of 2^@level buckets takes. */
static inline uint64_t index_bytes(uint32_t level)
{
	return (uint64_t)BUCKET_BYTES << level;
}

/*
 * Maps the memory and writes the superblock and the geometry, with a place for every segment that the
 * index can grow to; the buckets are the caller's to format. Returns 0 or a negative errno after
 * logging: ENOMEM when memory, or hugepages that are required, are not there; EINVAL when the index
 * leaves no room for items or there is no such NUMA node; EOPNOTSUPP without NUMA in the kernel.
 */
int region_create(struct region *region, const struct store_options *options);
void region_destroy(struct region *region);

/*
 * Seals region->geometry with its sum and writes it to the superblock. A reader that meets it half
 * written finds that the sum does not match. One thread at a time.
 */
void region_publish_geometry(struct region *region);

/* How @bytes of region with 2^@level buckets at the start are divided, in one line without an end. */
void region_describe(uint64_t bytes, uint32_t level, char *text, size_t size);

/* Writes what a reader may want to know of the time and the store. One thread only. */
void region_tick(struct region *region, uint64_t clock_s, uint64_t items);

static inline struct superblock *region_superblock(const struct region *region)
{
	return (struct superblock *)region->base;
}

static inline void *region_at(const struct region *region, uint64_t offset)
{
	return region->base + offset;
}

static inline uint64_t region_offset(const struct region *region, const void *p)
{
	return (uint64_t)((const uint8_t *)p - region->base);
}

#endif /* KVD_SERVER_STORE_REGION_H */
